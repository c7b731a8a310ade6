//! Runs schedules of a program and judges them.

use std::collections::HashSet;
use std::rc::Rc;

use super::config::{Config, Domain, SchedulerKind};
use super::core::Core;
use super::failure::{Failure, FailureKind};
use super::fibers::Stacks;
use super::images::Images;
use super::memo::{Contents, Memo};
use super::panics;
use super::program::{Plan, Program, describe};
use super::random::mix;
use super::report::{Counts, Report};
use super::run::{Ending, Start};
use super::scheduler::Scheduler;
use super::state::State;
use super::{THREADS_MAX, current};

/// The program and what its threads do.
pub(super) struct Scenario<P: Program> {
    pub program: P,
    pub plan: Plan<P::Operation>,
}

impl<P: Program> Scenario<P> {
    /// Whether some operation of the plan does not bind crashes.
    pub fn forgets(&self, domain: Domain) -> bool {
        let mut all = self.plan.iter().flatten();
        self.program.defers() || all.any(|operation| !self.program.binds_crashes(operation, domain))
    }
}

/// Runs one program with one plan under one configuration, schedule after schedule.
///
/// A runner belongs to one OS thread. It keeps the formatted pool, fiber stacks and all it learned
/// about crash images, so many schedules on one runner are much cheaper than many runners.
///
/// # Example
/// A counter in the pool that forgets to flush: its increments can be lost after they answered.
/// ```
/// use everleaf_machine::simulated::history::{Call, Reply};
/// use everleaf_machine::simulated::{Config, FailureKind, Memory, Program, Runner};
/// use everleaf_machine::{Atomic, Machine, Ordering, Simulated};
///
/// /// One word, seen as a map with the one key 0.
/// struct Cell {
///     flushes: bool,
/// }
///
/// impl Program for Cell {
///     type Operation = u64;
///     type Instance = &'static Atomic<u64, Simulated>;
///
///     fn pool_bytes(&self) -> usize {
///         64
///     }
///     fn format(&self, _memory: Memory) {}
///     fn open(&self, memory: Memory) -> Result<Self::Instance, String> {
///         // SAFETY: aligned, zeroed at first, and the runner outlives every instance.
///         Ok(unsafe { &*memory.base().cast() })
///     }
///     fn contents(&self, word: &Self::Instance) -> Result<Vec<(u64, u64)>, String> {
///         let value = word.load(Ordering::Acquire);
///         Ok(if value == 0 { vec![] } else { vec![(0, value)] })
///     }
///     fn calls(&self, value: &u64, calls: &mut Vec<(u64, Call)>) {
///         calls.push((0, Call::Upsert(*value)));
///     }
///     fn run(&self, word: &Self::Instance, _: usize, value: &u64, replies: &mut Vec<Reply>) {
///         let previous = word.swap(*value, Ordering::AcqRel);
///         if self.flushes {
///             Simulated::flush(word.as_ptr());
///             Simulated::drain();
///         }
///         replies.push(Reply::Previous((previous != 0).then_some(previous)));
///     }
/// }
///
/// let explore = |flushes| {
///     let plan = vec![vec![1, 2], vec![3]];
///     Runner::new(Cell { flushes }, plan, Config::default())?.explore(100)
/// };
/// assert!(explore(true).is_ok());
/// assert_eq!(explore(false).unwrap_err().kind, FailureKind::NotDurable);
/// ```
pub struct Runner<P: Program> {
    pub(super) scenario: Rc<Scenario<P>>,
    pub(super) config: Config,
    /// The machine of each nesting level: 0 runs schedules, n the recovery from crashes on n - 1.
    pub(super) cores: Vec<Rc<Core>>,
    pub(super) initial: Rc<Contents>,
    pub(super) stacks: Stacks,
    pub(super) memo: Memo,
    /// Deaths of the process that had a life after them.
    pub(super) kills: HashSet<u64>,
    pub(super) spare_images: Vec<Images>,
    pub(super) counts: Counts,
    pub(super) runs: u64,
    pub(super) schedule: u64,
    typical_steps: u64,
    search: Option<Scheduler>,
}

/// A repeated schedule.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Every access, fence, call and return, in order, one line each.
    pub trace: Vec<String>,
    /// A hash of all accesses: equal for equal schedules.
    pub fingerprint: u64,
    /// How the schedule failed, if it did.
    pub failure: Option<Failure>,
    /// Whether a choice could not be repeated: the code or the plan is not the one recorded.
    pub diverged: bool,
}

