//! A search for a given CPU time or a number of schedules: the small programs, first with crashes in
//! every recovery, then in every order, and in turn with them programs that are made by chance.

use std::sync::OnceLock;
use std::time::Duration;

use everleaf_machine::simulated::{
    Config, CrashConfig, Domain, Failure, Fault, MemoryModel, Random, Report, cpu_time, mix,
};

use crate::configure::{Fixed, exhaustive};
use crate::corpus::Corpus;
use crate::coverage::Coverage;
use crate::made::Room;
use crate::record::Record;
use crate::structure::{Step, Structure};
use crate::tiny::{ORDERS, Tiny};

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
        work_of_lives: 0,
    };
    let mut small = campaign.small_programs().into_iter();
    let mut spent = (0, 0);
    for number in 0.. {
        // The small programs get half of the work until all have been run.
        if spent.0 <= spent.1
            && let Some(one) = small.next()
        {
            spent.0 += campaign.run_small(one);
        } else {
            spent.1 += campaign.run_step(number);
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
    /// What the lives of the last small program took.
    work_of_lives: u64,
}

/// What is done with a small program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// A life after every crash, which is cut again.
    Lives,
    /// Some of its orders.
    SomeOrders,
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

/// Lives that take more work make those of all programs long: then some orders come in between.
const WORK_OF_LONG_LIVES: u64 = 2 * WORK;
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
/// Allocations that fail in turn.
const REFUSALS: u64 = 12;
/// What a tiny program may cost: most have all their orders by then, and more programs find more.
const WORK_OF_TINY: u64 = 250_000;
/// What one random program may cost, in [`Counts::work`](everleaf_machine::simulated::Counts::work).
pub const WORK: u64 = 1_000_000;

impl Campaign<'_> {
    fn seconds(&self) -> f64 {
        (cpu_time() - self.started).as_secs_f64()
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
            Some(_) => ORDERS,
            None => self.settings.schedules,
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

    /// The small programs: in each domain first with a life after every crash, which is cut again (where that
    /// takes long, with some orders in between), then with the search through all their orders.
    fn small_programs(&mut self) -> Vec<Small> {
        let Some(preemptions) = self.settings.preemptions else { return vec![] };
        let Fixed { domain, memory } = self.settings.fixed;
        let domains = domain.map_or(vec![Domain::Adr, Domain::Eadr], |domain| vec![domain]);
        let memory = memory.unwrap_or(MemoryModel::Sc);
        let races = memory == MemoryModel::Sc;
        let in_every_order =
            if memory == MemoryModel::Sc { SMALL_SCHEDULES } else { SMALL_SCHEDULES_TSO };
        let mut all = vec![];
        for domain in domains {
            let mut whole = vec![];
            let base = self.planted(Config { domain, memory, races, ..Config::default() });
            let budget = IMAGES_OF_LIVES;
            let crash = CrashConfig { nested_one_in: 1, nested_depth: 1, budget, enabled: true };
            let lives = Config {
                crash,
                work_limit: WORK_OF_ALL_LIVES,
                seed: self.settings.seed,
                ..base.clone()
            };
            let orders = exhaustive(&base, preemptions);
            let some = Config { work_limit: WORK, ..orders.clone() };
            for program in self.structure.small() {
                let passes = [
                    (Pass::Lives, &lives, SMALL_SCHEDULES_OF_LIVES),
                    (Pass::SomeOrders, &some, in_every_order),
                    (Pass::AllOrders, &orders, in_every_order),
                ];
                for (pass, config, schedules) in passes {
                    let list = if pass == Pass::AllOrders { &mut whole } else { &mut all };
                    let (program, config) = (program.clone(), config.clone());
                    list.push(Small { program, config, schedules, pass });
                }
            }
            self.verdict.exhausted.1 += whole.len();
            all.extend(whole);
        }
        all
    }

    fn run_small(&mut self, small: Small) -> u64 {
        let Small { program, config, schedules, pass } = small;
        if pass == Pass::AllOrders && self.exhausted.contains(&(program.clone(), config.domain)) {
            return 0;
        }
        if pass == Pass::SomeOrders && self.work_of_lives <= WORK_OF_LONG_LIVES {
            // Those of all programs are done soon.
            return 0;
        }
        let report = self.explore(&program, &config, schedules);
        self.verdict.coverage.count_lives(config.domain, &report);
        let work = report.counts.work();
        if pass == Pass::Lives {
            self.work_of_lives = work;
        }
        if pass != Pass::Lives {
            self.verdict.exhausted.0 += usize::from(report.exhausted);
            if report.exhausted {
                self.exhausted.push((program, config.domain));
            }
            return work;
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
        let schedules = self.schedules_of(&program, &config);
        let report = match config.fail_allocation {
            Some(_) => self.refuse_in_turn(&program, &config, schedules),
            None => self.explore(&program, &config, schedules),
        };
        self.verdict.programs += 1;
        self.corpus.note(&program, &report);
        self.verdict.coverage.count(&values);
        self.verdict.coverage.count_lives(config.domain, &report);
        report.counts.work()
    }

    /// Runs a program with each of its first allocations failing in turn: which of them fails decides more
    /// than the order of the threads. All together do as much as one program.
    fn refuse_in_turn(&mut self, program: &str, config: &Config, schedules: u64) -> Report {
        let mut all = Report::default();
        for number in 0..REFUSALS {
            let config = Config {
                fail_allocation: Some(number),
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
