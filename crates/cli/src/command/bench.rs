//! `everleaf bench`: what the operations cost on this machine, from the laboratory crate.

use crate::arguments::{DomainArg, parse_size};
use crate::cli::Global;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, code_of_store};
use crate::output::Output;
use clap::{Args, ValueEnum};
use everleaf_lab::bench::{self, Case, Length, Progress, Settings};
use everleaf_lab::{Distribution, IndexKind, LabError, Medium, Workload, presets, table};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  everleaf bench                                    every single operation, 1 M keys
  everleaf bench get insert --keys 10M
  everleaf bench get update --distribution uniform,zipfian --threads 1,2
  everleaf bench a b c d e f --index bytes --key-size 20 --value-size 100
  everleaf bench get insert scan --index fast-fair
  everleaf bench get insert update remove scan --index all
  everleaf bench get --pool /mnt/pmem/bench.pool --domain line
  everleaf bench --preset targets --keys 1M --json

Workloads: load, get, get-absent, get-many, scan, update, insert, remove, and the mixes of the
YCSB: a (50 % reads, 50 % updates), b (95/5), c (reads), d (95 % reads of the latest, 5 %
inserts), e (95 % scans, 5 % inserts), f (50 % reads, 50 % read-modify-writes).

The pool is a new one and is removed afterwards. Unless `load` is among the workloads, the keys are
loaded once before the first round; with it, each round starts with an empty pool. Inserts add new
keys, so the index grows; removals take each key once, and put them back outside the clock.

The unit dm is one dependent miss: the time of a random read of ordinary memory that has to wait
for the one before. It is measured before and after every workload of every round, so that figures
of different machines, and of a busy machine, can be compared.";

/// Measure what operations cost on this machine
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// What to measure, in this order [default: every single operation]
    #[arg(value_name = "WORKLOAD")]
    pub workloads: Vec<Workload>,
    /// Measure what the targets of the project need, and compare
    #[arg(long, value_enum, conflicts_with_all = ["workloads", "index", "threads", "distribution"])]
    pub preset: Option<Preset>,
    /// The tree of 64-bit integers (u64), the store of byte strings (bytes), a design of the
    /// catalogue by its name, or all designs side by side (all)
    #[arg(long, value_name = "NAME", value_parser = parse_index, default_value = "u64")]
    pub index: IndexArg,
    /// Keys in the index, such as 500k or 10M (powers of 1000) [default: 1M]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub keys: Option<u64>,
    /// Operations of each workload and round [default: 1M, or the keys if they are fewer]
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with = "seconds")]
    pub ops: Option<u64>,
    /// Make each round of each workload about this long instead
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Rounds; the median counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: usize,
    /// Threads; each number of a list is measured, and compared with 1
    #[arg(long, value_name = "N,..", default_value = "1", value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// How keys are chosen; each of a list is measured [default: uniform, or as the YCSB says]
    #[arg(long, value_enum, value_name = "NAME,..", value_delimiter = ',')]
    pub distribution: Vec<DistributionArg>,
    /// The skew of zipfian and latest, 0.5 to 0.99
    #[arg(long, default_value_t = Distribution::THETA_DEFAULT)]
    pub theta: f64,
    /// Bytes of a key (index bytes) [default: 16]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub key_size: Option<u64>,
    /// Bytes of a value (index bytes) [default: 100]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub value_size: Option<u64>,
    /// Where the pool is: `memory`, `temp` (a temporary file), or the path of a new file
    #[arg(long, value_name = "PLACE", default_value = "memory")]
    pub pool: PathBuf,
    /// When a store counts as durable; detected if not given (memory: process)
    #[arg(long, value_enum)]
    pub domain: Option<DomainArg>,
    /// Keys of a batch of get-many
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub batch: usize,
    /// Pairs of a scan; the most for those of e
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub scan_length: u32,
    /// Time one operation in this many by itself, for the latencies
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub sample_every: usize,
    /// The seed of the operations: the same seed, the same operations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A run that answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// 10 M keys of 8 bytes: cost, throughput, scaling to 2 threads, memory, and the verdicts
    Targets,
}

