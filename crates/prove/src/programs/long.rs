//! Long walks of one thread: hundreds and thousands of keys, so that inner nodes have more than a few
//! children, levels pile up, and leaves of production's size fill, split and merge. Each answer is held
//! against a map (`expected.rs`); then two threads do a little where the walk ended.
//!
//! ```text
//!   long/SLOTS/KEYS/NUMBER        long/62/edges/1a2b
//! ```

use everleaf_machine::simulated::{Config, CrashConfig, Plan, Random};

use crate::machine::backing::SIZE_MIN;
use crate::machine::space::Space;
use crate::programs::made::{
    CLEAR, KEYS, KINDS, Keys, WRITE_MANY, bundled, name_in, named, operation_of,
};
use crate::tree::bytes_program::{AnyWords, BytesProgram};
use crate::tree::living::AnyTree;
use crate::tree::operation::Operation;
use crate::tree::u64_program::U64Program;

/// Numbers of keys, from which one is drawn.
const COUNTS: [u64; 8] = [40, 80, 150, 300, 300, 500, 700, 1000];
/// The same for leaves of two or three slots, over which keys in order leave a comb of as many levels: what
/// it costs grows with the square.
const NARROW_COUNTS: [u64; 8] = [40, 60, 80, 80, 100, 120, 150, 200];
/// The same for wide trees, some of whose nodes above the leaves' parents are to be full.
const WIDE_COUNTS: [u64; 8] = [100, 300, 600, 1000, 1500, 2500, 2500, 3000];
/// Slots of the leaves of wide trees.
const WIDE_SLOTS: [usize; 3] = [5, 62, 254];
/// The most operations of a walk, but for the last phase.
const LENGTH: usize = 1500;
/// The most that are done to the opened tree before the threads come.
const WARM_LENGTH: usize = 400;
/// Between the classes of fingerprints that an inner node tells apart.
const CLASS: u64 = 1 << 61;

/// A long walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Long {
    /// Slots of a leaf.
    pub slots: usize,
    /// Which keys.
    pub keys: Keys,
    /// Decides all the rest.
    pub number: u32,
}

impl Long {
    /// The walk of a name.
    pub fn from_name(name: &str) -> Option<Long> {
        let parts: Vec<&str> = name.strip_prefix("long/")?.split('/').collect();
        let [slots, keys, number] = parts.as_slice() else { return None };
        let number = u32::from_str_radix(number, 16).ok()?;
        Some(Long { slots: slots.parse().ok()?, keys: named(&KEYS, keys)?, number })
    }

    /// Its name.
    pub fn name(&self) -> String {
        format!("long/{}/{}/{:x}", self.slots, name_in(&KEYS, self.keys), self.number)
    }

    /// The machine for it: one that was drawn, but with room, and with few crashes, since each is a
    /// recovery of the whole tree.
    pub fn machine(config: Config, random: &mut Random) -> Config {
        let enabled = random.one_in(4);
        let crash = CrashConfig { enabled, budget: 4, nested_depth: 1, ..CrashConfig::default() };
        // A scan of a hundred pairs that are found one by one, word by word, takes ten thousand steps.
        let step_limit = 10 * config.step_limit;
        // A schedule or a few: programs find more than schedules here.
        let work_limit = 20_000;
        // Inner nodes of three children are split into one and two, so that keys in order leave a comb, with
        // as many levels as keys: of a thousand leaves of one key, half a million nodes.
        let arena_bytes = 512 << 20;
        Config { crash, step_limit, work_limit, arena_bytes, abandon: None, ..config }
    }

    /// The program on a tree of numbers.
    pub fn numbers(&self, tree: &'static AnyTree) -> (U64Program, Plan<Operation>) {
        let Parts { keys, walk, warm, plan } = self.parts(|count| numbers(self.keys, count));
        let mut program = U64Program::on(tree, keys, walk, plan.len());
        program.warm_up = warm.iter().map(|one| tree.fit(one)).collect();
        program.space = space(program.universe.len(), is_narrow(self.slots));
        program.is_closed = self.number & 1 << 9 != 0;
        let fit = |one: &Operation| tree.fit(one).distinct();
        let plan = plan.iter().map(|thread| thread.iter().map(fit).collect());
        (program, plan.collect())
    }

