//! Two threads, of which the first stops at one of the points of its calls, or before an operation of the disk. The
//! second then makes its calls, as far as it is not held up, and the first goes on.
//!
//! What both were answered, and what there is in the end, must come of one order of all calls, in which each comes
//! behind those that had returned when it began; and what is left of a crash or a death meanwhile, of a beginning of
//! such an order.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everleaf_log::simulated::{Faults, SimulatedDisk};

use super::calling::{SetClock, kept};
use super::calls::draw::{BEGIN_MS, Draw, Kind, STEP_MS};
use super::calls::make::Hands;
use super::calls::told::shown;
use super::calls::{Answer, Call, NAMES, State, What};
use super::model::{Contents, Counts};
use super::world::{folder, options};
use crate::{Durability, Error, Store};

/// Keys, so few that the threads meet.
const KEYS: usize = 3;
/// Calls before the threads begin.
const BEFORE: usize = 7;
/// Points of the first thread at which it may stop.
const STOPS: usize = 9;
/// How often the second is looked after, with a rest in between, before it counts as held up: not by the clock, since a
/// busy machine lets it wait.
const PATIENCE: u32 = 60;
const REST: Duration = Duration::from_micros(50);
/// How long nothing may happen: it is a deadlock then.
const DEADLOCK: Duration = Duration::from_secs(30);
/// A value whose expiry changes in place.
const LONG: usize = 5000;

thread_local! {
    static IS_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Where the first thread stops.
#[derive(Default)]
struct Stop {
    state: Mutex<Passing>,
    changed: Condvar,
}

#[derive(Default)]
struct Passing {
    /// Points to pass before it stops.
    left: usize,
    has_stopped: bool,
    is_open: bool,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, Passing> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread is at a point. If it is the first, and there it stops, it waits until it may go on.
    fn pass(&self) {
        if !IS_FIRST.get() {
            return;
        }
        let mut passing = self.lock();
        if passing.left > 0 {
            passing.left -= 1;
            return;
        }
        passing.has_stopped = true;
        self.changed.notify_all();
        let is_shut = |passing: &mut Passing| !passing.is_open;
        drop(self.changed.wait_while(passing, is_shut).unwrap_or_else(PoisonError::into_inner));
    }

    fn open(&self) {
        self.lock().is_open = true;
        self.changed.notify_all();
    }
}

/// What a thread was answered so far, and how many calls it began.
#[derive(Default)]
struct Progress {
    answers: Vec<Answer>,
    /// When each of the calls that were answered began and ended.
    times: Vec<[u64; 2]>,
    begun: usize,
    /// So many of its calls are durable.
    told: usize,
    /// So many are when what it has written is.
    written: usize,
    error: Option<String>,
    /// Whether it rests until the other has ended.
    is_resting: bool,
    has_ended: bool,
}

impl Progress {
    fn is_still(&self) -> bool {
        self.is_resting || self.has_ended
    }
}

/// A thread and its calls.
struct Caller {
    calls: Vec<Call>,
    progress: Mutex<Progress>,
    /// It rests, or has ended.
    changed: Condvar,
    /// Of both threads: goes on by one at each beginning and end of a call.
    now: Arc<AtomicU64>,
}

impl Caller {
    fn new(calls: Vec<Call>, now: Arc<AtomicU64>) -> Caller {
        Caller { calls, progress: Mutex::default(), changed: Condvar::new(), now }
    }

    /// A time that is later than all before, for both threads.
    fn time(&self) -> u64 {
        // SeqCst: one order of all, in which what has returned comes before what begins then; pairs with itself.
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it makes no call now.
    fn is_still(&self) -> bool {
        self.lock().is_still()
    }

    /// Rests until another has ended, which stands where it stops, or has ended before. In that case nothing keeps this
    /// one from its next call: it counts as resting at no moment.
    fn rest_for(&self, other: &Caller) {
        let others = other.lock();
        if others.has_ended {
            return;
        }
        self.lock().is_resting = true;
        self.changed.notify_all();
        let goes_on = |progress: &mut Progress| !progress.has_ended;
        let ended = other.changed.wait_while(others, goes_on);
        drop(ended.unwrap_or_else(PoisonError::into_inner));
        self.lock().is_resting = false;
    }

    /// Waits until it makes no call, or seems to be held up by the other thread. It is then at a lock or a wait of the
    /// store, where no thread tells of itself: so this is the one wait by the clock. If it is too short, the crash
    /// comes before the thread has done what it could, which is judged as well.
    fn await_still_or_held_up(&self) {
        for _ in 0..PATIENCE {
            let goes_on = |progress: &mut Progress| !progress.is_still();
            let waited = self.changed.wait_timeout_while(self.lock(), REST, goes_on);
            let (progress, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if progress.is_still() {
                return;
            }
        }
    }

    /// Makes the calls, one after the other.
    fn go(&self, store: &Store, between: impl Fn(usize), is_held: bool) {
        let (_end, mut hands) = (End(self), Hands::default());
        for (index, call) in self.calls.iter().enumerate() {
            if index > 0 {
                between(index);
            }
            self.lock().begun = index + 1;
            let begun = self.time();
            let answer = match call.make(store, &mut hands) {
                Err(Error::SnapshotBusy(_)) if matches!(call, Call::Snapshot) => Ok(None),
                answer => answer.map(Some),
            };
            let mut progress = self.lock();
            match answer {
                Ok(answer) => {
                    let is_told = answer.as_ref().is_some_and(|answer| call.has_written(answer));
                    if is_told && (!is_held || matches!(call, Call::Sync | Call::Snapshot)) {
                        progress.told = index + 1;
                    }
                    if is_told {
                        progress.written = index + 1;
                    }
                    progress.answers.push(answer.unwrap_or(Answer::Nothing));
                    progress.times.push([begun, self.time()]);
                }
                Err(error) => {
                    progress.error = Some(format!("{}: {error}", shown(call)));
                    break;
                }
            }
        }
    }
}

/// Says in the end that a thread has ended, also by a panic.
struct End<'a>(&'a Caller);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut progress = self.0.lock();
        progress.has_ended = true;
        if std::thread::panicking() {
            progress.error = Some("it panicked".to_string());
        }
        drop(progress);
        self.0.changed.notify_all();
    }
}

