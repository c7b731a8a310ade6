//! How soon a store answers after a kill, and when it is as fast as ever: all restored before it is open, or opened at
//! once ([`Options::open_at_once`]), with its own thread that restores in the background.
//!
//! A child fills the pool, in FOLDER, with keys of 16 bytes and values of 100, and is killed. Each opening is a
//! process of its own, which is killed, too; the first is not counted, since it ends what the kill has left, and the
//! two ways take turns at being first. Times are of the wall, in milliseconds from before the file is opened;
//! *answers* is what one thread reads in a second, from when the first answer is there. Whoever restores first does
//! it on THREADS threads, in the background it is always one. *All restored* is when that one has told it.
//!
//! The file is in memory all the time: what a file on a disk takes that was not read since the machine began is
//! another question.
//!
//! `cargo run --release -p everleaf --example restart_at_once -- FOLDER [KEYS] [ROUNDS] [THREADS]`

#![expect(clippy::print_stdout, reason = "what was measured is the result")]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use everleaf::random::mix;
use everleaf::{Event, Options, Tree};

type Failure = Box<dyn Error>;

/// Reads between two looks at the clock.
const READS: u64 = 1000;
/// How long all may take to be restored.
const PATIENCE: Duration = Duration::from_secs(600);
/// What a child says that is to be killed.
const DONE: &str = "done";
/// The signal that no process can handle.
const SIGKILL: i32 = 9;

/// The key of a number: as if by chance, none twice.
fn key(number: u64) -> String {
    format!("{:016x}", mix(number))
}

fn options(threads: usize) -> Options {
    Options::new().tree(Tree::HashedLeaf).recovery_threads(threads)
}

/// Says so, and waits until it is killed.
fn wait_for_the_kill() -> ! {
    println!("{DONE}");
    loop {
        std::thread::park();
    }
}

fn fill(path: &Path, keys: u64) -> Result<(), Failure> {
    let store = options(1).create_new(true).open(path)?;
    for number in 0..keys {
        let _ = store.default_map().put(key(number), [number as u8; 100])?;
    }
    wait_for_the_kill()
}

/// What a child does then: one opening.
fn open(path: &Path, keys: u64, at_once: bool, threads: usize) -> Result<(), Failure> {
    let (tell, told) = mpsc::channel();
    let started = Instant::now();
    let ms = move || started.elapsed().as_secs_f64() * 1e3;
    let options = options(threads).open_at_once(at_once).events(move |event| {
        if let Event::Restored = event {
            let _ = tell.send(ms());
        }
    });
    let store = options.open(path)?;
    let opened = ms();
    let left = store.statistics().unrestored_leaves;
    let map = store.default_map();
    let found = map.get(key(keys / 3))?;
    let answered = ms();
    if found != Some(vec![(keys / 3) as u8; 100]) {
        return Err(format!("{found:?} is a wrong answer").into());
    }
    let mut reads = 0;
    while ms() < answered + 1e3 {
        for number in reads..reads + READS {
            map.get(key(mix(number) % keys))?.ok_or("a key is gone")?;
        }
        reads += READS;
    }
    let restored = if at_once { told.recv_timeout(PATIENCE)? } else { opened };
    let how = if at_once { "at once" } else { "restored" };
    println!(
        "{how}, {threads} threads: open {opened:.1} ms with {left} leaves left, first answer {answered:.1} ms, \
         all restored {restored:.1} ms, {:.2} M answers in the first second",
        reads as f64 / 1e6
    );
    wait_for_the_kill()
}

/// The file of the pool, which goes when this is dropped.
struct OwnFile(PathBuf);

impl OwnFile {
    /// Nothing of an earlier run may be measured.
    fn anew(path: PathBuf) -> Result<Self, Failure> {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(OwnFile(path)),
        }
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs a child, prints what it says, and kills it when it is done.
fn run_and_kill(mut child: Command) -> Result<(), Failure> {
    let mut child = child.stdout(Stdio::piped()).spawn()?;
    let mut is_done = false;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            is_done = line == DONE;
            if is_done {
                break;
            }
            println!("{line}");
        }
    }
    child.kill()?;
    let status = child.wait()?;
    if is_done && status.signal() == Some(SIGKILL) {
        return Ok(());
    }
    Err(format!("a child ended by itself: {status}").into())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, usual| match arguments.get(index) {
        Some(text) => text.parse::<u64>(),
        None => Ok(usual),
    };
    let folder = Path::new(arguments.first().ok_or("a folder is missing")?);
    let path = folder.join("restart-at-once");
    let (keys, rounds, threads) = (number(1, 1_000_000)?.max(1), number(2, 3)?, number(3, 2)?);
    match arguments.get(4).map(String::as_str) {
        Some("fill") => return fill(&path, keys),
        Some(how) => return open(&path, keys, how == "at once", threads as usize),
        None => {}
    }
    let child = |what: &str| -> Result<Command, Failure> {
        let mut child = Command::new(std::env::current_exe()?);
        let numbers = [keys, rounds, threads].map(|number| number.to_string());
        child.arg(folder).args(numbers).arg(what);
        Ok(child)
    };
    let _file = OwnFile::anew(path.clone())?;
    run_and_kill(child("fill")?)?;
    println!("{keys} keys; not counted:");
    for round in 0..=rounds {
        let ways = if round % 2 == 0 { ["restored", "at once"] } else { ["at once", "restored"] };
        // The first round is one opening, which ends what the kill has left.
        for what in ways.into_iter().take(if round == 0 { 1 } else { 2 }) {
            run_and_kill(child(what)?)?;
        }
        if round < rounds {
            println!("round {}:", round + 1);
        }
    }
    Ok(())
}
