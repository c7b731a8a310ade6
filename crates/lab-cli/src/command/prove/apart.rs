//! A search in a process of its own: what is wrong enough to end the process, such as an address that
//! leads nowhere, is found like everything else.
//!
//! The process that is started first starts its own command line again, as a *worker*, and waits. The
//! worker notes each program before it runs it; if a signal ends it, the note says where.

use everleaf_cli::exit_code::ExitCode;
use everleaf_cli::failure::Failure;
use everleaf_prove::Failure as Found;
use everleaf_prove::search::campaign;
use everleaf_prove::search::record::Record;
use everleaf_prove::{Config, FailureKind};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs, process};

/// Tells a worker the file for its notes.
const NOTES: &str = "EVERLEAF_PROVE_NOTES";

/// The file for this worker's notes.
static PLACE: OnceLock<PathBuf> = OnceLock::new();

/// What this process is to do.
pub enum Part {
    /// The search itself.
    Search,
    /// To say that a signal ended it, in this program.
    Report(Box<Record>),
}

/// Runs this command line again as a worker, and ends as that does; comes back in the worker, and if
/// the worker was ended by what it searched.
pub fn run() -> Result<Part, Failure> {
    if let Some(place) = env::var_os(NOTES) {
        // Nobody would stop a worker whose parent was killed. Where that cannot be asked for, it goes
        // on to the end of its budget.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let _ = PLACE.set(place.into());
        campaign::on_begin(note);
        return Ok(Part::Search);
    }
    let Ok(program) = env::current_exe() else { return Ok(Part::Search) };
    let notes = env::temp_dir().join(format!("everleaf-prove-{}", process::id()));
    let worker = Command::new(program).args(env::args_os().skip(1)).env(NOTES, &notes).status();
    let text = fs::read_to_string(&notes);
    let _ = fs::remove_file(&notes);
    let status = worker.map_err(|error| Failure::io("cannot start the search", &error))?;
    if let Some(code) = status.code() {
        process::exit(code);
    }
    let signal = status.signal().unwrap_or_default();
    let record = text.ok().and_then(|text| Record::from_text(&text).ok());
    match record.filter(|_| is_crash(signal)) {
        Some(mut record) => {
            record.message = format!("signal {signal} ended the process");
            Ok(Part::Report(Box::new(record)))
        }
        None => {
            let what = format!("signal {signal} ended the search");
            Err(Failure::new(ExitCode::Io, what))
        }
    }
}

/// Whether a signal is one that a program brings upon itself.
fn is_crash(signal: i32) -> bool {
    let own = [Signal::SEGV, Signal::BUS, Signal::ILL, Signal::FPE, Signal::ABORT];
    own.iter().any(|known| known.as_raw() == signal)
}

/// Notes what is begun. A note that cannot be written is only missed when something happens.
fn note(structure: &str, program: &str, config: &Config) {
    let ended = Found {
        kind: FailureKind::Panic,
        message: String::new(),
        seed: config.seed,
        schedule: 1,
        choices: vec![],
        steps: 0,
        plan: String::new(),
    };
    if let Some(place) = PLACE.get() {
        let _ = fs::write(place, Record::new(structure, program, config, &ended).to_text());
    }
}
