//! Opening the pool and choosing the map, for reading and for writing.
//!
//! A command that opens a pool for writing whose machine crashed, and which has a log, waits until it is
//! rebuilt from there: [`Rebuilding`] shows how far that is.

use crate::failure::Failure;
use crate::global::Global;
use crate::output::{counted, remark, remark_as_json};
use crate::progress::Progress;
use clap::Args;
use everleaf::{Error, Event, Map, Options, Rebuilt, Store};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Which map, and whether to trust the pool.
#[derive(Args, Clone, Debug)]
pub struct MapArgs {
    /// Use this map of the pool instead of the default one
    #[arg(long, value_name = "NAME")]
    pub map: Option<String>,
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// The option of [`TrustArgs`] as errors of the store name it.
const TRUST: &str = "--trust-after-machine-crash";

/// Whether to open a pool that the machine crashed on.
#[derive(Args, Clone, Copy, Debug)]
pub struct TrustArgs {
    /// Open the pool although the machine crashed while it was open on an ordinary disk; what was
    /// not yet written to the disk may be missing or damaged. No effect on a pool with a log, which
    /// is rebuilt from it
    #[arg(long)]
    pub trust_after_machine_crash: bool,
    /// Go on with what can be proven of a log that is damaged or was cut; what was logged behind the damage
    /// is lost if the pool is lost as well, and is told
    #[arg(long)]
    pub salvage_log: bool,
}

impl TrustArgs {
    /// Options with this choice made.
    pub fn options(&self) -> Options {
        let options = Options::new().verify_reads(true);
        options
            .trust_after_machine_crash(self.trust_after_machine_crash)
            .salvage_log(self.salvage_log)
    }
}

/// The failure of a command that has no [`TrustArgs`], over a pool that the machine crashed on.
pub fn without_trust(error: Error) -> Failure {
    let failure = Failure::from(error);
    match failure.message.contains(TRUST) {
        false => failure,
        true => Failure::new(
            failure.code,
            format!(
                "{}; this command has no {TRUST}: if `everleaf check` with it finds nothing wrong, \
                 open the pool with it by a command that writes, such as `everleaf put`, and then try \
                 again",
                failure.message
            ),
        ),
    }
}

/// Opens a pool that must exist, to read it only.
pub fn for_reading(pool: &Path, trust: &TrustArgs) -> Result<Store, Failure> {
    Ok(trust.options().read_only(true).open(pool)?)
}

/// Opens a pool that must exist, to change it.
pub fn for_writing(pool: &Path, trust: &TrustArgs, global: Global) -> Result<Store, Failure> {
    with_progress(trust.options(), pool, global)
}

/// What it means that the system does not tell its boots apart.
const CRASHES_UNTOLD: &str = "warning: the system does not say when it was started \
    (/proc/sys/kernel/random/boot_id cannot be read), so that the death of this process will be taken for a crash of \
    the machine: the pool is refused then, or rebuilt from its log without what was not synced";

/// Opens a pool in this way, and shows how far it is rebuilt, should the machine have crashed.
pub fn with_progress(options: Options, pool: &Path, global: Global) -> Result<Store, Failure> {
    let rebuilding = Rebuilding::new(global);
    let store = rebuilding.shown_by(options).open(pool)?;
    rebuilding.clear();
    if !store.can_tell_crashes() && !global.quiet {
        remark(CRASHES_UNTOLD);
    }
    Ok(store)
}

/// Shows how far a pool is rebuilt from its log; nothing if it is not.
pub struct Rebuilding {
    progress: Arc<Progress>,
    global: Global,
}

impl Rebuilding {
    /// Shows nothing yet.
    pub fn new(global: Global) -> Self {
        let what = "rebuilding the pool from its log";
        // It shows something only once a pool is rebuilt.
        let progress = Arc::new(Progress::count(global.wants_progress(), what));
        Self { progress, global }
    }

    /// Options with which opening says how far it is, what it made anew, and what it could not finish.
    pub fn shown_by(&self, options: Options) -> Options {
        let (progress, bar, global) =
            (Arc::clone(&self.progress), Arc::clone(&self.progress), self.global);
        options.rebuild_progress(move |pairs| progress.set(pairs)).events(move |event| {
            // Also with --quiet: something could not be done, or is lost.
            match event {
                Event::PoolGone(error) if global.json => {
                    remark_as_json(&TellsPoolGone { pool_gone: error.to_string() });
                }
                Event::Rebuilt(rebuilt) => {
                    bar.clear();
                    tell_rebuilt(rebuilt, global);
                }
                Event::LogSalvaged(damages) => tell_salvaged(damages, global),
                Event::BatchLeft(_) | Event::MaximumRaised(_) | Event::PoolGone(_) => {
                    remark(&event.to_string())
                }
                _ => {}
            }
        })
    }

