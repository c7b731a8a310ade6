//! `everleaf-lab run`.

use clap::Args;
use everleaf_bench::BenchError;
use everleaf_cli::command::bench::failure_of;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::{Output, remark};
use everleaf_lab::experiment::{
    self, Entry, Finding, Folder, PAPERS_PROTOCOL_WITH_THREADS, Pace, Plan, Proof, Scale, text,
};
use everleaf_prove::programs::published::{DIRECTED, Meeting, anomalies};
use everleaf_prove::search::campaign::{self, Budget, Settings};
use everleaf_prove_designs::structures;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  everleaf-lab run fast-fair.flushes                one experiment
  everleaf-lab run nbtree rntree.table1             a paper's experiments, and one of another
  everleaf-lab run all --quick                      everything, in less than twelve minutes
  everleaf-lab run all --full --out results         everything in the sizes of the papers

An experiment has a name of two parts, the paper (nbtree, fast-fair, rntree, sptree, f3) or
everleaf, and the place in it. What is finished is kept in the folder, a JSON file each; a run that
was cut short goes on where it stopped.";

/// Make experiments, and print what they find beside what the papers claim
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
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
    /// Rerun experiments that already have results
    #[arg(long)]
    pub again: bool,
    /// The seed of keys and operations
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Makes the experiments one after the other, printing each when it is done. One that fails does not
/// keep the others from being made.
pub fn run(args: &RunArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let entries = chosen(&args.names)?;
    let scale = if args.full { Scale::Full } else { Scale::Quick };
    let plan = Plan { scale, seed: args.seed, again: args.again, prove };
    let folder = Folder::create(&args.out).map_err(failure_of)?;
    let bar = progress_bar(global.wants_progress(), entries.len() as u64);
    let mut pace = Pace::new(scale);
    let (mut findings, mut failed) = (Vec::new(), Vec::new());
    for (done, entry) in entries.iter().enumerate() {
        bar.set_position(done as u64);
        bar.set_prefix(format!("{} left", in_words(pace.left(&entries[done..]))));
        let mut tell = |what: &str| bar.set_message(format!("{}: {what}", entry.id));
        match experiment::run(entry, plan, Some(&folder), &mut tell) {
            Ok((finding, is_new)) => {
                if is_new {
                    pace.note(entry, finding.seconds);
                }
                bar.suspend(|| show(entry, &finding, is_new, global, out))?;
                findings.push(finding);
            }
            Err(error) if entries.len() == 1 => return Err(failure_of(error)),
            Err(error) => {
                bar.suspend(|| remark(&format!("{} failed: {error}", entry.id)));
                failed.push((entry.id, error));
            }
        }
    }
    bar.finish_and_clear();
    if global.json {
        out.json(&findings)?;
    } else {
        let differing = findings.iter().filter(|finding| finding.differences().0 > 0).count();
        let summary = format!(
            "{} experiments, {differing} of them with a figure that differs; kept in {}",
            findings.len(),
            args.out.display()
        );
        out.line(&summary)?;
    }
    failure_of_all(failed)
}

/// What failed, as one failure of the kind of the first.
fn failure_of_all(failed: Vec<(&'static str, BenchError)>) -> Result<(), Failure> {
    let ids: Vec<&str> = failed.iter().map(|(id, _)| *id).collect();
    let what = format!("{} failed, and can be run again: {}", ids.len(), ids.join(", "));
    match failed.into_iter().next() {
        None => Ok(()),
        Some((_, error)) => Err(Failure { message: what, ..failure_of(error) }),
    }
}

/// From which time on a search runs every order of the small programs first: one of them alone may take
/// half a minute.
const EXHAUSTIVE: Duration = Duration::from_secs(60);

/// Searches a structure for failures, in programs that chance gives.
fn prove(structure: &'static str, budget: Duration, seed: u64) -> Result<Proof, BenchError> {
    if structure == PAPERS_PROTOCOL_WITH_THREADS {
        return Ok(prove_with_threads());
    }
    let Some(structure) = structures::find(structure) else {
        return Err(BenchError::Settings(format!("there is no structure '{structure}' to prove")));
    };
    let preemptions = (budget >= EXHAUSTIVE).then_some(1);
    let budget = Budget::Cpu(budget);
    let settings = Settings { budget, seed, preemptions, ..Settings::default() };
    let verdict = campaign::run(structure, &settings, &mut |_| ());
    let counts = &verdict.report.counts;
    Ok(Proof {
        programs: verdict.programs + verdict.exhausted.0 as u64,
        schedules: counts.schedules,
        crashes: counts.recoveries,
        failure: verdict.failure.map(|(record, _)| format!("{}: {}", record.kind, record.message)),
    })
}

/// Runs the programs that show what the published NBTree loses when several threads use it.
fn prove_with_threads() -> Proof {
    let published = structures::find(DIRECTED).expect("in the list of structures");
    let mut proof = Proof::default();
    let mut lost = vec![];
    for anomaly in anomalies() {
        let case = published.case(&anomaly.program()).expect("a program of the structure");
        proof.programs += 1;
        if let Some(Meeting { report, failure, .. }) = anomaly.meet(&*case) {
            proof.schedules += report.counts.schedules;
            lost.push(format!("{} ({}): {}", anomaly.number, anomaly.scenario.name, failure.kind));
        } else {
            proof.schedules += anomaly.schedules;
        }
    }
    proof.failure = lost.first().map(|first| {
        format!("{} of {} programs lose something, such as {first}", lost.len(), proof.programs)
    });
    proof
}

/// A time for people: `about 40 s`, `about 12 min`, `about 3.5 h`.
fn in_words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("about {seconds} s"),
        seconds @ 100..6000 => format!("about {} min", seconds.div_ceil(60)),
        seconds => format!("about {:.1} h", seconds as f64 / 3600.0),
    }
}

