//! The pool on the simulated machine: threads change roots, ids and size in every order that chance
//! gives, the power is cut wherever it can matter, and what is left must be a pool in which nothing
//! that was answered is missing and nothing is half done.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{
    Config, Counts, CrashConfig, Domain, Failure, Memory, MemoryModel, Plan, Program, Random,
    Runner, Site, SiteKind,
};
use everleaf_pool::layout::{IDS_OFFSETS, SIZE_MIN};
use everleaf_pool::{Backing, Pool, PoolError, Root};

const KEYS: u64 = 3;
const CAPACITY: usize = 4 * 65536;
/// The maximum size of the pool until it is opened anew.
const FIRST_MAX: u64 = 3 * 65536;
/// The kind of a root that is a key of the map.
const KEY: u16 = 1;
/// The kind of a root that witnesses that an id was taken.
const ID: u16 = 2;
/// The kind of the root that witnesses the size.
const SIZE: u16 = 3;
/// The kind of the root that witnesses which id was the last when the pool was closed.
const CLOSED: u16 = 4;
const CLOSED_NAME: &str = "closed";

/// The memory of the simulated machine, of which a new pool gets the first part.
struct SimulatedBacking {
    memory: Memory,
    length: u64,
}

// SAFETY: the simulation is one OS thread.
unsafe impl Send for SimulatedBacking {}
// SAFETY: as above.
unsafe impl Sync for SimulatedBacking {}

// SAFETY: the runner keeps the memory in its place, longer than any pool on it.
unsafe impl Backing for SimulatedBacking {
    fn base(&self) -> *mut u8 {
        self.memory.base()
    }
    fn size(&self) -> u64 {
        self.length
    }
    fn capacity(&self) -> u64 {
        self.memory.size() as u64
    }
    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        assert!(new <= self.capacity());
        Ok(())
    }
}

fn pool_on(memory: Memory, max: u64, format_new: bool) -> Result<Pool<Simulated>, PoolError> {
    let domain = match memory.domain() {
        Domain::Line => everleaf_pool::Domain::Line,
        Domain::Visible => everleaf_pool::Domain::Visible,
        Domain::Process => everleaf_pool::Domain::Process,
    };
    let length = if format_new { SIZE_MIN } else { CAPACITY as u64 };
    Pool::with_backing(Box::new(SimulatedBacking { memory, length }), domain, max, format_new)
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Get(u64),
    Create(u64, u64),
    Set(u64, u64),
    Remove(u64),
    /// Takes an id, and a root as witness that it was taken.
    TakeId,
    /// Grows to the maximum, and creates a root with the size as witness.
    Grow,
    /// Closes the pool cleanly and opens it again, with a larger maximum. For one thread only.
    Reopen,
}

/// The pool and what it takes to open it again.
struct Opened {
    memory: Memory,
    /// The pools opened so far, of which the last is the one in use. All stay in their places: a
    /// simulated store that still waits in a buffer must find its word where it was.
    pools: RefCell<Vec<Rc<Pool<Simulated>>>>,
}

impl Opened {
    fn new(memory: Memory, max: u64) -> Result<Self, PoolError> {
        let pool = Rc::new(pool_on(memory, max, false)?);
        Ok(Opened { memory, pools: RefCell::new(vec![pool]) })
    }

    fn pool(&self) -> Rc<Pool<Simulated>> {
        Rc::clone(self.pools.borrow().last().unwrap())
    }

    fn reopen(&self) {
        let pool = self.pool();
        match pool.root(CLOSED_NAME) {
            Some(root) => pool.set_root_value(root.index, root.value, last_id(&pool)).unwrap(),
            None => drop(pool.create_root(CLOSED_NAME, CLOSED, last_id(&pool)).unwrap()),
        }
        pool.set_clean().unwrap();
        let next = pool_on(self.memory, CAPACITY as u64, false).unwrap();
        assert!(next.was_clean() && next.max_size() == CAPACITY as u64);
        self.pools.borrow_mut().push(Rc::new(next));
    }
}

struct Directory;

fn key_name(key: u64) -> String {
    format!("key {key}")
}

fn find(pool: &Pool<Simulated>, key: u64) -> Option<Root> {
    pool.root(&key_name(key))
}

