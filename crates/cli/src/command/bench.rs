//! `everleaf bench`: what the operations cost on this machine, from the laboratory crate.

mod arguments;

use crate::cli::Global;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, code_of_store};
use crate::output::{Output, counted, remark};
pub use arguments::BenchArgs;
use arguments::{IndexArg, Preset, server_of, settings_of};
use everleaf_lab::bench::redis::{self, Server};
use everleaf_lab::bench::{self, Progress, Settings};
use everleaf_lab::{IndexKind, LabError, presets, table};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

/// Measures and prints.
pub fn run(args: BenchArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let settings = settings_of(&args)?;
    let skipped = settings[0].trace.as_ref().map_or(0, |trace| trace.skipped());
    if skipped > 0 && !global.quiet {
        let commands = counted(skipped, "command");
        remark(&format!("{commands} of the trace left out: not about strings by key"));
    }
    let server = server_of(&args);
    match (args.index, &server) {
        (_, Some(_)) => {}
        (IndexArg::All, None) => warn_of(IndexKind::designs(), global),
        (IndexArg::One(index), None) => warn_of([index], global),
    }
    let mut objects = Vec::new();
    for (number, settings) in settings.iter().enumerate() {
        if number > 0 && !global.json {
            out.line("")?;
        }
        match (args.index, &server) {
            (_, Some(server)) => run_server(server, settings, global, &mut objects, out)?,
            (IndexArg::All, _) => run_all(settings, global, &mut objects, out)?,
            (IndexArg::One(_), _) => run_one(settings, args.preset, global, &mut objects, out)?,
        }
    }
    match objects.len() {
        0 => Ok(()),
        1 if args.index != IndexArg::All => out.json(&objects[0]),
        _ => out.json(&json!(objects)),
    }
}

/// Measures one index. Prints the report, or adds it to the objects if JSON is wanted.
fn run_one(
    settings: &Settings,
    preset: Option<Preset>,
    global: Global,
    objects: &mut Vec<Value>,
    out: &mut Output,
) -> Result<(), Failure> {
    let bar = progress_bar(global.wants_progress());
    let report = bench::run(settings, &mut |step| show(&bar, step));
    bar.finish_and_clear();
    let report = report.map_err(failure_of)?;
    let verdicts = preset.map(|Preset::Targets| presets::judge(&report));
    if global.json {
        let mut object = with_caveat(settings.index, json!(report));
        if let Some(verdicts) = verdicts {
            object["verdicts"] = json!(verdicts);
        }
        objects.push(object);
        return Ok(());
    }
    out.bytes(table::render(&report).as_bytes())?;
    if let Some(verdicts) = verdicts {
        out.line("")?;
        out.bytes(presets::render(&verdicts).as_bytes())?;
    }
    Ok(())
}

/// Measures a server. Prints the report, or adds it to the objects if JSON is wanted.
fn run_server(
    server: &Server,
    settings: &Settings,
    global: Global,
    objects: &mut Vec<Value>,
    out: &mut Output,
) -> Result<(), Failure> {
    let bar = progress_bar(global.wants_progress());
    let report = redis::run(server, settings, &mut |step| show(&bar, step));
    bar.finish_and_clear();
    let report = report.map_err(failure_of)?;
    if global.json {
        objects.push(json!(report));
        return Ok(());
    }
    out.bytes(redis::render(&report).as_bytes())
}

fn show(bar: &ProgressBar, progress: Progress<'_>) {
    bar.set_length(progress.total);
    bar.set_position(progress.done);
    bar.set_message(progress.what.to_owned());
}

/// Measures every design and prints them side by side.
fn run_all(
    settings: &Settings,
    global: Global,
    objects: &mut Vec<Value>,
    out: &mut Output,
) -> Result<(), Failure> {
    let bar = progress_bar(global.wants_progress());
    let mut reports = Vec::new();
    for index in IndexKind::designs() {
        let mut show = |progress: Progress<'_>| {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            bar.set_message(format!("{}: {}", index.name(), progress.what));
        };
        let settings = Settings { index, ..settings.clone() };
        reports.push((index, bench::run(&settings, &mut show).map_err(failure_of)?));
    }
    bar.finish_and_clear();
    if global.json {
        let object = |(index, report): &(IndexKind, _)| with_caveat(*index, json!(report));
        objects.extend(reports.iter().map(object));
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

/// A report as JSON, with what goes wrong when several threads use the index.
fn with_caveat(index: IndexKind, mut report: Value) -> Value {
    report["caveat"] = json!(index.caveat());
    report
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_valid() {
        assert!(progress_bar(true).length().is_some());
    }
}
