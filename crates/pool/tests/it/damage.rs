//! Damage to the pool's own records: every byte, one copy and both.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;

use crate::common::Scratch;
use everleaf_machine::{Hardware, mapping::Mapping};
use everleaf_pool::layout::{
    HEADER_OFFSETS, HEADER_SIZE, IDS_OFFSETS, IDS_SIZE, SEAL_OFFSETS, SEAL_SIZE, SESSION_OFFSETS,
    SESSION_SIZE,
};
use everleaf_pool::{Backing, DATA_START, Domain, Pool, PoolError, Seal};

/// Memory with the bytes of a pool in it.
struct Image {
    mapping: Mapping,
    is_read_only: bool,
}

impl Image {
    fn new(bytes: &[u8]) -> Self {
        let mapping = Mapping::of_memory(bytes.len(), 1 << 21).unwrap();
        // SAFETY: the mapping is that long, new, and nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapping.base(), bytes.len()) };
        Image { mapping, is_read_only: false }
    }
}

// SAFETY: plain memory that never moves and is reached through its base only.
unsafe impl Backing for Image {
    fn base(&self) -> *mut u8 {
        self.mapping.base()
    }
    fn size(&self) -> u64 {
        self.mapping.length() as u64
    }
    fn capacity(&self) -> u64 {
        self.mapping.length() as u64
    }
    fn is_read_only(&self) -> bool {
        self.is_read_only
    }
    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        Err(PoolError::PoolFull { path: "image".into(), needed: new, max: self.capacity() })
    }
}

fn open(bytes: &[u8]) -> Result<Pool<Hardware>, PoolError> {
    Pool::with_backing(Box::new(Image::new(bytes)), Domain::Adr, 0, false)
}

/// What a reader of the pool is told about what is kept twice.
fn told(bytes: &[u8]) -> Vec<String> {
    let image = Image { is_read_only: true, ..Image::new(bytes) };
    let pool = Pool::<Hardware>::with_backing(Box::new(image), Domain::Adr, 0, false).unwrap();
    pool.copy_problems()
}

/// A pool of the smallest size with a root and two ids handed out.
fn sound_pool() -> Vec<u8> {
    pool_left_by(|_| ())
}

/// The same, closed with a seal.
fn closed_pool() -> Vec<u8> {
    pool_left_by(|pool| {
        pool.set_seal(Seal { leaves: 3, keys: 99, sum: 77, roots: 5 }).unwrap();
        pool.set_clean().unwrap();
    })
}

