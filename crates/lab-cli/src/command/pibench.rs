//! `everleaf-lab pibench`: our bench by the options of PiBench, so that figures can be put side by side.

use clap::{Args, Parser, ValueEnum};
use everleaf_bench::Shares;
use everleaf_cli::command::bench::{self, BenchArgs};
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::{Output, remark};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  everleaf-lab pibench --index fptree -n 1000000 -p 1000000 -r 1
  everleaf-lab pibench --index all -p 5000000 -t 2 -r 0.5 -u 0.5 --distribution SELFSIMILAR --skew 0.2
  everleaf-lab pibench --index bytes -k 16 -v 100 -r 0 -s 1 --scan_size 50
  everleaf-lab pibench --index nbtree --pool_path /mnt/pmem/bench.pool -m time --seconds 10 --json

The options have PiBench's names, meanings and defaults, but for the sizes, which are those of the
designs (8 and 8). The keys are loaded first, in random order. What is measured, and how, is
`everleaf-lab bench`: rounds, medians, every result checked. PiBench itself can use the designs too,
by the wrapper in crates/lab-capi/pibench.

Some options of PiBench are taken so that its command lines run here, and change nothing, which is
said: --pcm, --bulk_load, --pool_size, --sampling_ms. Others are refused where they would: --skip_load,
--key_prefix.";

/// Measure by the options of PiBench
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PibenchArgs {
    /// The design, `all`, or the store (bytes)
    #[arg(long, value_name = "NAME", default_value = "u64")]
    index: String,
    /// Keys that are loaded
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1_000_000)]
    records: u64,
    /// Operations of a round
    #[arg(short = 'p', long, value_name = "N", default_value_t = 1_000_000)]
    operations: u64,
    /// Threads
    #[arg(short = 't', long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Bytes of a key
    #[arg(short = 'k', long = "key_size", value_name = "SIZE", default_value_t = 8)]
    key_size: u64,
    /// Bytes of a value
    #[arg(short = 'v', long = "value_size", value_name = "SIZE", default_value_t = 8)]
    value_size: u64,
    /// The part of the operations that are reads
    #[arg(short = 'r', long = "read_ratio", value_name = "PART", default_value_t = 1.0)]
    read_ratio: f64,
    /// The part that are inserts
    #[arg(short = 'i', long = "insert_ratio", value_name = "PART", default_value_t = 0.0)]
    insert_ratio: f64,
    /// The part that are updates
    #[arg(short = 'u', long = "update_ratio", value_name = "PART", default_value_t = 0.0)]
    update_ratio: f64,
    /// The part that are removals
    #[arg(short = 'd', long = "remove_ratio", value_name = "PART", default_value_t = 0.0)]
    remove_ratio: f64,
    /// The part that are scans
    #[arg(short = 's', long = "scan_ratio", value_name = "PART", default_value_t = 0.0)]
    scan_ratio: f64,
    /// Pairs of a scan
    #[arg(long = "scan_size", value_name = "N", default_value_t = 100)]
    scan_size: u32,
    /// How keys are chosen
    #[arg(long, value_enum, ignore_case = true, default_value = "UNIFORM")]
    distribution: Chosen,
    /// Of SELFSIMILAR the part of the keys that is preferred; of ZIPFIAN the exponent, 0.5 to 0.99
    #[arg(long, value_name = "SKEW", default_value_t = 0.2)]
    skew: f64,
    /// The seed of the operations
    #[arg(long, default_value_t = 1729)]
    seed: u64,
    /// The pool's file, which must not exist [default: memory]
    #[arg(long = "pool_path", value_name = "FILE")]
    pool_path: Option<PathBuf>,
    /// The part of the operations that are timed one by one
    #[arg(long = "latency_sampling", value_name = "PART", default_value_t = 0.0)]
    latency_sampling: f64,
    /// What ends a round: a number of operations, or the time
    #[arg(short = 'm', long, value_enum, default_value = "operation")]
    mode: Mode,
    /// With mode `time`: the length of a round
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    seconds: f64,
    /// Counters of the processor's memory: they are not read
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pcm: Option<bool>,
    /// Bytes of the pool: it is as large as the keys need
    #[arg(long = "pool_size", value_name = "SIZE")]
    pool_size: Option<u64>,
    /// Load in bulk: the keys are put one by one
    #[arg(long = "bulk_load", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    bulk_load: Option<bool>,
    /// Milliseconds between samples of the throughput: rounds are measured as a whole
    #[arg(long = "sampling_ms", value_name = "MS")]
    sampling_ms: Option<u64>,
    /// Do not load: refused, since each round has an index of its own
    #[arg(long = "skip_load", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    skip_load: Option<bool>,
    /// What each key begins with: refused unless empty
    #[arg(short = 'f', long = "key_prefix", value_name = "TEXT", default_value = "")]
    key_prefix: String,
    /// Rounds; the median counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Chosen {
    Uniform,
    #[value(name = "SELFSIMILAR")]
    SelfSimilar,
    Zipfian,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Operation,
    Time,
}

