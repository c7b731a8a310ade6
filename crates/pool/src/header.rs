//! The header: what a pool is. Two copies, each with its checksum; written at creation and when the
//! maximum size is raised.

use std::path::Path;

use everleaf_machine::Machine;

use crate::checksum::crc32c_of_words;
use crate::layout::{
    DATA_START, FEATURE_LOG_NOTE, FORMAT_VERSION, HEADER_OFFSETS, HEADER_SIZE, HEADER_WORDS,
    KNOWN_FEATURES, MAGIC, PAGE_SIZE, ROOT_COUNT, ROOT_OFFSET, SIZE_GRANULE, SIZE_MIN,
};
use crate::view::View;
use crate::{Domain, PoolError};

/// The words of one copy.
pub type HeaderWords = [u64; HEADER_WORDS];

/// What a header says, apart from the constants of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub uuid: [u8; 16],
    pub max_size: u64,
    pub created_ns: u64,
    pub domain: Domain,
    pub generation: u64,
    /// Of the known ones.
    pub features: u64,
    /// Features that may be ignored, known or not.
    pub compatible: u64,
    pub log: LogNote,
}

/// Which log a pool was opened with last, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogNote {
    /// What tells the log from others; 0 if there is none.
    pub log: u64,
    /// A number that grows with each opening, which is beside the log before it is here.
    pub generation: u64,
}

/// What one copy turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copy {
    Whole(Header),
    Newer(u32),
    Unknown(u64),
    /// The magic is there, but the rest is not sound.
    Damaged,
    /// Not even the magic.
    Foreign,
}

impl Header {
    /// The words of a copy.
    pub fn encode(&self) -> HeaderWords {
        let mut words = [0; HEADER_WORDS];
        words[0] = u64::from_le_bytes(MAGIC);
        words[1] = pair(FORMAT_VERSION, HEADER_SIZE as u32);
        words[2] = self.features;
        words[3] = self.compatible;
        let (first, second) = halves(self.uuid);
        words[4] = first;
        words[5] = second;
        words[6] = pair(PAGE_SIZE, SIZE_GRANULE as u32);
        words[7] = pair(ROOT_OFFSET as u32, u32::from(ROOT_COUNT));
        words[8] = DATA_START;
        words[9] = self.max_size;
        words[10] = self.created_ns;
        words[11] = self.domain as u64;
        words[12] = self.generation;
        words[13] = self.log.log;
        words[14] = self.log.generation;
        words[15] = u64::from(crc32c_of_words(&words[..15]));
        words
    }

    /// Writes the header over both copies, the one that is not `whole` first, so that one stays
    /// whole at any instant (I1).
    #[track_caller]
    pub fn write<M: Machine>(&self, view: View<M>, whole: usize) {
        let words = self.encode();
        view.write(HEADER_OFFSETS[1 - whole], &words);
        view.write(HEADER_OFFSETS[whole], &words);
    }
}

/// Finds the header in its two copies. Returns it with the number of the copy it was found in and
/// whether the other copy is the same.
///
/// # Errors
/// Why there is no header to rely on.
pub fn choose(copies: &[HeaderWords; 2], path: &Path) -> Result<(Header, usize, bool), PoolError> {
    let seen = copies.map(|words| decode(&words));
    match seen {
        [Copy::Whole(a), Copy::Whole(b)] if a.uuid != b.uuid => {
            let what = "its two headers belong to different pools".to_owned();
            Err(PoolError::Damaged { path: path.into(), offset: HEADER_OFFSETS[1], what })
        }
        [Copy::Whole(a), Copy::Whole(b)] => {
            let newer = usize::from(b.generation > a.generation);
            Ok(([a, b][newer], newer, copies[0] == copies[1]))
        }
        [Copy::Whole(a), _] => Ok((a, 0, false)),
        [_, Copy::Whole(b)] => Ok((b, 1, false)),
        [Copy::Newer(version), _] | [_, Copy::Newer(version)] => {
            Err(PoolError::NewerFormat { path: path.into(), version })
        }
        [Copy::Unknown(features), _] | [_, Copy::Unknown(features)] => {
            Err(PoolError::UnknownFeatures { path: path.into(), features })
        }
        [Copy::Foreign, Copy::Foreign] => Err(PoolError::Foreign { path: path.into() }),
        _ => {
            let what = "neither copy of the header is whole".to_owned();
            Err(PoolError::Damaged { path: path.into(), offset: HEADER_OFFSETS[0], what })
        }
    }
}

