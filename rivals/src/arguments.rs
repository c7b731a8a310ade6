//! The command line.

use std::path::PathBuf;

use clap::Parser;
use everleaf_bench::Workload;

const EXAMPLES: &str = "\
Examples:
  everleaf-rivals                                        1 M keys, 8 B + 8 B and 16 B + 100 B
  everleaf-rivals --rivals lmdb,redb --workloads get,scan
  everleaf-rivals --keys 1m,10m --rounds 3,1 --json out.json
  everleaf-rivals --json out.json --page rivals.md --measure-nothing
  everleaf-rivals --keys 100k --seconds 0.2 --rounds 3   a quick look

Every rival, and Everleaf, is measured in each round on a new index that it loads first, in an order
that is drawn anew for each round. The same driver asks all of them the same questions, and checks
the answers. What each promises about a crash is printed with the figures: it is the nearest to
Everleaf's promise (a write that returned survives the end of the process) that the rival has.

A run that is cut goes on with the same command: what the file of --json has, measured in the same
way by the same program on the same machine, is not measured again.";

/// Measure Everleaf beside other indexes and stores, in one run
#[derive(Parser, Debug)]
#[command(name = "everleaf-rivals", version, after_help = EXAMPLES)]
pub struct Arguments {
    /// Keys loaded, such as 500k or 10m (powers of 1000); each of a list is measured
    #[arg(long, value_name = "N,..", default_value = "1m", value_delimiter = ',',
          value_parser = parse_count)]
    pub keys: Vec<u64>,
    /// Bytes of keys and values, as KEY/VALUE; each of a list is measured
    #[arg(long, value_name = "K/V,..", default_value = "8/8,16/100", value_delimiter = ',',
          value_parser = parse_sizes)]
    pub sizes: Vec<Sizes>,
    /// Threads; each number of a list is measured
    #[arg(long, value_name = "N,..", default_value = "1,2", value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// Threads of the loads, if not the same
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    pub load_threads: Vec<usize>,
    /// What is measured beside Everleaf [default: all]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub rivals: Vec<String>,
    /// What is measured, by the names of `everleaf bench`
    #[arg(
        long,
        value_name = "NAME,..",
        value_delimiter = ',',
        default_value = "load,get,get-absent,scan,update,insert,remove,a"
    )]
    pub workloads: Vec<Workload>,
    /// Rounds; the median counts. Each begins with a new index if a load is measured; otherwise all are
    /// made on one. Of a list, the first is for the first of --keys, and so on; the last
    /// is for all that follow
    #[arg(long, value_name = "N,..", default_value = "3", value_delimiter = ',')]
    pub rounds: Vec<usize>,
    /// About how long each round of each workload is
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub seconds: f64,
    /// Operations of each workload and round, instead
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub ops: Option<u64>,
    /// Pairs of a scan
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub scan_length: u32,
    /// Where the files of the stores are; they are removed [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Also write the reports to this file, after each number of keys and size of pairs; what it has
    /// already is left out
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Measure again what the file has
    #[arg(long, requires = "json")]
    pub again: bool,
    /// Make a page in Markdown of what the file of --json has in the end
    #[arg(long, value_name = "FILE", requires = "json")]
    pub page: Option<PathBuf>,
    /// Only make the page
    #[arg(long, requires = "page")]
    pub measure_nothing: bool,
    /// The seed of the operations, and of the order of the rivals
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Bytes of the memory that is walked to time a dependent miss
    #[arg(long, value_name = "BYTES", hide = true,
          default_value_t = everleaf_bench::calibrate::REGION_SIZE_BYTES)]
    pub miss_region: usize,
}

impl Arguments {
    /// The rounds for the number of keys at this place of the list.
    pub fn rounds_at(&self, place: usize) -> usize {
        let last = self.rounds.len().saturating_sub(1);
        self.rounds.get(place.min(last)).copied().unwrap_or(1)
    }

    /// The command that measures the same, without the names of files.
    pub fn shown(&self) -> String {
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(",");
        let mut text = "cargo run --release --manifest-path rivals/Cargo.toml".to_owned();
        if cfg!(feature = "rocksdb") {
            text.push_str(" --features rocksdb");
        }
        let sizes = &mut self.sizes.iter().map(|sizes| format!("{}/{}", sizes.key, sizes.value));
        text.push_str(&format!(
            " -- --keys {} --sizes {} --threads {} --rounds {} --workloads {} --seed {}",
            list(&mut self.keys.iter().map(u64::to_string)),
            list(sizes),
            list(&mut self.threads.iter().map(usize::to_string)),
            list(&mut self.rounds.iter().map(usize::to_string)),
            list(&mut self.workloads.iter().map(|one| one.name().to_owned())),
            self.seed,
        ));
        match self.ops {
            Some(ops) => text.push_str(&format!(" --ops {ops}")),
            None => text.push_str(&format!(" --seconds {}", self.seconds)),
        }
        if !self.load_threads.is_empty() {
            let threads = list(&mut self.load_threads.iter().map(usize::to_string));
            text.push_str(&format!(" --load-threads {threads}"));
        }
        if !self.rivals.is_empty() {
            text.push_str(&format!(" --rivals {}", self.rivals.join(",")));
        }
        text + " --json out.json"
    }
}

/// Bytes of a key and of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub key: usize,
    pub value: usize,
}

fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let wrong = || "write the bytes of a key and of a value, such as 16/100".to_owned();
    let (key, value) = text.split_once('/').ok_or_else(wrong)?;
    let number = |text: &str| text.parse().map_err(|_| wrong());
    Ok(Sizes { key: number(key)?, value: number(value)? })
}

fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || "write a whole number, or one with k, m or g, such as 10m".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
        let arguments = Arguments::try_parse_from(["everleaf-rivals"]).unwrap();
        assert_eq!(arguments.keys, [1_000_000]);
        assert_eq!(arguments.sizes[1], Sizes { key: 16, value: 100 });
        assert_eq!(arguments.workloads.last(), Some(&Workload::YcsbA));
        assert_eq!([0, 1].map(|place| arguments.rounds_at(place)), [3, 3]);
    }

    #[test]
    fn the_command_measures_the_same_again() {
        let words = ["rivals", "--keys", "1k,2k,3k", "--rounds", "3,1", "--seconds", "0.2"];
        let arguments = Arguments::try_parse_from(words).unwrap();
        assert_eq!([0, 1, 2].map(|place| arguments.rounds_at(place)), [3, 1, 1]);
        let command = arguments.shown();
        let words = command.split_once(" -- ").unwrap().1.split(' ');
        let again = Arguments::try_parse_from(std::iter::once("rivals").chain(words)).unwrap();
        assert_eq!(again.shown(), command);
        assert_eq!((again.keys, again.sizes), (arguments.keys, arguments.sizes));
    }

    #[test]
    fn sizes_and_counts_are_read_or_refused() {
        assert_eq!(parse_count("10m"), Ok(10_000_000));
        assert!(["", "m", "1x", "-1"].iter().all(|text| parse_count(text).is_err()));
        assert_eq!(parse_sizes("8/8"), Ok(Sizes { key: 8, value: 8 }));
        assert!(["8", "8/", "a/b"].iter().all(|text| parse_sizes(text).is_err()));
    }
}