/// The arguments of `bench`, from words.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    bench: BenchArgs,
}

impl PibenchArgs {
    /// The mix, in percent.
    fn shares(&self) -> Result<Shares, Failure> {
        let parts = [
            self.read_ratio,
            self.insert_ratio,
            self.update_ratio,
            self.remove_ratio,
            self.scan_ratio,
        ];
        let percents = parts.map(|part| part * 100.0);
        let is_whole = |percent: &f64| {
            (0.0..=100.0).contains(percent) && (percent - percent.round()).abs() < 1e-6
        };
        if percents.iter().all(is_whole) {
            let [get, insert, update, remove, scan] = percents.map(|percent| percent.round() as u8);
            if let Some(shares) = Shares::new(get, insert, update, remove, scan) {
                return Ok(shares);
            }
        }
        Err(Failure::usage(
            "the ratios must be 1 together, each in steps of 0.01: with -u 0.5 also give -r 0.5, since \
             the reads are all if nothing is said",
        ))
    }

    /// What was asked for and changes nothing here.
    fn without_effect(&self) -> Vec<&'static str> {
        [
            (self.pcm == Some(true), "--pcm: no counters of the processor's memory are read"),
            (self.bulk_load == Some(true), "--bulk_load: the keys are put one by one"),
            (self.pool_size.is_some(), "--pool_size: the pool is as large as the keys need"),
            (self.sampling_ms.is_some(), "--sampling_ms: rounds are measured as a whole"),
        ]
        .into_iter()
        .filter_map(|(is_asked, text)| is_asked.then_some(text))
        .collect()
    }

    /// Refuses what would measure something else than PiBench does.
    fn refuse_others(&self) -> Result<(), Failure> {
        if self.skip_load == Some(true) {
            return Err(Failure::usage(
                "--skip_load: each round has an index of its own, in which nothing is unless it is loaded",
            ));
        }
        if !self.key_prefix.is_empty() {
            return Err(Failure::usage(
                "--key_prefix: keys have none here; give the whole length with --index bytes -k",
            ));
        }
        Ok(())
    }

    /// What `bench` is to do.
    fn words(&self) -> Result<Vec<String>, Failure> {
        self.refuse_others()?;
        let mut words = vec!["bench".to_string(), self.shares()?.name().to_string()];
        let mut add = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        add("index", self.index.clone());
        add("keys", self.records.to_string());
        add("threads", self.threads.to_string());
        add("scan-length", self.scan_size.to_string());
        add("seed", self.seed.to_string());
        add("rounds", self.rounds.to_string());
        match self.mode {
            Mode::Operation => add("ops", self.operations.to_string()),
            Mode::Time => add("seconds", self.seconds.to_string()),
        }
        match self.distribution {
            Chosen::Uniform => add("distribution", "uniform".to_string()),
            Chosen::SelfSimilar => {
                add("distribution", "self-similar".to_string());
                add("hot", self.skew.to_string());
            }
            Chosen::Zipfian => {
                add("distribution", "zipfian".to_string());
                add("theta", self.skew.to_string());
            }
        }
        if self.index == "bytes" {
            add("key-size", self.key_size.to_string());
            add("value-size", self.value_size.to_string());
        } else if (self.key_size, self.value_size) != (8, 8) {
            let what =
                "the designs hold keys and values of 8 bytes: other sizes are for --index bytes";
            return Err(Failure::usage(what));
        }
        if !(0.0..=1.0).contains(&self.latency_sampling) {
            return Err(Failure::usage("--latency_sampling is a part of the operations, 0 to 1"));
        }
        if self.latency_sampling > 0.0 {
            add("sample-every", format!("{:.0}", (1.0 / self.latency_sampling).round()));
        }
        if let Some(path) = &self.pool_path {
            let path = path.to_str().ok_or_else(|| Failure::usage("--pool_path is not UTF-8"))?;
            add("pool", path.to_string());
        }
        Ok(words)
    }
}

