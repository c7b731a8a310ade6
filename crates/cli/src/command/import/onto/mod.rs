//! `everleaf import SOURCE redis://TARGET`: the keys of a server in another one that runs, and what is written
//! meanwhile.
//!
//! To the source we are a replica: it sends a snapshot of all its keys, and behind it every command that changes
//! one. The target gets the keys as commands, and then those commands as they are. The source is told how much
//! of its stream the target has acknowledged, so that its `WAIT` counts the target.

mod changes;
mod compare;
mod held;
mod keys;
mod refusal;
mod replica;
mod target;
mod times;

use super::arguments::ImportArgs;
use super::live::Live;
use super::report::{Report, told_of_empty};
use crate::failure::Failure;
use crate::global::Global;
use crate::output::{Output, counted, remark};
use crate::progress::Progress;
use crate::redis::address::{Address, without_password};
use replica::Replica;
use serde::Serialize;
use std::time::{Duration, Instant};
use target::Target;

/// How long to wait for the stream before it is looked at whether that was long enough.
const TURN: Duration = Duration::from_millis(200);
/// How long to look whether anything waits.
const LOOK: Duration = Duration::from_millis(1);
/// How long something may always wait until the target is behind: keys live so much longer there and more.
const MOMENT: Duration = Duration::from_secs(2);
/// How long to rest before a source is asked again that could not be.
const ASK_REST: Duration = Duration::from_secs(5);
/// Bytes of commands that are sent before their replies are read.
const BATCH_SIZE: u64 = 64 << 10;
/// Keys between two updates of the progress bar.
const PROGRESS_STEP: u64 = 512;

/// What is said when the target falls behind, or may do so.
const BEHIND_TEXT: &str = "behind the source: what is written there comes later";
const UNHEARD_TEXT: &str = "the source is not heard: what is written there comes later";

/// What was done.
#[derive(Default)]
struct Done {
    keys: Report,
    /// Commands that were passed on.
    commands: u64,
}

/// Copies all keys of a source to a target, passes on what is written, and compares both.
pub fn run(
    args: &ImportArgs,
    target: &Address,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    let source = args.address()?.ok_or_else(|| {
        Failure::usage(
            "a file is imported into a pool: to bring it to a server that runs, import it, and give \
             `everleaf export --format resp` of the pool to redis-cli --pipe",
        )
    })?;
    if source.is_cluster || target.is_cluster {
        return Err(Failure::usage(
            "a cluster is imported into a pool, and a pool goes into a cluster with \
             `everleaf export POOL --to redis-cluster://HOST:PORT`",
        ));
    }
    if source.database.is_some() || target.database.is_some() {
        return Err(Failure::usage("from server to server all databases go: name none"));
    }
    demand_empty(args, target)?;
    if !args.no_verify {
        // What the comparison would be refused is told before anything is copied.
        let mut live = connect(&source, args)?;
        if !global.quiet {
            live.tell_of_others(&source)?;
        }
    }
    let mut to = Target::connect(target, args)?;
    let mut from = Replica::connect(&source, args.cacert.as_deref())?;
    let show = global.wants_progress();
    let mut done = Done::default();
    copy(&mut from, &mut to, args, &mut done.keys, show)?;
    if let Some(seconds) = args.follow {
        let say = |what: &str| {
            if !global.quiet {
                remark(what);
            }
        };
        done.commands = follow(&mut from, &mut to, Duration::from_secs(seconds), say, show)?;
    }
    done.keys.skipped += to.left_away();
    if !args.no_verify {
        done.keys.verified = compare::run(&source, target, args, done.keys.keys, show)?;
    }
    tell(args, &done, global, out)
}

/// A target with keys is not touched: they would be mixed, and could not be told apart any more.
fn demand_empty(args: &ImportArgs, target: &Address) -> Result<(), Failure> {
    match connect(target, args)?.key_count() {
        Some(0) => Ok(()),
        count => {
            let what = count.map_or("perhaps keys".to_string(), |count| counted(count, "key"));
            Err(Failure::usage(format!(
                "the target has {what}: a source is copied to an empty one (FLUSHALL empties it)"
            )))
        }
    }
}

/// Asks a server what it has.
fn connect(address: &Address, args: &ImportArgs) -> Result<Live, Failure> {
    let patience = Duration::from_secs(args.timeout);
    Live::connect(address, args.cacert.as_deref(), patience, args.whole_size_max)
}

fn copy(
    from: &mut Replica,
    to: &mut Target,
    args: &ImportArgs,
    report: &mut Report,
    show: bool,
) -> Result<(), Failure> {
    let progress = Progress::count(show, "copying");
    let database = from.snapshot(&mut |item| {
        keys::put(to, args, item, report)?;
        let seen = report.keys + report.expired + report.skipped;
        if seen.is_multiple_of(PROGRESS_STEP) {
            progress.set(seen);
        }
        Ok(())
    })?;
    to.select(database)?;
    to.flush()
}

