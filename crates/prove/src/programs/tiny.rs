//! Tiny programs: a tree just before something happens, and two or three operations that meet there, in
//! every order.
//!
//! The small programs of `scenarios.rs` were written; these are drawn, so that each pair of operations is
//! tried at each edge: a leaf that is full, nearly full, thin beside a thin one, or full of removed keys.
//! Few steps have few orders: a search goes through all with one preemption, which chance seldom finds in
//! a longer program.
//!
//! They come in six forms. *Cached* ones scan first, so that what scans keep in DRAM is there when the
//! threads come, and grows old under them. In *crowds* three or four threads do one thing each: for what
//! takes two preemptions, such as a check that is made once and needed twice. *Emptied* ones grow on the
//! blocks of a tree that was emptied, which still say what they were. *Contrary* ones have leaves with few keys
//! and free slots, of which a thread takes keys away while another fills them: what was thin when somebody
//! looked is full when it is frozen. In *gathered* ones a thread names many keys in one call, or scans, while another
//! fills or empties leaves below it: one is replaced between the first key of a call and the last.
//!
//! ```text
//!   tiny/SLOTS/KEYS/SPACE/NUMBER        cached/9/near/usual/1a2b        crowd/3/alike/usual/77
//! ```

use everleaf_machine::simulated::{Plan, Random, mix};

use crate::machine::hoard::draw_hands;
use crate::machine::space::{SPACE_AT_HAND, Space};
use crate::programs::keys::{numbers, words};
use crate::programs::made::{
    CLEAR, KEYS, KINDS, Keys, ROOMS, Room, WRITE_MANY, name_in, named, operation_of,
};
use crate::tree::bytes_program::{AnyWords, BytesProgram};
use crate::tree::living::AnyTree;
use crate::tree::operation::{Operation, Range};
use crate::tree::u64_program::U64Program;

/// Orders of a tiny program that are run, at most.
pub const ORDERS: u64 = 3000;
/// The most operations of all threads.
const LENGTH: u64 = 4;
/// The most keys.
const KEYS_MAX: usize = 24;
/// The most slots that are filled, but in some programs on wider leaves, which are few: what they cost grows with
/// the keys.
const SLOTS_MAX: usize = 9;
/// The most slots that are filled in those.
const SLOTS_WIDE: usize = 22;

/// What comes before the threads, and how many of them there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Two or three threads with a few operations.
    Few,
    /// The same behind scans, and scans beside writes.
    Cached,
    /// Three or four threads with an operation each.
    Crowd,
    /// A thread that adds keys to a tree that was emptied, and now and then another that writes.
    Emptied,
    /// A thread that takes keys away from leaves that another fills.
    Contrary,
    /// A thread with calls of many keys, and one that has leaves replaced.
    Gathered,
}

/// All forms, by name.
pub const FORMS: [(&str, Form); 6] = [
    ("tiny", Form::Few),
    ("cached", Form::Cached),
    ("crowd", Form::Crowd),
    ("emptied", Form::Emptied),
    ("contrary", Form::Contrary),
    ("gathered", Form::Gathered),
];

/// Whether the program of this name, of any structure, is tiny.
pub fn is_tiny(name: &str) -> bool {
    // Behind the kind of leaves there may be one.
    name.split('/').take(2).any(|part| named(&FORMS, part).is_some())
}

/// A tiny program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiny {
    /// Its form.
    pub form: Form,
    /// Slots of a leaf.
    pub slots: usize,
    /// Which keys.
    pub keys: Keys,
    /// How much space: as much as is needed, or so much at hand that nobody asks the allocator, or operations
    /// may find no memory, or a few blocks are left.
    pub room: Room,
    /// Decides everything else.
    pub number: u32,
}

/// What comes before the threads, and what they do.
struct Parts {
    keys: Vec<u64>,
    history: Vec<Operation>,
    warm: Vec<Operation>,
    plan: Plan<Operation>,
}

impl Tiny {
    /// The program of a name.
    pub fn from_name(name: &str) -> Option<Tiny> {
        let parts: Vec<&str> = name.split('/').collect();
        let [form, slots, keys, room, number] = parts.as_slice() else { return None };
        let is_known = |room: &Room| !matches!(room, Room::Full | Room::Growing);
        let room = named(&ROOMS, room).filter(is_known);
        Some(Tiny {
            form: named(&FORMS, form)?,
            slots: slots.parse().ok()?,
            keys: named(&KEYS, keys)?,
            room: room?,
            number: u32::from_str_radix(number, 16).ok()?,
        })
    }

