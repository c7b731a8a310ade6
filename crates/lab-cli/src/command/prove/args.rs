//! The arguments of `prove`, and the structures and planted bugs that they name.

use clap::{Args, ValueEnum};
use everleaf_cli::failure::Failure;
use everleaf_prove::case::structure::Structure;
use everleaf_prove::hunt::mutants::{Mutant, named};
use everleaf_prove::machine::configure::Fixed;
use everleaf_prove::search::campaign::Budget;
use everleaf_prove::{Domain, MemoryModel};
use everleaf_prove_designs::structures::{STRUCTURES, find};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  everleaf-lab prove                                  everything, five seconds each
  everleaf-lab prove nbtree                           one structure, for two minutes
  everleaf-lab prove nbtree --budget 1h --seed 7
  everleaf-lab prove nbtree --budget 200000           this many schedules, on any machine
  everleaf-lab prove nbtree --domain adr --memory tso --out failure.json
  everleaf-lab prove --replay failure.json            the failed schedule again, step by step
  everleaf-lab prove --list                           what there is to prove
  everleaf-lab prove nbtree --mutant nbtree.no_pending  plant a bug, and see it found
  everleaf-lab prove mutants                          plant every bug, one after the other
  everleaf-lab prove mutants --budget 25s             the same by the search for what nobody knows
  everleaf-lab prove rntree --faults                  a fault in every access in turn, ten seconds each
  everleaf-lab prove rntree --faults=40 --budget 5s   forty of them, evenly spread
  everleaf-lab prove nbtree --faults --at recover.rs  those of one file
  everleaf-lab prove rntree --faults --page docs/results/faults.md  and keep what comes of it
  everleaf-lab prove ablate                           switch off every flush and drain in turn

The threads of small programs run on a simulated machine: in every order with few preemptions, then
in orders that chance gives. Wherever it can matter the power is cut; what a crash could leave is
recovered and judged. The same seed searches the same programs and schedules.

With --faults, the places in the source where the structure stores, flushes, drains, compares and
loads are listed; at each in turn the access is left out (skip), done without comparing (blind), done
after the next store (late) or answered with what was seen before (stale), and the plain search looks
for a program that misses it. The table says which. What none can miss is argued in
crates/prove/equivalent.txt: an argument for what is not there is refused, and one whose access is
missed after all is reported.

Ends with 8 if something was found (with --faults and `mutants`: if something was not); what to do
next is printed. A failure file repeats with the version that wrote it.";

/// Prove the trees, the allocator, epochs and the pool on the simulated machine
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ProveArgs {
    /// What to prove (--list shows the names), or `mutants`, or `ablate` [default: all]
    #[arg(value_name = "STRUCTURE")]
    pub structure: Option<String>,
    /// How much to search each structure: CPU time such as 30s, 10m, 1h, or a number of schedules
    /// [default: 5s each for all, 120s for one, 10s for each access with --faults]
    #[arg(long, value_name = "TIME|N", value_parser = parse_budget)]
    pub budget: Option<Budget>,
    /// Where all chance begins: the same seed, the same search
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What a crash keeps [default: all take turns]
    #[arg(long, value_enum)]
    pub domain: Option<DomainArg>,
    /// What threads see of each other's stores [default: they take turns]
    #[arg(long, value_enum)]
    pub memory: Option<MemoryArg>,
    /// Schedules of each random program
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub schedules: u64,
    /// Run every order of the small programs with up to this many preemptions first
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub preemptions: u32,
    /// Skip the small programs: only what chance gives
    #[arg(long, conflicts_with = "preemptions")]
    pub random_only: bool,
    /// Plant this bug, to see that it is found
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<String>,
    /// Give every access of the structure a fault in turn, or N of them evenly spread, and say which judge finds it
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1000000",
        requires = "structure",
        conflicts_with_all = ["mutant", "out", "list", "replay"]
    )]
    pub faults: Option<usize>,
    /// Give this access a fault, as the table of --faults names it: to see which judge finds it, and how
    #[arg(
        long,
        value_name = "HOW FILE:LINE:COLUMN",
        requires = "structure",
        conflicts_with_all = ["mutant", "faults", "replay"]
    )]
    pub fault: Option<String>,
    /// Of the accesses, only those whose place contains this: a file, a line
    #[arg(long, value_name = "TEXT", requires = "faults")]
    pub at: Option<String>,
    /// Put what comes of --faults or `mutants` into this page, whose other parts stay
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Do not search: put what such a run has printed with --json into the page
    #[arg(long, value_name = "FILE", requires_all = ["structure", "page"])]
    pub printed: Option<PathBuf>,
    /// The folder of the sources, in which arguments for accesses are looked up
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub sources: PathBuf,
    /// Repeat the schedule of this failure file, with a readable trace
    #[arg(long, value_name = "FILE", conflicts_with_all = ["structure", "mutant", "out", "list"])]
    pub replay: Option<PathBuf>,
    /// Write the failure, if there is one, to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Leave the failure as it was found instead of making it small
    #[arg(long)]
    pub no_shrink: bool,
    /// List what can be proven, and the planted bugs
    #[arg(long)]
    pub list: bool,
}

