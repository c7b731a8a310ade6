//! Calls on a disk that refuses, and in a pool that is full. What a call that fails has done may be there as a whole
//! or not at all, for lack of space not at all; what was acknowledged stays; and when the log has failed nothing
//! changes any more. Behind a crash, a death or an end all goes on with a disk that works.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everleaf_log::simulated::{Faults, Random, SimulatedDisk};
use tempfile::TempDir;

use super::calling::{SetClock, kept};
use super::calls::draw::{BEGIN_MS, Draw, Kind};
use super::calls::make::Hands;
use super::calls::told::shown;
use super::calls::{Call, KEYS, State, What};
use super::model::{Contents, Counts};
use super::world::{folder, options};
use crate::{Error, Options, Store};

/// Calls of a life.
const CALLS: usize = 26;
/// Operations of the disk before one is refused, at most.
const HEALTHY_MAX: usize = 60;
/// A pool that is full soon, and what fills it.
const SMALL_POOL: u64 = 4 << 20;
const LARGE_VALUE: usize = 600 << 10;
const LONG: usize = 6000;
/// States that a store may be in, at most.
const WORLDS_MAX: usize = 24;

/// What is refused.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Refuses {
    /// One operation of the disk.
    Once,
    /// All from one on.
    All,
    /// A sync, which forgets what it did not write.
    Sync,
    /// More space on the disk.
    Space,
    /// More space in the pool.
    PoolSpace,
    /// Nothing, but writes are short.
    Nothing,
}

const KINDS: [Refuses; 6] = [
    Refuses::Once,
    Refuses::All,
    Refuses::Sync,
    Refuses::Space,
    Refuses::PoolSpace,
    Refuses::Nothing,
];

/// What the store may be after each call.
struct Story {
    worlds: Vec<Vec<State>>,
    /// What it may be when the call that is being made has returned.
    next: Vec<State>,
    acknowledged: usize,
    random: Random,
    counts: Counts,
}

impl Story {
    fn now(&self) -> &Vec<State> {
        self.worlds.last().expect("there is one from the start")
    }

    /// Whether this may be found of a store that has kept the states up to one.
    fn fits(&self, low: usize, found: &Contents) -> bool {
        let mut all = self.worlds[low..].iter().flatten().chain(&self.next);
        all.any(|state| state.fits(found, BEGIN_MS))
    }
}

#[derive(Clone)]
struct Run {
    folder: Arc<TempDir>,
    pool: PathBuf,
    disk: SimulatedDisk,
    refuses: Refuses,
    story: Arc<Mutex<Story>>,
}

fn lock(story: &Mutex<Story>) -> MutexGuard<'_, Story> {
    story.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs lives with these planted bugs, in which something is refused: what was seen.
///
/// # Panics
/// The store did what it must not.
pub fn run(number: u64, faults: Faults) -> Counts {
    let folder = Arc::new(folder());
    let story = Story {
        worlds: vec![vec![State::new()]],
        next: vec![],
        acknowledged: 0,
        random: Random::new(number),
        counts: Counts::default(),
    };
    let mut random = Random::new(number ^ 0x0F_F1CE);
    let run = Run {
        pool: folder.path().join("pool"),
        folder,
        disk: SimulatedDisk::new(faults, number),
        refuses: KINDS[random.below(KINDS.len())],
        story: Arc::new(Mutex::new(story)),
    };
    let _clock = SetClock::at(BEGIN_MS);
    let long = if run.refuses == Refuses::PoolSpace { LARGE_VALUE } else { LONG };
    let mut draw = Draw::new(number, Kind::All, KEYS.len() - 1, long);
    for life in 0..2 + draw.random.below(2) {
        run.live(&mut draw, life > 0);
    }
    lock(&run.story).counts
}

impl Run {
    fn options(&self) -> Options {
        let mut options = options(&self.disk);
        if self.refuses == Refuses::PoolSpace {
            options = options.max_size_bytes(SMALL_POOL);
            // What large values leave has no room for anything else.
            options.chunk_shift = 0;
        }
        options
    }

    fn heal(&self, faults: &Faults) {
        self.disk.clear_hook();
        self.disk.set_faults(faults.clone());
    }

    /// From some operation on the disk refuses; before operations the power is cut now and then.
    fn set_hook(&self, healthy: usize) {
        let (run, good) = (self.clone(), self.disk.faults());
        let mut count = 0;
        self.disk.set_hook(move |disk| {
            count += 1;
            let is_due = count > healthy;
            let faults = match run.refuses {
                Refuses::Once if count == healthy + 1 => Faults { error_one_in: 1, ..good.clone() },
                Refuses::All if is_due => Faults { error_one_in: 1, ..good.clone() },
                Refuses::Sync if is_due => Faults { sync_error_one_in: 2, ..good.clone() },
                // There is no more than there was.
                Refuses::Space if is_due => Faults { capacity: 0, ..good.clone() },
                Refuses::Nothing => Faults { short_write_one_in: 3, ..good.clone() },
                _ => good.clone(),
            };
            disk.set_faults(faults);
            let (crash, seed) = {
                let random = &mut lock(&run.story).random;
                (random.one_in(14), random.bits())
            };
            // Unless the thread unwinds, as in `world.rs`.
            if crash && !std::thread::panicking() {
                std::thread::scope(|scope| {
                    let checked = scope.spawn(|| run.crash(seed, &good)).join();
                    checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                });
            }
        });
    }