/// What was left at a moment, and how many calls of each thread were durable then, and begun.
struct Image {
    disk: SimulatedDisk,
    /// If only the process died.
    pool: Option<std::path::PathBuf>,
    low: [usize; 2],
    high: [usize; 2],
}

/// A call and its answer as what is one step to all others: a pop looks for the first pair, and takes it behind that,
/// when it need not be the first any more. What it tells is what its key had then.
fn as_step(call: &Call, answer: &Answer) -> (Call, Answer) {
    match (call, answer) {
        (Call::Pop { name, .. }, Answer::Pair(Some((key, value)))) => {
            let (name, key) = (name.clone(), key.clone());
            (Call::Key { name, key, what: What::Take }, Answer::Value(Some(value.clone())))
        }
        _ => (call.clone(), answer.clone()),
    }
}

/// An order of all calls that answers as they were answered: the state after each beginning of it, and how many calls
/// of each thread are in that.
type Sequence = Vec<(State, [usize; 2])>;

/// A call as it was made: what it answered, when it began and ended.
type Made = (Call, Answer, [u64; 2]);

/// All sequences of the calls that answer so, from this state on. What has ended before another call began comes
/// before that.
fn sequences(now: &mut Sequence, callers: &[Vec<Made>; 2], now_ms: u64, found: &mut Vec<Sequence>) {
    let (state, made) = now.last().expect("it begins with one").clone();
    let next_of = |thread: usize| callers[thread].get(made[thread]);
    if next_of(0).is_none() && next_of(1).is_none() {
        found.push(now.clone());
        return;
    }
    for thread in [0, 1] {
        let Some((call, answer, [begun, _])) = next_of(thread) else { continue };
        if next_of(1 - thread).is_some_and(|(_, _, [_, ended])| ended < begun) {
            continue;
        }
        let mut next = state.clone();
        if next.apply(call, now_ms) == *answer {
            let mut made = made;
            made[thread] += 1;
            now.push((next, made));
            sequences(now, callers, now_ms, found);
            now.pop();
        }
    }
}

