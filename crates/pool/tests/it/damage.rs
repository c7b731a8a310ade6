//! Damage to the pool's own records: every byte, one copy and both.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;

use crate::common::Scratch;
use everleaf_machine::{Hardware, mapping::Mapping};
use everleaf_pool::layout::{
    HEADER_OFFSETS, HEADER_SIZE, IDS_OFFSETS, IDS_SIZE, SESSION_OFFSETS, SESSION_SIZE,
};
use everleaf_pool::{Backing, DATA_START, Domain, Pool, PoolError};

/// Memory with the bytes of a pool in it.
struct Image {
    mapping: Mapping,
}

impl Image {
    fn new(bytes: &[u8]) -> Self {
        let mapping = Mapping::of_memory(bytes.len(), 1 << 21).unwrap();
        // SAFETY: the mapping is that long, new, and nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), mapping.base(), bytes.len()) };
        Image { mapping }
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
    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        Err(PoolError::PoolFull { path: "image".into(), needed: new, max: self.capacity() })
    }
}

fn open(bytes: &[u8]) -> Result<Pool<Hardware>, PoolError> {
    Pool::with_backing(Box::new(Image::new(bytes)), Domain::Adr, 0, false)
}

/// A pool of the smallest size with a root and two ids handed out.
fn sound_pool() -> Vec<u8> {
    let pool = Pool::<Hardware>::in_memory(0, 0, Domain::Adr).unwrap();
    pool.create_root("users", 1, 2).unwrap();
    pool.next_id().unwrap();
    pool.next_id().unwrap();
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

#[test]
fn a_damaged_copy_is_repaired_by_opening() {
    let scratch = Scratch::with_pool();
    for offset in HEADER_OFFSETS.into_iter().chain(SESSION_OFFSETS).chain(IDS_OFFSETS) {
        let mut bytes = fs::read(&scratch.path).unwrap();
        bytes[offset as usize] ^= 0x10;
        fs::write(&scratch.path, &bytes).unwrap();
        crate::common::open(&scratch.path).unwrap();
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
