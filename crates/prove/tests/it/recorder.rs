//! Real threads on the real machine, recorded and judged: of all calls of a few threads on a few keys it is known
//! between which two moments each happened, and some order of them must explain every answer.
//!
//! What is judged is what the simulated machine cannot show: the caches of this machine, and what the compiler made of
//! the orderings. Every test records a few rounds; `EVERLEAF_RECORD_MINUTES` is for how long each goes on instead.

#![allow(clippy::print_stdout, reason = "what was done is the result")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everleaf_index::{
    Design, Domain, Exchange, Geometry, HashedLeafTree, IndexError, OrderedIndex, Pool, Production,
    Session, SingleTreePool, Tiny, Trees, U64Kind,
};
use everleaf_machine::Hardware;
use everleaf_machine::simulated::Random;
use everleaf_machine::simulated::history::zones::{Record, check};
use everleaf_machine::simulated::history::{Call, Reply};

const THREADS: u64 = 4;
/// Calls of a thread in a round.
const CALLS: u64 = 2_000;
const ROUNDS: u64 = 100;

type Tree<'a> = &'a (dyn Fn(&mut Session<Hardware>, u64, Call) -> Result<Reply, IndexError> + Sync);

/// Calls one by one, and says what they answered.
fn call(
    tree: &dyn OrderedIndex<Hardware>,
    session: &mut Session<Hardware>,
    key: u64,
    call: Call,
) -> Result<Reply, IndexError> {
    let old = match call {
        Call::Get => tree.get(session, key)?,
        Call::Insert(value) => tree.insert(session, key, value)?,
        Call::Update(value) => tree.update(session, key, value)?,
        Call::Upsert(value) => tree.upsert(session, key, value)?,
        Call::Remove => tree.remove(session, key)?,
        Call::CompareExchange { expected, new } => {
            match tree.compare_exchange(session, key, expected, new)? {
                Exchange::Done => return Ok(Reply::Done(true)),
                Exchange::Mismatch(other) => Some(other),
                Exchange::Absent => None,
            }
        }
    };
    Ok(Reply::Previous(old))
}

/// One thread's part of a round: half of the calls are on two hot keys, and no value is written twice.
fn part(
    tree: Tree<'_>,
    session: &mut Session<Hardware>,
    clock: &AtomicU64,
    keys: u64,
    (seed, thread): (u64, u64),
) -> Vec<Record> {
    let mut random = Random::new(seed * THREADS + thread);
    let mut records = Vec::with_capacity(CALLS as usize);
    let mut seen = 0;
    for number in 0..CALLS {
        let key = if random.one_in(2) { random.below(2) } else { random.below(keys) };
        let value = ((seed * THREADS + thread) * CALLS + number) << 1 | 1;
        let call = match random.below(8) {
            0 | 1 => Call::Get,
            2 => Call::Insert(value),
            3 => Call::Update(value),
            4 => Call::CompareExchange { expected: seen, new: value },
            5 => Call::Upsert(value),
            _ => Call::Remove,
        };
        // SeqCst: one clock for all.
        let invoked = clock.fetch_add(1, Ordering::SeqCst);
        let reply = tree(session, key, call).expect("there is room");
        // SeqCst: one clock for all.
        let responded = clock.fetch_add(1, Ordering::SeqCst);
        if let Reply::Previous(Some(value)) = reply {
            seen = value;
        }
        records.push(Record { key, call, reply, invoked, responded });
    }
    records
}