impl<P: Program + 'static> Runner<P> {
    /// Formats the pool and checks that it opens.
    ///
    /// # Errors
    /// A [`FailureKind::Recovery`] failure if the fresh pool does not open or is broken.
    ///
    /// # Panics
    /// If the plan has no thread or more than [`THREADS_MAX`].
    pub fn new(program: P, plan: Plan<P::Operation>, config: Config) -> Result<Self, Box<Failure>> {
        assert!((1..=THREADS_MAX).contains(&plan.len()), "1 to {THREADS_MAX} threads");
        panics::install_hook();
        let config = if program.is_durable() { config } else { config.without_crashes() };
        let core = Rc::new(Core::new(config.clone(), program.pool_bytes()));
        core.wall_clock_ms.set(program.wall_clock_ms());
        let mut runner = Runner {
            scenario: Rc::new(Scenario { program, plan }),
            config,
            cores: vec![core],
            initial: Rc::default(),
            stacks: Stacks::default(),
            memo: Memo::default(),
            kills: HashSet::new(),
            spare_images: Vec::new(),
            counts: Counts::default(),
            runs: 0,
            schedule: 0,
            typical_steps: 100,
            search: None,
        };
        let initial = runner
            .prepare()
            .map_err(|message| Box::new(runner.failure((FailureKind::Recovery, message), 0)))?;
        runner.initial = Rc::new(initial);
        Ok(runner)
    }

    /// Formats the pool, and takes its contents once.
    fn prepare(&mut self) -> Result<Contents, String> {
        let core = Rc::clone(&self.cores[0]);
        let _current = current::enter(&core);
        let memory = core.memory();
        core.be_very_patient();
        panics::catch(|| self.scenario.program.format(memory))?;
        {
            let state = &mut *core.state.borrow_mut();
            state.persistence.set_template(state.space.region());
        }
        let warm = !self.config.simulate_open;
        core.be_very_patient();
        let contents = panics::catch(|| {
            let instance = self.scenario.program.open(memory)?;
            if warm {
                self.scenario.program.warm_up(&instance);
            }
            self.scenario.program.contents(&instance)
        })??;
        if let Some((_, message)) = core.state.borrow_mut().failure.take() {
            return Err(message);
        }
        match self.scenario.program.expected(warm) {
            Some(expected) if expected != contents => Err(differences(&expected, &contents)),
            _ => Ok(contents),
        }
    }

    /// Runs the schedule that `seed` determines.
    ///
    /// # Errors
    /// What went wrong in it.
    pub fn run(&mut self, seed: u64) -> Result<(), Box<Failure>> {
        let previous = self.search.take();
        let kind = self.config.scheduler;
        let scheduler = Scheduler::start(kind, seed, self.typical_steps, previous);
        self.execute(seed, scheduler, false).0
    }

    /// Runs up to `schedules` schedules; an exhaustive search may end earlier.
    ///
    /// # Errors
    /// The first failure; the search can be continued after it.
    pub fn explore(&mut self, schedules: u64) -> Result<Report, Box<Failure>> {
        let mut exhausted = false;
        for _ in 0..schedules {
            let seed = self.next_seed();
            self.run(seed)?;
            if !self.search.as_mut().is_some_and(Scheduler::advance) {
                exhausted = true;
                self.search = None;
                break;
            }
            if self.work() >= self.config.work_limit {
                break;
            }
        }
        Ok(Report { exhausted, ..self.report() })
    }

    pub(super) fn work(&self) -> u64 {
        let of_core = |core: &Rc<Core>| core.state.borrow().counts.work();
        self.counts.work() + self.cores.iter().map(of_core).sum::<u64>()
    }

    /// The seed of the next schedule. An exhaustive search needs the same chance in all of them.
    fn next_seed(&self) -> u64 {
        match self.config.scheduler {
            SchedulerKind::Dfs { .. } => mix(self.config.seed),
            _ => mix(self.config.seed ^ mix(self.schedule + 1)),
        }
    }

    /// What was done so far.
    pub fn report(&self) -> Report {
        let mut marks: Vec<(&'static str, u64)> = Vec::new();
        let mut counts = self.counts;
        for core in &self.cores {
            let state = core.state.borrow();
            counts.add(&state.counts);
            for &(name, count) in &state.marks {
                match marks.iter_mut().find(|(known, _)| *known == name) {
                    Some(known) => known.1 += count,
                    None => marks.push((name, count)),
                }
            }
        }
        marks.sort_unstable();
        let sites = self.cores[0].state.borrow().sites.list();
        let of_core = |core: &Rc<Core>| core.state.borrow().faults.list();
        let mut faults: Vec<_> = self.cores.iter().flat_map(of_core).collect();
        faults.sort_unstable();
        faults.dedup();
        Report { counts, exhausted: false, marks, sites, faults }
    }

    /// Repeats a schedule exactly, with a readable trace.
    pub fn replay(&mut self, seed: u64, choices: &[u8]) -> Replay {
        let kept = self.search.take();
        // Crash images must be recovered again, not remembered as good.
        let memo = std::mem::take(&mut self.memo);
        // Nor may a life be left out that was afforded then.
        let limit = std::mem::replace(&mut self.config.work_limit, u64::MAX);
        let (result, replay) = self.execute(seed, Scheduler::replay(choices.to_vec()), true);
        self.config.work_limit = limit;
        self.memo = memo;
        self.search = kept;
        Replay { failure: result.err().map(|failure| *failure), ..replay }
    }

    /// The access hash of the last schedule: equal for equal schedules.
    pub fn fingerprint(&self) -> u64 {
        self.cores[0].state.borrow().fingerprint
    }

    /// The choices of the last schedule.
    pub fn choices(&self) -> Vec<u8> {
        self.cores[0].state.borrow().choices.clone()
    }

    /// What this runner was asked to do.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The contents of the freshly formatted pool.
    pub fn initial_contents(&self) -> &[(u64, u64)] {
        &self.initial
    }

    fn execute(
        &mut self,
        seed: u64,
        scheduler: Scheduler,
        traced: bool,
    ) -> (Result<(), Box<Failure>>, Replay) {
        self.schedule += 1;
        let core = Rc::clone(&self.cores[0]);
        core.state.borrow_mut().trace = traced.then(Vec::new);
        let ending = self.run_level(0, Start { seed, scheduler, image: None });
        let Ending { result, scheduler } = ending;
        self.counts.schedules += 1;
        let diverged = scheduler.diverged();
        self.search = Some(scheduler);
        let steps = core.state.borrow().steps;
        let (allocations, requests) = {
            let space = &core.state.borrow().space;
            (space.allocations(), space.requests())
        };
        self.counts.allocations = self.counts.allocations.max(allocations);
        self.counts.requests = self.counts.requests.max(requests);
        self.counts.steps += steps;
        self.typical_steps = (self.typical_steps * 7 + steps.min(4_000)) / 8;
        let result = result.map_err(|what| Box::new(self.failure(what, seed)));
        let fingerprint = core.state.borrow().fingerprint;
        let trace = core.state.borrow_mut().trace.take().unwrap_or_default();
        (result, Replay { trace, fingerprint, failure: None, diverged })
    }

    /// Now and then compares all memory with what the machine believes it holds.
    pub(super) fn check_for_bypass(&self, core: &Core) -> Result<(), (FailureKind, String)> {
        let state: &State = &core.state.borrow();
        if state.trace.is_none() && !self.schedule.is_multiple_of(256) && self.schedule != 1 {
            return Ok(());
        }
        match state.persistence.find_bypass(state.space.region()) {
            None => Ok(()),
            Some(line) => Err((
                FailureKind::Bypass,
                format!(
                    "the line pool+{:#x} does not hold what was written through the machine; in \
                     this schedule or one of the last 256, something wrote to it directly",
                    line * 64
                ),
            )),
        }
    }

    fn failure(&self, (kind, message): (FailureKind, String), seed: u64) -> Failure {
        let state = self.cores[0].state.borrow();
        Failure {
            kind,
            message,
            seed,
            schedule: self.schedule,
            choices: state.choices.clone(),
            steps: state.steps,
            plan: describe(&self.scenario.plan),
        }
    }
}

/// What the formatted pool holds and should not, and what it lacks: the first few of each.
fn differences(expected: &[(u64, u64)], found: &[(u64, u64)]) -> String {
    let only = |one: &[(u64, u64)], other: &[(u64, u64)]| -> Vec<(u64, u64)> {
        one.iter().filter(|pair| other.binary_search(pair).is_err()).take(5).copied().collect()
    };
    let (lost, strange) = (only(expected, found), only(found, expected));
    format!("before any thread ran: {lost:?} should be there, {strange:?} should not")
}
