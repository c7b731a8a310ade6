//! What SPTree's checkpoints of the heads of its buffers cost, and what they spare an opening, exactly.

#![allow(clippy::print_stdout, reason = "what was counted is the result")]

use everleaf_designs::{SpTreeBuffered, SpTreeCheckpointed};
use everleaf_index::{Design, Production, SingleTreePool};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::Random;
use everleaf_machine::simulated::counting::{Counting, CountingConfig, Tally};
use everleaf_prove::machine::backing::{new_pool_up_to, open_pool};

type M = Simulated;
type Plain = SpTreeBuffered<Production, M>;
type Checkpointed = SpTreeCheckpointed<Production, M>;

const POOL: usize = 16 << 20;
/// Records of a chunk.
const CHUNK: u64 = 2046;
/// Words of a line.
const LINE: u64 = 8;

fn make<T: Design<M>>(counting: &Counting) -> SingleTreePool<T, M> {
    let pool = new_pool_up_to(counting.memory(), POOL as u64).expect("memory becomes a pool");
    SingleTreePool::create(pool).expect("room")
}

/// Flushes and drains of each insert of so many keys, and what an opening behind them reads: lines of the pool, the
/// leaves, and the buffers that it leaves to be restored.
fn inserted<T: Design<M>>(count: u64) -> (Vec<(u64, u64)>, [u64; 3]) {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<T>(&counting);
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    let mut random = Random::new(7);
    let mut before = Tally::default();
    let costs = (0..count)
        .map(|_| {
            let key = random.next() >> 1;
            let insert = || tree.insert(&mut session, key, 1).expect("room");
            let _ = counting.operation("insert", insert);
            let after = counting.tally("insert");
            let cost = (after.flushes - before.flushes, after.drains - before.drains);
            before = after;
            cost
        })
        .collect();
    let leaves = tree.shape(&mut session).expect("a shape").leaves;
    drop(session);
    drop(tree_pool);
    let pool = open_pool(counting.memory()).expect("the pool");
    let opened: SingleTreePool<T, M> =
        counting.operation("open", || SingleTreePool::open(pool, 1).expect("the tree"));
    let read = counting.tally("open").pool_lines_read;
    (costs, [read, leaves, opened.tree().unrestored()])
}

/// The lines of a checkpoint with so many heads, in one block: its words, and the line in front of them.
fn lines(heads: u64) -> u64 {
    (2 * 24 + 3 * heads).div_ceil(LINE) + 1
}

/// The insert that adds a chunk to the log writes a checkpoint, with one drain and each line once. The places of the
/// third chunk: both areas have their block.
#[test]
fn a_checkpoint_is_its_lines_and_one_drain() {
    let without = inserted::<Plain>(7000).0;
    let with = inserted::<Checkpointed>(7000).0;
    let differs = |number: &usize| with[*number] != without[*number];
    let places: Vec<usize> = (0..7000).filter(differs).collect();
    println!("checkpoints at {places:?}");
    // One with each chunk, and nothing else that is not the same.
    let chunks = places.len() as u64;
    assert!((3..=7000 / CHUNK + 1).contains(&chunks), "{places:?}");
    let third = places[2];
    // What was inserted up to there has these heads.
    let [_, leaves, heads] = inserted::<Checkpointed>(third as u64 + 1).1;
    assert!(heads > leaves / 2, "{heads} of {leaves}");
    let (flushes, drains) = with[third];
    println!("{heads} heads of {leaves} leaves: {flushes} lines, {drains} drains");
    assert_eq!(flushes - without[third].0, lines(heads));
    assert_eq!(drains - without[third].1, 1);
}

/// At most half of an entry, 12 bytes, for each write that has a record, and for each chunk the tails, a line that is
/// not full, and the one in front.
#[test]
fn checkpoints_cost_a_write_little() {
    let count = 40_000;
    let sum = |costs: &[(u64, u64)]| costs.iter().map(|cost| cost.0).sum::<u64>() as f64;
    let (without, with) = (inserted::<Plain>(count).0, inserted::<Checkpointed>(count).0);
    let added = (sum(&with) - sum(&without)) / count as f64;
    println!("{:.4} lines an insert, and {added:.4} for checkpoints", sum(&without) / count as f64);
    let bound = 12.0 / 64.0 + 8.0 / CHUNK as f64;
    assert!(added > 0.0 && added <= bound, "{added} > {bound}");
}

/// Without checkpoints opening reads half a line for each record of the log. With them, those behind the tails, and
/// three eighths of a line for each head.
#[test]
fn opening_reads_the_heads_and_what_is_behind_the_tails() {
    for count in [20_000, 40_000] {
        let [without, leaves, heads] = inserted::<Plain>(count).1;
        let [with, same, too] = inserted::<Checkpointed>(count).1;
        assert_eq!((leaves, heads), (same, too));
        println!(
            "{count} keys, {leaves} leaves, {heads} heads: {without} lines, {with} with checkpoints"
        );
        // The chunk in which the tail is, and one more if the last checkpoint is not complete.
        let behind = CHUNK;
        let spared = without.saturating_sub(with);
        assert!(with <= leaves + lines(heads) + behind + 200, "{with}");
        assert!(spared > 0, "{without} and {with}");
    }
}