/// Records rounds with as many sessions as threads, and judges each. Returns what is wrong, if something is.
fn record(tree: Tree<'_>, sessions: &mut [Session<Hardware>], keys: u64) -> Result<u64, String> {
    let minutes = std::env::var("EVERLEAF_RECORD_MINUTES").ok();
    let minutes = minutes.map(|text| text.parse().expect("EVERLEAF_RECORD_MINUTES is a number"));
    let (time, began) =
        (minutes.map(|minutes: u64| Duration::from_secs(60 * minutes)), Instant::now());
    let is_over = |round| time.map_or(round >= ROUNDS, |time| began.elapsed() >= time);
    let mut round = 0;
    while !is_over(round) {
        let mut initial = vec![];
        for key in 0..keys {
            let found =
                tree(&mut sessions[0], key, Call::Get).map_err(|error| error.to_string())?;
            if let Reply::Previous(Some(value)) = found {
                initial.push((key, value));
            }
        }
        // Time 0 is before all calls.
        let (clock, start) = (&AtomicU64::new(1), &Barrier::new(sessions.len()));
        let records: Vec<Record> = thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(sessions.iter_mut())
                .map(|(thread, session)| {
                    scope.spawn(move || {
                        start.wait();
                        part(tree, session, clock, keys, (round, thread))
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        check(&records, &initial).map_err(|wrong| format!("round {round}: {wrong}"))?;
        round += 1;
    }
    println!("{round} rounds of {} calls", THREADS * CALLS);
    Ok(round)
}

fn pool() -> Pool<Hardware> {
    Pool::in_memory(1 << 20, 1 << 30, Domain::Adr).expect("memory for a pool")
}

fn explains<G: Geometry>(keys: u64) {
    let trees: Trees<G, Hardware> = Trees::create(pool()).expect("room for a heap");
    let tree = trees.u64_tree("numbers").expect("room for a tree");
    let session = |_| trees.heap().session().expect("a session");
    let mut sessions: Vec<_> = (0..THREADS).map(session).collect();
    let made = record(&|session, key, what| call(&*tree, session, key, what), &mut sessions, keys);
    assert!(made.expect("NBTree is linearizable") > 0);
}

fn explains_hashed<G>(keys: u64)
where
    G: Geometry,
    HashedLeafTree<U64Kind, G::Leaves, Hardware>: Design<Hardware>,
{
    let trees: SingleTreePool<HashedLeafTree<U64Kind, G::Leaves, Hardware>> =
        SingleTreePool::create(pool()).expect("room for a tree");
    let session = |_| trees.heap().session().expect("a session");
    let mut sessions: Vec<_> = (0..THREADS).map(session).collect();
    let tree = trees.tree();
    let made = record(&|session, key, what| call(tree, session, key, what), &mut sessions, keys);
    assert!(made.expect("hashed leaves are linearizable") > 0);
}

#[test]
fn an_order_explains_what_nbtree_answers_in_small_leaves() {
    explains::<Tiny<4, 3>>(24);
}

#[test]
fn an_order_explains_what_nbtree_answers() {
    explains::<Production>(150);
}

#[test]
fn an_order_explains_what_small_hashed_leaves_answer() {
    explains_hashed::<Tiny<4, 3>>(24);
}

#[test]
fn an_order_explains_what_hashed_leaves_answer() {
    explains_hashed::<Production>(600);
}

/// The recorder recorded: an update that looks first and then writes answers what no order explains.
#[test]
fn an_update_that_looks_first_is_found() {
    let trees: Trees<Tiny<4, 3>, Hardware> = Trees::create(pool()).expect("room for a heap");
    let tree = trees.u64_tree("numbers").expect("room for a tree");
    let session = |_| trees.heap().session().expect("a session");
    let mut sessions: Vec<_> = (0..THREADS).map(session).collect();
    let looks_first = |session: &mut Session<Hardware>, key, what| {
        let found = call(&*tree, session, key, Call::Get)?;
        match (what, found) {
            (Call::Update(value), Reply::Previous(Some(_))) => {
                // Others come here as often as on a machine with few cores a thread is stopped at this very place.
                thread::yield_now();
                call(&*tree, session, key, Call::Upsert(value))?;
                Ok(found)
            }
            _ => call(&*tree, session, key, what),
        }
    };
    let wrong = record(&looks_first, &mut sessions, 24).expect_err("two updates replace one value");
    println!("{wrong}");
}
