//! Programs that are made, not written: a walk to some far state of a tree, before it is opened and
//! after, and then a few operations of a few threads close to each other.
//!
//! ```text
//!   made/SLOTS/KEYS/THREADS/SPACE/OPERATIONS/WALK/WARM/TAIL
//!        9    /alike/2     /usual/3f1       /1a.7c/03/9e41
//! ```
//!
//! A name says all: the kind of keys; which operations the threads choose from, a bit for each; the
//! phases of the walk, a number for each, before the tree is closed and after it was opened again; and
//! the number that decides what the threads do. So a corpus of walks is a list of short lists of
//! numbers, and a program of it is repeated by its name.

use everleaf_machine::simulated::{Plan, Random};

use crate::machine::backing::SIZE_MIN;
use crate::machine::space::{SPACE_AT_HAND, Space};
use crate::programs::keys::{filler, numbers, words};
use crate::tree::bytes_program::{AnyWords, BytesProgram};
use crate::tree::living::AnyTree;
use crate::tree::operation::{Operation, Range};
use crate::tree::u64_program::U64Program;

/// Which keys there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Numbers that follow each other; strings of one byte.
    Near,
    /// Numbers with one fingerprint; strings with a long common prefix, of which some have entries that do not tell
    /// them apart, or with one of whole words that is a key, too.
    Alike,
    /// The ends of the key space and of its classes; strings that contain each other.
    Edges,
    /// Spread over all there are; strings of all lengths.
    Far,
}

/// How much space there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// As much as is needed.
    Usual,
    /// So much at hand that nobody asks the allocator, whose locks are honest locks.
    AtHand,
    /// The pool is full.
    Full,
    /// The pool is full and may grow.
    Growing,
    /// Operations may find no memory.
    Refusing,
    /// The pool has a few blocks left when the threads come.
    Tight,
}

/// All kinds of keys, by name.
pub const KEYS: [(&str, Keys); 4] =
    [("near", Keys::Near), ("alike", Keys::Alike), ("edges", Keys::Edges), ("far", Keys::Far)];

/// All kinds of space, by name.
pub const ROOMS: [(&str, Room); 6] = [
    ("usual", Room::Usual),
    ("at-hand", Room::AtHand),
    ("full", Room::Full),
    ("growing", Room::Growing),
    ("refusing", Room::Refusing),
    ("tight", Room::Tight),
];

/// How many kinds of operations there are to choose from.
pub const KINDS: u32 = 14;
/// The kind that empties a tree.
pub const CLEAR: u32 = 12;
/// The kind of many writes in one call.
pub const WRITE_MANY: u32 = 13;
/// The kinds that take locks of the allocator at will: the ends of sessions, and space given back.
pub const LOCKING: u32 = 0b11 << 10;
/// Those that change the tree.
pub const WRITES: u32 = 0b1_1111;
/// The phase of a walk in which the pool is closed cleanly and opened again.
pub const CLOSING: u16 = 0;
/// The same, but that it is not closed: all is there, and nothing says so.
pub const ENDING: u16 = 1;
/// The most keys of a program, but for those that fill a pool.
const KEYS_MAX: usize = 30;
/// Keys that fill a pool.
const FILLERS: u64 = 80;

/// A program that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Slots of a leaf.
    pub slots: usize,
    /// Which keys.
    pub keys: Keys,
    /// How many threads, 1 to 4.
    pub threads: usize,
    /// How much space.
    pub room: Room,
    /// Which operations the threads choose from: a bit for each.
    pub operations: u32,
    /// The phases of what was done before the tree was closed.
    pub walk: Vec<u16>,
    /// The phases of what is done to the opened tree before the threads come.
    pub warm: Vec<u16>,
    /// Decides how many keys there are and what the threads do.
    pub tail: u32,
}