/// Which index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexArg {
    /// One.
    One(IndexKind),
    /// All designs of integer trees, one after the other.
    All,
}

fn parse_index(name: &str) -> Result<IndexArg, String> {
    if name == "all" {
        return Ok(IndexArg::All);
    }
    IndexKind::of_name(name).map(IndexArg::One).ok_or_else(|| {
        let names: Vec<_> = IndexKind::designs().into_iter().map(IndexKind::name).collect();
        format!("there is u64, bytes, all, and the designs {}", names.join(", "))
    })
}

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DistributionArg {
    /// All alike
    Uniform,
    /// A few very often, scattered over the keys
    #[value(alias = "zipf")]
    Zipfian,
    /// The newest most often
    Latest,
}

/// Measures and prints.
pub fn run(args: BenchArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let settings = settings_of(&args);
    if args.index == IndexArg::All {
        return run_all(&settings, global, out);
    }
    let bar = progress_bar(global.wants_progress());
    let mut show = |progress: Progress<'_>| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        bar.set_message(progress.what.to_owned());
    };
    let report = bench::run(&settings, &mut show);
    bar.finish_and_clear();
    let report = report.map_err(failure_of)?;
    let verdicts = args.preset.map(|Preset::Targets| presets::judge(&report));
    if global.json {
        let mut object = json!(report);
        if let Some(verdicts) = verdicts {
            object["verdicts"] = json!(verdicts);
        }
        return out.json(&object);
    }
    out.bytes(table::render(&report).as_bytes())?;
    if let Some(verdicts) = verdicts {
        out.line("")?;
        out.bytes(presets::render(&verdicts).as_bytes())?;
    }
    Ok(())
}

/// Measures every design and prints them side by side.
fn run_all(settings: &Settings, global: Global, out: &mut Output) -> Result<(), Failure> {
    let bar = progress_bar(global.wants_progress());
    let mut reports = Vec::new();
    for index in IndexKind::designs() {
        let mut show = |progress: Progress<'_>| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            bar.set_message(format!("{}: {}", index.name(), progress.what));
        };
        let settings = Settings { index, ..settings.clone() };
        reports.push(bench::run(&settings, &mut show).map_err(failure_of)?);
    }
    bar.finish_and_clear();
    if global.json {
        return out.json(&json!(reports));
    }
    out.bytes(table::compare(&reports).as_bytes())
}

fn settings_of(args: &BenchArgs) -> Settings {
    let is_preset = args.preset.is_some();
    let keys = args.keys.unwrap_or(if is_preset { presets::TARGET_KEYS } else { 1_000_000 });
    let base = match args.preset {
        Some(Preset::Targets) => presets::targets(keys),
        None => Settings { keys, cases: cases_of(args), ..Settings::default() },
    };
    let (index, key_size, value_size) = match args.index {
        IndexArg::One(IndexKind::Bytes) => (IndexKind::Bytes, 16, 100),
        IndexArg::One(index) => (index, 8, 8),
        IndexArg::All => (IndexKind::U64, 8, 8),
    };
    let length = match (args.ops, args.seconds) {
        (Some(count), _) => Length::Operations(count),
        (None, Some(seconds)) => Length::Seconds(seconds),
        (None, None) if is_preset => base.length,
        (None, None) => Length::Operations(keys.min(1_000_000)),
    };
    let medium = match args.pool.to_str() {
        Some("memory") => Medium::Memory,
        Some("temp") => Medium::Temporary,
        _ => Medium::File(args.pool.clone()),
    };
    Settings {
        index,
        key_size: args.key_size.map_or(key_size, |size| size as usize),
        value_size: args.value_size.map_or(value_size, |size| size as usize),
        medium,
        domain: args.domain.map(Into::into),
        rounds: args.rounds,
        length,
        batch: args.batch,
        scan_length: args.scan_length,
        sample_every: args.sample_every,
        seed: args.seed,
        ..base
    }
}

