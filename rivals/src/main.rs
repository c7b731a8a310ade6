//! `everleaf-rivals`: Everleaf measured beside other indexes and stores, in one run.
//!
//! The rivals are adapters to the laboratory of Everleaf ([`rival`]); the driver, the calibration,
//! the statistics and the reports are the laboratory's. This is a workspace of its own, so that
//! nobody who builds Everleaf builds its rivals.

mod arguments;
mod folder;
mod kept;
mod rival;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use arguments::{Arguments, Sizes};
use clap::Parser;
use everleaf_bench::measure::contest;
use everleaf_bench::measure::{Case, Length, Settings};
use everleaf_bench::report::Report;
use everleaf_bench::{BenchError, Distribution, IndexKind, Medium};
use folder::Folder;
use kept::{Kept, Way};
use rival::Rival;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("everleaf-rivals: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), BenchError> {
    if !arguments.measure_nothing {
        measure_all(arguments)?;
    }
    let (Some(page), Some(json)) = (&arguments.page, &arguments.json) else { return Ok(()) };
    let text = everleaf_lab::report::render_rivals(&kept::read(json)?)?;
    let refused = |error| BenchError::Io(format!("cannot write {}", page.display()), error);
    std::fs::write(page, text).map_err(refused)
}

fn measure_all(arguments: &Arguments) -> Result<(), BenchError> {
    let rivals = choose(&arguments.rivals)?;
    let parent = arguments.folder.clone().unwrap_or_else(std::env::temp_dir);
    let mut kept = Kept::open(arguments)?;
    for (place, keys) in arguments.keys.iter().enumerate() {
        for sizes in &arguments.sizes {
            // Without a load all rounds are made on one index, in one turn.
            let rounds = arguments.rounds_at(place);
            let has_load = arguments.workloads.iter().any(|workload| workload.is_load());
            let (turns_each, of_turn) = if has_load { (rounds, 1) } else { (1, rounds) };
            let settings = settings_of(arguments, *keys, *sizes, of_turn);
            let part = kept.part(&Way::of(arguments, *keys, *sizes, rounds));
            for round in 0..turns_each {
                let folder = Folder::new_in(&parent, "everleaf-rivals")?;
                let settings = Settings { seed: arguments.seed + round as u64, ..settings.clone() };
                let turns = turns(&settings, &rivals, round);
                for (number, turn) in turns.iter().enumerate() {
                    if kept.rounds(part, turn.name()) > round {
                        continue;
                    }
                    let what = format!(
                        "{keys} keys of {}/{} B, turn {} of {}",
                        sizes.key,
                        sizes.value,
                        round * turns.len() + number + 1,
                        turns_each * turns.len()
                    );
                    let started = Instant::now();
                    let report = measure(turn, &settings, folder.path(), &what, arguments)?;
                    let seconds = started.elapsed().as_secs_f64();
                    kept.add(part, turn.what(), seconds, &report)?;
                }
            }
        }
    }
    print(&everleaf_lab::report::render_rivals(&kept.value())?)
}

/// Whose turn it is.
enum Turn<'r> {
    Ours(IndexKind),
    Rival(&'r Rival),
}

impl Turn<'_> {
    fn name(&self) -> &'static str {
        match self {
            Turn::Ours(index) => index.name(),
            Turn::Rival(rival) => rival.name,
        }
    }

    fn what(&self) -> &'static str {
        match self {
            Turn::Ours(IndexKind::Bytes) => "Everleaf's store",
            Turn::Ours(_) => "Everleaf's tree of integers",
            Turn::Rival(rival) => rival.what,
        }
    }
}

/// Everleaf, and the rivals that take pairs of these sizes, in an order that is drawn from seed and
/// round.
fn turns<'r>(settings: &Settings, rivals: &'r [Rival], round: usize) -> Vec<Turn<'r>> {
    let is_integers = (settings.key_size, settings.value_size) == (8, 8);
    let mut turns = vec![Turn::Ours(IndexKind::Bytes)];
    turns.extend(is_integers.then_some(Turn::Ours(IndexKind::U64)));
    let fits = |rival: &&Rival| is_integers || !rival.is_integers_only;
    turns.extend(rivals.iter().filter(fits).map(Turn::Rival));
    turns.sort_by_cached_key(|turn| {
        let mut hasher = DefaultHasher::new();
        (settings.seed, round, turn.name()).hash(&mut hasher);
        hasher.finish()
    });
    turns
}

/// One turn of one of them, on a new index.
fn measure(
    turn: &Turn<'_>,
    settings: &Settings,
    folder: &Path,
    what: &str,
    arguments: &Arguments,
) -> Result<Report, BenchError> {
    let entrant = match turn {
        Turn::Ours(index) => contest::ours(&Settings {
            index: *index,
            medium: Medium::File(folder.join(format!("{}.pool", index.name()))),
            domain: Some(everleaf::Domain::Process),
            ..settings.clone()
        })?,
        Turn::Rival(rival) => {
            let place = if rival.is_durable { "file" } else { "memory" };
            let settings =
                Settings { medium: Medium::File(PathBuf::from(place)), ..settings.clone() };
            (rival.enter)(rival.name, &settings, folder)?
        }
    };
    let mut progress = |step: everleaf_bench::measure::Progress<'_>| {
        say(&format!("[{what}] {}: {}", turn.name(), step.what));
    };
    contest::alone(entrant, settings.rounds, arguments.miss_region, &mut progress)
}

/// A line on the standard error. One that cannot be written is no reason to stop.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The rivals of these names, or all.
fn choose(names: &[String]) -> Result<Vec<Rival>, BenchError> {
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
        return Err(BenchError::Settings(text));
    }
    let is_chosen = |rival: &Rival| names.is_empty() || names.iter().any(|name| name == rival.name);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Those of one turn.
fn settings_of(arguments: &Arguments, keys: u64, sizes: Sizes, rounds: usize) -> Settings {
    let mut cases = Vec::new();
    for workload in &arguments.workloads {
        let distribution = workload.default_distribution(Distribution::THETA_DEFAULT);
        let case = |threads: &usize| Case { workload: *workload, distribution, threads: *threads };
        let threads = match arguments.load_threads.as_slice() {
            [] => &arguments.threads,
            _ if !workload.is_load() => &arguments.threads,
            _ => &arguments.load_threads,
        };
        cases.extend(threads.iter().map(case));
    }
    Settings {
        keys,
        key_size: sizes.key,
        value_size: sizes.value,
        cases,
        rounds,
        length: arguments.ops.map_or(Length::Seconds(arguments.seconds), Length::Operations),
        scan_length: arguments.scan_length,
        seed: arguments.seed,
        ..Settings::default()
    }
}

fn print(text: &str) -> Result<(), BenchError> {
    let refused = |error| BenchError::Io("cannot write the output".to_owned(), error);
    std::io::stdout().write_all(text.as_bytes()).map_err(refused)
}
