//! Whose log a file belongs to: for a program that finds a folder of which nothing else says it.

use crate::layout::{
    COPYING, HEADER_SIZE, SEGMENT, SEGMENT_MAGIC, SNAPSHOT, SNAPSHOT_MAGIC, SPARE, UNFINISHED,
    parse_name, read_u32,
};

/// What a file of a folder is to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// No segment and no snapshot: nothing that was logged is in it.
    Nobody,
    /// A segment or a snapshot of the log with this identity.
    Log([u8; 16]),
    /// A segment or a snapshot by its name, and its beginning is damaged.
    Damaged,
}

/// Whose the file of this name is that begins with these bytes; the first 64 say it, in every version.
///
/// # Example
/// ```
/// use everleaf_log::{FileOwner, owner_of};
/// assert_eq!(owner_of("notes.txt", b"text"), FileOwner::Nobody);
/// assert_eq!(owner_of("log-0000000000000001", b"text"), FileOwner::Damaged);
/// ```
pub fn owner_of(name: &str, start: &[u8]) -> FileOwner {
    let magic = match (parse_name(SEGMENT, name), parse_name(SNAPSHOT, name)) {
        (Some(_), _) => SEGMENT_MAGIC,
        (_, Some(_)) => SNAPSHOT_MAGIC,
        _ => return FileOwner::Nobody,
    };
    let is_whole = start.len() >= HEADER_SIZE
        && start[..8] == magic
        && read_u32(start, 60) == crc32c::crc32c(&start[..60]);
    match start.get(16..32).and_then(|uuid| uuid.try_into().ok()) {
        Some(uuid) if is_whole => FileOwner::Log(uuid),
        _ => FileOwner::Damaged,
    }
}

/// Kinds of snapshots that were put aside.
const ASIDE_SNAPSHOTS: [&str; 2] = ["stale", "damaged"];
/// The kind of segments that were put aside.
const ASIDE_SEGMENTS: [&str; 1] = ["damaged-log"];

/// Whether a file of this name was put aside, because it was damaged or belongs to what the log has lost.
/// Nothing reads it any more.
///
/// # Example
/// ```
/// use everleaf_log::is_put_aside;
/// assert!(is_put_aside("damaged-log-0000000000000001"));
/// assert!(!is_put_aside("log-0000000000000001"));
/// ```
pub fn is_put_aside(name: &str) -> bool {
    is_put_aside_snapshot(name) || is_put_aside_segment(name)
}

/// Whether a file of this name is a segment that was put aside: what it has may be nowhere else.
pub fn is_put_aside_segment(name: &str) -> bool {
    is_of(name, &ASIDE_SEGMENTS)
}

/// Whether a file of this name is a snapshot that was put aside.
pub(crate) fn is_put_aside_snapshot(name: &str) -> bool {
    is_of(name, &ASIDE_SNAPSHOTS)
}

/// Whether the log makes files of such a name, those that were put aside included.
pub fn is_file_of_log(name: &str) -> bool {
    is_of(name, &[SEGMENT, SNAPSHOT, SPARE, UNFINISHED, COPYING]) || is_put_aside(name)
}

/// Whether a name is that of a file of one of these kinds.
fn is_of(name: &str, kinds: &[&str]) -> bool {
    // Behind the number there may be another: of several that were put aside.
    let name = name.split_once('.').map_or(name, |(name, _)| name);
    kinds.iter().any(|kind| parse_name(kind, name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{Gap, SegmentHeader, encode_header};

    #[test]
    fn a_segment_says_whose_it_is_and_a_damaged_one_does_not() {
        let header = SegmentHeader { sequence: 3, first: 1, size: 4096, gap: Gap::None };
        let mut start = encode_header(&[7; 16], &header);
        let name = "log-0000000000000003";
        assert_eq!(owner_of(name, &start), FileOwner::Log([7; 16]));
        assert_eq!(owner_of("snapshot-0000000000000003", &start), FileOwner::Damaged);
        assert_eq!(owner_of("spare-0000000000000003", &start), FileOwner::Nobody);
        assert_eq!(owner_of(name, &start[..63]), FileOwner::Damaged);
        start[20] ^= 1;
        assert_eq!(owner_of(name, &start), FileOwner::Damaged);
        assert_eq!(owner_of(name, &[]), FileOwner::Damaged);
    }

    #[test]
    fn files_of_a_log_are_told_from_others() {
        for name in ["log-0000000000000001", "damaged-log-0000000000000001.2"] {
            assert!(is_file_of_log(name), "{name}");
        }
        for name in ["identity", "log-1", "notes.txt", "log-0000000000000001x", ""] {
            assert!(!is_file_of_log(name), "{name}");
        }
    }
}