/// The value of a name in such a list.
pub(crate) fn named<T: Copy>(list: &[(&str, T)], name: &str) -> Option<T> {
    list.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The name of a value of such a list.
pub fn name_in<T: Copy + PartialEq>(list: &[(&'static str, T)], value: T) -> &'static str {
    list.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

fn phases_of(text: &str) -> Option<Vec<u16>> {
    if text == "-" {
        return Some(vec![]);
    }
    text.split('.').map(|phase| u16::from_str_radix(phase, 16).ok()).collect()
}

fn text_of(phases: &[u16]) -> String {
    if phases.is_empty() {
        return "-".to_owned();
    }
    let texts: Vec<_> = phases.iter().map(|phase| format!("{phase:x}")).collect();
    texts.join(".")
}

impl Made {
    /// The program of a name.
    pub fn from_name(name: &str) -> Option<Made> {
        let parts: Vec<&str> = name.strip_prefix("made/")?.split('/').collect();
        let [slots, keys, threads, room, operations, walk, warm, tail] = parts.as_slice() else {
            return None;
        };
        let made = Made {
            slots: slots.parse().ok()?,
            keys: named(&KEYS, keys)?,
            threads: threads.parse().ok()?,
            room: named(&ROOMS, room)?,
            operations: u32::from_str_radix(operations, 16).ok()?,
            walk: phases_of(walk)?,
            warm: phases_of(warm)?,
            tail: u32::from_str_radix(tail, 16).ok()?,
        };
        (1..=4).contains(&made.threads).then_some(made)
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!(
            "made/{}/{}/{}/{}/{:x}/{}/{}/{:x}",
            self.slots,
            name_in(&KEYS, self.keys),
            self.threads,
            name_in(&ROOMS, self.room),
            self.operations,
            text_of(&self.walk),
            text_of(&self.warm),
            self.tail,
        )
    }

    /// The program on a tree of numbers.
    pub fn numbers(&self, tree: &'static AnyTree) -> (U64Program, Plan<Operation>) {
        let Parts { keys, walk, warm, plan } = self.parts(|count| numbers(self.keys, count));
        let mut program = U64Program::on(tree, keys, walk, plan.len());
        program.warm_up = warm.iter().map(|one| tree.fit(one)).collect();
        program.space = self.space();
        program.is_closed = self.tail & 1 << 9 != 0;
        let fit = |one: &Operation| tree.fit(one).distinct();
        let plan = plan.iter().map(|thread| thread.iter().map(fit).collect());
        (program, plan.collect())
    }

    /// The program on a tree of byte strings.
    pub fn words(&self, tree: &'static AnyWords) -> (BytesProgram, Plan<Operation>) {
        let mut strings: Vec<Vec<u8>> = vec![];
        let parts = self.parts(|count| {
            strings = words(self.keys, count, self.tail);
            if self.is_crowded() {
                strings.extend((0..FILLERS).map(|number| filler(self.keys, number)));
            }
            strings.sort();
            strings.dedup();
            (0..strings.len().min(count) as u64).collect()
        });
        let strings: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
        let last = strings.len() as u64 - 1;
        let clamp = |one: &Operation| one.map(|key| key.min(last), |value| value);
        let walk = parts.walk.iter().map(clamp).collect();
        let mut program = BytesProgram::on(tree, &strings, walk, parts.plan.len());
        program.warm_up = parts.warm.iter().map(clamp).collect();
        program.space = self.space();
        program.is_closed = self.tail & 1 << 9 != 0;
        let apart = |one: &Operation| clamp(one).distinct();
        let plan = parts.plan.iter().map(|thread| thread.iter().map(apart).collect()).collect();
        program.fit_pool(&plan);
        (program, plan)
    }

    fn is_crowded(&self) -> bool {
        matches!(self.room, Room::Full | Room::Growing)
    }

    fn space(&self) -> Space {
        let usual = Space { pool_bytes: 2 * SIZE_MIN as usize, ..Space::default() };
        let small = Space { may_fill: true, ..Space::default() };
        match self.room {
            Room::Usual => Space { blocks_at_hand: self.tail as usize % 3, ..usual },
            Room::AtHand => SPACE_AT_HAND,
            Room::Full => small,
            Room::Growing => Space { pool_bytes: 2 * SIZE_MIN as usize, ..small },
            Room::Refusing => Space { may_fill: true, ..usual },
            Room::Tight => Space { blocks_left: Some(self.tail as usize >> 4 & 7), ..small },
        }
    }

    fn parts(&self, universe: impl FnOnce(usize) -> Vec<u64>) -> Parts {
        let random = &mut Random::new(u64::from(self.tail) ^ 0x6D61_6465);
        let most = (3 * self.slots + 3).clamp(4, KEYS_MAX);
        let count = 2 + random.below(most as u64 - 1) as usize;
        let mut keys = universe(count);
        let mut walk = vec![];
        if self.is_crowded() {
            // What no longer fits is left out.
            let first = keys.iter().max().map_or(0, |key| key.saturating_add(1));
            let first = first.min(u64::MAX - FILLERS);
            walk.extend((first..first + FILLERS).map(|key| Operation::Insert(key, 100 + key % 97)));
        }
        let mut next_value = 100;
        for &seed in &self.walk {
            phase(seed, &keys, self.slots, &mut next_value, &mut walk);
        }
        let mut warm = vec![];
        for &seed in &self.warm {
            phase(seed, &keys, self.slots, &mut next_value, &mut warm);
        }
        let plan = tail(random, &keys, self);
        if self.is_crowded() {
            keys.extend(walk.iter().filter_map(|one| match one {
                Operation::Insert(key, _) => Some(*key),
                _ => None,
            }));
        }
        Parts { keys, walk, warm, plan }
    }
}

struct Parts {
    keys: Vec<u64>,
    walk: Vec<Operation>,
    warm: Vec<Operation>,
    plan: Plan<Operation>,
}

/// One phase of a walk: it fills, drains, thins or stirs a part of the keys.
fn phase(seed: u16, keys: &[u64], slots: usize, next_value: &mut u64, all: &mut Vec<Operation>) {
    if let CLOSING | ENDING = seed {
        return all.push(Operation::Reopen { closes: seed == CLOSING });
    }
    let random = &mut Random::new(u64::from(seed) ^ 0x7068_6173);
    let mut operations = vec![];
    let length = 1 + random.below(keys.len() as u64) as usize;
    let first = random.below((keys.len() - length) as u64 + 1) as usize;
    let mut window = keys[first..first + length].to_vec();
    let mut value = || {
        *next_value += 1;
        *next_value
    };
    match random.below(16) {
        0 | 1 => operations.extend(window.iter().map(|key| Operation::Upsert(*key, value()))),
        2 => operations.extend(window.iter().rev().map(|key| Operation::Insert(*key, value()))),
        3..6 => {
            random.shuffle(&mut window);
            operations.extend(window.iter().map(|key| Operation::Upsert(*key, value())));
        }
        6 => operations.extend(window.iter().map(|key| Operation::Remove(*key))),
        7 => operations.extend(window.iter().rev().map(|key| Operation::Remove(*key))),
        8 | 9 => {
            random.shuffle(&mut window);
            window.truncate(length.div_ceil(2) + random.below(2) as usize);
            operations.extend(window.iter().map(|key| Operation::Remove(*key)));
        }
        10 | 11 => {
            let (every, at) = (2 + random.below(3) as usize, random.below(2) as usize);
            let thinned = window.iter().enumerate().filter(|(index, _)| index % every != at);
            operations.extend(thinned.map(|(_, key)| Operation::Remove(*key)));
        }
        12 | 13 => {
            for _ in 0..1 + random.below(2 * slots.min(10) as u64) {
                let key = window[random.below(window.len().min(2) as u64) as usize];
                operations.push(match random.below(3) {
                    0 => Operation::Remove(key),
                    1 => Operation::Insert(key, value()),
                    _ => Operation::Upsert(key, value()),
                });
            }
        }
        14 => {
            // What all of them say by now, and how the session goes on.
            let from = window[random.below(window.len() as u64) as usize];
            let limit = 1 + random.below(9) as usize;
            operations.push(match random.below(5) {
                0 => Operation::GetMany,
                1 => Operation::Scan(from, limit),
                2 => Operation::ScanBack(from, limit),
                3 => Operation::Exchange(from, last_value(all), value()),
                _ => Operation::Rejoin,
            });
        }
        _ => operations.push(if random.one_in(6) { Operation::Clear } else { Operation::Release }),
    }
    all.extend(bundled(random, operations));
}

/// What was put last.
fn last_value(operations: &[Operation]) -> u64 {
    let value = |one: &Operation| match one {
        Operation::Upsert(_, value) | Operation::Insert(_, value) => Some(*value),
        _ => None,
    };
    let flat = operations.iter().flat_map(|one| match one {
        Operation::WriteMany(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    });
    flat.rev().find_map(value).unwrap_or(0)
}

/// What the threads do: near each other, so that they meet.
fn tail(random: &mut Random, keys: &[u64], made: &Made) -> Plan<Operation> {
    let allowed: Vec<u32> = (0..KINDS).filter(|kind| made.operations >> kind & 1 == 1).collect();
    let most = match made.threads {
        1 => 10,
        2 => 5,
        _ => 3,
    };
    let width = 1 + random.below((made.slots + 2).min(keys.len()) as u64) as usize;
    let focus = |random: &mut Random| random.below((keys.len() - width) as u64 + 1) as usize;
    let common = focus(random);
    let thread = |thread: usize| {
        let first = if random.one_in(4) { focus(random) } else { common };
        let near = &keys[first..first + width];
        let count = 1 + random.below(most);
        let mut operation = |index| {
            let kind = match allowed.as_slice() {
                [] => 0,
                allowed => allowed[random.below(allowed.len() as u64) as usize],
            };
            let own = 1000 * (thread as u64 + 1) + index;
            let keys = if random.one_in(8) { keys } else { near };
            operation_of(random, kind, keys, own)
        };
        (0..count).map(&mut operation).collect()
    };
    (0..made.threads).map(thread).collect()
}

/// A key, or, now and then, one next to it.
fn beside(random: &mut Random, key: u64) -> u64 {
    if random.one_in(3) { key.wrapping_add(random.below(3)).wrapping_sub(1) } else { key }
}

/// An operation of a kind. Values are distinct but for some that recur on purpose.
pub(crate) fn operation_of(random: &mut Random, kind: u32, keys: &[u64], own: u64) -> Operation {
    let key = keys[random.below(keys.len() as u64) as usize];
    let old = 101 + random.below(6);
    let value = if random.one_in(5) { old } else { own };
    let limit = if random.one_in(2) { usize::MAX } else { 1 + random.below(9) as usize };
    match kind {
        0 => Operation::Insert(key, value),
        1 => Operation::Remove(key),
        2 => Operation::Upsert(key, value),
        3 => Operation::Update(key, value),
        4 => Operation::Exchange(key, old, own),
        5 => Operation::Get(key),
        6 => Operation::GetMany,
        7 => Operation::Scan(if random.one_in(2) { 0 } else { beside(random, key) }, limit),
        8 => Operation::ScanBack(
            if random.one_in(2) { u64::MAX } else { beside(random, key) },
            limit,
        ),
        9 => Operation::Range(Range {
            low: key,
            high: keys[random.below(keys.len() as u64) as usize],
            excludes: (random.one_in(2), random.one_in(2)),
            reverse: random.one_in(2),
        }),
        10 => Operation::Rejoin,
        11 => Operation::Release,
        CLEAR => Operation::Clear,
        _ => {
            // More than a group, on the simulated machine.
            let count = 1 + random.below(5);
            let write = |index| {
                let kind = random.below(4) as u32;
                operation_of(random, kind, keys, own + 100_000 * index)
            };
            Operation::WriteMany((0..count).map(write).collect()).distinct()
        }
    }
}

/// Some of these writes of one key each, in their order, in calls of many; now and then.
pub(crate) fn bundled(random: &mut Random, operations: Vec<Operation>) -> Vec<Operation> {
    let are_writes = operations.iter().all(|one| one.key_written().is_some());
    if !are_writes || operations.len() < 2 || !random.one_in(4) {
        return operations;
    }
    let mut rest = operations.into_iter().peekable();
    let mut all = vec![];
    while rest.peek().is_some() {
        let count = 1 + random.below(80) as usize;
        all.push(Operation::WriteMany(rest.by_ref().take(count).collect()));
    }
    all
}

/// A choice of operations: each with even chance, and at least one that writes.
pub fn draw_operations(random: &mut Random) -> u32 {
    // Emptying is rare: it leaves little to look at.
    let all = (1 << KINDS) - 1;
    let clear = 1 << CLEAR;
    let mut operations = random.next() as u32 & all & !clear;
    if random.one_in(12) {
        operations |= clear;
    }
    if operations & WRITES == 0 {
        operations |= 1 << random.below(3);
    }
    if random.one_in(4) {
        operations |= 0b11;
    }
    operations
}

/// Phases of a walk.
pub fn draw_phases(random: &mut Random, most: u64) -> Vec<u16> {
    (0..random.below(most + 1)).map(|_| random.next() as u16).collect()
}
