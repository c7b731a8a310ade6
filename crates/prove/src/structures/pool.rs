//! The pool itself as a program: threads change roots, take ids, let the pool grow, close and open
//! it. Roots whose names are keys make the map that is judged; the others witness what was done.

pub mod creation;
mod harm;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program, Random};
use everleaf_machine::{Atomic, Ordering, Simulated};
use everleaf_pool::layout::{IDS_OFFSETS, SIZE_GRANULE};
use everleaf_pool::{KNOWN_FEATURES, Pool, PoolError, Root};

use crate::case::step::{self, Step};
use crate::case::{Case, PlannedCase};
use crate::machine::backing::{SIZE_MIN, new_pool_up_to, open_pool_on_disk_of, read_pool};
use crate::machine::configure::Fixed;
use crate::machine::dimensions::Dimension;
use crate::machine::dimensions::{self, Drawn};

type M = Simulated;

const KEYS: u64 = 3;
const CAPACITY: usize = 2 * SIZE_MIN as usize;
/// The maximum size of the pool until it is opened anew.
const FIRST_MAX: u64 = SIZE_MIN + SIZE_GRANULE;
/// The kind of a root that is a key of the map.
const KEY: u16 = 1;
/// The kind of a root that witnesses that an id was taken.
const ID: u16 = 2;
/// The kind of the root that witnesses the size.
const SIZE: u16 = 3;
/// The kind of the root that witnesses which id was the last when the pool was closed.
const CLOSED: u16 = 4;
const CLOSED_NAME: &str = "closed";
/// Features that are enabled.
const FEATURES: u64 = 3;
/// The most threads of a program.
const THREADS_MAX: usize = 2;

/// One operation on the pool.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// Reads the value of a root.
    Get(u64),
    /// Creates a root with a value.
    Create(u64, u64),
    /// Changes the value of a root.
    Set(u64, u64),
    /// Removes a root.
    Remove(u64),
    /// Takes an id, and a root as witness that it was taken.
    TakeId,
    /// Grows to the maximum, and creates a root with the size as witness.
    Grow,
    /// Grows by as little as can be asked for.
    GrowSome,
    /// Closes the pool cleanly and opens it again, with a larger maximum. For one thread only.
    Reopen,
    /// Enables a feature, and notes that the pool has it.
    Enable(u64),
    /// Notes every feature that it sees, and the size.
    See,
}

/// The pool and what it takes to open it again.
pub struct Opened {
    memory: Memory,
    /// Bytes that the disk has space for.
    disk_end: u64,
    /// The pools opened so far, of which the last is the one in use. All stay in their places: a
    /// simulated store that still waits in a buffer must find its word where it was.
    pools: RefCell<Vec<Rc<Pool<M>>>>,
}

impl Opened {
    fn new(memory: Memory, max: u64, disk_end: u64) -> Result<Self, PoolError> {
        let pool = Rc::new(open_pool_on_disk_of(memory, max, disk_end)?);
        Ok(Opened { memory, disk_end, pools: RefCell::new(vec![pool]) })
    }

    fn pool(&self) -> Rc<Pool<M>> {
        let pools = self.pools.borrow();
        Rc::clone(pools.last().expect("one was opened at first and none goes"))
    }

    fn reopen(&self) -> Result<(), PoolError> {
        let pool = self.pool();
        let last = last_id(&pool);
        match pool.root(CLOSED_NAME) {
            Some(root) => pool.set_root_value(root.index, root.value, last)?,
            None => drop(pool.create_root(CLOSED_NAME, CLOSED, last)?),
        }
        pool.set_clean()?;
        let next = open_pool_on_disk_of(self.memory, CAPACITY as u64, self.disk_end)?;
        assert!(next.was_clean() && next.max_size() == CAPACITY as u64);
        note_seen(&next, max_seen(&next), next.max_size());
        self.pools.borrow_mut().push(Rc::new(next));
        Ok(())
    }
}

/// The pool with its directory, counter of ids and size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Directory {
    /// Whether the disk has less space than the pool may have.
    pub is_short: bool,
    /// Whether each opening comes behind one that was refused, and a bit of one copy of the header is flipped before.
    pub is_harmed: bool,
}

