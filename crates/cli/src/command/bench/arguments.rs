//! The arguments of `everleaf bench`, and the settings that they mean.

use crate::arguments::{DomainArg, parse_size};
use crate::command::bench::{Designs, failure_of};
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use everleaf_bench::measure::redis::Server;
use everleaf_bench::measure::{Case, Length, Settings};
use everleaf_bench::{
    Arrivals, Distribution, IndexKind, Medium, Trace, Workload, flagship, presets,
};
use std::path::PathBuf;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  everleaf bench                                    every single operation, 1 M keys
  everleaf bench get insert --keys 10M
  everleaf bench get update --distribution uniform,zipfian --threads 1,2
  everleaf bench a b c d e f --index bytes --key-size 20 --value-size 100
  everleaf bench get scan --index bytes --value-size 8,100,1000 --scan-length 10,100
  everleaf bench write-0 write-50 write-100 --theta 0.5,0.8,0.99
  everleaf bench mix-4-16-1 tpcc-w1 tpcc-w4
  everleaf bench get a --rate 500k --burst 100      latencies when 500,000 a second arrive
  everleaf bench --trace monitor.txt --index bytes
  everleaf bench --redis localhost:6379 get update a --pipeline 16
  everleaf bench --redis localhost:6379 get --rate 50k --connections 10 --json
  everleaf bench get --pool /mnt/pmem/bench.pool --domain adr
  everleaf bench --preset targets --keys 1M --json
  everleaf-lab bench --preset flagship --rounds 2 -q > flagship.md

Workloads:
  load, load-sequential         all keys into an empty index, in random or ascending order
  get, get-absent, get-many     reads of keys that are there, that are not, a batch at a time
  scan                          runs of --scan-length pairs from random keys on
  update, update-many, put      new values, one at a time, a batch at a time; put is the call that
                                would also add the key
  insert, remove                new keys; keys taken once each
  a b c d e f                   the mixes of the YCSB: a (50 % reads, 50 % updates), b (95/5),
                                c (reads), d (95 % reads of the latest, 5 % inserts), e (95 %
                                scans, 5 % inserts), f (50 % reads, 50 % read-modify-writes);
                                with --upsert their updates are puts
  write-0 .. write-100          updates in this share of the operations, else reads
  mix-4-16-1                    four inserts, sixteen reads, one removal (FAST & FAIR)
  mix-quarters                  reads, inserts, updates, removals, a quarter each (RNTree)
  mix-R-I-U-D-S                 percent of reads, inserts, updates, removals and scans, 100 in all
  tpcc-w1 .. tpcc-w4            transactions of TPC-C on one index (FAST & FAIR); --keys is about
                                the number of its rows
  trace                         what --trace has

The pool is a new one and is removed afterwards. Unless a load is among the workloads, the keys are
loaded once before the first round; with it, each round starts with an empty pool, as do TPC-C and
a trace. Inserts add new keys, so the index grows; removals take each key once, and put them back
outside the clock. All operations are drawn before the clock starts.

A list in --keys, --key-size, --value-size or --scan-length is a sweep: a run, and a report, for
each. --threads, --distribution and --theta make more lines of one report.

With --rate, operations arrive by a schedule that is drawn beforehand (an open loop), whatever the
index does, and each latency counts from the moment when the operation was due.

