//! Damage: the trees of a program of maps, of whose pool a line is damaged after a crash.
//!
//! What a crash has left is opened as in `maps.rs`. Before that some copies of it are damaged, each at one place, and
//! opened, read and checked. A damaged pool may be refused, and every call may answer with an error; but what is
//! answered must be right, also when it is written on. Of a pool that was sealed that is what it held. In one that was
//! not, a leaf may lack entries, or have old ones; but a value of a byte string must have been written under its key.
//! Pairs that are salvaged are held to the same, and of a pool that is not damaged none may be missing.

use std::collections::BTreeMap;
use std::ops::Bound;

use everleaf_index::salvage::{Salvage, SalvagedPair};
use everleaf_index::{Change, IndexError, Record, Trees, Verify};
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Domain, Memory, OwnedMemory, Plan, Program, Random};
use everleaf_machine::{LINE_SIZE, Machine, Simulated, check_sum::crc32c};

use crate::case::step::Step;
use crate::case::{Case, PlannedCase};
use crate::machine::dimensions::Drawn;
use crate::structures::maps::names::{KEYS, MAPS, STRIDE, is_integers, key_of, name_of, word_of};
use crate::structures::maps::{self, Maps, Opened, Operation};
use crate::structures::maps::{loads, readers};

type M = Simulated;

/// Copies of what a crash has left that are damaged.
const HARMS: u64 = 3;
/// Keys of a leaf, at most: so many are gone when it cannot be found.
const KEYS_OF_LEAF: usize = 3;

/// The bytes of a pool, which nobody has open.
pub(crate) fn bytes_of(memory: &Memory) -> &[u8] {
    // SAFETY: the caller that passed the memory out keeps it in its place as long as the program has it, and nobody
    // writes to it meanwhile.
    unsafe { std::slice::from_raw_parts(memory.base(), memory.size()) }
}

