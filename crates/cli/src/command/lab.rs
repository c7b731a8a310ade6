//! `everleaf lab`: the experiments of the laboratory, their comparison, and their report.

mod compare;
mod list;
mod report;
mod run;

use crate::cli::Global;
use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  everleaf lab list                                 all experiments: what, how long, which wait
  everleaf lab run fast-fair.flushes                one experiment
  everleaf lab run nbtree rntree.table1             a paper's experiments, and one of another
  everleaf lab run all --quick                      everything, in less than ten minutes
  everleaf lab run all --full --out results         everything in the sizes of the papers
  everleaf lab report results -o report.html        one file to look at; -o report.md for Markdown
  everleaf lab compare old.json new.json            what got slower beyond noise (exit code 1)

An experiment has a name of two parts, the paper (nbtree, fast-fair, rntree, sptree, f3) or
everleaf, and the place in it. What is finished is kept in the folder, a JSON file each; a run that
was cut short goes on where it stopped.";

/// Rerun the experiments of the papers, compare runs, make the report
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LabArgs {
    /// What to do
    #[command(subcommand)]
    pub action: Action,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Action {
    /// List the experiments: name, kind, time, what, and why some cannot be made yet
    List,
    Run(RunArgs),
    Compare(CompareArgs),
    Report(ReportArgs),
}

/// Make experiments, and print what they find beside what the papers claim
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Experiments, families of them, or `all`
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Small trees and few rounds (this is the default)
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// Sizes as near to the papers' as an ordinary machine allows
    #[arg(long)]
    pub full: bool,
    /// Keep what is found here, and leave out what is there already
    #[arg(long, value_name = "FOLDER", default_value = "everleaf-lab")]
    pub out: PathBuf,
    /// Make also those again that are there already
    #[arg(long)]
    pub again: bool,
    /// The seed of keys and operations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Say what got slower between two runs, beyond noise; exit code 1 if something did
///
/// A run is a file or a folder: findings of `lab run`, the output of `bench --json`, or of the rivals.
/// Exact counts must be equal. A time is slower if the interval of the ratio of the medians lies above 1
/// by more than the tolerance; the intervals of all times that are compared hold together in 95 of 100
/// cases.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// The run before
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The run after
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Differences of times below this share do not matter
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    pub tolerance: f64,
}

/// Make one file to look at of what a folder holds
///
/// Besides the findings of `lab run`, the report shows every JSON file in the folder that holds reports
/// of `bench --json` or of the rivals: indexes of the same keys in one file are shown side by side.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// The folder
    #[arg(value_name = "FOLDER", default_value = "everleaf-lab")]
    pub folder: PathBuf,
    /// The file to make: HTML that needs nothing else, or Markdown if it ends in .md; may be repeated
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: Vec<PathBuf>,
}

/// Does it.
pub fn run(args: LabArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    match args.action {
        Action::List => list::run(global, out),
        Action::Run(args) => run::run(&args, global, out),
        Action::Compare(args) => compare::run(&args, global, out),
        Action::Report(args) => report::run(&args, global, out),
    }
}