fn pool_left_by(end: impl FnOnce(&Pool<Hardware>)) -> Vec<u8> {
    let pool = Pool::<Hardware>::in_memory(0, 0, Domain::Adr).unwrap();
    pool.create_root("users", 1, 2).unwrap();
    pool.next_id().unwrap();
    pool.next_id().unwrap();
    end(&pool);
    let mut bytes = vec![0; pool.size() as usize];
    // SAFETY: the pool is that long and nobody writes it now.
    unsafe { std::ptr::copy_nonoverlapping(pool.base(), bytes.as_mut_ptr(), bytes.len()) };
    // The image has no world around it: the boot must be the same as that of `Image`.
    for offset in SESSION_OFFSETS.map(|offset| offset as usize) {
        bytes[offset + 24..offset + 40].fill(0);
        let checksum = crc32c::crc32c(&bytes[offset..offset + 56]);
        bytes[offset + 56..offset + 60].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

/// The values a damaged byte may get: those that differ from the old one.
fn damages(old: u8) -> impl Iterator<Item = u8> {
    [0, 0xFF, !old, old ^ 1, old ^ 0x80].into_iter().filter(move |new| *new != old)
}

#[test]
fn any_damaged_byte_of_one_copy_is_survived_and_of_both_refused() {
    let sound = sound_pool();
    let (uuid, size) = open(&sound).map(|pool| (pool.uuid(), pool.size())).unwrap();
    let records =
        [(HEADER_OFFSETS, HEADER_SIZE), (SESSION_OFFSETS, SESSION_SIZE), (IDS_OFFSETS, IDS_SIZE)];
    for (offsets, length) in records {
        for byte in 0..length {
            let places = offsets.map(|offset| (offset + byte) as usize);
            for new in damages(sound[places[0]]) {
                for place in places {
                    let mut bytes = sound.clone();
                    bytes[place] = new;
                    let pool = open(&bytes).unwrap_or_else(|error| {
                        panic!("byte {place} as {new:#x}: {error}");
                    });
                    assert_eq!((pool.uuid(), pool.size()), (uuid, size));
                    assert!(pool.root("users").is_some());
                    assert_eq!(pool.next_id().unwrap(), 3);
                }
                let mut bytes = sound.clone();
                places.into_iter().for_each(|place| bytes[place] = new);
                let error = open(&bytes).expect_err("both copies are damaged");
                let refusal =
                    matches!(error, PoolError::Damaged { .. } | PoolError::Foreign { .. });
                assert!(refusal, "bytes {places:?} as {new:#x}: {error}");
            }
        }
    }
}

/// `check` called a pool sound of which one copy of the header was damaged.
#[test]
fn every_damaged_byte_of_one_copy_is_told_of_a_closed_pool() {
    let sound = closed_pool();
    assert_eq!(told(&sound), Vec::<String>::new());
    let records = [
        (HEADER_OFFSETS, HEADER_SIZE, "the header"),
        (SESSION_OFFSETS, SESSION_SIZE, "the session record"),
        (IDS_OFFSETS, IDS_SIZE, "the id counter"),
        (SEAL_OFFSETS, SEAL_SIZE, "the seal"),
    ];
    for (offsets, length, name) in records {
        for (copy, start) in offsets.into_iter().enumerate() {
            let (start, end) = (start as usize, (start + length) as usize);
            for place in start..end {
                for new in damages(sound[place]) {
                    let mut bytes = sound.clone();
                    bytes[place] = new;
                    let told = told(&bytes);
                    assert_eq!(told.len(), 1, "byte {place} as {new:#x}: {told:?}");
                    let which = ["first", "second"][copy];
                    let says =
                        format!("byte {start}: the {which} of the two copies of {name} is damaged");
                    assert!(told[0].starts_with(&says), "byte {place}: {told:?}");
                }
            }
        }
    }
}

/// In a pool that was not closed a copy may be torn; what no rewriting leaves is told all the same.
#[test]
fn of_a_killed_pool_only_what_nobody_writes_is_told() {
    let sound = sound_pool();
    assert_eq!(told(&sound), Vec::<String>::new());
    let word_of = |offset: u64, index: u64| (offset + 8 * index) as usize;
    for copy in 0..2 {
        let header = HEADER_OFFSETS[copy];
        let with = |place: usize, change: u8| {
            let mut bytes = sound.clone();
            bytes[place] ^= change;
            told(&bytes).len()
        };
        // Magic, version, uuid, layout, time, domain, the log that there is not.
        for index in [0, 1, 4, 5, 6, 7, 8, 10, 11, 13, 14] {
            assert_eq!(with(word_of(header, index), 0x80), 1, "word {index}");
        }
        assert_eq!(with(word_of(header, 2) + 4, 1), 1, "a feature that nobody knows");
        assert_eq!(with(word_of(header, 2), 1), 0, "a feature that is being enabled");
        assert_eq!(with(word_of(header, 9), 1), 1, "a size that is none");
        assert_eq!(with(word_of(header, 15), 1), 0, "a check sum that is yet to be written");
        assert_eq!(with(word_of(SESSION_OFFSETS[copy], 6), 1), 1, "zeros of the session");
        assert_eq!(with(IDS_OFFSETS[copy] as usize, 1), 1, "a word is never torn");
        assert_eq!(with(SEAL_OFFSETS[copy] as usize, 1), 0, "no seal is in force");
    }
}

#[test]
fn a_damaged_copy_is_repaired_by_opening() {
    let scratch = Scratch::with_pool();
    for offset in HEADER_OFFSETS.into_iter().chain(SESSION_OFFSETS).chain(IDS_OFFSETS) {
        let mut bytes = fs::read(&scratch.path).unwrap();
        bytes[offset as usize] ^= 0x10;
        fs::write(&scratch.path, &bytes).unwrap();
        let told = crate::common::open_read_only(&scratch.path).unwrap().copy_problems();
        assert_eq!(told.len(), 1, "{told:?}");
        let pool = crate::common::open(&scratch.path).unwrap();
        assert_eq!(pool.copy_problems(), Vec::<String>::new());
        pool.set_clean().unwrap();
        drop(pool);
        let bytes = fs::read(&scratch.path).unwrap();
        for (offsets, length) in [
            (HEADER_OFFSETS, HEADER_SIZE),
            (SESSION_OFFSETS, SESSION_SIZE),
            (IDS_OFFSETS, IDS_SIZE),
        ] {
            let [a, b] = offsets.map(|start| &bytes[start as usize..(start + length) as usize]);
            assert_eq!(a, b, "after damage at {offset}");
        }
    }
}

#[test]
fn a_reader_opens_a_pool_with_a_damaged_copy_and_leaves_it() {
    let scratch = Scratch::with_pool();
    let mut bytes = fs::read(&scratch.path).unwrap();
    bytes[HEADER_OFFSETS[0] as usize] ^= 1;
    bytes[SESSION_OFFSETS[1] as usize] ^= 1;
    fs::write(&scratch.path, &bytes).unwrap();
    crate::common::open_read_only(&scratch.path).unwrap();
    assert_eq!(fs::read(&scratch.path).unwrap(), bytes);
}

#[test]
fn a_damaged_root_is_named() {
    let mut bytes = sound_pool();
    bytes[8192 + 9] ^= 4;
    let error = open(&bytes).unwrap_err();
    assert!(matches!(error, PoolError::Damaged { offset: 8192, .. }), "{error}");
    assert!(error.to_string().contains("root 0"), "{error}");
}

#[test]
fn noise_in_place_of_the_records_never_panics() {
    // A generator of noise with a fixed start: the same files each time.
    let mut state = 0x1234_5678_9ABC_DEF0_u64;
    let mut noise = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let sound = sound_pool();
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..300 {
        let mut bytes = sound.clone();
        for _ in 0..1 + noise() % 20 {
            let place = match noise() % 3 {
                0 => noise() % 1200,
                1 => 4096 + noise() % 600,
                _ => noise() % DATA_START,
            };
            bytes[place as usize] = noise() as u8;
        }
        match open(&bytes) {
            Ok(pool) => {
                assert_eq!(pool.size(), sound.len() as u64);
                opened += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}
