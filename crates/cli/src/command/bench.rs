//! `everleaf bench`: what the operations cost on this machine. `everleaf-lab bench` is the same with
//! the published designs.

mod arguments;

use crate::exit_code::ExitCode;
use crate::failure::{Failure, code_of_store};
use crate::global::Global;
use crate::output::{Output, counted, remark};
pub use arguments::BenchArgs;
use arguments::{IndexArg, Preset, index_of, server_of, settings_of};
use everleaf_bench::MeasuredDesign;
use everleaf_bench::measure::redis::{self, Server};
use everleaf_bench::measure::{self, Progress, Settings};
use everleaf_bench::presets::Verdict;
use everleaf_bench::report::Report;
use everleaf_bench::{BenchError, IndexKind, Workload, flagship, presets, table};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::thread;

/// Designs of integer trees that `--index` can name.
pub type Designs<'d> = &'d [&'static MeasuredDesign];

/// A report as JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Measured {
    /// Of an index.
    Index {
        #[serde(flatten)]
        report: Box<Report>,
        /// What goes wrong when several threads use it.
        caveat: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        verdicts: Option<Vec<Verdict>>,
    },
    /// Of a server.
    Server(Box<Report>),
}

/// The flagship beside others, as JSON.
#[derive(Serialize)]
struct FlagshipReports<'a> {
    /// By the name that programs read.
    #[serde(rename = "visible")]
    unflushed: &'a [Report],
    flushed: &'a [Report],
    verdicts: Vec<Verdict>,
}

/// Measures and prints.
pub fn run(
    args: BenchArgs,
    designs: Designs<'_>,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    let chosen = index_of(&args.index, designs)?;
    let mut settings = settings_of(&args, chosen)?;
    if let IndexArg::One(index) = chosen
        && args.measures_everything()
    {
        // Nobody has asked for scans.
        let suited: Vec<_> = settings.iter().map(|settings| settings.suited_to(index)).collect();
        suited.first().into_iter().for_each(|(_, left)| tell_left_out(index, left, global));
        settings = suited.into_iter().map(|(settings, _)| settings).collect();
    }
    let skipped = settings[0].trace.as_ref().map_or(0, |trace| trace.skipped());
    if skipped > 0 && !global.quiet {
        let commands = counted(skipped, "command");
        remark(&format!("{commands} of the trace left out: not about strings by key"));
    }
    leave_nothing_behind_a_signal()?;
    if args.preset == Some(Preset::Flagship) {
        return run_flagship(&settings, designs, global, out);
    }
    let server = server_of(&args);
    match (chosen, &server) {
        (_, Some(_)) => {}
        (IndexArg::All, None) => warn_of(all(designs), global),
        (IndexArg::One(index), None) => warn_of([index], global),
    }
    let mut objects = Vec::new();
    let mut measure_all = || {
        for (number, settings) in settings.iter().enumerate() {
            if number > 0 && !global.json {
                out.line("")?;
            }
            match (chosen, &server) {
                (_, Some(server)) => run_server(server, settings, global, &mut objects, out)?,
                (IndexArg::All, _) => run_all(settings, designs, global, &mut objects, out)?,
                (IndexArg::One(_), _) => run_one(settings, args.preset, global, &mut objects, out)?,
            }
            // The next one may take long, and be ended by a signal.
            out.flush()?;
        }
        Ok::<(), Failure>(())
    };
    let measured = measure_all();
    // Also what was measured before something failed, as a list if more was to be measured.
    let is_one = chosen != IndexArg::All && settings.len() == 1;
    let shown = match &objects[..] {
        [] => Ok(()),
        [object] if is_one => out.json(object),
        objects => out.json(&objects),
    };
    measured.and(shown)
}