/// Runs two threads with these planted bugs: what was seen.
///
/// # Panics
/// The store did what it must not.
pub fn run(number: u64, faults: Faults) -> Counts {
    let (folder, disk) = (folder(), SimulatedDisk::new(faults, number));
    let _clock = SetClock::at(BEGIN_MS);
    let pool = folder.path().join("pool");
    let waits = number % 3 != 1;
    let mode = if waits { Durability::Power } else { Durability::Interval(DEADLOCK) };
    let store = options(&disk).durability(mode).open(&pool);
    let store = Arc::new(store.expect("it opens"));
    let mut draw = Draw::new(number, Kind::Steps, KEYS, LONG);
    let (mut state, mut hands) = (State::new(), Hands::default());
    let begins = NAMES[1..].iter().map(|name| Call::Make((*name).to_string()));
    let mut begins: Vec<Call> = begins.collect();
    for _ in 0..BEFORE {
        let call = begins.pop().unwrap_or_else(|| draw.call(&state, BEGIN_MS));
        if matches!(call, Call::OpenView { .. } | Call::ReadView { .. } | Call::Watch { .. }) {
            // Each of the threads has its own.
            continue;
        }
        let answer = call.make(&store, &mut hands).expect("nothing is in the way");
        assert_eq!(answer, state.apply(&call, BEGIN_MS), "{call:?}");
    }
    drop(hands);
    store.sync().expect("the disk works");
    let now_ms = BEGIN_MS + 2 * STEP_MS;
    let counts = [1 + draw.random.below(2), 1 + draw.random.below(3)];
    let calls = |draw: &mut Draw, count: usize| -> Vec<Call> {
        (0..count).map(|_| draw.call(&state, now_ms)).collect()
    };
    let [first, second] = draw.theme(&state, now_ms);
    let first = first.unwrap_or_else(|| calls(&mut draw, counts[0]));
    // Often at the first: between place and change.
    let stops_at = if draw.random.one_in(3) { 0 } else { draw.random.below(STOPS) };
    let mut draw = draw.of_other(1);
    let second = second.unwrap_or_else(|| calls(&mut draw, counts[1]));
    // Mostly before the last.
    let rests_at = match draw.random.one_in(2) {
        true => second.len() - 1,
        false => 1 + draw.random.below(second.len()),
    };
    let now = Arc::new(AtomicU64::new(0));
    let callers = [first, second].map(|calls| Arc::new(Caller::new(calls, now.clone())));
    let stop = Arc::new(Stop::default());
    stop.lock().left = stops_at;
    let (at_disk, at_point) = (stop.clone(), stop.clone());
    disk.set_hook(move |_| at_disk.pass());
    disk.set_point_hook(move |_| at_point.pass());
    let meeting = Meeting { callers, stop, store, waits, rests_at, now_ms };
    let left = meeting.go(&disk, &pool, &mut draw);
    disk.clear_hook();
    meeting.judge(state, left, number)
}

struct Meeting {
    callers: [Arc<Caller>; 2],
    stop: Arc<Stop>,
    store: Arc<Store>,
    /// Whether calls wait for the disk.
    waits: bool,
    /// Before which of its calls the second thread rests until the first has ended.
    rests_at: usize,
    now_ms: u64,
}

impl Drop for Meeting {
    fn drop(&mut self) {
        // Also if something was wrong before.
        self.stop.open();
    }
}

impl Meeting {
    /// Starts a thread; what it sends is that it has ended.
    fn start(&self, index: usize, is_held: bool) -> Receiver<()> {
        let (store, caller, stop) =
            (self.store.clone(), self.callers[index].clone(), self.stop.clone());
        let (end, ended): (Sender<()>, _) = channel();
        let (now_ms, waits, rests_at) = (self.now_ms, self.waits, self.rests_at);
        let first = self.callers[0].clone();
        std::thread::spawn(move || {
            let _clock = SetClock::at(now_ms);
            IS_FIRST.set(index == 0);
            if is_held && waits {
                store.defer_sync();
            }
            let between = |index: usize| match index == rests_at && !IS_FIRST.get() {
                true => caller.rest_for(&first),
                false => stop.pass(),
            };
            caller.go(&store, between, is_held);
            if is_held && waits && store.wait_deferred().is_ok() {
                let mut progress = caller.lock();
                progress.told = progress.written;
            }
            // Before the end is told: the store is closed behind it.
            drop((store, caller, first));
            if IS_FIRST.get() {
                stop.lock().has_stopped = true;
                stop.changed.notify_all();
            }
            drop(end);
        });
        ended
    }

    /// Lets the threads meet: what would be left of a crash or a death then, and of a crash in the end.
    fn go(&self, disk: &SimulatedDisk, pool: &Path, draw: &mut Draw) -> Vec<Image> {
        let first = self.start(0, !self.waits);
        {
            let waits = |passing: &mut Passing| !passing.has_stopped;
            let passing = self.stop.lock();
            let waited = self.stop.changed.wait_timeout_while(passing, DEADLOCK, waits);
            let (passing, _) = waited.unwrap_or_else(PoisonError::into_inner);
            assert!(passing.has_stopped, "{} does not return", shown(&self.callers[0].calls));
        }
        let second = self.start(1, true);
        self.callers[1].await_still_or_held_up();
        let mut left = vec![];
        let bounds = |is_killed: bool| {
            let progress = self.callers.each_ref().map(|caller| caller.lock());
            let low =
                progress.each_ref().map(|it| if is_killed { it.answers.len() } else { it.told });
            (low, progress.map(|it| it.begun))
        };
        // What is told, and not more, is durable when the crash comes.
        let (low, _) = bounds(false);
        let crashed = disk.crashed(draw.random.bits());
        let (_, high) = bounds(false);
        left.push(Image { disk: crashed, pool: None, low, high });
        // Not while one of the threads writes to the pool: a thread that rests does so until the first goes on.
        if self.callers[1].is_still() && draw.random.one_in(2) {
            let copy = pool.with_extension("killed");
            let (low, high) = bounds(true);
            std::fs::copy(pool, &copy).expect("room");
            left.push(Image { disk: disk.copied(1), pool: Some(copy), low, high });
        }
        self.stop.open();
        for (index, ended) in [first, second].into_iter().enumerate() {
            let waited = ended.recv_timeout(DEADLOCK);
            let calls = shown(&self.callers[index].calls);
            assert!(waited != Err(RecvTimeoutError::Timeout), "{calls} does not return");
        }
        let (low, high) = bounds(false);
        left.push(Image { disk: disk.crashed(draw.random.bits()), pool: None, low, high });
        left
    }

