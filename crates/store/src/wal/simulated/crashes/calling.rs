//! One thread that makes every call there is, on a clock that moves: each answer is judged, and what crashes of the
//! machine and deaths of the process leave at any moment, also between a change and its record.
//!
//! Time passes between calls, and at one of the points or operations of the disk within a call that is done at one
//! moment: that is then judged as before or behind it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use everleaf_index::Hardware;
use everleaf_log::simulated::{Faults, Random, SimulatedDisk};
use tempfile::TempDir;

use super::calls::draw::{BEGIN_MS, Draw, Kind, STEP_MS};
use super::calls::make::Hands;
use super::calls::told::shown;
use super::calls::{Answer, Call, KEYS, State};
use super::model::{Contents, Counts};
use super::world::{contents, folder, options};
use crate::{Durability, Options, Store, Tree};

/// Lives that come out of another one.
const DEPTH_MAX: u32 = 2;
/// Calls of a life, and of one that comes out of another.
const CALLS: usize = 30;
const CALLS_AFTER: usize = 8;
/// A value whose expiry changes in place.
const LONG: usize = 6000;
/// Points and operations of the disk that go by, less one, before time passes within a call, at most.
const POINTS: usize = 6;

/// A clock that is set for the calling thread until this goes.
pub struct SetClock;

impl SetClock {
    pub fn at(ms: u64) -> SetClock {
        Hardware::set_wall_clock_ms(Some(ms));
        SetClock
    }
}

impl Drop for SetClock {
    fn drop(&mut self) {
        Hardware::set_wall_clock_ms(None);
    }
}

/// What a store keeps, also of what has expired. What it shows at this time must be the rest.
pub fn kept(store: &Store, now_ms: u64) -> Contents {
    Hardware::set_wall_clock_ms(Some(1));
    let kept = contents(store);
    Hardware::set_wall_clock_ms(Some(now_ms));
    let mut live = kept.clone();
    let is_live = |(_, expiry_ms): &(Vec<u8>, u64)| *expiry_ms == 0 || *expiry_ms > now_ms;
    live.values_mut().for_each(|pairs| pairs.retain(|_, pair| is_live(pair)));
    assert_eq!(contents(store), live, "what is shown at {now_ms} of what is kept");
    kept
}

/// The store after each call.
struct Story {
    states: Vec<State>,
    /// Up to this state it was told to be durable.
    acknowledged: usize,
    /// How many of the last states are those of a call which has not returned.
    calling: usize,
    now_ms: u64,
    /// Time that is to pass within the call.
    passing: Option<Passing>,
    random: Random,
    counts: Counts,
}

/// When in a call it will be another time.
struct Passing {
    /// The thread that makes the call: each has a clock of its own.
    caller: ThreadId,
    /// Points and operations of the disk before.
    points: usize,
    to_ms: u64,
}

impl Story {
    /// A store that is in this state now.
    fn new(state: State, now_ms: u64, seed: u64) -> Story {
        Story {
            states: vec![state],
            acknowledged: 0,
            calling: 0,
            now_ms,
            passing: None,
            random: Random::new(seed),
            counts: Counts::default(),
        }
    }

    fn last(&self) -> usize {
        self.states.len() - 1
    }

    /// A point within a call, at which time may pass.
    fn reach(&mut self) {
        let caller = std::thread::current().id();
        let Some(passing) = self.passing.take_if(|passing| passing.caller == caller) else {
            return;
        };
        match passing.points.checked_sub(1) {
            Some(points) => self.passing = Some(Passing { points, ..passing }),
            None => {
                self.counts.passed += 1;
                self.now_ms = passing.to_ms;
                Hardware::set_wall_clock_ms(Some(self.now_ms));
            }
        }
    }
}

/// A store, and what it must be.
#[derive(Clone)]
struct Run {
    folder: Arc<TempDir>,
    pool: PathBuf,
    disk: SimulatedDisk,
    tree: Tree,
    /// Whether calls wait for the disk: the mode is `Power`.
    waits: bool,
    story: Arc<Mutex<Story>>,
    depth: u32,
}

/// How a life is opened.
struct Manner {
    options: Options,
    /// Whether a call that has returned is durable.
    waits: bool,
    is_held: bool,
}

fn lock(story: &Mutex<Story>) -> MutexGuard<'_, Story> {
    story.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs some lives of a store with these planted bugs: what it has seen.
