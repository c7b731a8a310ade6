//! A search for a given CPU time or a number of schedules: the small programs, first a few orders of each,
//! then with crashes in every recovery, then in every order, and in turn with them programs that are made by
//! chance, most of them brief.

use std::sync::OnceLock;
use std::time::Duration;

use everleaf_machine::simulated::{
    Config, CrashConfig, Domain, Failure, Fault, MemoryModel, Random, Report, SchedulerKind,
    cpu_time, mix,
};

use crate::configure::{Fixed, exhaustive};
use crate::corpus::Corpus;
use crate::coverage::Coverage;
use crate::dimensions::Values;
use crate::made::Room;
use crate::record::Record;
use crate::step::Step;
use crate::structure::Structure;
use crate::tiny::{ORDERS, Tiny, is_tiny};

/// When a search ends, if nothing is found. Not by the time on the wall, of which other programs take
/// a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// After about this CPU time.
    Cpu(Duration),
    /// After about so many schedules: the same search on every machine.
    Schedules(u64),
}

/// What a search is asked to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much to search, about.
    pub budget: Budget,
    /// Where all chance begins: the same seed gives the same programs and schedules.
    pub seed: u64,
    /// The domain and the memory model, if only one of each is wanted.
    pub fixed: Fixed,
    /// A planted bug that is switched on.
    pub mutant: Option<&'static str>,
    /// An access that is spoilt.
    pub fault: Option<Fault>,
    /// Schedules of each program.
    pub schedules: u64,
    /// Preemptions of the exhaustive search of the small programs; none skips it.
    pub preemptions: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            budget: Budget::Cpu(Duration::from_secs(30)),
            seed: 1,
            fixed: Fixed::default(),
            mutant: None,
            fault: None,
            schedules: 100,
            preemptions: Some(1),
        }
    }
}

/// What is told when a program begins: the structure, the program, the machine.
pub type Begin = fn(&str, &str, &Config);

/// Who is told.
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
        started: cpu_time(),
        verdict,
        tell,
        corpus: Corpus::default(),
        exhausted: vec![],
        long_lives: vec![],
    };
    let mut small = campaign.small_programs().into_iter();
    let (mut on_small, mut on_steps, mut on_brief) = (0, 0, 0);
    for number in 0.. {
        // The small programs get half of the work until all have been run, brief ones most of the rest.
        if on_small <= on_steps + on_brief
            && let Some(one) = small.next()
        {
            on_small += campaign.run_small(one);
        } else if campaign.is_by_time()
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

/// What is done with a small program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// A few orders without crashes, and a few crashes: what anything at all finds.
    Glance,
    /// A life after every crash, which is cut again.
    Lives,
    /// Orders with two preemptions, without crashes: what two threads do when each stops at a place.
    TwoStops,
    /// Some of its orders, if its lives take long.
    SomeOrders,
    /// The rest of such lives.
    LongLives,
    /// All of its orders.
    AllOrders,
}

/// A search of one small program.
struct Small {
    program: String,
    config: Config,
    schedules: u64,
    pass: Pass,
}

/// What a first look at a small program costs, without crashes and with some.
const WORK_OF_GLANCES: [u64; 2] = [15_000, 50_000];
/// What the orders of a small program with two preemptions may cost, one by one, and as many by chance if those
/// are not all: the first that come switch late.
const WORK_OF_TWO_STOPS: [u64; 2] = [3_000_000, 1_000_000];
/// Lives that take more work wait until those of all programs have begun.
const WORK_OF_FIRST_LIVES: u64 = 2 * WORK;
/// Schedules of a small program of which every crash has a life after it.
const SMALL_SCHEDULES_OF_LIVES: u64 = 2;
/// Crash images that are taken at each point of them, about: with more of them, lives after lives take
/// minutes where a recovery writes much.
const IMAGES_OF_LIVES: usize = 8;
/// If those take at most this work, every crash in such a life has a life after it, too: some bugs show
/// in no other way. It takes several times as much, and far more where a recovery writes much.
const WORK_OF_LIVES: u64 = 1_000_000;
/// The most that lives of one small program may take: with less, the last crashes of a schedule would
/// have none.
const WORK_OF_ALL_LIVES: u64 = 8 * WORK;
/// The most schedules of a small program: where every order is to be run, none has as many.
const SMALL_SCHEDULES: u64 = 1_000_000;
/// The same where stores wait in buffers, whose steps multiply the orders: only a part of them.
const SMALL_SCHEDULES_TSO: u64 = 20_000;
/// One of so many steps goes back to where another one was first.
const RETURNS_ONE_IN: u64 = 3;
/// So many times as many schedules are run of a program without crashes, which cost many times as much.
const UNCUT: u64 = 4;
/// So many times as much work is done on brief programs as on others.
const BRIEF: u64 = 2;
/// Allocations that fail in turn.
const REFUSALS: u64 = 16;
/// What a tiny program may cost: most have all their orders by then, and more programs find more.
const WORK_OF_TINY: u64 = 250_000;
/// What one random program may cost, in [`Counts::work`](everleaf_machine::simulated::Counts::work).
pub const WORK: u64 = 1_000_000;

