//! Damaged pools and logs: nothing wrong is served or copied, nothing panics or hangs, and every loss is
//! told by somebody.
//!
//! Each variant takes one of a few small stores (with maps, expiry, long records; with a log or without;
//! closed or killed), damages its files by a seed, and then does what a user would: open, check, get
//! everything, range, back up, compact, repair, and with a log rebuild the pool from it. The judge
//! knows what was written. It lets pass: what was written; an error; and an absent key only if the check
//! or the repair said that something is damaged or cannot be proven.
//!
//! The victim is this test's own program in another process, which tells what it is about to try, so
//! that the parent knows which variant killed it, and goes on behind that.

mod stores;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everleaf::{Error, Map, Options, Store};
use stores::{Damage, KINDS, Kind, Random, Truth, copy, damage, key, make_all, options};

/// Names the folder in which the victim finds the stores.
const FOLDER: &str = "EVERLEAF_DAMAGE_FOLDER";
/// The first variant that the victim shall try, and the one behind the last.
const FIRST: &str = "EVERLEAF_DAMAGE_FIRST";
const LAST: &str = "EVERLEAF_DAMAGE_LAST";
/// For a longer run: how many variants, and where they begin.
const COUNT: &str = "EVERLEAF_DAMAGE_COUNT";
const START: &str = "EVERLEAF_DAMAGE_START";
/// A victim that takes longer for one variant hangs. (One had a sixtieth of a processor and no more.)
const PATIENCE: Duration = Duration::from_secs(600);
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
    // As the owner goes on with it: with a log this may rebuild the pool from there.
    let result = match options(kind).verify_reads(true).open(again.join("pool")) {
        Ok(store) => judge_open(truth, &store, is_told, damage.cuts_log),
        Err(_) => Ok(()),
    };
    copy(folder, &again);
    result?;
    if kind.has_log {
        try_snapshot(truth, &again, kind, is_told || damage.cuts_log)?;
        copy(folder, &again);
    }
    if Options::new().compact(again.join("pool"), |_| {}).is_ok() {
        judge_copy(truth, &again.join("pool"), "compact", is_told)?;
    }
    if kind.has_log && !damage.cuts_log {
        copy(folder, &again);
        std::fs::remove_file(again.join("pool")).expect("it was there");
        if let Ok(store) = options(kind).open(again.join("pool")) {
            judge_open(truth, &store, is_told, false).map_err(|what| format!("rebuilt: {what}"))?;
        }
    }
    Ok(())
}

/// Writes a snapshot, loses the pool, and reads what is rebuilt from the snapshot: a copy that has what
/// is damaged must not have been written.
fn try_snapshot(truth: &Truth, folder: &Path, kind: Kind, is_told: bool) -> Verdict {
    let pool = folder.join("pool");
    let Ok(store) = options(kind).open(&pool) else { return Ok(()) };
    let is_written = store.snapshot().is_ok();
    drop(store);
    if !is_written {
        return Ok(());
    }
    std::fs::remove_file(&pool).expect("it was there");
    let store = options(kind).open(&pool).map_err(|error| format!("snapshot: {error}"))?;
    let reading = read(truth, &store, "snapshot")?;
    if reading.errors > 0 || reading.missing > 0 && !is_told {
        let Reading { missing, errors } = reading;
        return Err(format!("snapshot: {errors} errors, {missing} keys are missing untold"));
    }
    Ok(())
}

/// Reads and writes a store that could be opened for writing. It may be `older` if that cannot be told.
fn judge_open(truth: &Truth, store: &Store, is_told: bool, older: bool) -> Verdict {
    let reading = read(truth, store, "open for writing")?;
    let is_rebuilt = store.rebuilt().is_some() && !older;
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
            .args(["--exact", "damage::victim_of_damage", "--nocapture", "--test-threads=1"])
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
    assert_eq!(hunt(0, 15, 10), Vec::<String>::new());
}

/// The long run: `EVERLEAF_DAMAGE_COUNT` variants (5,000) from `EVERLEAF_DAMAGE_START` (0) on.
#[test]
#[ignore = "a long run: many minutes"]
fn nothing_of_5000_damaged_stores_is_served_wrong() {
    let start = number_of(START).unwrap_or(0);
    let count = number_of(COUNT).unwrap_or(5000);
    let wrong = hunt(start, start + count, usize::MAX);
    assert_eq!(wrong.len(), 0, "of {count} variants: {wrong:#?}");
}