pub fn run(number: u64, faults: Faults) -> Counts {
    let folder = Arc::new(folder());
    let story = Story::new(State::new(), BEGIN_MS, number);
    let run = Run {
        pool: folder.path().join("pool"),
        folder,
        disk: SimulatedDisk::new(faults, number),
        tree: if number.is_multiple_of(4) { Tree::HashedLeaf } else { Tree::NbTree },
        waits: number % 3 != 1,
        story: Arc::new(Mutex::new(story)),
        depth: 0,
    };
    let _clock = SetClock::at(BEGIN_MS);
    let mut draw = Draw::new(number, Kind::All, KEYS.len() - 1, LONG);
    for _ in 0..1 + draw.random.below(2) {
        run.live(&mut draw, CALLS);
    }
    lock(&run.story).counts
}

impl Run {
    fn manner(&self, random: &mut Random) -> Manner {
        // What was killed owes a snapshot, where nobody waits; what that means is in `world.rs`.
        let waits = self.waits || self.depth > 0;
        let mode =
            if waits { Durability::Power } else { Durability::Interval(Duration::from_secs(3600)) };
        let mut options = options(&self.disk).durability(mode).tree(self.tree);
        options = options.recovery_threads(1 + random.below(3)).open_at_once(random.one_in(3));
        options = options.verify_reads(random.one_in(2)).verify_scans(random.one_in(2));
        Manner { options, waits, is_held: random.one_in(2) }
    }

    /// Cuts the power before operations of the disk, and kills the process there and at the points of the store.
    fn set_hooks(&self, manner: &Manner) {
        let image =
            Image { run: self.clone(), options: manner.options.clone(), lives_on: manner.waits };
        let (at_point, rare) = (image.clone(), 6 + 12 * self.depth);
        self.disk.set_hook(move |_| {
            let (crash, kill) = {
                let mut story = lock(&image.run.story);
                story.reach();
                let random = &mut story.random;
                (random.one_in(rare), random.one_in(2 * rare))
            };
            if crash {
                image.crash();
            }
            if kill {
                image.kill();
            }
        });
        // Before the hooks are cleared they keep the disk, which has them.
        self.disk.set_point_hook(move |_| {
            let kill = {
                let mut story = lock(&at_point.run.story);
                story.reach();
                story.random.one_in(2 * rare)
            };
            if kill {
                at_point.kill();
            }
        });
    }

    /// Opens the store, makes so many calls, and ends it.
    fn live(&self, draw: &mut Draw, count: usize) {
        let manner = self.manner(&mut draw.random);
        self.set_hooks(&manner);
        let store = manner.options.clone().open(&self.pool).expect("it opens");
        {
            let now_ms = lock(&self.story).now_ms;
            let found = kept(&store, now_ms);
            let mut story = lock(&self.story);
            let last = story.last();
            assert!(story.states[last].fits(&found, story.now_ms), "nothing happened meanwhile");
            // Views and watches are gone, and what was swept is known.
            let again = story.states[last].again(&found);
            story.states.push(again);
            story.acknowledged = last + 1;
        }
        if manner.is_held {
            store.defer_sync();
        }
        let mut hands = Hands::default();
        for _ in 0..count {
            self.pass_time(&mut draw.random);
            self.call(&store, &mut hands, draw, &manner);
        }
        drop(hands);
        if draw.random.one_in(2) {
            store.close().expect("it can be closed");
        } else {
            drop(store);
        }
        self.disk.clear_hook();
        let mut story = lock(&self.story);
        story.acknowledged = story.last();
    }

    fn pass_time(&self, random: &mut Random) {
        if random.one_in(4) {
            let mut story = lock(&self.story);
            story.now_ms += STEP_MS * (1 + random.below(3) as u64);
            Hardware::set_wall_clock_ms(Some(story.now_ms));
        }
    }

    fn call(&self, store: &Store, hands: &mut Hands, draw: &mut Draw, manner: &Manner) {
        let (call, expected) = self.begin(draw);
        let answer = call.make(store, hands);
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", shown(&call)));
        self.end(&call, &answer, &expected);
        let waits = draw.random.one_in(3);
        if manner.is_held && waits {
            store.wait_deferred().expect("the disk works");
        }
        let mut story = lock(&self.story);
        story.calling = 0;
        let is_waited_for = manner.waits && (!manner.is_held || waits);
        // What changes nothing waits for nothing; but nothing is wanting, either.
        if is_waited_for || matches!(call, Call::Sync | Call::Snapshot) {
            story.acknowledged = story.last();
        }
    }
}

