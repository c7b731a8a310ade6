//! Leaves that opening at once has left, on the simulated machine, with entries that a crash left half done: threads
//! that restore and threads that write meet at the same leaf, and others count. Each safeguard is missed.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use everleaf_index::nbtree::state::BlockState;
use everleaf_index::{HashedLeafTree, OrderedIndex, SingleTreePool, Tiny, U64Kind};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{
    Config, CrashConfig, Failure, Memory, MemoryModel, Program, Report, Runner,
};
use everleaf_prove::machine::backing::{new_pool, open_pool};

type M = Simulated;
type Hashed = HashedLeafTree<U64Kind, Tiny<7, 3>, M>;
type HashedPool = SingleTreePool<Hashed, M>;

const BLOCK: u64 = 1024;
/// Where the entries of a block begin, and how many there are.
const ENTRIES: std::ops::Range<u64> = 2..9;
/// The keys that are there at first.
const KEYS: std::ops::Range<u64> = 10..18;

/// What a thread does.
#[derive(Clone, Debug)]
enum Step {
    Get(u64),
    Insert(u64),
    Remove(u64),
    /// Restores leaves from that of a key on.
    Restore(u64, usize),
    /// Counts keys, which nobody changes.
    Count,
}

/// A pool that was not closed, with halves of claims at all positions that are free.
struct Restoring;

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl Program for Restoring {
    type Operation = Step;
    type Instance = HashedPool;

    fn pool_bytes(&self) -> usize {
        1 << 18
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("room for a pool");
        let opened: HashedPool = SingleTreePool::create_with_chunks(pool, 12).expect("room");
        let mut session = opened.heap().session().expect("a free session");
        for key in KEYS {
            opened.tree().insert(&mut session, key, key).expect("room");
        }
        let pool = opened.heap().pool();
        let is_live =
            |block: &u64| pool.word(block * BLOCK).read_private() == BlockState::Live.encode();
        for block in (pool.data_start() / BLOCK..pool.size() / BLOCK).filter(is_live) {
            for entry in ENTRIES {
                let first = block * BLOCK + entry * 16;
                if pool.word(first).read_private() == 0 {
                    pool.word(first + 8).write_private(77);
                }
            }
        }
    }

    fn open(&self, memory: Memory) -> Result<HashedPool, String> {
        SingleTreePool::open_at_once(open_pool(memory).map_err(text)?).map_err(text)
    }

    fn contents(&self, opened: &HashedPool) -> Result<Vec<(u64, u64)>, String> {
        let mut pairs = vec![];
        let mut session = opened.heap().session().map_err(text)?;
        opened.tree().scan(&mut session, 0, usize::MAX, &mut pairs).map_err(text)?;
        drop(session);
        let problems = opened.check().map_err(text)?.problems;
        if problems.is_empty() { Ok(pairs) } else { Err(problems.join("; ")) }
    }

    fn expected(&self, _warm: bool) -> Option<Vec<(u64, u64)>> {
        Some(KEYS.map(|key| (key, key)).collect())
    }

    fn calls(&self, step: &Step, calls: &mut Vec<(u64, Call)>) {
        match *step {
            Step::Get(key) => calls.push((key, Call::Get)),
            Step::Insert(key) => calls.push((key, Call::Insert(key))),
            Step::Remove(key) => calls.push((key, Call::Remove)),
            Step::Restore(..) | Step::Count => {}
        }
    }

    fn run(&self, opened: &HashedPool, _thread: usize, step: &Step, replies: &mut Vec<Reply>) {
        let mut session = opened.heap().session().expect("a free session");
        let (tree, session) = (opened.tree(), &mut session);
        match *step {
            Step::Get(key) => replies.push(Reply::Previous(tree.get(session, key).expect("get"))),
            Step::Insert(key) => {
                replies.push(Reply::Previous(tree.insert(session, key, key).expect("room")));
            }
            Step::Remove(key) => {
                replies.push(Reply::Previous(tree.remove(session, key).expect("no room needed")));
            }
            Step::Restore(key, leaves) => {
                let mut damaged = vec![];
                tree.restore_next(session, key, leaves, &mut damaged).expect("it can");
                assert!(damaged.is_empty(), "{damaged:?}");
            }
            Step::Count => {
                assert_eq!(tree.len(session).expect("len"), KEYS.end - KEYS.start, "keys");
            }
        }
    }
}

/// What threads do together: all of it beside a thread in the background that begins at other fences than the first.
fn plans() -> Vec<Vec<Vec<Step>>> {
    use Step::{Count, Get, Insert, Remove, Restore};
    vec![
        vec![vec![Restore(10, 1)], vec![Insert(3), Get(3)]],
        vec![vec![Restore(14, 2)], vec![Insert(20), Get(20), Remove(20)], vec![Restore(12, 1)]],
        vec![vec![Restore(13, 9)], vec![Get(13), Remove(13), Insert(13)], vec![Get(13)]],
        vec![
            vec![Restore(12, 2), Restore(0, 1)],
            vec![Remove(12), Remove(11)],
            vec![Restore(10, 1)],
        ],
        vec![vec![Restore(0, 99)], vec![Count]],
        vec![vec![Get(10), Get(17)], vec![Count], vec![Restore(13, 9)]],
    ]
}

fn explore(
    memory: MemoryModel,
    mutant: Option<&'static str>,
    schedules: u64,
) -> Result<Vec<Report>, Box<Failure>> {
    let explore = |plan| {
        let crash = CrashConfig { nested_one_in: 50, ..CrashConfig::default() };
        let crash = CrashConfig { enabled: memory != MemoryModel::Weak, ..crash };
        let config =
            Config { memory, crash, mutants: mutant.into_iter().collect(), ..Config::default() };
        Runner::new(Restoring, plan, config)?.explore(schedules)
    };
    plans().into_iter().map(explore).collect()
}

#[test]
fn threads_that_meet_at_a_leaf_not_yet_restored_agree() {
    for (memory, schedules) in
        [(MemoryModel::Sc, 5), (MemoryModel::Tso, 5), (MemoryModel::Weak, 60)]
    {
        let reports =
            explore(memory, None, schedules).unwrap_or_else(|failure| panic!("{failure}"));
        for report in reports {
            let counts = report.counts;
            println!("{memory:?}: {} schedules, {} crash states", counts.schedules, counts.images);
        }
    }
}

/// By weak memory: under the others each is covered by what else is looked at.
#[test]
fn every_safeguard_of_restoring_is_missed() {
    for mutant in
        ["hashed.restore_looks_once", "hashed.restore_mends_blindly", "hashed.restored_relaxed"]
    {
        let failure = explore(MemoryModel::Weak, Some(mutant), 1000).err();
        let failure = failure.unwrap_or_else(|| panic!("{mutant} is not missed"));
        println!("{mutant}: {} in schedule {}", failure.kind, failure.schedule);
    }
}
