//! `everleaf-rivals`: Everleaf measured beside other indexes and stores, in one run.
//!
//! The rivals are adapters to the laboratory of Everleaf ([`rival`]); the driver, the calibration,
//! the statistics and the reports are the laboratory's. This is a workspace of its own, so that
//! nobody who builds Everleaf builds its rivals.

mod arguments;
mod folder;
mod rival;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arguments::{Arguments, Sizes};
use clap::Parser;
use everleaf_lab::bench::contest::{self, Entrant};
use everleaf_lab::bench::{Case, Length, Settings};
use everleaf_lab::report::Report;
use everleaf_lab::{Distribution, IndexKind, LabError, Medium};
use folder::Folder;
use rival::Rival;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A standard error that cannot be written leaves only the exit code to tell.
            let _ = writeln!(std::io::stderr(), "everleaf-rivals: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), LabError> {
    let rivals = choose(&arguments.rivals)?;
    let parent = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let mut all = Vec::new();
    for keys in &arguments.keys {
        for sizes in &arguments.sizes {
            let settings = settings_of(arguments, *keys, *sizes);
            let reports = measure(&settings, &rivals, &parent, arguments.miss_region)?;
            print(&table::render(&reports, &rivals))?;
            all.extend(reports);
            // After each part, so that a run that is stopped has not been for nothing.
            if let Some(path) = &arguments.json {
                write_json(path, &all)?;
            }
        }
    }
    Ok(())
}

/// The rivals of these names, or all.
fn choose(names: &[String]) -> Result<Vec<Rival>, LabError> {
    let all = rival::all();
    let known: Vec<&str> = all.iter().map(|rival| rival.name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.join(", ");
        let hint = if cfg!(feature = "rocksdb") {
            ""
        } else {
            " (rocksdb: build with --features rocksdb)"
        };
        let text = format!("{unknown:?} is no rival: there is {known}{hint}");
        return Err(LabError::Settings(text));
    }
    let is_chosen = |rival: &Rival| names.is_empty() || names.iter().any(|name| name == rival.name);
    Ok(all.into_iter().filter(is_chosen).collect())
}

fn settings_of(arguments: &Arguments, keys: u64, sizes: Sizes) -> Settings {
    let mut cases = Vec::new();
    for workload in &arguments.workloads {
        let distribution = workload.default_distribution(Distribution::THETA_DEFAULT);
        let case = |threads: &usize| Case { workload: *workload, distribution, threads: *threads };
        cases.extend(arguments.threads.iter().map(case));
    }
    Settings {
        keys,
        key_size: sizes.key,
        value_size: sizes.value,
        cases,
        rounds: arguments.rounds,
        length: arguments.ops.map_or(Length::Seconds(arguments.seconds), Length::Operations),
        scan_length: arguments.scan_length,
        seed: arguments.seed,
        ..Settings::default()
    }
}

/// Everleaf first, then the rivals that take pairs of these sizes.
fn measure(
    settings: &Settings,
    rivals: &[Rival],
    parent: &Path,
    miss_region: usize,
) -> Result<Vec<Report>, LabError> {
    let folder = Folder::new_in(parent, "everleaf-rivals")?;
    let is_integers = (settings.key_size, settings.value_size) == (8, 8);
    let mut entrants: Vec<Box<dyn Entrant>> = Vec::new();
    for index in [IndexKind::U64, IndexKind::Bytes] {
        if is_integers || index == IndexKind::Bytes {
            entrants.push(contest::ours(&Settings {
                index,
                medium: Medium::File(folder.path().join(format!("{}.pool", index.name()))),
                domain: Some(everleaf::Domain::Process),
                ..settings.clone()
            })?);
        }
    }
    for rival in rivals.iter().filter(|rival| is_integers || !rival.is_integers_only) {
        let medium = Medium::File(PathBuf::from(if rival.is_durable { "file" } else { "memory" }));
        let settings = Settings { medium, ..settings.clone() };
        entrants.push((rival.enter)(rival.name, &settings, folder.path())?);
    }
    let steps = entrants.len() * settings.rounds * settings.cases.len();
    let mut done = 0;
    let mut progress = |name: &str, step: everleaf_lab::bench::Progress<'_>| {
        // The loads that are not measured are not counted.
        let text = format!("[{done}/{steps}] {name}: {}", step.what);
        let _ = writeln!(std::io::stderr(), "{text}");
        done += usize::from(step.what != "loading");
    };
    contest::run(entrants, settings.rounds, settings.seed, miss_region, &mut progress)
}

fn print(text: &str) -> Result<(), LabError> {
    let refused = |error| LabError::Io("cannot write the output".to_owned(), error);
    std::io::stdout().write_all(text.as_bytes()).map_err(refused)
}

/// Complete or not there: written beside, then renamed.
fn write_json(path: &Path, reports: &[Report]) -> Result<(), LabError> {
    let refused = |error| LabError::Io(format!("cannot write {}", path.display()), error);
    let text = serde_json::to_vec_pretty(reports).map_err(|error| refused(error.into()))?;
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text).map_err(refused)?;
    std::fs::rename(&partial, path).map_err(refused)
}