/// What a crash keeps.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DomainArg {
    /// Of every cache line, any part of what was not flushed and drained (ADR)
    Adr,
    /// Everything visible, nothing that waits in a store buffer (eADR)
    Eadr,
    /// Everything: only the process dies
    Process,
}

/// What threads see of each other.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MemoryArg {
    /// Sequential consistency: every store at once
    Sc,
    /// Total store order: stores wait in a buffer, as on x86
    Tso,
    /// As weak as the orderings in the source allow: a load may be given an older value
    Weak,
}

impl ProveArgs {
    /// What does not take turns.
    pub(super) fn fixed(&self) -> Fixed {
        let domain = self.domain.map(|domain| match domain {
            DomainArg::Adr => Domain::Adr,
            DomainArg::Eadr => Domain::Eadr,
            DomainArg::Process => Domain::Process,
        });
        let memory = self.memory.map(|memory| match memory {
            MemoryArg::Sc => MemoryModel::Sc,
            MemoryArg::Tso => MemoryModel::Tso,
            MemoryArg::Weak => MemoryModel::Weak,
        });
        Fixed { domain, memory }
    }
}

/// The planted bug that is asked for.
pub(super) fn mutant_of(args: &ProveArgs) -> Result<Option<Mutant>, Failure> {
    let unknown = |name: &String| {
        Failure::usage(format!(
            "there is no planted bug '{name}': `everleaf-lab prove --list` has them"
        ))
    };
    args.mutant.as_ref().map(|name| named(name).ok_or_else(|| unknown(name))).transpose()
}

/// The structures that are asked for.
pub(super) fn structures_of(
    args: &ProveArgs,
    mutant: Option<Mutant>,
) -> Result<Vec<&'static Structure>, Failure> {
    match (args.structure.as_deref(), mutant) {
        (None, Some(mutant)) => Ok(find(mutant.structure).into_iter().collect()),
        (None | Some("all"), _) => Ok(STRUCTURES.iter().collect()),
        (Some(name), _) => {
            let names: Vec<_> = STRUCTURES.iter().map(|structure| structure.name).collect();
            let unknown = || {
                let names = names.join(", ");
                let advice = "or 'all', 'mutants', 'ablate'";
                Failure::usage(format!("there is no structure '{name}': give {names}, {advice}"))
            };
            Ok(vec![find(name).ok_or_else(unknown)?])
        }
    }
}

/// A CPU time such as `30s`, `10m`, `1h`, or a number of schedules.
fn parse_budget(text: &str) -> Result<Budget, String> {
    let wrong = || "write a time such as 30s, 10m or 1h, or a number of schedules".to_string();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let seconds = match &text[digits..] {
        "" if number > 0 => return Ok(Budget::Schedules(number)),
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let seconds = number.checked_mul(seconds).filter(|seconds| *seconds <= 366 * 24 * 3600);
    let time = seconds.map(|seconds| Budget::Cpu(Duration::from_secs(seconds)));
    time.ok_or_else(|| "that is more than a year".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_schedules_have_none() {
        let cpu = |seconds| Ok(Budget::Cpu(Duration::from_secs(seconds)));
        assert_eq!(parse_budget("30"), Ok(Budget::Schedules(30)));
        assert_eq!(parse_budget("30s"), cpu(30));
        assert_eq!(parse_budget("2m"), cpu(120));
        assert_eq!(parse_budget("1h"), cpu(3600));
        for wrong in ["", "0", "h", "1d", "-1s", "1.5h", "99999999999h"] {
            assert!(parse_budget(wrong).is_err(), "{wrong}");
        }
    }
}
