//! Damaged pool files: whatever byte is wrong, opening, checking, reading and writing end with an
//! answer or an error, never with a signal, a panic or an endless loop.
//!
//! The victim is this test's own program in another process, which tells what it is about to try;
//! so the parent knows what killed it, and goes on behind that.

use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use everleaf::{Error, Options, Result, Store};

/// Every how many bytes of the used part of the file one is damaged everyday, and at landings, unless
/// `STEP_VARIABLE` says otherwise.
const STEPS: [usize; 2] = [293, 97];
/// For a longer search; and what tells the victim.
const STEP_VARIABLE: &str = "EVERLEAF_HOSTILE_STEP";
/// Names the folder in which the victim finds the file.
const FOLDER: &str = "EVERLEAF_HOSTILE_FOLDER";
/// The first damage that the victim shall try.
const FIRST: &str = "EVERLEAF_HOSTILE_FIRST";
/// A victim that takes longer for one damage hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn key(number: u32) -> Vec<u8> {
    let mut key = format!("some/shared/prefix/{:05}", number * 7919 % 100_000).into_bytes();
    key.extend(std::iter::repeat_n(b'x', (number % 5) as usize * 9));
    key
}

/// A small pool with something of everything: several leaves and inner nodes, tombstones, records
/// of several classes and one of its own chunks, two maps, one of them emptied.
fn make_pool(path: &Path) -> Result<()> {
    let store = Options::new().create_new(true).max_size_bytes(64 << 20).open(path)?;
    for number in 0..600 {
        store.default_map().put(key(number), vec![number as u8; (number % 90) as usize])?;
    }
    for number in (0..600).step_by(3) {
        store.default_map().remove(key(number))?;
    }
    // Of zeros, which are no targets, but for its ends.
    store.default_map().put(b"large", vec![0; 300 << 10])?;
    let other = store.map("other")?;
    for number in 0..100u32 {
        other.put(number.to_be_bytes(), b"value")?;
    }
    let emptied = store.map("emptied")?;
    emptied.put(b"key", b"value")?;
    emptied.clear()?;
    assert!(store.check()?.is_clean());
    drop((other, emptied));
    store.close()
}

/// The message ended with "the pool could not be used", and what the kernel had said was not to be had.
#[test]
fn what_the_kernel_refuses_is_told_with_its_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, b"no folder").expect("room");
    let opened = Options::new().create(true).open(file.join("pool")).map(drop);
    let Err(Error::Io(what, answer)) = &opened else { panic!("{opened:?}") };
    assert_eq!(answer.kind(), std::io::ErrorKind::NotADirectory);
    assert!(what.contains("pool") && !what.contains("irectory"), "{what}");
}

/// What the environment says instead of one of [`STEPS`].
fn given_step() -> Option<usize> {
    std::env::var(STEP_VARIABLE).ok().and_then(|step| step.parse().ok())
}

/// Offsets of bytes worth damaging: one in `step` of the lines that are not all zero.
fn targets(image: &[u8], step: usize) -> Vec<usize> {
    let used = image
        .chunks(64)
        .enumerate()
        .filter(|(_, line)| line.iter().any(|byte| *byte != 0))
        .flat_map(|(number, line)| (0..line.len()).map(move |byte| number * 64 + byte));
    used.step_by(step).collect()
}

/// Reads everything in both directions, checks, and unless `read_only` writes as well.
fn exercise(path: &Path, read_only: bool) -> Result<()> {
    let options = Options::new().recovery_threads(1).read_only(read_only);
    let store = Store::open(path, options)?;
    let report = store.check();
    // Far more than there are: an iteration that returns that many goes in circles.
    const MANY: usize = 20_000;
    for name in store.map_names() {
        let Ok(Some(map)) = store.existing_map(&name) else { continue };
        assert!(map.iter().take(MANY).count() < MANY, "iterates in circles");
        assert!(map.iter().rev().take(MANY).count() < MANY, "iterates backwards in circles");
        let mut count = 0;
        for reverse in [false, true] {
            let scan = if reverse { map.scan(..).reverse() } else { map.scan(..) };
            scan.visit(|_, _| {
                count += 1;
                if count < MANY {
                    std::ops::ControlFlow::Continue(())
                } else {
                    std::ops::ControlFlow::Break(())
                }
            })?;
        }
        assert!(count < MANY, "scans in circles");
    }
    for number in 0..600 {
        store.default_map().get(key(number))?;
    }
    if !read_only {
        for number in 0..600 {
            store.default_map().put(key(number), b"new")?;
            store.default_map().put(key(number + 600), [1; 70])?;
        }
        for number in (0..1200).step_by(2) {
            store.default_map().remove(key(number))?;
        }
        store.check()?;
        store.default_map().clear()?;
        store.default_map().put(b"key", b"value")?;
    }
    drop(store);
    report?;
    // What was written over the damage may be refused next time, but not more.
    Store::open(path, Options::new().read_only(true).recovery_threads(1))?.check()?;
    Ok(())
}

