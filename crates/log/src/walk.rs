//! The chunks of a segment in order, up to the first that is not whole.

use crate::layout::BLOCK_SIZE;
use crate::scan::{Chunk, SegmentHeader, SegmentReader};
use crate::{Disk, Error, Lsn, Result};

pub(crate) fn no_header(name: &str) -> Error {
    Error::Damaged(format!(
        "the header of {name} is damaged: restore a backup, or use `everleaf snapshot POOL --salvage-log` to go on \
         with what was before it"
    ))
}

pub(crate) fn missing(name: &str, lsn: Lsn, position: u64) -> Error {
    Error::Damaged(format!(
        "{name} is damaged at byte {position}: LSN {lsn} was durable and cannot be read; restore a \
         backup, or use `everleaf snapshot POOL --salvage-log` to go on with what was before it"
    ))
}

/// How far a walk came.
pub(crate) struct Walk {
    /// LSN of the last entry that was read.
    pub(crate) end: Lsn,
    /// Where the next chunk would begin.
    pub(crate) position: u64,
}

/// Calls `visit` with the chunks of a segment in order, up to the first that is not whole, or that
/// has only LSNs above `limit`.
pub(crate) fn walk<D: Disk, E: From<Error>>(
    disk: &D,
    reader: &mut SegmentReader<'_, D>,
    header: &SegmentHeader,
    limit: Lsn,
    visit: &mut dyn FnMut(&Chunk<'_>) -> std::result::Result<(), E>,
) -> std::result::Result<Walk, E> {
    let mut walk = Walk { end: header.first - 1, position: BLOCK_SIZE };
    while walk.end < limit {
        let expected = Some(walk.end + 1);
        if let Some(chunk) = reader.chunk(header.sequence, walk.position, expected)? {
            visit(&chunk)?;
            walk.end = chunk.header.last();
            walk.position += chunk.header.stored_size().expect("the chunk was read");
        } else if let Some(found) = next_whole(disk, reader, header, &walk)? {
            walk = found;
        } else {
            break;
        }
    }
    Ok(walk)
}

/// The chunk behind a gap: only a planted bug goes on there.
fn next_whole<D: Disk>(
    disk: &D,
    reader: &mut SegmentReader<'_, D>,
    header: &SegmentHeader,
    walk: &Walk,
) -> Result<Option<Walk>> {
    let mut position = walk.position;
    while disk.mutant("log.skips_gap") && position < reader.size() {
        position += BLOCK_SIZE;
        if let Some(chunk) = reader.chunk(header.sequence, position, None)?
            && chunk.header.first > walk.end
        {
            return Ok(Some(Walk { end: chunk.header.first - 1, position }));
        }
    }
    Ok(None)
}