/// Starts the thread that removes the pool when a signal ends the program: it may be in memory, and no other run has
/// its name.
fn leave_nothing_behind_a_signal() -> Result<(), Failure> {
    let what = "cannot watch for signals";
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| Failure::io(what, &error))?;
    let watch = move || {
        for signal in signals.forever() {
            everleaf_bench::remove_pools();
            // If even that fails, the measurement goes on, and fails.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    let started = thread::Builder::new().spawn(watch);
    started.map(drop).map_err(|error| Failure::io(what, &error))
}

/// Measures one index. Prints the report, or adds it to the objects if JSON is wanted.
fn run_one(
    settings: &Settings,
    preset: Option<Preset>,
    global: Global,
    objects: &mut Vec<Measured>,
    out: &mut Output,
) -> Result<(), Failure> {
    let bar = progress_bar(global.wants_progress());
    let report = measure::run(settings, &mut |step| show(&bar, step));
    bar.finish_and_clear();
    let report = report.map_err(failure_of)?;
    let wants_verdicts = preset == Some(Preset::Targets);
    let verdicts = wants_verdicts.then(|| presets::judge(&report));
    if global.json {
        let caveat = settings.index.caveat();
        objects.push(Measured::Index { report: Box::new(report), caveat, verdicts });
        return Ok(());
    }
    out.bytes(table::render(&report).as_bytes())?;
    if let Some(verdicts) = verdicts {
        out.line("")?;
        out.bytes(presets::render(&verdicts).as_bytes())?;
    }
    Ok(())
}

/// Measures the flagship beside others and prints the page of it, or the reports as JSON.
fn run_flagship(
    settings: &[Settings],
    designs: Designs<'_>,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    for settings in settings {
        let bar = progress_bar(global.wants_progress());
        let mut show = |name: &str, progress: Progress<'_>| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            bar.set_message(format!("{name}: {}", progress.what));
        };
        let findings = flagship::run(settings, designs, &mut show);
        bar.finish_and_clear();
        let findings = findings.map_err(failure_of)?;
        if global.json {
            let verdicts = flagship::judge(&findings);
            let (unflushed, flushed) = (&findings.unflushed, &findings.flushed);
            out.json(&FlagshipReports { unflushed, flushed, verdicts })?;
            continue;
        }
        let (keys, rounds) = (settings.keys, settings.rounds);
        let command = format!(
            "everleaf-lab bench --preset flagship --keys {keys} --rounds {rounds} --seed {}",
            settings.seed
        );
        out.bytes(flagship::page(&findings, &command).as_bytes())?;
    }
    Ok(())
}

/// Measures a server. Prints the report, or adds it to the objects if JSON is wanted.
fn run_server(
    server: &Server,
    settings: &Settings,
    global: Global,
    objects: &mut Vec<Measured>,
    out: &mut Output,
) -> Result<(), Failure> {
    let bar = progress_bar(global.wants_progress());
    let report = redis::run(server, settings, &mut |step| show(&bar, step));
    bar.finish_and_clear();
    let report = report.map_err(failure_of)?;
    if global.json {
        objects.push(Measured::Server(Box::new(report)));
        return Ok(());
    }
    out.bytes(redis::render(&report).as_bytes())
}

fn show(bar: &ProgressBar, progress: Progress<'_>) {
    bar.set_length(progress.total);
    bar.set_position(progress.done);
    bar.set_message(progress.what.to_owned());
}

fn all(designs: Designs<'_>) -> impl Iterator<Item = IndexKind> {
    designs.iter().copied().map(IndexKind::Design)
}

/// Measures every design and prints them side by side.
fn run_all(
    settings: &Settings,
    designs: Designs<'_>,
    global: Global,
    objects: &mut Vec<Measured>,
    out: &mut Output,
) -> Result<(), Failure> {
    let bar = progress_bar(global.wants_progress());
    let mut reports = Vec::new();
    for index in all(designs) {
        let mut show = |progress: Progress<'_>| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            bar.set_message(format!("{}: {}", index.name(), progress.what));
        };
        let (settings, left_out) = settings.suited_to(index);
        tell_left_out(index, &left_out, global);
        if settings.cases.is_empty() {
            continue;
        }
        reports.push((index, measure::run(&settings, &mut show).map_err(failure_of)?));
    }
    bar.finish_and_clear();
    if global.json {
        objects.extend(reports.into_iter().map(|(index, report)| {
            let (report, caveat) = (Box::new(report), index.caveat());
            Measured::Index { report, caveat, verdicts: None }
        }));
        return Ok(());
    }
    let reports: Vec<_> = reports.into_iter().map(|(_, report)| report).collect();
    out.bytes(table::compare(&reports).as_bytes())
}

/// Says on the standard error which of the indexes go wrong when several threads use them; in JSON
/// a field says it.
pub fn warn_of(indexes: impl IntoIterator<Item = IndexKind>, global: Global) {
    for index in indexes {
        if let Some(caveat) = index.caveat().filter(|_| !global.quiet && !global.json) {
            remark(&format!("{}: {caveat}", index.name()));
        }
    }
}

/// Says on the standard error what is not measured of a hash index.
fn tell_left_out(index: IndexKind, left_out: &[Workload], global: Global) {
    if !left_out.is_empty() && !global.quiet && !global.json {
        let names: Vec<_> = left_out.iter().map(|workload| workload.name()).collect();
        remark(&format!(
            "{} is a hash index, which has no order: without {}",
            index.name(),
            names.join(", ")
        ));
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

/// An error of the bench as a failure of the program.
pub fn failure_of(error: BenchError) -> Failure {
    let code = match &error {
        BenchError::Settings(_) => ExitCode::Usage,
        BenchError::Store(error) => code_of_store(error),
        BenchError::Index(error) if error.is_full() => ExitCode::Full,
        BenchError::Index(_) => ExitCode::Pool,
        BenchError::Wrong(_) => ExitCode::NotFound,
        _ => ExitCode::Io,
    };
    Failure::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_valid() {
        assert!(progress_bar(true).length().is_some());
    }
}