    fn judge(self, state: State, left: Vec<Image>, number: u64) -> Counts {
        let made: [Vec<Made>; 2] = self.callers.each_ref().map(|caller| {
            let progress = caller.lock();
            assert!(progress.error.is_none(), "{:?}", progress.error);
            let both = caller.calls.iter().zip(&progress.answers);
            let steps = both.map(|(call, answer)| as_step(call, answer)).zip(&progress.times);
            steps.map(|((call, answer), times)| (call, answer, *times)).collect()
        });
        let now_ms = self.now_ms;
        let _clock = SetClock::at(now_ms);
        let found = kept(&self.store, now_ms);
        let mut all = vec![];
        let begin = state.clone();
        sequences(&mut vec![(state, [0, 0])], &made, now_ms, &mut all);
        let what = || format!("of {}\n{}", shown(&begin.maps), shown(&made));
        assert!(!all.is_empty(), "no order answers so {}", what());
        let ends_so =
            |order: &Sequence| order.last().is_some_and(|(last, _)| last.fits(&found, now_ms));
        all.retain(ends_so);
        assert!(!all.is_empty(), "no order comes to\n{}\n{}", shown(&found), what());
        let mut counts = Counts::default();
        let folder = folder();
        for (index, Image { disk, pool, low, high }) in left.into_iter().enumerate() {
            let is_killed = pool.is_some();
            counts.kills += u64::from(is_killed);
            counts.crashes += u64::from(!is_killed);
            let path = pool.unwrap_or_else(|| folder.path().join(format!("left-{index}-{number}")));
            let found = found_in(&disk, &path, now_ms);
            let may_be = |(state, made): &(State, [usize; 2])| {
                let is_between =
                    |thread: usize| low[thread] <= made[thread] && made[thread] <= high[thread];
                is_between(0) && is_between(1) && state.fits(&found, now_ms)
            };
            let fits = all.iter().any(|order| order.iter().any(may_be));
            let how = if is_killed { "death" } else { "crash" };
            let found = shown(&found);
            assert!(fits, "left of a {how} between {low:?} and {high:?} is\n{found}\n{}", what());
            let _ = std::fs::remove_file(path);
        }
        counts
    }
}

/// What is kept in what was left.
fn found_in(disk: &SimulatedDisk, pool: &Path, now_ms: u64) -> Contents {
    disk.clear_hook();
    let store = options(disk).open(pool).expect("what is left can be opened");
    kept(&store, now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers() -> [Arc<Caller>; 2] {
        let now = Arc::new(AtomicU64::new(0));
        [0, 1].map(|_| Arc::new(Caller::new(vec![], now.clone())))
    }

    /// What was torn: the copy of a pool. The second thread counted as resting for a first that had ended, and went on
    /// to its next call while the copy was made.
    #[test]
    fn no_thread_rests_for_one_that_has_ended() {
        let [first, second] = callers();
        drop(End(&first));
        // It comes no further than to the question whether the first has ended.
        let asked = first.lock();
        let (begins, is_begun) = channel();
        std::thread::scope(|scope| {
            let (first, second) = (&first, &second);
            scope.spawn(move || {
                begins.send(()).expect("the other waits");
                second.rest_for(first);
            });
            is_begun.recv().expect("it begins");
            (0..10).for_each(|_| second.await_still_or_held_up());
            let is_still = second.is_still();
            drop(asked);
            assert!(!is_still, "a copy would be made");
        });
        assert!(!second.is_still());
    }

    #[test]
    fn a_thread_rests_until_the_other_has_ended() {
        let [first, second] = callers();
        std::thread::scope(|scope| {
            let (first, second) = (&first, &second);
            let resting = scope.spawn(move || second.rest_for(first));
            while !second.is_still() {
                second.await_still_or_held_up();
            }
            assert!(!resting.is_finished());
            drop(End(first));
        });
        assert!(!second.is_still());
    }
}