/// Measures and prints.
pub fn run(args: &PibenchArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let line = Line::try_parse_from(args.words()?)
        .map_err(|error| Failure::usage(error.to_string().trim_end().to_string()))?;
    args.without_effect().into_iter().for_each(remark);
    bench::run(line.bench, &everleaf_lab::designs(), global, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Asked {
        #[command(flatten)]
        pibench: PibenchArgs,
    }

    fn words(line: &str) -> Result<String, String> {
        let asked =
            Asked::try_parse_from(std::iter::once("pibench").chain(line.split_whitespace()));
        let words = asked.map_err(|error| error.to_string())?.pibench.words();
        let words = words.map_err(|failure| failure.message)?;
        Line::try_parse_from(&words).map_err(|error| error.to_string())?;
        Ok(words.join(" "))
    }

    #[test]
    fn options_of_pibench_are_options_of_the_bench() {
        let found = words("").unwrap();
        assert!(found.starts_with("bench mix-100-0-0-0-0 --index u64 --keys 1000000"), "{found}");
        assert!(
            found.contains("--seed 1729") && found.contains("--distribution uniform"),
            "{found}"
        );
        let found =
            words("-n 5000 -t 4 -r 0.4 -i 0.1 -u 0.29 -d 0.01 -s 0.2 --index fptree").unwrap();
        assert!(
            found.contains("mix-40-10-29-1-20 --index fptree --keys 5000 --threads 4"),
            "{found}"
        );
        let found = words("--distribution SELFSIMILAR --skew 0.1 -m time --seconds 2").unwrap();
        assert!(found.contains("--seconds 2 --distribution self-similar --hot 0.1"), "{found}");
        let found = words("--index bytes -k 20 -v 50 --latency_sampling 0.1").unwrap();
        assert!(found.ends_with("--key-size 20 --value-size 50 --sample-every 10"), "{found}");
    }

    /// A command line of PiBench was refused for options that do not matter here.
    #[test]
    fn options_without_effect_are_taken_and_told() {
        let asked = |line: &str| {
            let line = std::iter::once("pibench").chain(line.split_whitespace());
            Asked::try_parse_from(line).map_err(|error| error.to_string()).unwrap().pibench
        };
        let all = "--pcm --pool_size=17179869184 --bulk_load=true --sampling_ms=500 -f= --skip_load=false";
        let told = asked(all).without_effect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert_eq!(words(all), words(""), "they change nothing");
        assert!(asked("--pcm=false --bulk_load=false").without_effect().is_empty());
        assert!(words("--skip_load").unwrap_err().contains("index of its own"));
        assert!(words("--key_prefix user").unwrap_err().contains("--index bytes -k"));
    }

    #[test]
    fn what_the_bench_cannot_do_is_told() {
        assert!(words("-u 0.5").unwrap_err().contains("must be 1 together"));
        assert!(words("-r 0.995 -u 0.005").unwrap_err().contains("steps of 0.01"));
        assert!(words("-r -1 -u 2").is_err());
        assert!(words("-k 16").unwrap_err().contains("--index bytes"));
        assert!(words("--latency_sampling 2").unwrap_err().contains("0 to 1"));
        assert!(words("--distribution NORMAL").is_err());
    }
}