    /// Takes the bar away: it is made.
    pub fn clear(&self) {
        self.progress.clear();
    }
}

/// What is told as JSON on the standard error of a pool that was rebuilt.
#[derive(Serialize)]
struct TellsRebuilt<'a> {
    rebuilt: RebuiltAsJson<'a>,
}

/// A [`Rebuilt`].
#[derive(Serialize)]
struct RebuiltAsJson<'a> {
    damages: &'a [String],
    kept: Option<String>,
    replayed: u64,
    skipped: &'a [String],
    snapshot_pairs: u64,
}

impl<'a> From<&'a Rebuilt> for RebuiltAsJson<'a> {
    fn from(from: &'a Rebuilt) -> Self {
        Self {
            damages: &from.damages,
            kept: from.kept.as_ref().map(|kept| kept.display().to_string()),
            replayed: from.replayed,
            skipped: &from.skipped,
            snapshot_pairs: from.snapshot_pairs,
        }
    }
}

/// What is told as JSON there of a pool that loses its file.
#[derive(Serialize)]
struct TellsPoolGone {
    pool_gone: String,
}

/// What is told as JSON there of a log that was salvaged beside its pool.
#[derive(Serialize)]
struct TellsSalvaged<'a> {
    log_salvaged: &'a [String],
}

/// Says that a pool was rebuilt, and what of its log is lost.
fn tell_rebuilt(rebuilt: &Rebuilt, global: Global) {
    if global.json {
        return remark_as_json(&TellsRebuilt { rebuilt: rebuilt.into() });
    }
    for damage in &rebuilt.damages {
        remark(&format!("what was logged behind it is lost: {damage}"));
    }
    // Also with --quiet: nobody else tells of a file that may have more.
    if !global.quiet || rebuilt.kept.is_some() {
        remark(&told(rebuilt));
    }
}

/// Says what is damaged of a log that goes on without it, beside a pool that has it.
fn tell_salvaged(damages: &[String], global: Global) {
    if global.json {
        return remark_as_json(&TellsSalvaged { log_salvaged: damages });
    }
    for damage in damages {
        remark(&format!(
            "the log is damaged, and goes on without what was logged behind that, which the pool has: {damage}"
        ));
    }
}

/// What was done, in a line.
fn told(rebuilt: &Rebuilt) -> String {
    let what = format!(
        "rebuilt it from {} of a snapshot and {} of the log",
        counted(rebuilt.snapshot_pairs, "key"),
        counted(rebuilt.replayed, "commit")
    );
    let what = match &rebuilt.skipped[..] {
        [] => what,
        skipped => format!("{what} (newer ones were passed over: {})", skipped.join("; ")),
    };
    match &rebuilt.kept {
        None => format!("the pool was missing or could not be used: {what}"),
        Some(kept) => format!(
            "the pool could not be used as it was: {what}; the file that was there may have more, and is kept as {}: \
             remove it if nobody needs it",
            kept.display()
        ),
    }
}

/// The chosen map, which must exist.
pub fn existing_map(store: &Store, pool: &Path, name: Option<&str>) -> Result<Map, Failure> {
    let Some(name) = name else { return Ok(store.default_map().clone()) };
    store.existing_map(name)?.ok_or_else(|| {
        let pool = pool.display();
        Failure::not_found(format!(
            "there is no map named {name:?} in {pool}: `everleaf maps {pool}` lists its maps"
        ))
    })
}

/// The chosen map, created if it is not there yet.
pub fn map_or_new(store: &Store, name: Option<&str>) -> Result<Map, Failure> {
    match name {
        None => Ok(store.default_map().clone()),
        Some(name) => Ok(store.map(name)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_has_no_option_of_trust_names_a_way() {
        let text = |error| without_trust(error).message;
        let crashed = text(Error::MachineCrashed(format!("repair it, or open it with {TRUST}")));
        assert!(crashed.starts_with("repair it") && crashed.contains("this command has no "));
        assert_eq!(text(Error::Locked("in use".into())), "in use");
    }
}