    /// The program on a tree of byte strings.
    pub fn words(&self, tree: &'static AnyWords) -> (BytesProgram, Plan<Operation>) {
        let mut strings: Vec<Vec<u8>> = vec![];
        let parts = self.parts(|count| {
            strings = (0..count).map(|number| word(self.keys, number)).collect();
            strings.sort();
            strings.dedup();
            (0..strings.len() as u64).collect()
        });
        let strings: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
        let last = strings.len() as u64 - 1;
        let clamp = |one: &Operation| one.map(|key| key.min(last), |value| value);
        let walk = parts.walk.iter().map(clamp).collect();
        let mut program = BytesProgram::on(tree, &strings, walk, parts.plan.len());
        program.warm_up = parts.warm.iter().map(clamp).collect();
        program.space = space(2 * strings.len(), false);
        program.is_closed = self.number & 1 << 9 != 0;
        let apart = |one: &Operation| clamp(one).distinct();
        let plan = parts.plan.iter().map(|thread| thread.iter().map(apart).collect());
        (program, plan.collect())
    }

    fn parts(&self, universe: impl FnOnce(u64) -> Vec<u64>) -> Parts {
        let random = &mut Random::new(u64::from(self.number) ^ 0x6C6F_6E67);
        let is_wide = WIDE_SLOTS.contains(&self.slots);
        let (counts, longest) = match self.slots {
            _ if is_wide => (WIDE_COUNTS, 2 * LENGTH),
            slots if is_narrow(slots) => (NARROW_COUNTS, LENGTH),
            _ => (COUNTS, LENGTH),
        };
        let count = counts[random.below(counts.len() as u64) as usize];
        let keys = universe(count);
        let mut next = 100;
        let mut walk = vec![];
        // It begins with something to change.
        phase(random, 0, &keys, &mut next, &mut walk);
        for _ in 0..random.below(8) {
            let kind = random.below(12);
            phase(random, kind, &keys, &mut next, &mut walk);
            if walk.len() >= longest {
                break;
            }
        }
        let mut warm = vec![];
        for _ in 0..random.below(3) {
            let kind = random.below(12);
            phase(random, kind, &keys, &mut next, &mut warm);
        }
        warm.truncate(WARM_LENGTH);
        let plan = tail(random, &keys);
        Parts { keys, walk, warm, plan }
    }
}

struct Parts {
    keys: Vec<u64>,
    walk: Vec<Operation>,
    warm: Vec<Operation>,
    plan: Plan<Operation>,
}

/// Whether keys in order leave a comb over leaves of so many slots.
fn is_narrow(slots: usize) -> bool {
    matches!(slots, 2 | 3)
}

/// As much as trees of so many keys need, with leaves of few slots and one key in each.
fn space(keys: usize, has_comb: bool) -> Space {
    // Some trees of numbers have their inner nodes in the pool, too.
    let comb = if has_comb { keys * keys * 64 } else { 0 };
    let pool_bytes = SIZE_MIN as usize * 2 + keys * 8192 + comb;
    let pool_bytes = pool_bytes.next_multiple_of(SIZE_MIN as usize);
    Space { pool_bytes, chunk_shift: 14, grows_at_once: true, ..Space::default() }
}

fn numbers(kind: Keys, count: u64) -> Vec<u64> {
    match kind {
        Keys::Near => (1..=count).collect(),
        Keys::Alike => {
            let fingerprint = |key: u64| (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).max(1);
            (1..).filter(|key| fingerprint(*key) == fingerprint(1)).take(count as usize).collect()
        }
        Keys::Edges => {
            let near = |key: u64| (key % 8 * CLASS).wrapping_add(key / 8);
            let ends = [u64::MAX, u64::MAX - 1, CLASS - 1, 5 * CLASS - 1];
            (0..count).map(near).chain(ends).collect()
        }
        Keys::Far => (0..count).map(|key| key * (u64::MAX / count)).collect(),
    }
}

