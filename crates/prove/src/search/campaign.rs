//! A search for a given CPU time or a number of schedules: the small programs, first a few orders of each,
//! then with crashes in every recovery, then in every order, and in turn with them programs that are made by
//! chance, most of them brief.

use std::sync::OnceLock;
use std::time::Duration;

use everleaf_machine::simulated::{
    Config, CrashConfig, Domain, Failure, Random, Report, SchedulerKind, mix,
};

use crate::case::step::Step;
use crate::case::structure::Structure;
use crate::machine::configure::exhaustive;
use crate::machine::dimensions::Values;
use crate::programs::made::Room;
use crate::programs::tiny::{ORDERS, Tiny, is_tiny};
use crate::search::corpus::Corpus;
use crate::search::coverage::Coverage;
use crate::search::record::Record;
pub use crate::search::settings::{Budget, Settings, WORK};
use crate::search::small_passes::{
    self, Pass, Small, WORK_OF_FIRST_LIVES, WORK_OF_LIVES, WORK_OF_TWO_STOPS,
};

/// What is told when a program begins: the structure, the program, the machine.
pub type Begin = fn(&str, &str, &Config);

/// The function that is told.
static BEGIN: OnceLock<Begin> = OnceLock::new();

/// From now on, `tell` is told of each program that a search of this process begins. The first call
/// counts.
pub fn on_begin(tell: Begin) {
    let _ = BEGIN.set(tell);
}

/// What came of a search.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The structure's name.
    pub structure: &'static str,
    /// What was explored, of all programs.
    pub report: Report,
    /// Programs of the random search.
    pub programs: u64,
    /// The small programs of which every order was run, and how many there are.
    pub exhausted: (usize, usize),
    /// What the random search has covered.
    pub coverage: Coverage,
    /// CPU seconds it took.
    pub seconds: f64,
    /// The failure that ended it, if one did.
    pub failure: Option<(Record, Failure)>,
}

impl Verdict {
    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.failure.is_none()
    }
}

/// Searches through the programs of a structure until the budget is spent or something fails; calls
/// `tell` now and then with what was done so far.
pub fn run(
    structure: &'static Structure,
    settings: &Settings,
    tell: &mut dyn FnMut(&Verdict),
) -> Verdict {
    let verdict = Verdict {
        structure: structure.name,
        report: Report { exhausted: true, ..Report::default() },
        programs: 0,
        exhausted: (0, 0),
        coverage: Coverage::of(structure.dimensions()),
        seconds: 0.0,
        failure: None,
    };
    let mut campaign = Campaign {
        structure,
        settings,
        started: structure.programs().cpu_time(),
        verdict,
        tell,
        corpus: Corpus::default(),
        exhausted: vec![],
        long_lives: vec![],
    };
    let small = small_passes::all(structure, settings);
    let in_every_order = small.iter().filter(|one| one.pass == Pass::AllOrders);
    campaign.verdict.exhausted.1 = in_every_order.count();
    let mut small = small.into_iter();
    let (mut on_small, mut on_steps, mut on_brief) = (0, 0, 0);
    for number in 0.. {
        // The small programs get half of the work until all have been run, brief ones most of the rest.
        if on_small <= on_steps + on_brief
            && let Some(one) = small.next()
        {
            on_small += campaign.run_small(one);
        } else if settings.is_by_time()
            && on_brief <= BRIEF * on_steps
            && let Some(step) = structure.brief(settings.seed, number, settings.fixed)
        {
            on_brief += campaign.run_brief(step);
        } else {
            on_steps += campaign.run_step(number);
        }
        if campaign.is_over() {
            break;
        }
    }
    campaign.verdict.seconds = campaign.seconds();
    campaign.verdict
}

struct Campaign<'a> {
    structure: &'static Structure,
    settings: &'a Settings,
    started: Duration,
    verdict: Verdict,
    tell: &'a mut dyn FnMut(&Verdict),
    corpus: Corpus,
    /// Small programs of which every order was run.
    exhausted: Vec<(String, Domain)>,
    /// Small programs whose lives took more than was to be spent at first.
    long_lives: Vec<(String, Domain)>,
}