With --redis, the same workloads are asked of a server that speaks the protocol of Redis: get by
GET and MGET, writes by SET, removals by DEL; scans need the RANGE of Everleaf's own server. The
keys are 16 hexadecimal digits (longer ones begin with \"user\"); they are loaded first and stay
there. Every request is timed, every reply checked; --threads are those of the client, and the index
and its pool are the server's affair.

A trace is a file of lines `get KEY`, `put KEY SIZE`, `del KEY`, `scan KEY COUNT`, or what the
command MONITOR of Redis prints; # begins a comment, \\xHH in a key is any byte. Keys that it reads
before it writes them are loaded beforehand; operations of one key are done in order, by one thread.

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
    /// Run the measurements of the project's targets, and compare
    #[arg(long, value_enum, conflicts_with_all = ["workloads", "index", "threads", "distribution"])]
    pub preset: Option<Preset>,
    /// The tree of 64-bit integers (u64), or the store of byte strings (bytes); with `everleaf-lab
    /// bench` also a design of the catalogue by its name, or all designs side by side (all)
    #[arg(long, value_name = "NAME", default_value = "u64")]
    pub index: String,
    /// Keys in the index, such as 500k or 10M (powers of 1000) [default: 1M]
    #[arg(long, value_name = "N,..", value_parser = parse_count, value_delimiter = ',')]
    pub keys: Vec<u64>,
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
    /// The skew of zipfian and latest, 0.5 to 0.99; each of a list is measured
    #[arg(long, value_name = "SKEW,..", value_delimiter = ',',
          default_values_t = [Distribution::THETA_DEFAULT])]
    pub theta: Vec<f64>,
    /// The part of the keys that self-similar prefers, 0.01 to 0.49
    #[arg(long, value_name = "PART", default_value_t = 0.2)]
    pub hot: f64,
    /// Bytes of a key (index bytes) [default: 16]
    #[arg(long, value_name = "SIZE,..", value_parser = parse_size, value_delimiter = ',')]
    pub key_size: Vec<u64>,
    /// Bytes of a value (index bytes) [default: 100]
    #[arg(long, value_name = "SIZE,..", value_parser = parse_size, value_delimiter = ',')]
    pub value_size: Vec<u64>,
    /// Where the pool is: `memory`, `temp` (a temporary file), or the path of a new file
    #[arg(long, value_name = "PLACE", default_value = "memory")]
    pub pool: PathBuf,
    /// What a write must reach to survive (persistence domain) [default: detected; in memory: process]
    #[arg(long, value_enum)]
    pub domain: Option<DomainArg>,
    /// Keys of a batch of get-many and update-many
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub batch: usize,
    /// Pairs of a scan; the most for those of e
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [100])]
    pub scan_length: Vec<u32>,
    /// Operations that arrive per second, all threads together, such as 200k (open loop)
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub rate: Option<u64>,
    /// How many of these operations arrive at the same moment
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rate")]
    pub burst: u32,
    /// Write the updates of the mixes by the call that would also add the key
    #[arg(long)]
    pub upsert: bool,
    /// Replay the operations in this file
    #[arg(long, value_name = "FILE", conflicts_with = "preset")]
    pub trace: Option<PathBuf>,
    /// Time one operation in this many by itself, for the latencies
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub sample_every: usize,
    /// The server to measure instead.
    #[command(flatten)]
    pub server: Box<ServerArgs>,
    /// The seed of the operations: the same seed, the same operations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A server, and how to talk to it.
#[derive(Args, Debug)]
pub struct ServerArgs {
    /// Measure the server at this address instead of an index
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["index", "preset", "trace", "pool"])]
    pub redis: Option<String>,
    /// Connections to the server
    #[arg(long, value_name = "N", default_value_t = 50, requires = "redis")]
    pub connections: usize,
    /// Requests in flight on each connection, unless a rate is given
    #[arg(long, value_name = "N", default_value_t = 1, requires = "redis")]
    pub pipeline: usize,
    /// The password of the server
    #[arg(long, requires = "redis")]
    pub password: Option<String>,
    /// Do not load the keys: they are there from an earlier run
    #[arg(long, requires = "redis")]
    pub no_load: bool,
}

/// A run that answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// 10 M keys of 8 bytes: cost, throughput, scaling to 2 threads, memory, and the verdicts
    Targets,
    /// The tree with hashed leaves beside the fastest designs, as a page (`everleaf-lab bench`)
    Flagship,
}

/// Which index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexArg {
    /// One.
    One(IndexKind),
    /// All designs of integer trees, one after the other.
    All,
}

