//! Litmus programs: a few words in the pool, one function per thread, all outcomes collected.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Config, Failure, Memory, Program, Runner, SchedulerKind};
use everleaf_machine::{Atomic, AtomicPair, Simulated};

pub type Word = Atomic<u64, Simulated>;

/// Words in the pool: four lines of eight.
pub const WORDS: usize = 32;

/// The pool's words.
#[derive(Clone, Copy)]
pub struct Words {
    base: *const Word,
}

impl Words {
    /// The words of a pool.
    pub fn of(memory: Memory) -> Self {
        assert!(memory.size() >= WORDS * 8);
        Words { base: memory.base().cast() }
    }

    /// Word `index`; eight are on a line.
    pub fn at(&self, index: usize) -> &Word {
        assert!(index < WORDS);
        // SAFETY: inside the pool, which outlives the run.
        unsafe { &*self.base.wrapping_add(index) }
    }

    /// The pair of words `2 * index` and `2 * index + 1`.
    pub fn pair(&self, index: usize) -> &AtomicPair<Simulated> {
        assert!(index < WORDS / 2);
        // SAFETY: inside the pool, aligned to 16 bytes.
        unsafe { &*self.base.cast::<AtomicPair<Simulated>>().wrapping_add(index) }
    }

    fn values(&self) -> Vec<u64> {
        (0..WORDS).map(|index| self.at(index).read_private()).collect()
    }
}

/// What the threads do; the result of each is part of the outcome.
pub type Script = Vec<Box<dyn Fn(&Words) -> u64>>;

/// Everything that was seen.
#[derive(Default)]
pub struct Seen {
    /// The results of the threads, per schedule.
    pub outcomes: BTreeSet<Vec<u64>>,
    /// The words of every crash image.
    pub images: BTreeSet<Vec<u64>>,
}

/// See the module.
pub struct Litmus {
    script: Script,
    recovery: fn(&Words),
    /// Whether the threads give all volatile memory back.
    gives_back: bool,
    live: Cell<*const Word>,
    results: RefCell<Vec<u64>>,
    seen: Rc<RefCell<Seen>>,
}

impl Program for Litmus {
    type Operation = ();
    type Instance = Words;

    fn pool_bytes(&self) -> usize {
        WORDS * 8
    }

    fn format(&self, memory: Memory) {
        self.live.set(memory.base().cast());
    }

    fn open(&self, memory: Memory) -> Result<Words, String> {
        let words = Words::of(memory);
        (self.recovery)(&words);
        Ok(words)
    }

    fn contents(&self, words: &Words) -> Result<Vec<(u64, u64)>, String> {
        let seen = &mut *self.seen.borrow_mut();
        if words.base == self.live.get() {
            seen.outcomes.insert(self.results.borrow().clone());
        } else {
            seen.images.insert(words.values());
        }
        Ok(Vec::new())
    }

    fn give_back(&self, _words: Words) -> Result<bool, String> {
        Ok(self.gives_back)
    }

    fn calls(&self, _operation: &(), _calls: &mut Vec<(u64, Call)>) {}

    fn run(&self, words: &Words, thread: usize, _operation: &(), _replies: &mut Vec<Reply>) {
        let result = self.script[thread](words);
        self.results.borrow_mut()[thread] = result;
    }
}

/// Runs all schedules of `script` with up to four preemptions.
pub fn run(script: Script, config: Config) -> Result<Seen, Box<Failure>> {
    let config = Config { scheduler: SchedulerKind::Dfs { preemptions: 4 }, ..config };
    run_some(script, config, 1_000_000)
}

/// Runs up to `schedules` schedules of `script` as configured.
pub fn run_some(script: Script, config: Config, schedules: u64) -> Result<Seen, Box<Failure>> {
    run_with(script, config, schedules, |_| ())
}

/// As [`run_some`], and does `recovery` whenever the pool is opened.
pub fn run_with(
    script: Script,
    config: Config,
    schedules: u64,
    recovery: fn(&Words),
) -> Result<Seen, Box<Failure>> {
    run_program(script, config, schedules, recovery, false)
}

/// Runs one schedule of `script`, which gives all volatile memory back.
pub fn run_giving_back(script: Script) -> Result<Seen, Box<Failure>> {
    let config = Config { scheduler: SchedulerKind::Random, ..Config::default() };
    run_program(script, config, 1, |_| (), true)
}

fn run_program(
    script: Script,
    config: Config,
    schedules: u64,
    recovery: fn(&Words),
    gives_back: bool,
) -> Result<Seen, Box<Failure>> {
    let threads = script.len();
    let seen = Rc::new(RefCell::new(Seen::default()));
    let program = Litmus {
        script,
        recovery,
        gives_back,
        live: Cell::default(),
        results: RefCell::new(vec![0; threads]),
        seen: Rc::clone(&seen),
    };
    let mut runner = Runner::new(program, vec![vec![()]; threads], config)?;
    // What the first opening saw is no outcome.
    *seen.borrow_mut() = Seen::default();
    let exhaustive = matches!(runner.config().scheduler, SchedulerKind::Dfs { .. });
    let report = runner.explore(schedules)?;
    assert_eq!(report.exhausted, exhaustive);
    drop(runner);
    Ok(Rc::into_inner(seen).expect("the runner is gone").into_inner())
}