    /// Opens the store, makes calls until one is refused and some more, and ends it.
    fn live(&self, draw: &mut Draw, refuses_opening: bool) {
        let good = self.disk.faults();
        let at_once = refuses_opening && draw.random.one_in(4);
        let healthy = draw.random.below(if at_once { 12 } else { HEALTHY_MAX });
        if at_once {
            self.set_hook(healthy);
        }
        let store = match self.options().open(&self.pool) {
            Ok(store) => store,
            Err(error) => {
                let is_full = self.refuses == Refuses::Space && matches!(error, Error::DiskFull(_));
                let is_told = is_full || self.refuses.is_told_by(&error);
                assert!(at_once && is_told, "{:?}: {error}", self.refuses);
                self.heal(&good);
                self.options().open(&self.pool).expect("the disk works again")
            }
        };
        self.begin(&store);
        if !at_once {
            self.set_hook(healthy);
        }
        let mut hands = Hands::default();
        for _ in 0..CALLS {
            self.call(&store, &mut hands, draw);
        }
        drop(hands);
        match draw.random.below(3) {
            0 => {
                let seed = draw.random.bits();
                self.crash(seed, &good);
                drop(store);
            }
            // It says so if it cannot.
            1 => drop(store.close()),
            _ => drop(store),
        }
        self.heal(&good);
        self.end(draw.random.bits());
    }

    /// What is found when the store was opened is one of the states that it may be in.
    fn begin(&self, store: &Store) {
        let found = kept(store, BEGIN_MS);
        let mut story = lock(&self.story);
        let last = story.worlds.len() - 1;
        let all = story.worlds[last].iter().filter(|state| state.fits(&found, BEGIN_MS));
        let all: Vec<State> = all.map(|state| state.again(&found)).collect();
        assert!(!all.is_empty(), "opened again it has\n{}", shown(&found));
        story.next.clear();
        story.worlds.push(all);
        story.acknowledged = last + 1;
    }

    fn call(&self, store: &Store, hands: &mut Hands, draw: &mut Draw) {
        let had_failed = store.has_log_failed();
        let now = lock(&self.story).now().clone();
        let call = draw.call(&now[0], BEGIN_MS);
        let mut answers = vec![];
        let apply = |state: &State| {
            let mut next = state.clone();
            answers.push(next.apply(&call, BEGIN_MS));
            next
        };
        let next: Vec<State> = now.iter().map(apply).collect();
        let middle: Vec<State> = now.iter().flat_map(|state| state.middle(&call)).collect();
        // It need not even be begun.
        lock(&self.story).next =
            if had_failed { vec![] } else { next.iter().chain(&middle).cloned().collect() };
        let answer = call.make(store, hands);
        let mut story = lock(&self.story);
        story.next.clear();
        let is_change = |before: &State, after: &State| match call {
            Call::Sync | Call::Snapshot => true,
            // It waits for nothing.
            Call::Sweep(_) => false,
            // Nor does it where all it does is to free what has expired.
            Call::Key { what: What::Remove, .. } => before.bare() != after.bare(),
            _ => before.maps != after.maps,
        };
        let (worlds, is_told) = match &answer {
            Ok(answer) => {
                let all = now.iter().zip(next).zip(&answers);
                let fits = all.filter(|(_, expected)| *expected == answer);
                let left: Vec<(&State, State)> = fits.map(|(both, _)| both).collect();
                assert!(!left.is_empty(), "{}", shown(&(answer, "none of", &answers, &call)));
                let is_told = left.iter().all(|(before, after)| is_change(before, after));
                (left.into_iter().map(|(_, after)| after).collect(), is_told)
            }
            Err(error) => match self.leaves(&call, error, had_failed) {
                Leaves::Nothing => (now.clone(), false),
                Leaves::AllOrNothing => (
                    now.iter().cloned().chain(next).chain(middle).take(WORLDS_MAX).collect(),
                    false,
                ),
            },
        };
        story.worlds.push(worlds);
        if is_told {
            assert!(!had_failed, "{} was done, and the log has failed", shown(&call));
            story.acknowledged = story.worlds.len() - 1;
        }
    }

