//! Damaged pools and logs: nothing wrong is served or copied, nothing panics or hangs, and every loss is
//! told by somebody.
//!
//! Each variant takes one of a few small stores (with maps, expiry, long records; with a log or without;
//! closed or killed), damages its files by a seed, and then does what a user would: open, check, get
//! everything, range, back up, compact, repair, and with a log make the pool again from it. The judge
//! knows what was written. It lets pass: what was written; an error; and an absent key only if the check
//! or the repair said that something is damaged or cannot be proven.
//!
//! The victim is this test's own program in another process, which tells what it is about to try, so
//! that the parent knows which variant killed it, and goes on behind that.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everleaf::{Durability, Error, Map, Options, Store};

/// Names the folder in which the victim finds the stores.
const FOLDER: &str = "EVERLEAF_DAMAGE_FOLDER";
/// The first variant that the victim shall try, and the one behind the last.
const FIRST: &str = "EVERLEAF_DAMAGE_FIRST";
const LAST: &str = "EVERLEAF_DAMAGE_LAST";
/// For a longer run: how many variants, and where they begin.
const COUNT: &str = "EVERLEAF_DAMAGE_COUNT";
const START: &str = "EVERLEAF_DAMAGE_START";
/// A victim that takes longer for one variant hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// 2100-01-01: later than the test runs.
const LATER: u64 = 4_102_444_800_000;

/// Key to value and expiry, by map.
type Truth = BTreeMap<String, BTreeMap<Vec<u8>, (Vec<u8>, u64)>>;

/// What the stores are, by number.
#[derive(Clone, Copy, Debug)]
struct Kind {
    has_log: bool,
    is_killed: bool,
    /// Whether a snapshot was made in the middle.
    has_snapshot: bool,
}

const KINDS: [Kind; 5] = [
    Kind { has_log: false, is_killed: false, has_snapshot: false },
    Kind { has_log: false, is_killed: true, has_snapshot: false },
    Kind { has_log: true, is_killed: false, has_snapshot: false },
    Kind { has_log: true, is_killed: false, has_snapshot: true },
    Kind { has_log: true, is_killed: true, has_snapshot: true },
];

fn key(number: u32) -> Vec<u8> {
    let mut key = format!("some/shared/prefix/{:05}", number * 7919 % 100_000).into_bytes();
    key.extend(std::iter::repeat_n(b'x', (number % 5) as usize * 9));
    key
}

/// A value that no other key has, and no other state of its key.
fn value(number: u32, state: u32) -> Vec<u8> {
    let mut value = format!("value {state} of {number}:").into_bytes();
    while value.len() < (number * 31 % 140) as usize {
        value.extend(number.wrapping_mul(0x9E37_79B9).wrapping_add(state).to_be_bytes());
    }
    value
}

/// Everything a store has: several leaves, tombstones, replaced values, records of several classes and
/// one of its own chunks, keys that expire, an empty key, two maps and an emptied one.
fn fill(store: &Store, kind: Kind) -> everleaf::Result<Truth> {
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

fn options(kind: Kind) -> Options {
    let durability = if kind.has_log { Durability::Power } else { Durability::Process };
    Options::new().max_size_bytes(64 << 20).recovery_threads(1).sweep(false).durability(durability)
}

/// Makes the store of a kind in a folder of its own, closed or as a kill leaves it.
fn make(folder: &Path, kind: Kind) -> everleaf::Result<Truth> {
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
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).expect("inside"));
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
        std::fs::copy(&file, target).expect("a copy");
    }
}

/// Numbers by a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
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
struct Damage {
    what: String,
    /// A log that is cut short cannot be told from one whose end never reached the disk, once the pool
    /// is lost as well: what it still has is an earlier state.
    cuts_log: bool,
}

