//! Small stores of every kind, what was written to them, and damage of their files by a seed.
#![allow(dead_code, reason = "each test program uses its part of this module")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use everleaf::{Durability, Options, Store};

/// 2100-01-01: later than the test runs.
pub const LATER: u64 = 4_102_444_800_000;

/// Key to value and expiry, by map.
pub type Truth = BTreeMap<String, BTreeMap<Vec<u8>, (Vec<u8>, u64)>>;

/// What the stores are, by number.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub has_log: bool,
    pub is_killed: bool,
    /// Whether a snapshot was made in the middle.
    pub has_snapshot: bool,
}

pub const KINDS: [Kind; 5] = [
    Kind { has_log: false, is_killed: false, has_snapshot: false },
    Kind { has_log: false, is_killed: true, has_snapshot: false },
    Kind { has_log: true, is_killed: false, has_snapshot: false },
    Kind { has_log: true, is_killed: false, has_snapshot: true },
    Kind { has_log: true, is_killed: true, has_snapshot: true },
];

pub fn key(number: u32) -> Vec<u8> {
    let mut key = format!("some/shared/prefix/{:05}", number * 7919 % 100_000).into_bytes();
    key.extend(std::iter::repeat_n(b'x', (number % 5) as usize * 9));
    key
}

/// A value that no other key has, and no other state of its key.
pub fn value(number: u32, state: u32) -> Vec<u8> {
    let mut value = format!("value {state} of {number}:").into_bytes();
    while value.len() < (number * 31 % 140) as usize {
        value.extend(number.wrapping_mul(0x9E37_79B9).wrapping_add(state).to_be_bytes());
    }
    value
}

/// Everything a store has: several leaves, tombstones, replaced values, records of several classes and
/// one of its own chunks, keys that expire, an empty key, two maps and an emptied one.
pub fn fill(store: &Store, kind: Kind) -> everleaf::Result<Truth> {
    let mut truth = Truth::new();
    let other = store.map("other")?;
    for number in 0..900 {
        store.default_map().put(key(number), value(number, 0))?;
    }
    if kind.has_snapshot {
        store.snapshot()?;
    }
    let default = truth.entry("default".into()).or_default();
    for number in 0..900 {
        let expiry_ms = if number % 5 == 1 { LATER + u64::from(number) } else { 0 };
        match number % 4 {
            0 => drop(store.default_map().remove(key(number))?),
            1 => {
                store.default_map().put_with_expiry(
                    key(number),
                    value(number, 1),
                    everleaf::Expiry::from_unix_ms(expiry_ms),
                )?;
                default.insert(key(number), (value(number, 1), expiry_ms));
            }
            _ => drop(default.insert(key(number), (value(number, 0), 0))),
        }
    }
    for (name, long) in [("", vec![b'e'; 20]), ("long", vec![b'l'; 5000])] {
        store.default_map().put(name.as_bytes(), &long)?;
        default.insert(name.into(), (long, 0));
    }
    let large: Vec<u8> = (0..300_000u32).map(|at| (at.wrapping_mul(at) >> 3) as u8).collect();
    store.default_map().put(b"large", &large)?;
    default.insert(b"large".into(), (large, 0));
    let others = truth.entry("other".into()).or_default();
    for number in 0..200u32 {
        other.put(number.to_be_bytes(), value(number, 2))?;
        others.insert(number.to_be_bytes().into(), (value(number, 2), 0));
    }
    let emptied = store.map("emptied")?;
    emptied.put(b"key", b"value")?;
    emptied.clear()?;
    truth.entry("emptied".into()).or_default();
    Ok(truth)
}

pub fn options(kind: Kind) -> Options {
    let durability = if kind.has_log { Durability::Power } else { Durability::Process };
    Options::new().max_size_bytes(64 << 20).recovery_threads(1).sweep(false).durability(durability)
}

/// Makes the store of a kind in a folder of its own, closed or as a kill leaves it.
pub fn make(folder: &Path, kind: Kind) -> everleaf::Result<Truth> {
    std::fs::create_dir_all(folder).expect("a folder");
    let store = options(kind).create_new(true).open(folder.join("pool"))?;
    let truth = fill(&store, kind)?;
    if kind.is_killed {
        // What a killed process stored is in the file.
        let killed = folder.with_extension("killed");
        copy(folder, &killed);
        store.close()?;
        std::fs::remove_dir_all(folder).expect("it is there");
        std::fs::rename(&killed, folder).expect("its name is free");
    } else {
        store.close()?;
    }
    Ok(truth)
}

/// The files of a store and its log, with their sizes, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