    /// What a call leaves that has failed so.
    fn leaves(&self, call: &Call, error: &Error, had_failed: bool) -> Leaves {
        let is_told =
            self.refuses.is_told_by(error) || self.refuses.is_snapshot_refused(call, error);
        assert!(is_told, "{:?}: {}: {error}", self.refuses, shown(call));
        let is_one_step = !matches!(call, Call::Make(_) | Call::Load(..) | Call::Drop(_));
        let lacks_space = matches!(error, Error::PoolFull(_) | Error::DiskFull(_));
        assert!(!lacks_space || !needs_no_space(call), "{}: {error}", shown(call));
        match is_one_step && (had_failed || lacks_space) {
            true => Leaves::Nothing,
            false => Leaves::AllOrNothing,
        }
    }

    /// The machine crashes, and starts with a disk that works.
    fn crash(&self, seed: u64, good: &Faults) {
        let low = {
            let mut story = lock(&self.story);
            story.counts.crashes += 1;
            story.acknowledged
        };
        let pool = self.folder.path().join(format!("crashed-{seed:x}"));
        self.look(self.disk.crashed(seed), &pool, low, good);
        let _ = std::fs::remove_file(pool);
    }

    fn look(&self, disk: SimulatedDisk, pool: &Path, low: usize, good: &Faults) {
        let _clock = SetClock::at(BEGIN_MS);
        disk.set_faults(good.clone());
        let mut options = self.options();
        options.log_disk = Some(disk);
        // As large as it must be: it is not so full that it cannot be rebuilt.
        let store = options.max_size_bytes(1 << 26).open(pool).expect("what is left can be opened");
        let found = kept(&store, BEGIN_MS);
        let story = lock(&self.story);
        assert!(
            story.fits(low, &found),
            "left of a crash behind {low} of {} is\n{}\nand not\n{}\n{:?}",
            story.worlds.len(),
            shown(&found),
            shown(&story.worlds[low][0].maps),
            self.refuses,
        );
    }

    /// The store has ended: what is there now is opened, and is durable from then on.
    fn end(&self, seed: u64) {
        let mut story = lock(&self.story);
        story.counts.kills += 1;
        let last = story.worlds.len() - 1;
        let mut all: Vec<State> = std::mem::take(&mut story.next);
        all.extend(story.worlds[last].iter().cloned());
        story.worlds.push(all);
        drop(story);
        let copy = self.folder.path().join(format!("ended-{seed:x}"));
        std::fs::copy(&self.pool, &copy).expect("room");
        let disk = self.disk.copied(seed);
        let mut options = self.options();
        options.log_disk = Some(disk.clone());
        let store = options.open(&copy).expect("what has ended can be opened");
        let found = kept(&store, BEGIN_MS);
        let fits = |low: usize, found: &Contents| lock(&self.story).fits(low, found);
        assert!(fits(last + 1, &found), "{:?} ended with\n{}", self.refuses, shown(&found));
        let crashed = disk.crashed(seed);
        drop(store);
        let _ = std::fs::remove_file(copy);
        let mut options = self.options().max_size_bytes(1 << 26);
        options.log_disk = Some(crashed);
        let pool = self.folder.path().join(format!("again-{seed:x}"));
        let again = kept(&options.open(&pool).expect("it can be rebuilt"), BEGIN_MS);
        // But for what has expired, which the pool need not have had any more.
        let state =
            lock(&self.story).worlds[last + 1].iter().find(|it| it.fits(&found, BEGIN_MS)).cloned();
        let is_kept = state.is_some_and(|state| state.fits(&again, BEGIN_MS));
        assert!(is_kept, "of\n{}\nis kept\n{}", shown(&found), shown(&again));
        let _ = std::fs::remove_file(pool);
    }
}

enum Leaves {
    Nothing,
    AllOrNothing,
}

impl Refuses {
    /// Whether this is how a store says so.
    fn is_told_by(self, error: &Error) -> bool {
        match error {
            Error::SnapshotBusy(_) => true,
            Error::PoolFull(_) | Error::DiskFull(_) => self == Refuses::PoolSpace,
            Error::LogFailed(_) | Error::LogFull(_) | Error::Io(..) => {
                !matches!(self, Refuses::PoolSpace | Refuses::Nothing)
            }
            _ => false,
        }
    }

    /// Whether it is the file of a snapshot for which there is no space: the log goes on without it.
    fn is_snapshot_refused(self, call: &Call, error: &Error) -> bool {
        self == Refuses::Space && matches!((call, error), (Call::Snapshot, Error::DiskFull(_)))
    }
}

/// Whether a call needs no space of the pool.
fn needs_no_space(call: &Call) -> bool {
    match call {
        Call::Key { what, .. } => {
            matches!(what, What::Remove | What::Get | What::Contains | What::Expiry | What::Both)
        }
        Call::Look { .. } | Call::ReadAll { .. } => true,
        Call::ReadView { .. } | Call::CloseView(_) | Call::Sync => true,
        _ => false,
    }
}