    /// Its name.
    pub fn name(&self) -> String {
        let (keys, room) = (name_in(&KEYS, self.keys), name_in(&ROOMS, self.room));
        let form = name_in(&FORMS, self.form);
        format!("{form}/{}/{keys}/{room}/{:x}", self.slots, self.number)
    }

    /// The program on a tree of numbers.
    pub fn numbers(&self, tree: &'static AnyTree) -> (U64Program, Plan<Operation>) {
        let Parts { keys, history, warm, plan } = self.parts(|count| numbers(self.keys, count));
        let mut program = U64Program::on(tree, keys, history, plan.len());
        program.warm_up = warm.iter().map(|one| tree.fit(one)).collect();
        program.space = self.space();
        program.is_closed = self.number & 1 << 9 != 0;
        let fit = |one: &Operation| tree.fit(one).distinct();
        let plan = plan.iter().map(|thread| thread.iter().map(fit).collect());
        (program, plan.collect())
    }

    /// The program on a tree of byte strings.
    pub fn words(&self, tree: &'static AnyWords) -> (BytesProgram, Plan<Operation>) {
        let mut strings: Vec<Vec<u8>> = vec![];
        let Parts { history, warm, plan, .. } = self.parts(|count| {
            strings = words(self.keys, count, self.number);
            strings.sort();
            strings.dedup();
            (0..strings.len() as u64).collect()
        });
        let strings: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
        let last = strings.len() as u64 - 1;
        let clamp = |one: &Operation| one.map(|key| key.min(last), |value| value);
        let history = history.iter().map(clamp).collect();
        let mut program = BytesProgram::on(tree, &strings, history, plan.len());
        program.warm_up = warm.iter().map(clamp).collect();
        program.space = self.space();
        program.is_closed = self.number & 1 << 9 != 0;
        let apart = |one: &Operation| clamp(one).distinct();
        let plan = plan.iter().map(|thread| thread.iter().map(apart).collect()).collect();
        program.fit_pool(&plan);
        (program, plan)
    }

    fn space(&self) -> Space {
        if self.room == Room::AtHand {
            return SPACE_AT_HAND;
        }
        let blocks_at_hand = self.number as usize % 2 * 2;
        let may_fill = matches!(self.room, Room::Refusing | Room::Tight);
        let left = mix(u64::from(self.number)) as usize & 7;
        let blocks_left = (self.room == Room::Tight).then_some(left);
        // In most of those sessions have different numbers of blocks, and the pool has none or hardly any.
        let hands = mix(u64::from(self.number) ^ 0x6861_6E64);
        let varies = self.room == Room::Tight && hands & 3 != 0;
        let few = if hands >> 8 & 3 == 0 { left / 3 } else { 0 };
        let blocks_left = if varies { Some(few) } else { blocks_left };
        let hands = varies.then(|| draw_hands(hands));
        Space { blocks_at_hand, blocks_left, hands, may_fill, ..Space::default() }
    }

    fn parts(&self, universe: impl FnOnce(usize) -> Vec<u64>) -> Parts {
        let random = &mut Random::new(u64::from(self.number) ^ 0x7469_6E79);
        let is_wide =
            self.slots > SLOTS_MAX && mix(u64::from(self.number) ^ 0x7769_6465).is_multiple_of(3);
        let slots = self.slots.min(if is_wide { SLOTS_WIDE } else { SLOTS_MAX });
        // Now and then so many that leaves have more than one node above them.
        let leaves = if random.one_in(3) { 5 } else { 2 };
        let keys = universe((leaves * slots + 3).clamp(5, KEYS_MAX));
        let mut history = history(random, &keys, slots);
        let (warm, mut plan) = match self.form {
            Form::Few => (vec![], plan(random, &keys)),
            Form::Cached => (vec![scan(random, &keys)], beside_scans(random, &keys)),
            Form::Crowd if self.number >> 31 == 1 => (vec![], alike(random, &keys)),
            Form::Crowd => (vec![], crowd(random, &keys)),
            Form::Contrary => {
                history = comb(random, &keys);
                (vec![], contrary(random, &keys, slots))
            }
            Form::Gathered => {
                if random.one_in(2) {
                    history = comb(random, &keys);
                }
                (vec![], gathered(random, &keys, slots))
            }
            Form::Emptied => {
                let again = empty(random, &keys, slots);
                let plan = grow(random, &keys, slots);
                // Before the pool is opened again or behind that.
                if random.one_in(2) {
                    history.extend(again);
                    (vec![], plan)
                } else {
                    (again, plan)
                }
            }
        };
        if self.room == Room::AtHand {
            // A thread that stops for ever may have a lock of the allocator, which is an honest lock.
            plan.iter_mut().flatten().for_each(|one| *one = without_locks(one));
        }
        Parts { keys, history, warm, plan }
    }
}