/// One of so many steps goes back to where another one was first.
const RETURNS_ONE_IN: u64 = 3;
/// So many times as many schedules are run of a program without crashes, which cost many times as much.
const UNCUT: u64 = 4;
/// So many times as much work is done on brief programs as on others.
const BRIEF: u64 = 2;
/// Allocations that fail in turn, and requests for space.
const REFUSALS: u64 = 16;
/// What a tiny program may cost: most have all their orders by then, and more programs find more.
const WORK_OF_TINY: u64 = 250_000;

/// The numbers of those that fail, of so many.
fn refusals(count: u64) -> impl Iterator<Item = u64> {
    let turns = count.min(REFUSALS);
    (0..turns).map(move |turn| turn * count / turns)
}

impl Campaign<'_> {
    fn spent(&self) -> Duration {
        self.structure.programs().cpu_time() - self.started
    }

    fn seconds(&self) -> f64 {
        self.spent().as_secs_f64()
    }

    fn is_over(&self) -> bool {
        let spent = match self.settings.budget {
            Budget::Cpu(time) => self.spent() >= time,
            Budget::Schedules(schedules) => self.verdict.report.counts.schedules >= schedules,
        };
        spent || !self.verdict.is_clean()
    }

    /// At most as many schedules as the budget still has.
    fn schedules(&self, wanted: u64) -> u64 {
        match self.settings.budget {
            Budget::Cpu(_) => wanted,
            Budget::Schedules(all) => {
                wanted.min(all.saturating_sub(self.verdict.report.counts.schedules)).max(1)
            }
        }
    }

    /// Schedules of a program: of few schedules in all it takes no more than a part.
    fn schedules_of(&self, program: &str, config: &Config) -> u64 {
        let usual = match Tiny::from_name(program) {
            // Where sessions have many blocks at hand, opening takes far more than what the threads do.
            Some(tiny) if tiny.room == Room::AtHand => ORDERS / 16,
            _ if is_tiny(program) => ORDERS,
            _ => self.settings.schedules,
        };
        let wanted = if config.crash.enabled { usual } else { UNCUT * usual };
        match self.settings.budget {
            Budget::Schedules(all) if wanted > self.settings.schedules => {
                wanted.min(all / 10).max(self.settings.schedules)
            }
            _ => wanted,
        }
    }

    fn planted(&self, config: Config) -> Config {
        self.settings.planted(config)
    }

    fn run_small(&mut self, small: Small) -> u64 {
        let Small { program, config, schedules, pass } = small;
        let named = (program.clone(), config.domain);
        let is_due = match pass {
            Pass::TwoStops => return self.run_two_stops(&program, &config, schedules),
            Pass::Refused => {
                return self.refuse_in_turn(&program, &config, schedules).counts.work();
            }
            Pass::Glance | Pass::Lives | Pass::Tight => true,
            Pass::SomeOrders | Pass::LongLives => self.long_lives.contains(&named),
            Pass::AllOrders => !self.exhausted.contains(&named),
        };
        if !is_due {
            return 0;
        }
        let report = self.explore(&program, &config, schedules);
        self.verdict.coverage.count_lives(config.domain, &report);
        let work = report.counts.work();
        match pass {
            Pass::Glance | Pass::LongLives | Pass::TwoStops | Pass::Tight | Pass::Refused => {
                return work;
            }
            Pass::SomeOrders | Pass::AllOrders => {
                self.verdict.exhausted.0 += usize::from(report.exhausted);
                if report.exhausted {
                    self.exhausted.push(named);
                }
                return work;
            }
            Pass::Lives if work >= WORK_OF_FIRST_LIVES => self.long_lives.push(named),
            Pass::Lives => {}
        }
        if !self.verdict.is_clean() || work > WORK_OF_LIVES {
            return work;
        }
        let crash = CrashConfig { nested_depth: 2, ..config.crash };
        let config = Config { crash, ..config };
        let report = self.explore(&program, &config, 1);
        self.verdict.coverage.count_lives(config.domain, &report);
        work + report.counts.work()
    }

    fn run_two_stops(&mut self, program: &str, base: &Config, schedules: u64) -> u64 {
        let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
        let seed = self.settings.seed;
        let base = Config { crash, seed, races: false, ..base.clone() };
        let [in_order, by_chance] = WORK_OF_TWO_STOPS;
        let config = Config { work_limit: in_order, ..exhaustive(&base, 2) };
        let report = self.explore(program, &config, schedules);
        let work = report.counts.work();
        if report.exhausted || !self.verdict.is_clean() {
            return work;
        }
        let scheduler = SchedulerKind::Pct { depth: 3 };
        let config = Config { work_limit: by_chance, scheduler, ..base };
        work + self.explore(program, &config, schedules).counts.work()
    }

    fn run_brief(&mut self, step: Step) -> u64 {
        let Step { program, config, values } = step;
        self.run_drawn(&program, self.planted(config), &values)
    }

    fn run_step(&mut self, number: u64) -> u64 {
        let step = self.structure.step(self.settings.seed, number, self.settings.fixed);
        let Step { program, config, values } = step;
        let random = &mut Random::new(mix(self.settings.seed ^ mix(number)));
        let program = match random.one_in(RETURNS_ONE_IN) {
            true => self.corpus.vary(program, random),
            false => program,
        };
        let most = if Tiny::from_name(&program).is_some() { WORK_OF_TINY } else { WORK };
        let config = self.planted(Config { work_limit: most.min(config.work_limit), ..config });
        self.run_drawn(&program, config, &values)
    }

    fn run_drawn(&mut self, program: &str, config: Config, values: &Values) -> u64 {
        // Published designs are not asked for as much, but in their small programs.
        let births = self.settings.is_by_time() && self.structure.is_tried_weak();
        let config = Config { births, ..config };
        let schedules = self.schedules_of(program, &config);
        let report = match config.fail_allocation {
            Some(_) => self.refuse_in_turn(program, &config, schedules),
            None => self.explore(program, &config, schedules),
        };
        self.verdict.programs += 1;
        self.corpus.note(program, &report);
        self.verdict.coverage.count(values);
        self.verdict.coverage.count_lives(config.domain, &report);
        report.counts.work()
    }

    /// Runs a program with each of its allocations failing in turn, then with each of its requests for space of the
    /// pool, or with so many of them, spread over all: which of them fails decides more than the order of the threads.
    /// All together do as much as two programs.
    fn refuse_in_turn(&mut self, program: &str, config: &Config, schedules: u64) -> Report {
        let work_limit = config.work_limit / REFUSALS;
        let none = Config { fail_allocation: None, work_limit, ..config.clone() };
        let schedules = schedules.div_ceil(REFUSALS);
        // At first none: so many there are.
        let mut all = self.explore(program, &none, schedules);
        let (allocations, requests) = (all.counts.allocations, all.counts.requests);
        let memory = refusals(allocations).map(|number| (Some(number), None));
        let space = refusals(requests).map(|number| (None, Some(number)));
        for (fail_allocation, fail_space) in memory.chain(space) {
            if !self.verdict.is_clean() {
                break;
            }
            let config = Config { fail_allocation, fail_space, ..none.clone() };
            all.add(&self.explore(program, &config, schedules));
        }
        all
    }

    /// Runs a program; what was done in it.
    fn explore(&mut self, program: &str, config: &Config, schedules: u64) -> Report {
        let case = self.structure.case(program).expect("a structure knows its own programs");
        if let Some(begin) = BEGIN.get() {
            begin(self.structure.name, program, config);
        }
        let (report, failure) = case.explore(config, self.schedules(schedules));
        self.verdict.report.add(&report);
        self.verdict.seconds = self.seconds();
        if let Some(failure) = failure {
            let record = Record::new(self.structure.name, program, config, &failure);
            self.verdict.failure = Some((record, *failure));
        }
        (self.tell)(&self.verdict);
        report
    }
}
