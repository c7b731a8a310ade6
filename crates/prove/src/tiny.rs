//! Tiny programs: a tree just before something happens, and two or three operations that meet there, in
//! every order.
//!
//! The small programs of `scenarios.rs` were written; these are drawn, so that each pair of operations is
//! tried at each edge: a leaf that is full, nearly full, thin beside a thin one, or full of removed keys.
//! Few steps have few orders: a search goes through all with one preemption, which chance seldom finds in
//! a longer program.
//!
//! ```text
//!   tiny/SLOTS/KEYS/SPACE/NUMBER
//! ```

use everleaf_machine::simulated::{Plan, Random};

use crate::bytes_program::{AnyWords, BytesProgram};
use crate::living::AnyTree;
use crate::made::{
    CLEAR, KEYS, KINDS, Keys, ROOMS, Room, name_in, named, numbers, operation_of, words,
};
use crate::operation::{Operation, Space};
use crate::u64_program::U64Program;

/// Orders of a tiny program that are run, at most.
pub const ORDERS: u64 = 3000;
/// The most operations of all threads.
const LENGTH: u64 = 4;
/// The most keys.
const KEYS_MAX: usize = 24;
/// The most slots that are filled: wider leaves are met at their edges by longer programs.
const SLOTS_MAX: usize = 9;

/// A tiny program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiny {
    /// Slots of a leaf.
    pub slots: usize,
    /// Which keys.
    pub keys: Keys,
    /// How much space: as much as is needed, or operations may find no memory.
    pub room: Room,
    /// Decides everything else.
    pub number: u32,
}

/// What comes before the threads, and what they do.
struct Parts {
    keys: Vec<u64>,
    history: Vec<Operation>,
    plan: Plan<Operation>,
}

impl Tiny {
    /// The program of a name.
    pub fn from_name(name: &str) -> Option<Tiny> {
        let parts: Vec<&str> = name.strip_prefix("tiny/")?.split('/').collect();
        let [slots, keys, room, number] = parts.as_slice() else { return None };
        let room = named(&ROOMS, room).filter(|room| matches!(room, Room::Usual | Room::Refusing));
        Some(Tiny {
            slots: slots.parse().ok()?,
            keys: named(&KEYS, keys)?,
            room: room?,
            number: u32::from_str_radix(number, 16).ok()?,
        })
    }

    /// Its name.
    pub fn name(&self) -> String {
        let (keys, room) = (name_in(&KEYS, self.keys), name_in(&ROOMS, self.room));
        format!("tiny/{}/{keys}/{room}/{:x}", self.slots, self.number)
    }

    /// The program on a tree of numbers.
    pub fn numbers(&self, tree: &'static AnyTree) -> (U64Program, Plan<Operation>) {
        let Parts { keys, history, plan } = self.parts(|count| numbers(self.keys, count));
        let mut program = U64Program::on(tree, keys, history, plan.len());
        program.space = self.space();
        program.is_closed = self.number & 1 << 9 != 0;
        let fit = |one: &Operation| tree.fit(one).distinct();
        let plan = plan.iter().map(|thread| thread.iter().map(fit).collect());
        (program, plan.collect())
    }

    /// The program on a tree of byte strings.
    pub fn words(&self, tree: &'static AnyWords) -> (BytesProgram, Plan<Operation>) {
        let mut strings: Vec<Vec<u8>> = vec![];
        let Parts { history, plan, .. } = self.parts(|count| {
            strings = words(self.keys, count);
            strings.sort();
            strings.dedup();
            (0..strings.len() as u64).collect()
        });
        let strings: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
        let last = strings.len() as u64 - 1;
        let clamp = |one: &Operation| one.map(|key| key.min(last), |value| value);
        let history = history.iter().map(clamp).collect();
        let mut program = BytesProgram::on(tree, &strings, history, plan.len());
        program.space = self.space();
        program.is_closed = self.number & 1 << 9 != 0;
        let apart = |one: &Operation| clamp(one).distinct();
        (program, plan.iter().map(|thread| thread.iter().map(apart).collect()).collect())
    }

    fn space(&self) -> Space {
        let blocks_at_hand = self.number as usize % 2 * 2;
        Space { blocks_at_hand, may_fill: self.room == Room::Refusing, ..Space::default() }
    }

    fn parts(&self, universe: impl FnOnce(usize) -> Vec<u64>) -> Parts {
        let random = &mut Random::new(u64::from(self.number) ^ 0x7469_6E79);
        let slots = self.slots.min(SLOTS_MAX);
        // Now and then so many that leaves have more than one node above them.
        let leaves = if random.one_in(3) { 5 } else { 2 };
        let keys = universe((leaves * slots + 3).clamp(5, KEYS_MAX));
        let history = history(random, &keys, slots);
        let plan = plan(random, &keys);
        Parts { keys, history, plan }
    }
}

/// Brings a tree to an edge: the keys that are there afterwards are every other one, or the first, or few.
fn history(random: &mut Random, keys: &[u64], slots: usize) -> Vec<Operation> {
    let mut all = vec![];
    let mut value = 100;
    let mut put = |all: &mut Vec<Operation>, key: u64| {
        value += 1;
        all.push(Operation::Upsert(key, value));
    };
    // Room between those that are there, for those that are not.
    let apart = random.one_in(2);
    let chosen: Vec<u64> = keys.iter().copied().step_by(if apart { 2 } else { 1 }).collect();
    let count = match random.below(6) {
        0 => random.below(2) as usize,
        1 => slots - 1,
        2 => slots,
        3 => slots + 1,
        _ => chosen.len(),
    };
    let chosen = &chosen[..count.min(chosen.len())];
    chosen.iter().for_each(|key| put(&mut all, *key));
    match random.below(4) {
        // Thin leaves: one key of each few is left.
        0 | 1 if chosen.len() > slots => {
            let at = random.below(2) as usize;
            let gone = chosen.iter().enumerate().filter(|(index, _)| index % slots != at);
            all.extend(gone.map(|(_, key)| Operation::Remove(*key)));
        }
        // What was removed stays where it was.
        2 => all.extend(chosen.iter().take(2).map(|key| Operation::Remove(*key))),
        _ => {}
    }
    if random.one_in(4)
        && let Some(key) = chosen.first()
    {
        put(&mut all, *key);
    }
    all
}

/// A few operations of two or three threads, around one key.
fn plan(random: &mut Random, keys: &[u64]) -> Plan<Operation> {
    let focus = random.below(keys.len() as u64) as usize;
    let near = &keys[focus.saturating_sub(1)..(focus + 2).min(keys.len())];
    let threads = if random.one_in(4) { 3 } else { 2 };
    let mut left = LENGTH;
    let thread = |thread: u64| {
        let most = (left - (threads - 1 - thread)).min(2);
        let count = 1 + random.below(most);
        left -= count;
        let mut operation = |index| {
            let kind = match random.below(8) {
                // What changes one key.
                0..5 => random.below(4) as u32,
                5 => random.below(10) as u32,
                6 => [5, 6, 7, 8][random.below(4) as usize],
                // Any but that which leaves nothing.
                _ => match random.below(u64::from(KINDS)) as u32 {
                    CLEAR => 0,
                    kind => kind,
                },
            };
            let about = if random.one_in(3) { near } else { &keys[focus..=focus] };
            operation_of(random, kind, about, 1000 * (thread + 1) + index)
        };
        (0..count).map(&mut operation).collect()
    };
    (0..threads).map(thread).collect()
}