/// The experiments of the names, each once.
fn chosen(names: &[String]) -> Result<Vec<&'static Entry>, Failure> {
    let mut entries: Vec<&'static Entry> = Vec::new();
    for name in names {
        let named = experiment::named(name);
        if named.is_empty() {
            let text = format!("there is no experiment '{name}': `everleaf-lab list` has them");
            return Err(Failure::usage(text));
        }
        for entry in named {
            let is_known = entries.iter().any(|known| known.id == entry.id);
            if !is_known {
                entries.push(entry);
            }
        }
    }
    Ok(entries)
}

fn show(
    entry: &Entry,
    finding: &Finding,
    is_new: bool,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    if !is_new && !global.quiet {
        remark(&format!("{} was there already", entry.id));
    }
    if global.json {
        return Ok(());
    }
    out.line(&text::finding(entry, finding))?;
    // Somebody waits for it.
    out.flush()
}

/// A bar over the experiments; hidden unless `enabled`.
fn progress_bar(enabled: bool, count: u64) -> ProgressBar {
    if !enabled {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{pos}/{len} {elapsed}, {prefix}: {wide_msg}")
        .expect("the template is constant and tested");
    let bar = ProgressBar::new(count).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_experiment_that_is_named_twice_runs_once() {
        let names =
            |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).into()).collect() };
        let family = chosen(&names(&["fast-fair", "fast-fair.flushes"])).unwrap();
        let flushes = family.iter().filter(|entry| entry.id == "fast-fair.flushes").count();
        assert_eq!(flushes, 1);
        assert_eq!(chosen(&names(&["sptree.fig2"])).unwrap().len(), 1);
        assert!(chosen(&names(&["nothing"])).is_err());
    }

    #[test]
    fn the_bar_is_valid_and_times_are_short() {
        assert_eq!(progress_bar(true, 3).length(), Some(3));
        let shown =
            [0, 99, 100, 3600, 12_600].map(|seconds| in_words(Duration::from_secs(seconds)));
        let expected = ["about 0 s", "about 99 s", "about 2 min", "about 60 min", "about 3.5 h"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_failed_is_named_at_the_end() {
        assert!(failure_of_all(vec![]).is_ok());
        let wrong = |text: &str| BenchError::Wrong(text.to_owned());
        let failed = vec![("a.one", wrong("x")), ("b.two", BenchError::Settings("y".to_owned()))];
        let failure = failure_of_all(failed).unwrap_err();
        assert!(failure.message.contains("a.one, b.two"), "{}", failure.message);
        assert_eq!(failure.code, failure_of(wrong("x")).code);
    }

    #[test]
    fn a_structure_is_searched_by_name_and_unknown_ones_refused() {
        let proof = prove("fast-fair", Duration::from_millis(50), 1).unwrap();
        assert!(proof.failure.is_none() && proof.schedules > 0, "{proof:?}");
        assert!(prove("nothing", Duration::ZERO, 1).is_err());
    }

    #[test]
    fn the_published_protocol_with_threads_is_not_said_to_agree() {
        let proof = prove(PAPERS_PROTOCOL_WITH_THREADS, Duration::ZERO, 1).unwrap();
        let failure = proof.failure.expect("its anomalies are met");
        assert!(failure.starts_with(&format!("{0} of {0} ", anomalies().len())), "{failure}");
    }
}
