//! The making of a pool with one tree, on the simulated machine: wherever the power is cut in it, the next opening
//! completes it. And a tree that gets its name behind its blocks is missed: what a cut leaves then cannot be told from
//! a tree whose name was lost, and is refused.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::marker::PhantomData;

use everleaf_alloc::Heap;
use everleaf_index::{Design, HashedLeafTree, SingleTreePool, Tiny, U64Kind, U64Tree};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{
    Config, CrashConfig, Domain, Failure, Memory, Program, Report, Runner,
};
use everleaf_prove::machine::backing::{new_pool, open_pool};

type M = Simulated;
type Hashed = HashedLeafTree<U64Kind, Tiny<2, 3>, M>;
type Plain = U64Tree<Tiny<2, 3>, M>;

const CHUNK_SHIFT: u32 = 12;

/// A pool in which a tree is made when it is opened, and a thread that inserts into it.
struct Making<T> {
    at_once: bool,
    /// A planted bug.
    is_named_late: bool,
    tree: PhantomData<T>,
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl<T: Design<M>> Making<T> {
    /// The tree, and behind it its name.
    fn make_without_name(memory: Memory) -> Result<(), String> {
        let heap = Heap::create_with_chunks(open_pool(memory).map_err(text)?, CHUNK_SHIFT);
        let heap = heap.map_err(text)?;
        let tree = T::create(&mut heap.session().map_err(text)?).map_err(text)?;
        let made = heap.pool().create_root("index", T::INFO.kind, tree.root_value());
        made.map(|_| ()).map_err(text)
    }
}

impl<T: Design<M>> Program for Making<T> {
    type Operation = u64;
    type Instance = SingleTreePool<T, M>;

    fn pool_bytes(&self) -> usize {
        1 << 18
    }

    fn format(&self, memory: Memory) {
        drop(new_pool(memory).expect("room for a pool"));
    }

    fn open(&self, memory: Memory) -> Result<SingleTreePool<T, M>, String> {
        let mut pool = open_pool(memory).map_err(text)?;
        if pool.roots().is_empty() && !Heap::exists(&pool) {
            if !self.is_named_late {
                return SingleTreePool::create_with_chunks(pool, CHUNK_SHIFT).map_err(text);
            }
            drop(pool);
            Self::make_without_name(memory)?;
            pool = open_pool(memory).map_err(text)?;
        }
        match self.at_once {
            true => SingleTreePool::open_at_once(pool).map_err(text),
            false => SingleTreePool::open(pool, 1).map_err(text),
        }
    }

    fn contents(&self, opened: &SingleTreePool<T, M>) -> Result<Vec<(u64, u64)>, String> {
        let mut pairs = vec![];
        let mut session = opened.heap().session().map_err(text)?;
        opened.tree().scan(&mut session, 0, usize::MAX, &mut pairs).map_err(text)?;
        drop(session);
        let problems = opened.check().map_err(text)?.problems;
        if problems.is_empty() { Ok(pairs) } else { Err(problems.join("; ")) }
    }

    fn expected(&self, _warm: bool) -> Option<Vec<(u64, u64)>> {
        Some(vec![])
    }

    fn calls(&self, key: &u64, calls: &mut Vec<(u64, Call)>) {
        calls.push((*key, Call::Insert(*key)));
    }

    fn run(
        &self,
        opened: &SingleTreePool<T, M>,
        _thread: usize,
        key: &u64,
        replies: &mut Vec<Reply>,
    ) {
        let mut session = opened.heap().session().expect("a free session");
        let old = opened.tree().insert(&mut session, *key, *key).expect("room");
        replies.push(Reply::Previous(old));
    }
}

/// Makes a tree with the power cut everywhere, and in what is done after that.
fn explore<T: Design<M>>(
    domain: Domain,
    at_once: bool,
    is_named_late: bool,
) -> Result<Report, Box<Failure>> {
    let crash = CrashConfig { nested_one_in: 5, ..CrashConfig::default() };
    let config = Config { domain, crash, simulate_open: true, ..Config::default() };
    let making = Making::<T> { at_once, is_named_late, tree: PhantomData };
    Runner::new(making, vec![vec![7, 3]], config)?.explore(6)
}

#[test]
fn a_making_that_is_cut_anywhere_is_completed() {
    for domain in [Domain::Adr, Domain::Eadr, Domain::Process] {
        for at_once in [false, true] {
            for explore in [explore::<Plain>, explore::<Hashed>] {
                let report = explore(domain, at_once, false);
                let counts = report.unwrap_or_else(|failure| panic!("{failure}")).counts;
                println!("{domain:?}: {} crash states", counts.images);
                assert!(counts.recoveries > 20 && counts.nested_runs > 0, "{counts:?}");
            }
        }
    }
}

#[test]
fn a_tree_that_gets_its_name_late_is_missed() {
    for explore in [explore::<Plain>, explore::<Hashed>] {
        let failure = explore(Domain::Adr, false, true).expect_err("it is missed").to_string();
        assert!(failure.contains("no name 'index'"), "{failure}");
    }
}