impl Campaign<'_> {
    fn seconds(&self) -> f64 {
        (cpu_time() - self.started).as_secs_f64()
    }

    /// Whether it ends after some time. Of a number of schedules, short ones would take more than their part.
    fn is_by_time(&self) -> bool {
        matches!(self.settings.budget, Budget::Cpu(_))
    }

    fn is_over(&self) -> bool {
        let spent = match self.settings.budget {
            Budget::Cpu(time) => cpu_time() - self.started >= time,
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
        let mutants = self.settings.mutant.into_iter().collect();
        Config { mutants, fault: self.settings.fault, ..config }
    }

    /// The small programs: a glance at each, then in each domain with a life after every crash, which is cut
    /// again (where that takes long, with some orders in between), then with the search through all their
    /// orders.
    fn small_programs(&mut self) -> Vec<Small> {
        let Some(preemptions) = self.settings.preemptions else { return vec![] };
        let Fixed { domain, memory } = self.settings.fixed;
        let domains = domain.map_or(vec![Domain::Adr, Domain::Eadr], |domain| vec![domain]);
        let memory = memory.unwrap_or(MemoryModel::Sc);
        let races = memory == MemoryModel::Sc;
        let in_every_order =
            if memory == MemoryModel::Sc { SMALL_SCHEDULES } else { SMALL_SCHEDULES_TSO };
        let by_time = self.is_by_time();
        let (mut glances, mut all) = (vec![], vec![]);
        for &domain in &domains {
            let (mut long, mut whole, mut two_stops) = (vec![], vec![], vec![]);
            let base = self.planted(Config { domain, memory, races, ..Config::default() });
            let budget = IMAGES_OF_LIVES;
            let crash =
                CrashConfig { nested_one_in: 1, nested_depth: 1, budget, ..CrashConfig::default() };
            let seed = self.settings.seed;
            let lives = Config { crash, work_limit: WORK_OF_ALL_LIVES, seed, ..base.clone() };
            let work_limit = if by_time { WORK_OF_FIRST_LIVES } else { WORK_OF_ALL_LIVES };
            let first = Config { work_limit, ..lives.clone() };
            let orders = exhaustive(&base, preemptions);
            let some = Config { work_limit: WORK, ..orders.clone() };
            for program in self.structure.small() {
                let small = |pass, config: &Config, schedules| {
                    let (program, config) = (program.clone(), config.clone());
                    Small { program, config, schedules, pass }
                };
                for (enabled, work_limit) in [false, true].into_iter().zip(WORK_OF_GLANCES) {
                    let crash = CrashConfig { enabled, budget, ..CrashConfig::default() };
                    let config = Config { crash, work_limit, seed, ..base.clone() };
                    glances.push(small(Pass::Glance, &config, self.settings.schedules));
                }
                all.push(small(Pass::Lives, &first, SMALL_SCHEDULES_OF_LIVES));
                two_stops.push(small(Pass::TwoStops, &base, in_every_order));
                all.push(small(Pass::SomeOrders, &some, in_every_order));
                long.push(small(Pass::LongLives, &lives, SMALL_SCHEDULES_OF_LIVES));
                whole.push(small(Pass::AllOrders, &orders, in_every_order));
            }
            self.verdict.exhausted.1 += whole.len();
            if by_time {
                // What threads do to each other hardly depends on the domain.
                all.extend(two_stops.into_iter().filter(|_| domain == domains[0]));
                all.extend(long);
            }
            all.extend(whole);
        }
        if by_time {
            glances.extend(all);
            return glances;
        }
        all
    }

    fn run_small(&mut self, small: Small) -> u64 {
        let Small { program, config, schedules, pass } = small;
        let named = (program.clone(), config.domain);
        let is_due = match pass {
            Pass::TwoStops => return self.run_two_stops(&program, &config, schedules),
            Pass::Glance | Pass::Lives => true,
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
            Pass::Glance | Pass::LongLives | Pass::TwoStops => return work,
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

    /// Runs a program with each of its allocations failing in turn, or with so many of them, spread over all:
    /// which of them fails decides more than the order of the threads. All together do as much as one program.
    fn refuse_in_turn(&mut self, program: &str, config: &Config, schedules: u64) -> Report {
        let refusals = 0..REFUSALS;
        let mut all = Report::default();
        // At first none: so many there are.
        for turn in std::iter::once(None).chain(refusals.map(Some)) {
            let count = all.counts.allocations;
            let fail_allocation = match turn {
                Some(turn) if count > REFUSALS => Some(turn * count / REFUSALS),
                Some(turn) if turn >= count => break,
                turn => turn,
            };
            let config = Config {
                fail_allocation,
                work_limit: config.work_limit / REFUSALS,
                ..config.clone()
            };
            all.add(&self.explore(program, &config, schedules.div_ceil(REFUSALS)));
            if !self.verdict.is_clean() {
                break;
            }
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