/// The operation, or another if it takes locks of the allocator at will.
fn without_locks(operation: &Operation) -> Operation {
    match operation {
        Operation::Rejoin | Operation::Release | Operation::Clear => Operation::GetMany,
        other => other.clone(),
    }
}

/// A scan of all or from somewhere, one way or the other.
fn scan(random: &mut Random, keys: &[u64]) -> Operation {
    let key = keys[random.below(keys.len() as u64) as usize];
    match random.below(6) {
        0 | 1 => Operation::Scan(0, usize::MAX),
        2 | 3 => Operation::ScanBack(u64::MAX, usize::MAX),
        4 => Operation::Scan(key, 1 + random.below(9) as usize),
        _ => Operation::Range(Range {
            low: keys[0],
            high: key,
            excludes: (random.one_in(2), random.one_in(2)),
            reverse: random.one_in(2),
        }),
    }
}

/// A thread that scans, one that writes and may scan what it has written, and now and then one more that
/// writes.
fn beside_scans(random: &mut Random, keys: &[u64]) -> Plan<Operation> {
    let focus = random.below(keys.len() as u64) as usize;
    let near = &keys[focus.saturating_sub(1)..(focus + 2).min(keys.len())];
    let write = |random: &mut Random, thread: u64, index: u64| {
        // Mostly what makes the order of a leaf grow.
        let kind = [0, 0, 0, 1, 2, 3][random.below(6) as usize];
        operation_of(random, kind, near, 1000 * (thread + 1) + index)
    };
    let mut scanner = vec![scan(random, keys)];
    if random.one_in(4) {
        scanner.push(scan(random, keys));
    }
    let mut writer = vec![write(random, 1, 0)];
    if random.one_in(4) {
        writer.push(write(random, 1, 1));
    }
    if !random.one_in(4) {
        writer.push(scan(random, keys));
    }
    let mut plan = vec![scanner, writer];
    if random.one_in(4) {
        plan.push(vec![write(random, 2, 0)]);
    }
    plan
}

/// Threads with an operation each, most of them writes, of one key or one beside it.
fn crowd(random: &mut Random, keys: &[u64]) -> Plan<Operation> {
    let focus = random.below(keys.len() as u64) as usize;
    let near = &keys[focus..(focus + 2).min(keys.len())];
    let threads = if random.one_in(3) { 4 } else { 3 };
    let thread = |thread: u64| {
        let kind = match random.below(8) {
            0..3 => 0,
            3..7 => 1 + random.below(4) as u32,
            _ => 5 + random.below(4) as u32,
        };
        let about = if random.one_in(3) { near } else { &near[..1] };
        vec![operation_of(random, kind, about, 1000 * (thread + 1))]
    };
    (0..threads).map(thread).collect()
}

/// Threads of which each does the same to one of two keys: for what takes three that write one leaf.
fn alike(random: &mut Random, keys: &[u64]) -> Plan<Operation> {
    let focus = random.below(keys.len() as u64) as usize;
    let near = &keys[focus..(focus + 2).min(keys.len())];
    let threads = if random.one_in(4) { 4 } else { 3 };
    let kind = [0, 0, 0, 2, 2, 1, 3, 4][random.below(8) as usize];
    let thread = |thread: u64| vec![operation_of(random, kind, near, 1000 * (thread + 1))];
    (0..threads).map(thread).collect()
}

/// Every other key: leaves keep what splits left them, and most have free slots.
fn comb(random: &mut Random, keys: &[u64]) -> Vec<Operation> {
    let mut chosen: Vec<u64> = keys.iter().copied().step_by(2).collect();
    // In order, leaves are left nearly full; otherwise half full.
    match random.below(4) {
        0 => {}
        1 => chosen.reverse(),
        _ => random.shuffle(&mut chosen),
    }
    let mut all: Vec<Operation> =
        chosen.iter().map(|key| Operation::Upsert(*key, 100 + *key % 97)).collect();
    // Now and then leaves are thinner.
    if random.one_in(3) {
        let (every, at) = (2 + random.below(3) as usize, random.below(2) as usize);
        let gone = chosen.iter().enumerate().filter(|(index, _)| index % every == at);
        all.extend(gone.map(|(_, key)| Operation::Remove(*key)));
    }
    all
}