/// Memory of its own with these bytes: what is done to it is no business of the machine that the image is of.
pub(crate) fn copy_of(bytes: &[u8], domain: Domain) -> OwnedMemory {
    let copy = OwnedMemory::new(bytes.len(), domain);
    // SAFETY: as long as the slice, and ours alone.
    unsafe { copy.memory().base().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    copy
}

/// Damages one place where there is something.
fn damage(bytes: &mut [u8], random: &mut Random) {
    let lines = bytes.len() / LINE_SIZE;
    let is_used =
        |line: &usize| bytes[line * LINE_SIZE..][..LINE_SIZE].iter().any(|byte| *byte != 0);
    let used: Vec<usize> = (0..lines).filter(is_used).collect();
    let pick = |random: &mut Random, most: usize| random.below(most as u64) as usize;
    let line = used[pick(random, used.len())] * LINE_SIZE;
    match random.below(10) {
        8 | 9 => {
            // Of words with something in their highest byte, which is where an entry has its state.
            let words = (line..line + LINE_SIZE).step_by(8).map(|word| word + 7);
            let tops: Vec<usize> = words.filter(|top| bytes[*top] != 0).collect();
            if !tops.is_empty() {
                bytes[tops[pick(random, tops.len())]] ^= 0x20 << random.below(3);
            }
        }
        0 => bytes[line..][..LINE_SIZE].fill(0),
        1 => {
            let from = used[pick(random, used.len())] * LINE_SIZE;
            bytes.copy_within(from..from + LINE_SIZE, line);
        }
        2 => {
            let word = line + 8 * pick(random, LINE_SIZE / 8);
            bytes[word..][..8].copy_from_slice(&random.next().to_le_bytes());
        }
        _ => {
            // A bit of a byte that is not zero, mostly: there are few of them.
            let set: Vec<usize> = (line..line + LINE_SIZE).filter(|at| bytes[*at] != 0).collect();
            let at = if random.one_in(4) {
                line + pick(random, LINE_SIZE)
            } else {
                set[pick(random, set.len())]
            };
            bytes[at] ^= 1 << random.below(8);
        }
    }
}

/// A program of maps of which copies of every image are damaged.
#[derive(Clone, Debug)]
struct Damaged {
    maps: Maps,
    seed: u64,
    /// What was ever written under a key of a map of byte strings.
    written: BTreeMap<(u64, u64), Vec<u64>>,
}

/// The number in a value, if it has the right length.
fn number(value: &[u8]) -> u64 {
    value.try_into().map_or(u64::MAX, u64::from_le_bytes)
}

/// What a pool holds, as [`Maps::contents`] has it.
pub(super) type Truth = Vec<(u64, u64)>;

impl Damaged {
    fn new(maps: Maps, plan: &Plan<Operation>, seed: u64) -> Self {
        let mut written: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
        for operation in maps.history.iter().chain(plan.iter().flatten()) {
            match *operation {
                Operation::Put(map, key, value) => {
                    written.entry((map, key)).or_default().push(value)
                }
                Operation::Load(map, value) => {
                    for key in 0..KEYS {
                        written.entry((map, key)).or_default().push(loads::loaded(value, key));
                    }
                }
                _ => {}
            }
        }
        Damaged { maps, seed, written }
    }

    fn was_written(&self, map: u64, key: u64, value: u64) -> bool {
        self.written.get(&(map, key)).is_some_and(|values| values.contains(&value))
    }

    /// What a pool of these bytes holds, and whether it was sealed.
    fn truth(&self, whole: &[u8], domain: Domain) -> Result<(Truth, bool), String> {
        let copy = copy_of(whole, domain);
        let opened = self.maps.open(copy.memory())?;
        let truth = self.maps.contents(&opened)?;
        Ok((truth, opened.was_sealed))
    }

    /// Looks at what was damaged.
    fn look(&self, damaged: &[u8], domain: Domain, truth: Option<&Truth>) -> Result<(), String> {
        let mut problems = vec![];
        if !self.maps.hashes {
            self.salvage(damaged, truth, KEYS_OF_LEAF, &mut problems);
        }
        let copy = copy_of(damaged, domain);
        let Ok(opened) = self.maps.open(copy.memory()) else {
            M::mark("damage.refused");
            return first_of(problems);
        };
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let mut is_told = false;
        for map in 0..MAPS {
            self.read(&opened.trees, map, truth, &mut is_told, &mut problems);
        }
        let is_clean = opened.trees.check().is_ok_and(|report| report.is_clean());
        M::mark(if is_told || !is_clean { "damage.told" } else { "damage.untold" });
        for map in 0..MAPS {
            self.write_on(&opened.trees, map, &mut problems);
        }
        first_of(problems)
    }

    /// Goes on writing to a map, if it is there, so that leaves are replaced: to every other key. Of the rest, a byte
    /// string has what was written under its key, or an error, and no integer comes that was not there. (NBTree does
    /// not compare integers with the bounds of their leaves when it opens them.)
    fn write_on(&self, trees: &Trees<maps::G, M>, map: u64, problems: &mut Vec<String>) {
        const ROUNDS: u64 = 3;
        let name = name_of(map);
        let Ok(mut session) = trees.heap().session() else { return };
        let (written, rest) = (|| (0..KEYS).step_by(2), || (1..KEYS).step_by(2));
        if is_integers(map) {
            let Ok(Some(tree)) = trees.find_u64_tree(&name) else { return };
            let is_absent =
                |key: &u64, session: &mut _| matches!(tree.get(session, *key), Ok(None));
            let absent: Vec<_> = rest().filter(|key| is_absent(key, &mut session)).collect();
            for key in (0..ROUNDS).flat_map(|_| written()) {
                let _ = tree.upsert(&mut session, key, key);
                let _ = tree.remove(&mut session, key);
            }
            let mut came = absent.into_iter().filter(|key| !is_absent(key, &mut session));
            if let (Some(key), true) = (came.next(), self.maps.hashes) {
                problems.push(format!("key {key} of map {map} came when others were written"));
            }
            return;
        }
        let Ok(Some(tree)) = trees.find_bytes_tree(&name) else { return };
        for (round, key) in (0..ROUNDS).flat_map(|round| written().map(move |key| (round, key))) {
            let (word, value) = (word_of(key), round.to_le_bytes());
            let _ = tree.change(&mut session, &Change::upsert(&word, &value));
            if round + 1 < ROUNDS {
                let _ = tree.change(&mut session, &Change::remove(&word));
            }
        }
        for key in rest() {
            let value = |record: Record<'_>| number(record.value);
            let found = tree.get_verified(&mut session, &word_of(key), Verify::Sum, value);
            if let Ok(Some(value)) = found
                && !self.was_written(map, key, value)
            {
                let problem = format!("key {key} of map {map} is {value} behind writes of others");
                problems.push(problem);
            }
        }
    }

    /// Reads a map, if it is there.
    fn read(
        &self,
        trees: &Trees<maps::G, M>,
        map: u64,
        truth: Option<&Truth>,
        is_told: &mut bool,
        problems: &mut Vec<String>,
    ) {
        let name = name_of(map);
        let Ok(mut session) = trees.heap().session() else { return };
        if is_integers(map) {
            if let Ok(Some(tree)) = trees.find_u64_tree(&name) {
                for key in 0..KEYS {
                    *is_told |= tree.get(&mut session, key).is_err();
                }
                let _ = tree.scan(&mut session, 0, usize::MAX, &mut vec![]);
            }
            return;
        }
        let Ok(Some(tree)) = trees.find_bytes_tree(&name) else { return };
        let mut judge = |key: Option<u64>, found: Result<Option<u64>, IndexError>| {
            let Some(key) = key else {
                return problems.push(format!("a key of map {map} that nobody wrote"));
            };
            match (found, truth) {
                (Err(_), _) => *is_told = true,
                (Ok(found), Some(truth)) => {
                    let at = map * STRIDE + key;
                    let right =
                        truth.iter().find(|(known, _)| *known == at).map(|(_, value)| *value);
                    if found != right {
                        let sealed = format!("{right:?} when it was sealed");
                        problems.push(format!("key {key} of map {map} is {found:?}, {sealed}"));
                    }
                }
                (Ok(Some(value)), None) if !self.was_written(map, key, value) => {
                    problems.push(format!("key {key} of map {map} is {value}, which nobody wrote"));
                }
                _ => {}
            }
        };
        for key in 0..KEYS {
            let value = |record: Record<'_>| number(record.value);
            judge(Some(key), tree.get_verified(&mut session, &word_of(key), Verify::Sum, value));
        }
        for reverse in [false, true] {
            let all = (Bound::Unbounded, Bound::Unbounded);
            let mut found = vec![];
            let visit = |record: Record<'_>| {
                found.push((key_of(record.key), number(record.value)));
                true
            };
            let done = tree.scan_verified(&mut session, all, reverse, Verify::Sum, visit);
            found.into_iter().for_each(|(key, value)| judge(key, Ok(Some(value))));
            if let Err(error) = done {
                judge(Some(0), Err(error));
            }
        }
    }

    /// Salvages what the bytes hold: of a pool that was sealed, at most `lost` pairs that it held may be missing.
    fn salvage(
        &self,
        bytes: &[u8],
        truth: Option<&Truth>,
        lost: usize,
        problems: &mut Vec<String>,
    ) {
        let read = |offset: u64, into: &mut [u8]| {
            let from = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..));
            from.and_then(|from| from.get(..into.len())).is_some_and(|from| {
                into.copy_from_slice(from);
                true
            })
        };
        let salvage = Salvage::new(bytes.len() as u64, &read, &|offset| offset);
        let roots = salvage.roots();
        let mut found = vec![];
        salvage.pairs(&mut |pair| found.push(pair), &mut |_| ());
        let _ = salvage.missing();
        let mut held = vec![];
        for SalvagedPair { tree, key, value, is_certain, .. } in found {
            let root = roots.iter().find(|root| root.id == tree);
            let map = root.and_then(|root| root.name.strip_prefix("map ")?.parse::<u64>().ok());
            // A fence is a record, too, and so is the key of a tree whose name is damaged.
            let (Some(map), Some(key)) = (map, key_of(&key)) else { continue };
            let value = number(&value);
            if !self.was_written(map, key, value) {
                problems.push(format!(
                    "{value} was salvaged of key {key} of map {map}, and nobody wrote it"
                ));
            }
            if is_certain {
                held.push((map * STRIDE + key, value));
            }
        }
        if let Some(truth) = truth {
            let is_missing =
                |pair: &&(u64, u64)| !is_integers(pair.0 / STRIDE) && !held.contains(pair);
            let named =
                |pair: &&(u64, u64)| roots.iter().any(|root| root.name == name_of(pair.0 / STRIDE));
            let missing = truth.iter().filter(named).filter(is_missing).count();
            if missing > lost {
                problems.push(format!("{missing} pairs of a sealed pool were not salvaged"));
            }
        }
    }
}