/// Every workload with every distribution on every number of threads.
fn cases_of(args: &BenchArgs) -> Vec<Case> {
    let single = || Workload::ALL.into_iter().filter(|workload| !workload.is_mix()).collect();
    let workloads: Vec<_> =
        if args.workloads.is_empty() { single() } else { args.workloads.clone() };
    let theta = args.theta;
    let mut cases = Vec::new();
    for workload in workloads {
        let chosen: Vec<_> = match args.distribution.as_slice() {
            [] => vec![workload.default_distribution(theta)],
            _ if workload.has_fresh_keys() => vec![Distribution::Uniform],
            many => many.iter().map(|one| distribution_of(*one, theta)).collect(),
        };
        for distribution in chosen {
            let case = |threads: &usize| Case { workload, distribution, threads: *threads };
            cases.extend(args.threads.iter().map(case));
        }
    }
    cases
}

fn distribution_of(name: DistributionArg, theta: f64) -> Distribution {
    match name {
        DistributionArg::Uniform => Distribution::Uniform,
        DistributionArg::Zipfian => Distribution::Zipfian { theta },
        DistributionArg::Latest => Distribution::Latest { theta },
    }
}

/// A bar over the measurements; hidden unless `enabled`.
fn progress_bar(enabled: bool) -> ProgressBar {
    if !enabled {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}")
        .expect("the template is constant and tested")
        .progress_chars("=> ");
    ProgressBar::new(0).with_style(style)
}

/// An error of the laboratory as a failure of the program.
pub fn failure_of(error: LabError) -> Failure {
    let code = match &error {
        LabError::Settings(_) => ExitCode::Usage,
        LabError::Store(error) => code_of_store(error),
        LabError::Index(error) if error.is_full() => ExitCode::Full,
        LabError::Index(_) => ExitCode::Pool,
        LabError::Wrong(_) => ExitCode::NotFound,
        _ => ExitCode::Io,
    };
    Failure::new(code, error.to_string())
}

/// A count such as `5000`, `500k`, `10M`, `1G`; the units are powers of 1000.
fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || "write a whole number, or one with k, M or G, such as 10M".to_string();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let factor = match &text[digits..] {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn settings(line: &str) -> Settings {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        settings_of(&Line::try_parse_from(words).unwrap().args)
    }

    #[test]
    fn counts_have_decimal_units() {
        assert_eq!(parse_count("12"), Ok(12));
        assert_eq!(parse_count("500k"), Ok(500_000));
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        for wrong in ["", "M", "1.5M", "10X", "-1", "99999999999999G"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_are_multiplied_but_for_fresh_keys() {
        let found = settings("get insert a --distribution uniform,zipf --threads 1,2");
        let count = |workload| found.cases.iter().filter(|case| case.workload == workload).count();
        assert_eq!([Workload::Get, Workload::Insert, Workload::YcsbA].map(count), [4, 2, 4]);
        let plain = settings("a d get");
        let skewed = Distribution::Zipfian { theta: 0.99 };
        let latest = Distribution::Latest { theta: 0.99 };
        let chosen: Vec<_> = plain.cases.iter().map(|case| case.distribution).collect();
        assert_eq!(chosen, [skewed, latest, Distribution::Uniform]);
    }

    #[test]
    fn a_preset_can_be_scaled_down() {
        let found = settings("--preset targets --keys 50k --rounds 2");
        assert_eq!((found.keys, found.rounds), (50_000, 2));
        assert_eq!(found.length, Length::Operations(5_000));
        assert_eq!(settings("--preset targets").keys, 10_000_000);
    }

    #[test]
    fn the_bar_is_valid() {
        assert!(progress_bar(true).length().is_some());
    }
}