pub fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).expect("inside"));
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
        std::fs::copy(&file, target).expect("a copy");
    }
}

/// Numbers by a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        everleaf::random::next(&mut self.0)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// The start of a unit of `size` bytes that is not all zeros.
fn used(random: &mut Random, image: &[u8], size: usize) -> usize {
    let units = image.len() / size;
    let start = random.below(units);
    let is_used = |unit: &usize| image[unit * size..][..size].iter().any(|byte| *byte != 0);
    (start..units).chain(0..start).find(is_used).unwrap_or(0) * size
}

/// The first pages of a file, or one of its chunks of 256 KiB.
fn chunk(random: &mut Random, length: usize) -> std::ops::Range<usize> {
    let size = 256 << 10;
    match random.below(4) {
        0 => 0..length.min(80 << 10),
        _ => {
            let start = random.below(length.div_ceil(size)) * size;
            start..length.min(start + size)
        }
    }
}

/// What was done to the files of a store.
pub struct Damage {
    pub what: String,
    /// A log that is cut short cannot be told from one whose end never reached the disk, once the pool
    /// is lost as well: what it still has is an earlier state.
    pub cuts_log: bool,
}

/// Damages the files of a store.
pub fn damage(random: &mut Random, folder: &Path, kind: Kind) -> Damage {
    let mut all = vec![damage_file(random, folder, kind)];
    // Now and then pool and log, or two places of one of them.
    while random.below(6) == 0 {
        all.push(damage_file(random, folder, kind));
    }
    let cuts = |what: &String| what.contains("cut to") && !what.starts_with("pool");
    Damage { cuts_log: all.iter().any(cuts), what: all.join("; ") }
}

fn damage_file(random: &mut Random, folder: &Path, kind: Kind) -> String {
    let logs: Vec<PathBuf> = files(folder)
        .into_iter()
        .filter(|file| file.file_name().is_some_and(|n| n != "pool"))
        .collect();
    let in_log = kind.has_log && random.below(4) == 0;
    let path = if in_log { logs[random.below(logs.len())].clone() } else { folder.join("pool") };
    let image = std::fs::read(&path).expect("readable");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    if image.is_empty() {
        return format!("{name}: nothing, it is empty");
    }
    let length = image.len();
    // In half of the variants the damage is in the pages that say where everything is, or in a chunk
    // taken by chance, so that leaves are hit as often as long records.
    let area = if random.below(2) == 0 { 0..length } else { chunk(random, length) };
    let (before, behind) = (image[..area.start].to_vec(), image[area.end..].to_vec());
    let mut image = image[area].to_vec();
    let length = image.len();
    let size = [64, 64, 1024, 4096][random.below(4)].min(length);
    let (a, b) = (used(random, &image, size), used(random, &image, size));
    let what = match random.below(10) {
        0 | 1 => {
            let at = used(random, &image, size) + random.below(size);
            image[at] ^= 1 << random.below(8);
            format!("a bit of the byte {at}")
        }
        2 => {
            let at = used(random, &image, size) + random.below(size);
            image[at] = random.next() as u8;
            format!("the byte {at}")
        }
        3 => {
            let at = a + random.below(size) / 8 * 8;
            let end = length.min(at + 8);
            image[at..end].fill(0);
            format!("zeros in the word {at}")
        }
        4 | 5 => {
            image[a..a + size].fill(0);
            format!("zeros from {a} on, {size} bytes")
        }
        6 => {
            let (first, second) = (image[a..a + size].to_vec(), image[b..b + size].to_vec());
            image[a..a + size].copy_from_slice(&second);
            image[b..b + size].copy_from_slice(&first);
            format!("{size} bytes at {a} and {b} swapped")
        }
        7 => {
            image.copy_within(a..a + size, b);
            format!("{size} bytes at {a} copied to {b}")
        }
        8 => {
            for byte in &mut image[a..a + size] {
                *byte = random.next() as u8;
            }
            format!("garbage from {a} on, {size} bytes")
        }
        _ => {
            let end = random.below(length);
            image.truncate(end);
            format!("cut to {end} of {length} bytes")
        }
    };
    let is_cut = image.len() < length;
    let behind = if is_cut { &[][..] } else { &behind };
    std::fs::write(&path, [&before, &image, behind].concat()).expect("writable");
    format!("{name}, behind {}: {what}", before.len())
}

/// All stores, each in a folder with its number.
pub fn make_all(folder: &Path) -> Vec<Truth> {
    let make = |(number, kind): (usize, &Kind)| {
        make(&folder.join(number.to_string()), *kind).expect("a sound store")
    };
    KINDS.iter().enumerate().map(make).collect()
}