/// Damages the files of a store.
fn damage(random: &mut Random, folder: &Path, kind: Kind) -> Damage {
    let what = damage_file(random, folder, kind);
    let cuts_log = what.contains("cut to") && !what.starts_with("pool");
    Damage { what, cuts_log }
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

/// What was found wrong, if the judge does not let it pass.
type Verdict = std::result::Result<(), String>;

/// What one reading of a store showed.
#[derive(Default)]
struct Reading {
    /// Keys that are not there although nobody said that anything is wrong with them.
    missing: u64,
    /// Errors that were said.
    errors: u64,
}

/// Compares a pair with what was written.
fn judge(truth: &Truth, map: &str, key: &[u8], value: &[u8], by: &str) -> Verdict {
    let expected = truth.get(map).and_then(|pairs| pairs.get(key));
    match expected {
        Some((expected, _)) if expected == value => Ok(()),
        Some(_) => Err(format!("{by}: another value of {map}/{}", key.escape_ascii())),
        None => Err(format!("{by}: a key that nobody wrote: {map}/{}", key.escape_ascii())),
    }
}

/// Gets, scans and iterates a map.
fn read_map(truth: &Truth, name: &str, map: &Map, by: &str, reading: &mut Reading) -> Verdict {
    let empty = BTreeMap::new();
    let pairs = truth.get(name).unwrap_or(&empty);
    for key in pairs.keys() {
        match map.get_with_expiry(key, |value, expiry| (value.to_vec(), expiry.as_unix_ms())) {
            Ok(Some(found)) if found == pairs[key] => {}
            Ok(Some(_)) => {
                return Err(format!("{by}: get serves another value of {}", key.escape_ascii()));
            }
            Ok(None) => reading.missing += 1,
            Err(_) => reading.errors += 1,
        }
    }
    for number in (0..900).step_by(4).filter(|_| name == "default") {
        if let Ok(Some(_)) = map.get(key(number)) {
            return Err(format!("{by}: a removed key is there: {number}"));
        }
    }
    for reverse in [false, true] {
        let mut range = map.iter();
        let (mut count, mut last) = (0, None);
        loop {
            let next = if reverse { range.next_back() } else { range.next() };
            let (key, value) = match next {
                Some(Ok(pair)) => pair,
                Some(Err(_)) => {
                    reading.errors += 1;
                    break;
                }
                None => {
                    reading.missing += (pairs.len() as u64).saturating_sub(count);
                    break;
                }
            };
            judge(truth, name, &key, &value, by)?;
            let order = last.as_ref().map(|last| key.cmp(last));
            let expected =
                if reverse { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
            if order.is_some_and(|order| order != expected) {
                return Err(format!("{by}: a range of {name} is out of order"));
            }
            last = Some(key);
            count += 1;
        }
    }
    Ok(())
}

/// Reads all maps.
fn read(truth: &Truth, store: &Store, by: &str) -> std::result::Result<Reading, String> {
    let mut reading = Reading::default();
    for name in truth.keys() {
        match store.existing_map(name) {
            Ok(Some(map)) => read_map(truth, name, &map, by, &mut reading)?,
            Ok(None) => reading.missing += 1 + truth[name].len() as u64,
            Err(_) => reading.errors += 1,
        }
    }
    for name in store.map_names() {
        if !truth.contains_key(&name) && !name.starts_with("lost-") {
            return Err(format!("{by}: a map that nobody made: {name}"));
        }
    }
    Ok(reading)
}

fn reading_options() -> Options {
    Options::new().read_only(true).recovery_threads(1).sweep(false).verify_reads(true)
}

/// Whether a sound copy lacks nothing, or its source said that something may be missing.
fn judge_copy(truth: &Truth, path: &Path, by: &str, is_told: bool) -> Verdict {
    let copy = reading_options().open(path).map_err(|error| format!("{by}: {error}"))?;
    let reading = read(truth, &copy, by)?;
    let report = copy.check().map_err(|error| format!("{by}: {error}"))?;
    if reading.errors > 0 || !report.is_clean() {
        return Err(format!("{by}: the copy is damaged: {:?}", report.problems.first()));
    }
    if reading.missing > 0 && !is_told {
        return Err(format!("{by}: {} keys are missing, and nobody said so", reading.missing));
    }
    Ok(())
}

/// Copies the damaged store in every way, and judges what comes out.
fn try_copies(truth: &Truth, folder: &Path, is_told: bool) -> Verdict {
    let pool = folder.join("pool");
    let made = folder.join("made");
    match reading_options().open(&pool).and_then(|store| store.backup(&made, |_| {})) {
        Ok(_) => judge_copy(truth, &made, "backup", is_told)?,
        Err(_) if made.exists() => return Err("backup: failed, and left its file".into()),
        Err(_) => {}
    }
    let _ = std::fs::remove_file(&made);
    match Store::repair(&pool, &made) {
        Ok(repaired) => {
            let is_told = is_told || !repaired.dropped.is_empty() || !repaired.is_complete;
            // Of a pool whose damage took a map's name, what is left has another.
            let copy = reading_options().open(&made).map_err(|error| format!("repair: {error}"))?;
            let reading = read(truth, &copy, "repair")?;
            if reading.errors > 0 || reading.missing > 0 && !is_told {
                return Err(format!("repair: {} keys are missing untold", reading.missing));
            }
        }
        Err(Error::Locked(text)) => return Err(format!("repair: {text}")),
        Err(_) => {}
    }
    let _ = std::fs::remove_file(&made);
    Ok(())
}

/// What a user does with a damaged store. The judge's objection, if it has one.
fn exercise(truth: &Truth, folder: &Path, kind: Kind, damage: &Damage) -> Verdict {
    let pool = folder.join("pool");
    let is_told = match reading_options().open(&pool) {
        Ok(store) => {
            let reading = read(truth, &store, "read")?;
            let report = store.check();
            let is_told = !report.is_ok_and(|report| report.is_clean() && report.is_complete);
            if reading.errors > 0 && !is_told {
                return Err("a read says corrupt, and the check sound".into());
            }
            if reading.missing > 0 && !is_told {
                return Err(format!("{} keys are missing, and nobody said so", reading.missing));
            }
            is_told
        }
        Err(_) => true,
    };
    try_copies(truth, folder, is_told)?;
    let again = folder.with_extension("again");
    copy(folder, &again);
    // As the owner goes on with it: with a log this may make the pool again from there.
    let result = match options(kind).verify_reads(true).open(again.join("pool")) {
        Ok(store) => judge_open(truth, &store, is_told),
        Err(_) => Ok(()),
    };
    copy(folder, &again);
    result?;
    if Options::new().compact(again.join("pool"), |_| {}).is_ok() {
        judge_copy(truth, &again.join("pool"), "compact", is_told)?;
    }
    if kind.has_log && !damage.cuts_log {
        copy(folder, &again);
        std::fs::remove_file(again.join("pool")).expect("it was there");
        if let Ok(store) = options(kind).open(again.join("pool")) {
            judge_open(truth, &store, is_told).map_err(|what| format!("rebuilt: {what}"))?;
        }
    }
    Ok(())
}

/// Reads and writes a store that could be opened for writing.
fn judge_open(truth: &Truth, store: &Store, is_told: bool) -> Verdict {
    let reading = read(truth, store, "open for writing")?;
    let is_rebuilt = store.rebuilt().is_some();
    if reading.missing > 0 && (!is_told || is_rebuilt) {
        return Err(format!("open for writing: {} keys are missing untold", reading.missing));
    }
    for number in 0..200 {
        // An error is an answer.
        let _ = store.default_map().put(key(number), b"new");
        let _ = store.default_map().remove(key(number + 200));
        let _ = store.default_map().take(key(number + 400));
        let _ = store.default_map().compare_exchange(key(number + 600), Some(b"x"), Some(b"y"));
    }
    Ok(())
}

/// What the victim does with one variant.
fn try_variant(folder: &Path, truths: &[Truth], number: u64) -> Verdict {
    let kind_number = (number % KINDS.len() as u64) as usize;
    let (kind, truth) = (KINDS[kind_number], &truths[kind_number]);
    let victim = folder.join("victim");
    copy(&folder.join(kind_number.to_string()), &victim);
    let mut random = Random(number);
    let damage = damage(&mut random, &victim, kind);
    let judged = catch_unwind(AssertUnwindSafe(|| exercise(truth, &victim, kind, &damage)));
    let judged = judged.unwrap_or_else(|_| Err("panicked".into()));
    judged.map_err(|wrong| format!("variant {number}, {kind:?}, {}: {wrong}", damage.what))
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn make_all(folder: &Path) -> Vec<Truth> {
    let make = |(number, kind): (usize, &Kind)| {
        make(&folder.join(number.to_string()), *kind).expect("a sound store")
    };
    KINDS.iter().enumerate().map(make).collect()
}

/// The victim: only does something when started by the tests below.
#[test]
fn victim_of_damage() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let (first, last) = (number_of(FIRST).expect("given"), number_of(LAST).expect("given"));
    let truths = make_all(&folder);
    static TRIED: AtomicU64 = AtomicU64::new(0);
    std::thread::spawn(|| {
        let mut last = 0;
        loop {
            std::thread::sleep(PATIENCE);
            // Relaxed: only a sign of life.
            let now = TRIED.load(Ordering::Relaxed);
            if now == last {
                std::process::abort();
            }
            last = now;
        }
    });
    let mut out = std::io::stdout();
    for number in first..last {
        writeln!(out, "\nvariant {number}").expect("the parent reads");
        if let Err(what) = try_variant(&folder, &truths, number) {
            writeln!(out, "\nwrong {what}").expect("the parent reads");
        }
        TRIED.fetch_add(1, Ordering::Relaxed);
    }
    writeln!(out, "\nfinished").expect("the parent reads");
}

/// Runs variants in victims. Returns the objections, at most `most`.
fn hunt(mut first: u64, last: u64, most: usize) -> Vec<String> {
    let mut wrong = vec![];
    while first < last && wrong.len() < most {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "victim_of_damage", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .env(FIRST, first.to_string())
            .env(LAST, last.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the victim starts");
        let mut tried = String::new();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
            let line = line.expect("text");
            if let Some(number) = line.strip_prefix("variant ") {
                first = number.parse::<u64>().expect("a number") + 1;
                tried = line;
            } else if let Some(what) = line.strip_prefix("wrong ") {
                wrong.push(what.to_string());
            } else if line == "finished" {
                first = last;
            }
        }
        let status = child.wait().expect("the victim ends");
        if !status.success() {
            wrong.push(format!("{tried}: {status}"));
        }
    }
    wrong
}

/// A changed byte was served by get, export, backup and compact, which gave it a fresh check sum; a
/// changed header made a key absent; lost lines of leaves went unnoticed.
#[test]
fn nothing_of_a_damaged_store_is_served_wrong() {
    assert_eq!(hunt(0, 25, 10), Vec::<String>::new());
}

/// The long run: `EVERLEAF_DAMAGE_COUNT` variants (5,000) from `EVERLEAF_DAMAGE_START` (0) on.
#[test]
#[ignore = "takes many minutes"]
fn nothing_of_5000_damaged_stores_is_served_wrong() {
    let start = number_of(START).unwrap_or(0);
    let count = number_of(COUNT).unwrap_or(5000);
    let wrong = hunt(start, start + count, usize::MAX);
    assert_eq!(wrong.len(), 0, "of {count} variants: {wrong:#?}");
}