fn word(kind: Keys, number: u64) -> Vec<u8> {
    let digits = format!("{number:05}").into_bytes();
    match kind {
        Keys::Near => digits,
        Keys::Alike => [b"a prefix of more than eight bytes/", digits.as_slice()].concat(),
        Keys::Edges => {
            let fill = [0xFF, 0, b'1'][number as usize % 3];
            let mut bytes = vec![fill; number as usize / 3 % 12];
            bytes.extend((number / 36).to_be_bytes().iter().skip_while(|byte| **byte == 0));
            bytes
        }
        Keys::Far => {
            let mut bytes = vec![(number * 37 % 251) as u8];
            bytes.extend(std::iter::repeat_n(b'.', number as usize * 7 % 40));
            bytes.extend(digits);
            bytes
        }
    }
}

/// One phase of a walk, on a window of the keys.
fn phase(random: &mut Random, kind: u64, keys: &[u64], next: &mut u64, all: &mut Vec<Operation>) {
    let mut operations = vec![];
    let whole = kind == 0 || random.one_in(2);
    let length = if whole { keys.len() } else { 1 + random.below(keys.len() as u64) as usize };
    let first = random.below((keys.len() - length) as u64 + 1) as usize;
    let mut window = keys[first..first + length].to_vec();
    match random.below(3) {
        0 => window.reverse(),
        1 => random.shuffle(&mut window),
        _ => {}
    }
    let mut value = || {
        *next += 1;
        *next
    };
    match kind {
        0..3 => operations.extend(window.iter().map(|key| Operation::Upsert(*key, value()))),
        3 => operations.extend(window.iter().map(|key| Operation::Insert(*key, value()))),
        4 | 5 => operations.extend(window.iter().map(|key| Operation::Remove(*key))),
        6 => {
            let every = 2 + random.below(9) as usize;
            let thinned = window.iter().enumerate().filter(|(index, _)| index % every != 0);
            operations.extend(thinned.map(|(_, key)| Operation::Remove(*key)));
        }
        7..10 => {
            for _ in 0..length {
                let kind = u32::from(random.next() as u8) % KINDS;
                // Those that pass all keys are few, since there are many; emptying is left out.
                let is_long = (6..10).contains(&kind) && !random.one_in(12);
                let kind = if kind == CLEAR || is_long { kind % 6 } else { kind };
                let own = value();
                operations.push(short(operation_of(random, kind, &window, own)));
            }
        }
        10 => {
            for key in window.iter().take(30) {
                let limit = 1 + random.below(70) as usize;
                let beside = key.wrapping_add(random.below(3)).wrapping_sub(1);
                operations.push(Operation::Scan(beside, limit));
                operations.push(Operation::ScanBack(beside, limit));
            }
        }
        _ => operations.push(match random.below(4) {
            0 => Operation::Release,
            1 => Operation::Rejoin,
            _ => Operation::Reopen { closes: random.one_in(2) },
        }),
    }
    all.extend(bundled(random, operations));
}

/// A scan that does not pass everything.
fn short(operation: Operation) -> Operation {
    match operation {
        Operation::Scan(from, limit) => Operation::Scan(from, limit.min(100)),
        Operation::ScanBack(from, limit) => Operation::ScanBack(from, limit.min(100)),
        other => other,
    }
}

/// What two threads do near each other.
fn tail(random: &mut Random, keys: &[u64]) -> Plan<Operation> {
    let width = keys.len().min(4);
    let first = random.below((keys.len() - width) as u64 + 1) as usize;
    let near = &keys[first..first + width];
    let mut thread = |thread: u64| {
        let mut operation = |index| {
            let kind = match random.below(11) as u32 {
                10 => WRITE_MANY,
                kind => kind,
            };
            let kind = if kind == 6 { 5 } else { kind };
            short(operation_of(random, kind, near, 100_000 * thread + index))
        };
        (0..3).map(&mut operation).collect()
    };
    (1..=2).map(&mut thread).collect()
}