/// Passes commands on until no change has come for so long; returns how many there were. Says when nothing waits, and
/// when the target has fallen behind. A source that is lost is reached again, and what it could not say is no
/// silence; nor is the time in which this process was stopped, or nothing at all came, not even a sign of life. At the
/// end the source is asked how much it has to send, and all that is passed on, too; if no change is in it, that was the
/// end.
fn follow(
    from: &mut Replica,
    to: &mut Target,
    silence: Duration,
    say: impl Fn(&str),
    show: bool,
) -> Result<u64, Failure> {
    let progress = Progress::count(show, "following");
    let say = |what: &str| {
        progress.clear();
        say(what);
    };
    let turn = TURN.min(silence);
    let (mut commands, mut quiet, mut end) = (0, Duration::ZERO, End::default());
    // Whether times are held back, and whether it is said that the target is not in step.
    let (mut is_behind, mut is_said) = (true, true);
    // When nothing waited.
    let mut reached = Instant::now();
    loop {
        let (before, began) = (commands, Instant::now());
        let has_more = match pass_on(from, to, turn, &mut commands) {
            Err(failure) if from.is_lost() => {
                say(&format!("{}: connecting again", failure.message));
                (is_behind, is_said) = (true, true);
                reach_again(from, to)?;
                (quiet, end.goal) = (Duration::ZERO, None);
                continue;
            }
            passed => passed?,
        };
        quiet = match commands > before {
            true => Duration::ZERO,
            false if from.is_unheard() => quiet,
            // A turn may take as long as a process is stopped, while the source goes on.
            false => quiet + began.elapsed().min(turn),
        };
        if commands > before {
            end.goal = None;
        }
        progress.set(commands);
        // What is no change comes, too, where programs publish or wait. Within a transaction the target has done
        // nothing yet, and does nothing of what it is asked.
        if to.is_in_transaction() {
            continue;
        }
        if end.is_reached(from) {
            to.give_times()?;
            return Ok(commands);
        }
        let is_unheard = !has_more && from.is_unheard();
        if has_more || is_unheard {
            if is_unheard || reached.elapsed() >= MOMENT {
                to.hold_back()?;
                is_behind = true;
                if !std::mem::replace(&mut is_said, true) {
                    say(if is_unheard { UNHEARD_TEXT } else { BEHIND_TEXT });
                }
            }
            continue;
        }
        if std::mem::take(&mut is_behind) {
            to.let_go()?;
        }
        if std::mem::take(&mut is_said) {
            say("in step with the source: what is written there is passed on");
        }
        reached = Instant::now();
        if quiet < silence || !end.is_to_ask() {
            continue;
        }
        // To ask may take longer than keys live longer.
        to.hold_back()?;
        is_behind = true;
        if end.ask(from, say) {
            to.give_times()?;
            return Ok(commands);
        }
    }
}

/// Reaches a source again, which may take longer than keys live longer.
fn reach_again(from: &mut Replica, to: &mut Target) -> Result<(), Failure> {
    from.reconnect(|| match to.is_in_transaction() {
        true => Ok(()),
        false => to.hold_back(),
    })
}

/// What the source says of its stream's end, when no change has come for long enough.
#[derive(Default)]
struct End {
    /// How far the stream went when the source was asked; no change has come since.
    goal: Option<u64>,
    /// When it could not be asked, for the last time.
    failed_at: Option<Instant>,
}

impl End {
    /// Whether all has come that the source had when it was asked.
    fn is_reached(&self, from: &Replica) -> bool {
        self.goal.is_some_and(|goal| from.offset() >= goal)
    }

    fn is_to_ask(&self) -> bool {
        self.goal.is_none() && self.failed_at.is_none_or(|failed| failed.elapsed() >= ASK_REST)
    }

    /// Asks the source; returns whether this is the end. If the source does not tell its user how far it is, whether it
    /// was heard counts. That it cannot be asked is said once.
    fn ask(&mut self, from: &Replica, say: impl Fn(&str)) -> bool {
        match from.told_offset() {
            Ok(None) => return !from.is_unheard(),
            Ok(goal) => self.goal = goal,
            Err(error) => {
                if self.failed_at.replace(Instant::now()).is_none() {
                    say(&format!(
                        "the source cannot be asked whether that was all ({error}): it is followed on"
                    ));
                }
            }
        }
        self.is_reached(from)
    }
}

/// Waits so long for the stream, and passes a batch of it on, if something comes. Returns whether more waits.
fn pass_on(
    from: &mut Replica,
    to: &mut Target,
    patience: Duration,
    commands: &mut u64,
) -> Result<bool, Failure> {
    let start = from.offset();
    let mut is_asked = false;
    // The rest of a transaction is awaited for as long as anything is.
    if !to.is_in_transaction() && !from.wait(patience)? {
        return Ok(false);
    }
    while from.offset() - start < BATCH_SIZE && (from.offset() == start || from.has_more()) {
        let command = from.next_command()?;
        if replica::asks_for_offset(&command) {
            is_asked = true;
        } else if to.pass_on(command)? {
            *commands += 1;
        }
    }
    to.flush()?;
    from.acknowledge(is_asked)?;
    // That all is used up that was read says nothing of what has not been read.
    from.wait(LOOK)
}

/// What is told as JSON.
#[derive(Serialize)]
struct Told<'a> {
    commands: u64,
    empty: u64,
    expired: u64,
    keys: u64,
    skipped: u64,
    target: &'a str,
    verified: bool,
}

fn tell(args: &ImportArgs, done: &Done, global: Global, out: &mut Output) -> Result<(), Failure> {
    let report = &done.keys;
    if global.json {
        return out.json(&Told {
            commands: done.commands,
            empty: report.empty,
            expired: report.expired,
            keys: report.keys,
            skipped: report.skipped,
            target: without_password(&args.pool.to_string_lossy()),
            verified: !args.no_verify,
        });
    }
    if global.quiet {
        return Ok(());
    }
    let skipped = match report.skipped {
        0 => String::new(),
        count => format!(", {} skipped", counted(count, "unsupported item")),
    };
    let followed = match args.follow {
        None => String::new(),
        Some(_) => format!(", {} passed on", counted(done.commands, "command")),
    };
    let compared = if args.no_verify { "not compared" } else { "compared with the source" };
    let (keys, empty) = (counted(report.keys, "key"), told_of_empty(report));
    out.line(&format!("copied {keys}{followed}{skipped}{empty}, {compared}"))
}