/// Sets the value of a key; the previous value.
fn set(pool: &Pool<Simulated>, key: u64, value: u64) -> Option<u64> {
    loop {
        let root = find(pool, key)?;
        match pool.set_root_value(root.index, root.value, value as u32) {
            Ok(()) => return Some(u64::from(root.value)),
            Err(PoolError::RootChanged { .. } | PoolError::NoSuchRoot { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn create(pool: &Pool<Simulated>, key: u64, value: u64) -> bool {
    match pool.create_root(&key_name(key), KEY, value as u32) {
        Ok(_) => true,
        Err(PoolError::RootExists { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn remove(pool: &Pool<Simulated>, key: u64) -> bool {
    loop {
        let Some(root) = find(pool, key) else { return false };
        match pool.remove_root(root.index) {
            Ok(()) => return true,
            Err(PoolError::NoSuchRoot { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The last id handed out; no thread takes one now.
fn last_id(pool: &Pool<Simulated>) -> u32 {
    let copies = IDS_OFFSETS.map(|offset| pool.word(offset).read_private() as u32);
    copies[0].max(copies[1])
}

fn take_id(pool: &Pool<Simulated>) {
    let id = pool.next_id().unwrap();
    pool.create_root(&format!("id {id}"), ID, id).expect("an id is not given twice");
}

fn grow(pool: &Pool<Simulated>) {
    let size = pool.grow(pool.max_size()).unwrap();
    let granules = (size / 65536) as u32;
    match pool.create_root(&format!("size {granules}"), SIZE, granules) {
        Ok(_) | Err(PoolError::RootExists { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

impl Program for Directory {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        CAPACITY
    }

    fn format(&self, memory: Memory) {
        pool_on(memory, FIRST_MAX, true).unwrap().set_clean().unwrap();
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        let opened = Opened::new(memory, 0).map_err(|error| error.to_string())?;
        let pool = opened.pool();
        let id_when_closed = pool.root(CLOSED_NAME).map_or(0, |root| root.value);
        if pool.was_clean() && last_id(&pool) != id_when_closed {
            return Err("changed since it was marked clean, and still marked".to_owned());
        }
        Ok(opened)
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        let pool = opened.pool();
        let last_id = last_id(&pool);
        let mut pairs = Vec::new();
        for root in pool.roots() {
            match root.kind {
                KEY => {
                    let key = root.name.strip_prefix("key ").and_then(|key| key.parse().ok());
                    pairs.push((key.ok_or("a name is broken")?, u64::from(root.value)));
                }
                ID if root.value > last_id => return Err(format!("{} comes back", root.name)),
                SIZE if u64::from(root.value) * 65536 > pool.size() => {
                    return Err(format!("the pool shrank to {}", pool.size()));
                }
                ID | SIZE | CLOSED => {}
                kind => return Err(format!("kind {kind} of root {:?}", root.name)),
            }
        }
        pairs.sort_unstable();
        Ok(pairs)
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        match *operation {
            Operation::Get(key) => calls.push((key, Call::Get)),
            Operation::Create(key, value) => calls.push((key, Call::Insert(value))),
            Operation::Set(key, value) => calls.push((key, Call::Update(value))),
            Operation::Remove(key) => calls.push((key, Call::Remove)),
            Operation::TakeId | Operation::Grow | Operation::Reopen => {}
        }
    }

    fn run(
        &self,
        opened: &Opened,
        _thread: usize,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) {
        let pool = &*opened.pool();
        match *operation {
            Operation::Get(key) => {
                let value = find(pool, key).map(|root| u64::from(root.value));
                replies.push(Reply::Previous(value));
            }
            Operation::Create(key, value) => replies.push(Reply::Done(create(pool, key, value))),
            Operation::Set(key, value) => {
                replies.push(Reply::Previous(set(pool, key, value)));
            }
            Operation::Remove(key) => replies.push(Reply::Done(remove(pool, key))),
            Operation::TakeId => take_id(pool),
            Operation::Grow => grow(pool),
            Operation::Reopen => opened.reopen(),
        }
    }
}

/// A random plan: two threads with three operations each, or one that also reopens the pool.
fn plan(seed: u64) -> Plan<Operation> {
    let mut random = Random::new(seed);
    let alone = random.one_in(2);
    let value = Cell::new(0);
    let mut operation = || {
        let key = 1 + random.below(KEYS);
        value.set(value.get() + 1);
        match random.below(9) {
            0 | 1 => Operation::Create(key, value.get()),
            2 => Operation::Set(key, value.get()),
            3 => Operation::Remove(key),
            4 => Operation::Get(key),
            5 => Operation::Grow,
            6 | 7 if alone => Operation::Reopen,
            _ => Operation::TakeId,
        }
    };
    let (threads, operations) = if alone { (1, 6) } else { (2, 3) };
    (0..threads).map(|_| (0..operations).map(|_| operation()).collect()).collect()
}

/// Runs `plans` random plans with `schedules` schedules each.
fn search(
    config: &Config,
    plans: u64,
    schedules: u64,
    counts: &mut Counts,
) -> Result<Vec<(Site, SiteKind)>, Box<Failure>> {
    let mut sites = Vec::new();
    for seed in 0..plans {
        let mut runner = Runner::new(Directory, plan(seed), config.clone())?;
        let report = runner.explore(schedules)?;
        counts.add(&report.counts);
        for hits in report.sites {
            if !sites.contains(&(hits.site, hits.kind)) {
                sites.push((hits.site, hits.kind));
            }
        }
    }
    Ok(sites)
}

#[test]
fn a_power_cut_anywhere_leaves_a_pool_with_everything_that_was_answered() {
    for domain in [Domain::Line, Domain::Visible, Domain::Process] {
        for memory in [MemoryModel::Sc, MemoryModel::Tso] {
            let crash = CrashConfig { nested_one_in: 20, ..CrashConfig::default() };
            let config = Config { domain, memory, crash, ..Config::default() };
            let mut counts = Counts::default();
            if let Err(failure) = search(&config, 40, 10, &mut counts) {
                panic!("{domain:?} {memory:?}: {failure}");
            }
            assert_eq!(counts.schedules, 400);
            assert!(counts.images > 400 && counts.nested_runs > 0, "{counts:?}");
        }
    }
}

#[test]
fn every_persist_of_the_pool_is_needed() {
    let config = Config::default();
    let sites = search(&config, 40, 5, &mut Counts::default()).unwrap_or_else(|failure| {
        panic!("before anything is switched off: {failure}");
    });
    assert!(sites.len() >= 8, "roots, ids, growth, opening and closing persist: {sites:?}");
    for (site, kind) in sites {
        let ablated = Config { ablate: Some(site), ..config.clone() };
        let mut counts = Counts::default();
        let found = search(&ablated, 60, 20, &mut counts);
        let schedules = counts.schedules;
        assert!(found.is_err(), "{kind} at {site} was not missed in {schedules} schedules");
    }
}