impl Run {
    /// Draws a call, and notes what it will make of the store: what it must answer, at the time that it is now, and at
    /// the time that it may be when it returns.
    fn begin(&self, draw: &mut Draw) -> (Call, [Answer; 2]) {
        let mut story = lock(&self.story);
        let (state, now_ms) = (story.states[story.last()].clone(), story.now_ms);
        let call = draw.call(&state, now_ms);
        let mut to_ms = now_ms;
        if call.is_of_one_moment() && draw.random.one_in(3) {
            to_ms += STEP_MS * (1 + draw.random.below(3) as u64);
            let (caller, points) = (std::thread::current().id(), draw.random.below(POINTS));
            story.passing = Some(Passing { caller, points, to_ms });
        }
        let (middle, mut now, mut later) = (state.middle(&call), state.clone(), state);
        let expected = [now.apply(&call, now_ms), later.apply(&call, to_ms)];
        let before = story.states.len();
        let behind = [later, now];
        story.states.extend(middle.into_iter().chain(behind));
        story.calling = story.states.len() - before;
        (call, expected)
    }

    /// Judges what a call has answered, and forgets what it was not.
    fn end(&self, call: &Call, answer: &Answer, [now, later]: &[Answer; 2]) {
        let mut story = lock(&self.story);
        let has_passed = story.passing.take().is_none();
        let is_later = answer != now;
        assert!(
            !is_later || has_passed && answer == later,
            "{}",
            shown(&(answer, "and it must be", now, "or, if time passes,", later, "of", call))
        );
        let last = story.last();
        let other = if is_later { last } else { last - 1 };
        story.states.remove(other);
        story.calling -= 1;
    }
}

/// A moment at which a run may end.
#[derive(Clone)]
struct Image {
    run: Run,
    options: Options,
    lives_on: bool,
}

impl Image {
    /// The machine crashes: the pool is lost, and of the log what was not synced.
    fn crash(&self) {
        let (seed, low) = {
            let mut story = lock(&self.run.story);
            story.counts.crashes += 1;
            (story.random.bits(), story.acknowledged)
        };
        let pool = self.run.folder.path().join(format!("crashed-{seed:x}"));
        self.check_aside(self.run.disk.crashed(seed), pool, low);
    }

    /// The process is killed: the pool is as it was, and the log as it was written.
    fn kill(&self) {
        if !self.run.pool.exists() {
            return;
        }
        let (seed, low) = {
            let mut story = lock(&self.run.story);
            story.counts.kills += 1;
            let low = story.last() - story.calling;
            (story.random.bits(), low)
        };
        let pool = self.run.folder.path().join(format!("killed-{seed:x}"));
        std::fs::copy(&self.run.pool, &pool).expect("room");
        self.check_aside(self.run.disk.copied(seed), pool, low);
    }

    /// [`Self::check`] in a thread of its own: the writes that this one holds are of its own store.
    fn check_aside(&self, disk: SimulatedDisk, pool: PathBuf, low: usize) {
        // As in `world.rs`.
        if std::thread::panicking() {
            return;
        }
        std::thread::scope(|scope| {
            let checked = scope.spawn(|| self.check(disk, &pool, low)).join();
            checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        let _ = std::fs::remove_file(pool);
    }

    /// Opens what was left: it must be one of the states from `low` on. Some lives on.
    fn check(&self, disk: SimulatedDisk, pool: &Path, low: usize) {
        let now_ms = lock(&self.run.story).now_ms;
        let _clock = SetClock::at(now_ms);
        let mut options = self.options.clone();
        options.log_disk = Some(disk.clone());
        let store = options.open(pool).expect("what is left can be opened");
        let found = kept(&store, now_ms);
        let (seed, lives_on, state) = {
            let mut story = lock(&self.run.story);
            let fits = |state: &State| state.fits(&found, now_ms);
            let state = story.states[low..].iter().find(|state| fits(state));
            let state = state.unwrap_or_else(|| {
                panic!(
                    "it is none of the states {low} to {}, but {:?} of all; it has\n{}\nand not\n{}",
                    story.last(),
                    story.states.iter().position(fits),
                    shown(&found),
                    shown(&story.states[low].maps),
                )
            });
            let state = state.again(&found);
            let seed = story.random.bits();
            let lives_on = self.lives_on && self.run.depth < DEPTH_MAX && seed.is_multiple_of(6);
            story.counts.lived_on += u64::from(lives_on);
            (seed, lives_on, state)
        };
        // It takes longer than all of the rest.
        if seed.is_multiple_of(4) {
            let check = store.check().expect("it can be checked");
            assert!(check.is_clean(), "{:?}", check.problems);
        }
        drop(store);
        if lives_on {
            let story = Arc::new(Mutex::new(Story::new(state, now_ms, seed)));
            let (pool, depth) = (pool.to_path_buf(), self.run.depth + 1);
            let next = Run { pool, disk, story, depth, ..self.run.clone() };
            let mut draw = Draw::new(seed, Kind::All, KEYS.len() - 1, LONG);
            next.live(&mut draw, CALLS_AFTER);
            let counts = lock(&next.story).counts;
            lock(&self.run.story).counts.add(counts);
        }
    }
}