fn first_of(problems: Vec<String>) -> Result<(), String> {
    problems.into_iter().next().map_or(Ok(()), Err)
}

impl Program for Damaged {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        self.maps.pool_bytes()
    }

    fn format(&self, memory: Memory) {
        self.maps.format(memory);
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        // Not where the opening itself is simulated: what is done here would take steps of its own.
        if M::is_stepped() {
            return self.maps.open(memory);
        }
        let (whole, domain) = (bytes_of(&memory), memory.domain());
        let (pairs, is_sealed) = self.truth(whole, domain)?;
        let truth = is_sealed.then_some(&pairs);
        let mut problems = vec![];
        if !self.maps.hashes {
            self.salvage(whole, truth, 0, &mut problems);
        }
        first_of(problems)?;
        let random = &mut Random::new(self.seed ^ u64::from(crc32c(whole)));
        if random.one_in(3) {
            readers::demand_right(&self.maps, whole, domain, &pairs)?;
        }
        for _ in 0..HARMS {
            let mut damaged = whole.to_vec();
            damage(&mut damaged, random);
            let looked = self.look(&damaged, domain, truth);
            looked.map_err(|problem| format!("of a damaged pool: {problem}"))?;
        }
        self.maps.open(memory)
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        self.maps.contents(opened)
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        self.maps.calls(operation, calls);
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        self.maps.run(opened, thread, operation, replies);
    }
}

/// What such a program may cost: every image is opened several times.
const WORK: u64 = 40_000;

/// A step with a random program behind `leaves`, on a machine that is drawn.
pub fn step(leaves: &str, random: &mut Random, mut drawn: Drawn) -> Step {
    drawn.open_before();
    let Drawn { mut config, values } = drawn;
    config.crash.nested_one_in = 0;
    config.work_limit = WORK;
    Step { program: format!("{leaves}damage/{}", random.below(1 << 40)), config, values }
}

/// The case of the name `damage/NUMBER`: a random program of maps, without one that is refused memory.
pub fn case(name: &str, hashes: bool) -> Option<Box<dyn Case>> {
    let seed: u64 = name.strip_prefix("damage/")?.parse().ok()?;
    let (maps, plan) = maps::plan(seed & !3);
    let maps = Maps { hashes, ..maps };
    Some(PlannedCase::boxed((Damaged::new(maps, &plan, seed), plan)))
}