fn decode(words: &HeaderWords) -> Copy {
    if words[0] != u64::from_le_bytes(MAGIC) {
        return Copy::Foreign;
    }
    if words[15] != u64::from(crc32c_of_words(&words[..15])) {
        return Copy::Damaged;
    }
    let version = words[1] as u32;
    if version > FORMAT_VERSION {
        return Copy::Newer(version);
    }
    if words[2] & !KNOWN_FEATURES != 0 {
        return Copy::Unknown(words[2] & !KNOWN_FEATURES);
    }
    let Some(domain) = Domain::from_byte(words[11] as u8) else { return Copy::Damaged };
    let header = Header {
        uuid: whole([words[4], words[5]]),
        max_size: words[9],
        created_ns: words[10],
        domain,
        generation: words[12],
        features: words[2],
        compatible: words[3],
        log: LogNote { log: words[13], generation: words[14] },
    };
    // A checksum that fits does not make a hostile file sound: everything must be as we write it.
    let mut expected = header.encode();
    expected[15] = words[15];
    let sound = *words == expected
        && header.max_size >= SIZE_MIN
        && header.max_size.is_multiple_of(SIZE_GRANULE)
        && header.generation < u64::MAX >> 1
        && header.max_size <= isize::MAX as u64
        && (header.features & FEATURE_LOG_NOTE != 0 || header.log == LogNote::default());
    if sound { Copy::Whole(header) } else { Copy::Damaged }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// 16 bytes as two words, in file order.
pub fn halves(bytes: [u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(bytes);
    (both as u64, (both >> 64) as u64)
}

/// The inverse of [`halves`].
pub fn whole(words: [u64; 2]) -> [u8; 16] {
    (u128::from(words[1]) << 64 | u128::from(words[0])).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            uuid: *b"0123456789abcdef",
            max_size: 1 << 30,
            created_ns: 77,
            domain: Domain::Eadr,
            generation: 3,
            features: 0,
            compatible: 0,
            log: LogNote::default(),
        }
    }

    fn reseal(words: &mut HeaderWords) {
        words[15] = u64::from(crc32c_of_words(&words[..15]));
    }

    fn opened(copies: [HeaderWords; 2]) -> Result<(Header, usize, bool), PoolError> {
        choose(&copies, Path::new("test.pool"))
    }

    #[test]
    fn a_header_is_read_back_from_either_copy() {
        let words = header().encode();
        assert_eq!(opened([words, words]).unwrap(), (header(), 0, true));
        assert_eq!(opened([words, [0; 16]]).unwrap(), (header(), 0, false));
        assert_eq!(opened([[0; 16], words]).unwrap(), (header(), 1, false));
        assert_eq!(whole([halves(header().uuid).0, halves(header().uuid).1]), header().uuid);
    }

    #[test]
    fn the_later_of_two_whole_copies_counts() {
        let later = Header { generation: 4, max_size: 2 << 30, ..header() };
        let result = opened([header().encode(), later.encode()]).unwrap();
        assert_eq!(result, (later, 1, false));
    }

    #[test]
    fn copies_of_different_pools_are_refused() {
        let other = Header { uuid: [9; 16], ..header() };
        let error = opened([header().encode(), other.encode()]).unwrap_err();
        assert!(matches!(error, PoolError::Damaged { .. }), "{error}");
    }

    #[test]
    fn a_newer_version_and_an_unknown_feature_are_named() {
        let mut words = header().encode();
        words[1] = pair(2, 128);
        reseal(&mut words);
        assert!(matches!(opened([words; 2]), Err(PoolError::NewerFormat { version: 2, .. })));
        let mut words = header().encode();
        words[2] = 1 << 40;
        reseal(&mut words);
        let error = opened([words; 2]).unwrap_err();
        assert!(matches!(error, PoolError::UnknownFeatures { features: 0x100_0000_0000, .. }));
    }

    #[test]
    fn known_features_are_read_back() {
        let with = Header { features: KNOWN_FEATURES, ..header() };
        assert_eq!(opened([with.encode(); 2]).unwrap().0, with);
    }

    #[test]
    fn a_feature_that_may_be_ignored_is_ignored_and_kept() {
        let mut words = header().encode();
        words[3] = 1 << 40;
        reseal(&mut words);
        let found = opened([words; 2]).unwrap().0;
        assert_eq!(found, Header { compatible: 1 << 40, ..header() });
        assert_eq!(found.encode(), words);
    }

    #[test]
    fn a_sealed_header_with_impossible_numbers_is_refused() {
        for (index, value) in [(6, 0), (7, 1), (8, 4096), (9, 5), (9, u64::MAX), (11, 9), (13, 1)] {
            let mut words = header().encode();
            words[index] = value;
            reseal(&mut words);
            let result = opened([words; 2]);
            assert!(matches!(result, Err(PoolError::Damaged { .. })), "word {index}: {result:?}");
        }
    }
}