impl Directory {
    fn disk_end(self) -> u64 {
        if self.is_short { FIRST_MAX } else { CAPACITY as u64 }
    }
}

fn key_name(key: u64) -> String {
    format!("key {key}")
}

fn find(pool: &Pool<M>, key: u64) -> Option<Root> {
    pool.root(&key_name(key))
}

/// Sets the value of a key; the previous value.
fn set(pool: &Pool<M>, key: u64, value: u64) -> Option<u64> {
    loop {
        let root = find(pool, key)?;
        match pool.set_root_value(root.index, root.value, value as u32) {
            Ok(()) => return Some(u64::from(root.value)),
            Err(PoolError::RootChanged { .. } | PoolError::NoSuchRoot { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn create(pool: &Pool<M>, key: u64, value: u64) -> bool {
    match pool.create_root(&key_name(key), KEY, value as u32) {
        Ok(_) => true,
        Err(PoolError::RootExists { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

fn remove(pool: &Pool<M>, key: u64) -> bool {
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
fn last_id(pool: &Pool<M>) -> u32 {
    let copies = IDS_OFFSETS.map(|offset| pool.word(offset).read_private() as u32);
    copies[0].max(copies[1])
}

fn take_id(pool: &Pool<M>) {
    let id = pool.next_id().expect("ids do not run out");
    pool.create_root(&format!("id {id}"), ID, id).expect("an id is not given twice");
}

/// Grows to at least so many bytes, where the disk has them.
fn grow(pool: &Pool<M>, wanted: u64, disk_end: u64) {
    let size = match pool.grow(wanted) {
        Err(PoolError::DiskFull { .. }) if wanted > disk_end => return,
        Err(PoolError::PoolFull { .. }) if wanted > pool.max_size() => return,
        size => size.expect("up to the maximum there is room"),
    };
    let granules = (size / SIZE_GRANULE) as u32;
    match pool.create_root(&format!("size {granules}"), SIZE, granules) {
        Ok(_) | Err(PoolError::RootExists { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// The feature of a number: one of those that pools may have.
fn feature(number: u64) -> u64 {
    let mut rest = KNOWN_FEATURES;
    for _ in 0..number {
        rest &= rest - 1;
    }
    rest & rest.wrapping_neg()
}

/// The word that witnesses that the pool has a feature: outside of the directory, whose lock would keep order.
fn witness_of(pool: &Pool<M>, number: u64) -> &Atomic<u64, M> {
    pool.word(pool.data_start() + 64 * number)
}

/// Notes that the pool has a feature.
fn witness_feature(pool: &Pool<M>, number: u64) {
    let word = witness_of(pool, number);
    // Release: nothing is read behind it; the machine follows it as it does what a user of the feature writes.
    word.store(1, Ordering::Release);
    pool.medium().persist(word.as_ptr(), 8);
}

/// The word that witnesses the size that a thread has seen, in granules.
fn size_seen(pool: &Pool<M>, thread: usize) -> &Atomic<u64, M> {
    pool.word(pool.data_start() + 64 * (FEATURES + thread as u64))
}

/// The word that witnesses the maximum that an opening has raised, in granules.
fn max_seen(pool: &Pool<M>) -> &Atomic<u64, M> {
    size_seen(pool, THREADS_MAX)
}

/// Notes a size that was seen.
fn note_seen(pool: &Pool<M>, word: &Atomic<u64, M>, size: u64) {
    // Release: as in `witness_feature`.
    word.store(size / SIZE_GRANULE, Ordering::Release);
    pool.medium().persist(word.as_ptr(), 8);
}

fn see(pool: &Pool<M>, thread: usize) {
    let features = pool.features();
    let seen = (0..FEATURES).filter(|number| features & feature(*number) != 0);
    seen.for_each(|number| witness_feature(pool, number));
    note_seen(pool, size_seen(pool, thread), pool.size());
}

/// Whether a reader takes what a crash has left of a rewriting for damage.
fn judge_copies(memory: Memory) -> Result<(), String> {
    if memory.outlives_stores() {
        // What is in the caches is for the opening that is judged.
        return Ok(());
    }
    let pool = read_pool(memory).map_err(|error| error.to_string())?;
    let problems = pool.copy_problems();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

impl Program for Directory {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        CAPACITY
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool_up_to(memory, FIRST_MAX).expect("new memory becomes a pool");
        pool.set_clean().expect("a pool in memory can be marked");
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        judge_copies(memory)?;
        let open = || Opened::new(memory, 0, self.disk_end()).map_err(|error| error.to_string());
        if self.is_harmed && !memory.outlives_stores() {
            harm::demand_unchanged(memory)?;
        }
        let opened = open()?;
        if self.is_harmed {
            harm::demand_whole(memory)?;
            let refused = opened.pool();
            refused.leave_as_found().map_err(|error| error.to_string())?;
            let again = open()?.pool();
            if again.was_clean() != refused.was_clean() {
                return Err("marked clean by an opening that was refused".to_owned());
            }
            opened.pools.borrow_mut().push(again);
        }
        let pool = opened.pool();
        let problems = pool.copy_problems();
        if !problems.is_empty() {
            return Err(format!("behind an opening: {}", problems.join("; ")));
        }
        let id_when_closed = pool.root(CLOSED_NAME).map_or(0, |root| root.value);
        if pool.was_clean() && last_id(&pool) != id_when_closed {
            return Err("changed since it was marked clean, and still marked".to_owned());
        }
        Ok(opened)
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        let pool = opened.pool();
        let last_id = last_id(&pool);
        let is_noted = |number: &u64| witness_of(&pool, *number).read_private() != 0;
        let is_gone = |number: &u64| pool.features() & feature(*number) == 0;
        if let Some(number) = (0..FEATURES).filter(is_noted).find(is_gone) {
            return Err(format!("the pool no longer has feature {number}"));
        }
        for thread in 0..THREADS_MAX {
            let seen = size_seen(&pool, thread).read_private() * SIZE_GRANULE;
            if seen > pool.size() {
                return Err(format!("thread {thread} has seen {seen} bytes"));
            }
        }
        if max_seen(&pool).read_private() * SIZE_GRANULE > pool.max_size() {
            return Err(format!("the maximum fell to {}", pool.max_size()));
        }
        if pool.size() > self.disk_end() {
            return Err(format!("{} bytes on a disk of {}", pool.size(), self.disk_end()));
        }
        let mut pairs = Vec::new();
        for root in pool.roots() {
            match root.kind {
                KEY => {
                    let key = root.name.strip_prefix("key ").and_then(|key| key.parse().ok());
                    pairs.push((key.ok_or("a name is broken")?, u64::from(root.value)));
                }
                ID if root.value > last_id => return Err(format!("{} comes back", root.name)),
                SIZE if u64::from(root.value) * SIZE_GRANULE > pool.size() => {
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
            Operation::TakeId
            | Operation::Grow
            | Operation::GrowSome
            | Operation::Reopen
            | Operation::Enable(_)
            | Operation::See => {}
        }
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
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
            Operation::Grow => grow(pool, pool.max_size(), opened.disk_end),
            Operation::GrowSome => grow(pool, pool.size() + 1, opened.disk_end),
            Operation::Reopen => opened.reopen().expect("a pool that was open opens again"),
            Operation::Enable(number) => {
                pool.enable_features(feature(number)).expect("a feature that is known");
                witness_feature(pool, number);
            }
            Operation::See => see(pool, thread),
        }
    }
}

/// A random plan: two threads with three operations each, or one that also reopens the pool.
pub fn plan(seed: u64) -> Plan<Operation> {
    let random = &mut Random::new(seed);
    let alone = random.one_in(2);
    let (threads, operations) = if alone { (1, 6) } else { (2, 3) };
    plan_of(random, threads, operations)
}

/// A tiny one: two threads with one or two operations each, or one with three.
fn tiny(seed: u64) -> Plan<Operation> {
    let random = &mut Random::new(seed ^ 0x7469_6E79);
    let (threads, operations) = if random.one_in(4) { (1, 3) } else { (2, 1 + random.below(2)) };
    plan_of(random, threads, operations)
}

fn plan_of(random: &mut Random, threads: usize, operations: u64) -> Plan<Operation> {
    let alone = threads == 1;
    let value = Cell::<u64>::new(0);
    let mut operation = || {
        let key = 1 + random.below(KEYS);
        value.set(value.get() + 1);
        // Some recur: a thread that looks for a value must not take another root for its own.
        let number = if random.one_in(2) { value.get() } else { 1 + random.below(2) };
        match random.below(11) {
            9 => Operation::Enable(random.below(FEATURES)),
            10 => Operation::See,
            0 | 1 => Operation::Create(key, number),
            2 => Operation::Set(key, number),
            3 => Operation::Remove(key),
            4 => Operation::Get(key),
            5 if value.get().is_multiple_of(2) => Operation::GrowSome,
            5 => Operation::Grow,
            6 | 7 if alone => Operation::Reopen,
            _ => Operation::TakeId,
        }
    };
    (0..threads).map(|_| (0..operations).map(|_| operation()).collect()).collect()
}

/// Programs small enough for every order.
const SMALL: [(&str, &[&[Operation]]); 9] = [
    ("create, create", &[&[Operation::Create(1, 1)], &[Operation::Create(1, 2)]]),
    ("create, remove", &[&[Operation::Create(1, 1)], &[Operation::Remove(1)]]),
    ("id, id", &[&[Operation::TakeId], &[Operation::TakeId]]),
    ("enable, see", &[&[Operation::Enable(0)], &[Operation::See]]),
    ("grow, see", &[&[Operation::Grow], &[Operation::See]]),
    ("grow, grow", &[&[Operation::Grow], &[Operation::Grow]]),
    ("reopen", &[&[Operation::TakeId, Operation::Reopen, Operation::Grow, Operation::Reopen]]),
    ("grow, short", &[&[Operation::Reopen, Operation::GrowSome, Operation::Reopen]]),
    ("set, set", &[&[Operation::Create(1, 1), Operation::Set(1, 2)], &[Operation::Set(1, 3)]]),
];

/// The case of a name: `random/NUMBER`, `tiny/NUMBER` or `small/NAME`.
fn case(name: &str) -> Option<Box<dyn Case>> {
    if let Some(seed) = name.strip_prefix("random/") {
        let seed = seed.parse().ok()?;
        return Some(PlannedCase::boxed((of_number(seed), plan(seed))));
    }
    if let Some(seed) = name.strip_prefix("tiny/") {
        let seed = seed.parse().ok()?;
        return Some(PlannedCase::boxed((of_number(seed), tiny(seed))));
    }
    if let Some(case) = creation::case(name) {
        return Some(case);
    }
    let wanted = name.strip_prefix("small/")?;
    let (_, plan) = SMALL.iter().find(|(known, _)| *known == wanted)?;
    let plan = plan.iter().map(|thread| thread.to_vec()).collect();
    Some(PlannedCase::boxed((
        Directory { is_short: wanted.ends_with("short"), is_harmed: false },
        plan,
    )))
}

/// A third of the disks are short of space, and a fifth of the pools are harmed.
fn of_number(seed: u64) -> Directory {
    Directory { is_short: seed.is_multiple_of(3), is_harmed: seed.is_multiple_of(5) }
}

/// The small programs.
fn small() -> Vec<String> {
    SMALL.iter().map(|(name, _)| format!("small/{name}")).collect()
}

/// The programs of this structure.
pub struct Programs;

impl step::Programs for Programs {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        case(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let Drawn { config, values } = dimensions::draw(random, fixed);
        let program = format!("random/{}", random.below(1 << 40) << 8 | number & 255);
        Step { program, config, values }
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        let mut drawn = dimensions::draw(random, fixed);
        dimensions::draw_brief(random, false, &mut drawn);
        let Drawn { config, values } = drawn;
        Some(Step { program: format!("tiny/{}", random.below(1 << 40)), config, values })
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::machines()
    }

    fn small(&self) -> Vec<String> {
        small()
    }

    fn more_small(&self) -> Vec<String> {
        creation::names()
    }
}