/// What the victim does with one damage. Returns a sentence if it is not as it must be.
fn try_damage(
    path: &Path,
    image: &[u8],
    target: usize,
    round: usize,
) -> std::result::Result<(), String> {
    let mut damaged = image.to_vec();
    damaged[target] ^= if round.is_multiple_of(2) { 0xFF } else { 1 << (round / 2 % 8) };
    std::fs::write(path, &damaged).expect("a place for the file");
    let read_only = round % 3 == 2;
    // An error is an answer. Only panics and worse are not.
    match catch_unwind(AssertUnwindSafe(|| exercise(path, read_only))) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("offset {target}, round {round}: panicked")),
    }
}

/// The victim: only does something when started by the test below.
#[test]
fn victim_of_damaged_files() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let first: usize = std::env::var(FIRST).expect("given").parse().expect("a number");
    let image = std::fs::read(folder.join("image")).expect("the image");
    let path = folder.join("victim.pool");
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
    let step = given_step().expect("given");
    for (round, target) in targets(&image, step).into_iter().enumerate().skip(first) {
        writeln!(out, "\nround {round} offset {target}").expect("the parent reads");
        if let Err(what) = try_damage(&path, &image, target, round) {
            writeln!(out, "\nwrong {what}").expect("the parent reads");
        }
        TRIED.fetch_add(1, Ordering::Relaxed);
    }
    writeln!(out, "\nfinished").expect("the parent reads");
}

#[test]
fn no_damaged_byte_of_a_file_kills_the_process() {
    damage_one_in(given_step().unwrap_or(STEPS[0]));
}

#[test]
#[ignore = "guards a landing"]
fn landing_no_damaged_byte_of_more_kills_the_process() {
    damage_one_in(given_step().unwrap_or(STEPS[1]));
}

fn damage_one_in(step: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let original = folder.path().join("original.pool");
    make_pool(&original).expect("a pool");
    std::fs::copy(&original, folder.path().join("image")).expect("a copy");
    let image = std::fs::read(&original).expect("the image");
    assert!(targets(&image, step).len() > 100, "the file holds something");

    let (mut wrong, mut first, mut finished) = (vec![], 0, false);
    while !finished && wrong.len() < 10 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "hostile_files::victim_of_damaged_files",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(FOLDER, folder.path())
            .env(FIRST, first.to_string())
            .env(STEP_VARIABLE, step.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the victim starts");
        let mut last = String::new();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
            let line = line.expect("text");
            if let Some(round) = line.strip_prefix("round ") {
                let number = round.split(' ').next().expect("a number");
                first = number.parse::<usize>().expect("a number") + 1;
                last = line;
            } else if let Some(what) = line.strip_prefix("wrong ") {
                wrong.push(what.to_string());
            } else if line == "finished" {
                finished = true;
            }
        }
        let status = child.wait().expect("the victim ends");
        if !finished {
            wrong.push(format!("{last}: {status}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_damaged_heap_header_is_refused_and_costs_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("p");
    make_pool(&path).expect("a pool");
    let before = Store::open(&path, Options::new())
        .expect("sound")
        .default_map()
        .iter()
        .map(Result::unwrap)
        .collect::<Vec<_>>();
    let mut image = std::fs::read(&path).expect("the image");
    let magic = image.windows(8).position(|word| word == b"EVLHEAP1").expect("the heap's magic");
    for bit in 0..64 {
        image[magic + bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &image).expect("writable");
        let error = Store::open(&path, Options::new().create(true)).expect_err("refused");
        assert!(matches!(error, everleaf::Error::Corrupt(_)), "bit {bit}: {error}");
        // A user who knows what was wrong gets everything back.
        image = std::fs::read(&path).expect("the image");
        image[magic + bit / 8] ^= 1 << (bit % 8);
    }
    std::fs::write(&path, &image).expect("writable");
    let store = Store::open(&path, Options::new()).expect("sound again");
    assert_eq!(store.default_map().iter().map(Result::unwrap).collect::<Vec<_>>(), before);
    assert!(store.check().expect("a check").is_clean());
}