/// A thread that takes one key or some beside each other away, and one that adds keys that were never there
/// between them, as many as a leaf has room for; now and then one more that writes.
fn contrary(random: &mut Random, keys: &[u64], slots: usize) -> Plan<Operation> {
    let present = keys.len().div_ceil(2);
    let first = random.below(present as u64) as usize;
    let count = 1 + random.below(2.min(slots as u64)) as usize;
    let gone = (first..present.min(first + count)).map(|index| keys[2 * index]);
    let mut taking: Vec<Operation> = gone.map(Operation::Remove).collect();
    if random.one_in(4) {
        taking.reverse();
    }
    let low = (2 * first).saturating_sub(1 + 2 * random.below(2) as usize);
    let mut absent: Vec<u64> = keys[low..].iter().skip(1 - low % 2).copied().step_by(2).collect();
    absent.truncate(2 + random.below(slots as u64 / 2 + 1) as usize);
    if random.one_in(3) {
        random.shuffle(&mut absent);
    }
    let filling = absent.iter().enumerate();
    let filling = filling.map(|(index, key)| Operation::Insert(*key, 1000 + index as u64));
    let mut plan = vec![taking, filling.collect()];
    if random.one_in(4) {
        let kind = [0, 1, 2, 5, 7, 8][random.below(6) as usize];
        let near = &keys[low..(low + 4).min(keys.len())];
        plan.push(vec![operation_of(random, kind, near, 2000)]);
    }
    plan
}

/// A thread that names many keys in one call, or scans, and one that fills or empties leaves among them; now and then
/// one more that writes.
fn gathered(random: &mut Random, keys: &[u64], slots: usize) -> Plan<Operation> {
    let many = |random: &mut Random, index: u64| match random.below(6) {
        0..3 => Operation::GetMany,
        3 | 4 => operation_of(random, WRITE_MANY, keys, 1000 + index),
        _ => scan(random, keys),
    };
    let gathering = (0..1 + random.below(2)).map(|index| many(random, index)).collect();
    let first = random.below(keys.len() as u64) as usize;
    let mut near = keys[first..].to_vec();
    near.truncate(1 + random.below(slots.min(3) as u64 + 1) as usize);
    if random.one_in(2) {
        random.shuffle(&mut near);
    }
    let fills = random.one_in(2);
    let replacing = near.iter().enumerate().map(|(index, key)| match fills {
        true => Operation::Upsert(*key, 2000 + index as u64),
        false => Operation::Remove(*key),
    });
    let mut plan = vec![gathering, replacing.collect()];
    if random.one_in(4) {
        let kind = random.below(4) as u32;
        plan.push(vec![operation_of(random, kind, keys, 3000)]);
    }
    plan
}

/// Fills a tree, empties it and puts a little into it again. What was freed may come to others meanwhile.
fn empty(random: &mut Random, keys: &[u64], slots: usize) -> Vec<Operation> {
    let mut all: Vec<Operation> =
        keys.iter().map(|key| Operation::Upsert(*key, 300 + *key % 97)).collect();
    all.push(Operation::Clear);
    for _ in 0..random.below(3) {
        all.push(if random.one_in(3) { Operation::Release } else { Operation::Rejoin });
    }
    let count = random.below(slots as u64 + 2) as usize;
    all.extend(keys.iter().step_by(2).take(count).map(|key| Operation::Insert(*key, 400)));
    all
}

/// A thread that adds so many keys that a leaf splits.
fn grow(random: &mut Random, keys: &[u64], slots: usize) -> Plan<Operation> {
    let first = random.below(2) as usize;
    let insert = |(index, key): (usize, &u64)| Operation::Insert(*key, 1000 + index as u64);
    let count = 1 + random.below(slots as u64 + 2) as usize;
    let mut plan = vec![keys[first..].iter().take(count).enumerate().map(insert).collect()];
    if random.one_in(3) {
        let kind = random.below(4) as u32;
        plan.push(vec![operation_of(random, kind, keys, 2000)]);
    }
    plan
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
    let is_wide = slots > SLOTS_MAX;
    let apart = random.one_in(2) && !is_wide;
    let chosen: Vec<u64> = keys.iter().copied().step_by(if apart { 2 } else { 1 }).collect();
    let count = match random.below(6) {
        // Any number of a leaf's last ones: how a leaf is kept changes there.
        _ if is_wide => slots - random.below(8) as usize + 1,
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
