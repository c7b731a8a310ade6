//! Everleaf's writes beside those of other stores: in batches, with a log that is synced at times,
//! with a log that is synced before each commit.
//!
//! ```text
//! cargo run --release --manifest-path rivals/Cargo.toml --features rocksdb --example writes -- batches
//! cargo run --release --manifest-path rivals/Cargo.toml --features rocksdb --example writes -- interval
//! cargo run --release --manifest-path rivals/Cargo.toml --features rocksdb --example writes -- sync
//! ```
//!
//! Every contender writes the same random keys (splitmix64 of 0, 1, 2, ..) into a new store, in each
//! round once, in an order that moves on from round to round. The time is that of the writes; what a
//! store does when it is opened or closed is not in it. Figures are medians of the rounds, ratios are
//! medians of the ratios of the rounds.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

mod contenders;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use contenders::{Contender, Failure};
use everleaf_bench::random::mix;

/// Measure writes of Everleaf and its rivals, in one run
#[derive(Parser)]
struct Arguments {
    /// What is measured
    part: Part,
    /// Keys written in each round, such as 1000000 [default: 1000000; sync: 20000]
    #[arg(long)]
    keys: Option<u64>,
    /// Puts of a batch
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// Threads that write [default: 1; sync: 16]
    #[arg(long)]
    threads: Option<usize>,
    /// Bytes of keys and values, as KEY/VALUE [default: 8/8,16/100 for batches, else 16/100]
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<String>,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the stores are; they are removed [default: the folder for temporary files]
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Puts in batches; a batch that was written survives the end of the process
    Batches,
    /// Single puts; the log is synced at times
    Interval,
    /// Single puts; the log is synced before a put returns
    Sync,
}

/// Keys to write.
pub type Keys<'i, 'k> = &'i mut dyn Iterator<Item = &'k [u8]>;

/// How long a round took.
pub type TimeResult = Result<Time, Failure>;

/// How long a round took.
#[derive(Clone, Copy)]
pub struct Time {
    /// By the clock.
    seconds: f64,
    /// That the first writing thread ran; 0 if the system does not say.
    run_seconds: f64,
}

/// Seconds that this thread has run so far; 0 if the system does not say.
fn seconds_run() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|number| number.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// What is written.
pub struct Load {
    keys: Vec<u8>,
    key_size: usize,
    value: Vec<u8>,
    /// Puts of a batch.
    batch: usize,
    /// Threads that write, each its own part of the keys.
    threads: usize,
}

impl Load {
    fn new(
        count: u64,
        (key_size, value_size): (usize, usize),
        batch: usize,
        threads: usize,
    ) -> Self {
        let mut keys = vec![b'k'; count as usize * key_size];
        for (number, key) in keys.chunks_exact_mut(key_size).enumerate() {
            let bytes = mix(number as u64).to_be_bytes();
            let length = key_size.min(bytes.len());
            key[..length].copy_from_slice(&bytes[..length]);
        }
        Load { keys, key_size, value: vec![b'v'; value_size], batch, threads }
    }

    fn count(&self) -> usize {
        self.keys.len() / self.key_size
    }

    /// Runs `write` on the parts of the threads, all at once.
    fn run(&self, write: impl Fn(Keys<'_, '_>) -> Result<(), Failure> + Sync) -> TimeResult {
        let part = self.count().div_ceil(self.threads) * self.key_size;
        let (started, ran) = (Instant::now(), seconds_run());
        std::thread::scope(|scope| {
            let mut parts = self.keys.chunks(part);
            let first = parts.next().unwrap_or_default();
            let run = |part: &[u8]| write(&mut part.chunks_exact(self.key_size));
            let others: Vec<_> = parts.map(|part| scope.spawn(move || run(part))).collect();
            run(first)?;
            others.into_iter().try_for_each(|other| other.join().expect("no panic"))
        })?;
        Ok(Time { seconds: started.elapsed().as_secs_f64(), run_seconds: seconds_run() - ran })
    }

    /// As [`Self::run`], a batch of keys at a time.
    fn run_batches(
        &self,
        write: impl Fn(Keys<'_, '_>) -> Result<(), Failure> + Sync,
    ) -> TimeResult {
        self.run(|keys| {
            let mut keys = keys.peekable();
            while keys.peek().is_some() {
                write(&mut keys.by_ref().take(self.batch))?;
            }
            Ok(())
        })
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The times of all rounds, by contender.
fn measure(
    contenders: &[Contender],
    load: &Load,
    rounds: usize,
    parent: &Path,
) -> Result<Vec<Vec<Time>>, Failure> {
    let mut times = vec![vec![]; contenders.len()];
    for round in 0..rounds {
        for turn in 0..contenders.len() {
            let index = (round + turn) % contenders.len();
            let folder = tempfile::tempdir_in(parent)?;
            times[index].push((contenders[index].run)(folder.path(), load)?);
        }
    }
    Ok(times)
}

fn report(contenders: &[Contender], load: &Load, times: &[Vec<Time>]) {
    let count = load.count() as f64;
    let ours = &times[0];
    for (contender, times) in contenders.iter().zip(times) {
        let mut rates: Vec<f64> = times.iter().map(|time| count / time.seconds / 1e6).collect();
        rates.sort_by(f64::total_cmp);
        let times_of = |of: fn(&Time) -> f64| {
            median(ours.iter().zip(times).map(|(our, time)| of(time) / of(our)).collect())
        };
        println!(
            "  {:<18} {:>8.4} M/s ({:.4} .. {:.4}), {:>6.0} ns of CPU a put; the first is {:.2} times \
             as fast, {:.2} by CPU; {}",
            contender.name,
            median(rates.clone()),
            rates[0],
            rates[rates.len() - 1],
            median(times.iter().map(|time| time.run_seconds * 1e9).collect()) * load.threads as f64
                / count,
            times_of(|time| time.seconds),
            times_of(|time| time.run_seconds),
            contender.promise
        );
    }
}

fn parse_sizes(text: &str) -> Result<(usize, usize), Failure> {
    let (key, value) = text.split_once('/').ok_or("write sizes as KEY/VALUE, such as 16/100")?;
    let sizes = (key.parse()?, value.parse()?);
    if sizes.0 < 8 { Err("keys need 8 bytes to be told apart".into()) } else { Ok(sizes) }
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let part = arguments.part;
    let (keys, threads) = if part == Part::Sync { (20_000, 16) } else { (1_000_000, 1) };
    let mut contenders = match part {
        Part::Batches => contenders::batches(),
        Part::Interval => contenders::interval(),
        Part::Sync => contenders::sync(),
    };
    contenders.retain(|contender| {
        let is_named = arguments.only.iter().any(|name| contender.name.starts_with(name.as_str()));
        arguments.only.is_empty() || is_named
    });
    let sizes = match (&arguments.sizes[..], part) {
        ([], Part::Batches) => vec!["8/8".to_string(), "16/100".to_string()],
        ([], _) => vec!["16/100".to_string()],
        (sizes, _) => sizes.to_vec(),
    };
    let parent = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    for sizes in sizes {
        let count = arguments.keys.unwrap_or(keys);
        let threads = arguments.threads.unwrap_or(threads);
        let load = Load::new(count, parse_sizes(&sizes)?, arguments.batch, threads);
        let times = measure(&contenders, &load, arguments.rounds, &parent)?;
        println!("{count} puts of {sizes} bytes, {threads} threads, {} rounds:", arguments.rounds);
        report(&contenders, &load, &times);
    }
    Ok(())
}