/// The index of this name: one that every program has, or one of these designs.
pub fn index_of(name: &str, designs: Designs<'_>) -> Result<IndexArg, Failure> {
    if name == "all" && !designs.is_empty() {
        return Ok(IndexArg::All);
    }
    IndexKind::of_name(name, designs).map(IndexArg::One).ok_or_else(|| {
        let names: Vec<_> = designs.iter().map(|design| design.name).collect();
        Failure::usage(match names.as_slice() {
            [] => format!(
                "there is no index '{name}' here, only u64 and bytes: `everleaf-lab bench` has the \
                 published designs"
            ),
            names => format!(
                "there is no index '{name}': there is u64, bytes, all, and the designs {}",
                names.join(", ")
            ),
        })
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
    /// A fifth of the keys in four fifths of the operations, and of those again (with --hot 0.2)
    SelfSimilar,
}

impl BenchArgs {
    /// Whether no workload was asked for, so that all operations are measured.
    pub fn measures_everything(&self) -> bool {
        self.workloads.is_empty() && self.preset.is_none() && self.trace.is_none()
    }
}

/// The server to measure, if one is to be.
pub fn server_of(args: &BenchArgs) -> Option<Server> {
    let args = &args.server;
    args.redis.as_ref().map(|address| Server {
        address: address.clone(),
        password: args.password.clone(),
        connections: args.connections,
        depth: args.pipeline,
        is_loading: !args.no_load,
    })
}

/// The settings of every run that is asked for: one, or those of a sweep.
pub fn settings_of(args: &BenchArgs, index: IndexArg) -> Result<Vec<Settings>, Failure> {
    let base = base_of(args, index)?;
    let or = |list: &[u64], default: u64| match list {
        [] => vec![default],
        list => list.to_vec(),
    };
    let mut all = Vec::new();
    for keys in or(&args.keys, base.keys) {
        for key_size in or(&args.key_size, base.key_size as u64) {
            for value_size in or(&args.value_size, base.value_size as u64) {
                for scan_length in &args.scan_length {
                    all.push(Settings {
                        keys,
                        key_size: key_size as usize,
                        value_size: value_size as usize,
                        scan_length: *scan_length,
                        length: length_of(args, keys),
                        ..base.clone()
                    });
                }
            }
        }
    }
    Ok(all)
}

/// The settings but for what a sweep changes.
fn base_of(args: &BenchArgs, index: IndexArg) -> Result<Settings, Failure> {
    let base = match args.preset {
        Some(Preset::Targets) => presets::targets(presets::TARGET_KEYS),
        Some(Preset::Flagship) => flagship::settings(presets::TARGET_KEYS),
        None => Settings { cases: cases_of(args), ..Settings::default() },
    };
    let (index, key_size, value_size) = match index {
        _ if args.server.redis.is_some() => (IndexKind::Bytes, 16, 100),
        IndexArg::One(IndexKind::Bytes) => (IndexKind::Bytes, 16, 100),
        IndexArg::One(index) => (index, 8, 8),
        IndexArg::All => (IndexKind::U64, 8, 8),
    };
    let medium = match args.pool.to_str() {
        Some("memory") => Medium::Memory,
        Some("temp") => Medium::Temporary,
        _ => Medium::File(args.pool.clone()),
    };
    let arrivals = |rate: u64| Arrivals { per_second: rate as f64, burst: args.burst };
    let trace = match &args.trace {
        Some(path) => Some(Arc::new(Trace::read(path).map_err(failure_of)?)),
        None => None,
    };
    Ok(Settings {
        index,
        key_size,
        value_size,
        medium,
        domain: args.domain.map(Into::into),
        rounds: args.rounds,
        batch: args.batch,
        arrivals: args.rate.map(arrivals),
        upsert: args.upsert,
        trace,
        sample_every: args.sample_every,
        seed: args.seed,
        ..base
    })
}

fn length_of(args: &BenchArgs, keys: u64) -> Length {
    match (args.ops, args.seconds) {
        (Some(count), _) => Length::Operations(count),
        (None, Some(seconds)) => Length::Seconds(seconds),
        (None, None) if args.preset == Some(Preset::Targets) => presets::targets(keys).length,
        (None, None) if args.preset == Some(Preset::Flagship) => flagship::settings(keys).length,
        (None, None) => Length::Operations(keys.min(1_000_000)),
    }
}

/// Every workload with every distribution on every number of threads.
fn cases_of(args: &BenchArgs) -> Vec<Case> {
    let workloads = match (args.workloads.as_slice(), &args.trace) {
        ([], Some(_)) => vec![Workload::Trace],
        ([], None) if args.server.redis.is_some() => vec![Workload::Update, Workload::Get],
        ([], None) => SINGLE.to_vec(),
        (list, _) => list.to_vec(),
    };
    let mut cases = Vec::new();
    for workload in workloads {
        for distribution in distributions_of(workload, args) {
            let case = |threads: &usize| Case { workload, distribution, threads: *threads };
            cases.extend(args.threads.iter().map(case));
        }
    }
    cases
}

/// What is measured if nothing is asked for: every single operation.
const SINGLE: [Workload; 9] = [
    Workload::Load,
    Workload::Get,
    Workload::GetAbsent,
    Workload::GetMany,
    Workload::Scan,
    Workload::Update,
    Workload::Put,
    Workload::Insert,
    Workload::Remove,
];

fn distributions_of(workload: Workload, args: &BenchArgs) -> Vec<Distribution> {
    if !workload.has_distribution() {
        return vec![Distribution::Uniform];
    }
    let mut all = Vec::new();
    for theta in &args.theta {
        let named = |name: &DistributionArg| distribution_of(*name, *theta, args.hot);
        match args.distribution.as_slice() {
            [] => all.push(workload.default_distribution(*theta)),
            names => all.extend(names.iter().map(named)),
        }
    }
    // Without a skew, all skews are the same.
    let mut distinct = Vec::new();
    for distribution in all {
        if !distinct.contains(&distribution) {
            distinct.push(distribution);
        }
    }
    distinct
}

fn distribution_of(name: DistributionArg, theta: f64, hot: f64) -> Distribution {
    match name {
        DistributionArg::Uniform => Distribution::Uniform,
        DistributionArg::Zipfian => Distribution::Zipfian { theta },
        DistributionArg::Latest => Distribution::Latest { theta },
        DistributionArg::SelfSimilar => Distribution::SelfSimilar { hot },
    }
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

    fn sweep(line: &str) -> Vec<Settings> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        let args = Line::try_parse_from(words).unwrap().args;
        settings_of(&args, index_of(&args.index, &[]).unwrap()).unwrap()
    }

    fn settings(line: &str) -> Settings {
        let mut all = sweep(line);
        assert_eq!(all.len(), 1);
        all.remove(0)
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
    fn lists_of_sizes_are_a_sweep_and_lists_of_skews_more_cases() {
        let all = sweep("get --index bytes --keys 1k,2k --value-size 8,100 --scan-length 1,10,100");
        assert_eq!(all.len(), 12);
        let last = &all[11];
        assert_eq!(
            (last.keys, last.key_size, last.value_size, last.scan_length),
            (2000, 16, 100, 100)
        );
        assert_eq!(last.length, Length::Operations(2000));
        assert_eq!(settings("a get --theta 0.5,0.99").cases.len(), 3, "get is uniform");
        assert_eq!(settings("get --distribution zipfian --theta 0.5,0.9,0.99").cases.len(), 3);
    }

    #[test]
    fn without_workloads_every_single_operation_is_measured() {
        let found = settings("");
        assert!(found.cases.iter().all(|case| !case.workload.is_mix()));
        assert_eq!(found.cases.len(), SINGLE.len());
        assert!(found.arrivals.is_none() && !found.upsert);
        let open = settings("get --rate 20k --burst 10 --upsert");
        assert_eq!(open.arrivals, Some(Arrivals { per_second: 20_000.0, burst: 10 }));
        assert!(open.upsert);
    }
}
