//! The two trees of byte strings beside each other: what an operation on each costs, in turn, in one process,
//! so that what else the machine does hits both, and in time on the CPU. Prints the best round of each, and
//! the median of the ratios of the rounds with the lowest and the highest.
//!
//! `cargo run --release -p everleaf-index --example byte_trees [KEYS] [ROUNDS]`

#![expect(clippy::print_stdout, reason = "what was measured is the result")]

use std::ops::Bound;

use everleaf_index::{BytesTree, Change, Domain, Hardware, Pool, Session, Trees, Verify};
use everleaf_machine::random::mix as mixed;

/// Operations of each kind in a round on each tree.
const OPERATIONS: u64 = 50_000;
/// Pairs of a scan.
const SCAN: usize = 100;
/// The last ones are of leaves that were scanned before and not changed since.
const ROWS: [&str; 12] = [
    "get",
    "absent",
    "get_many 32",
    "update",
    "insert",
    "remove",
    "scan",
    "scan 10",
    "scan back",
    "again",
    "again 10",
    "again back",
];

/// Nanoseconds that this thread has had a CPU. (What `/proc` says of a thread that runs is as old as the last
/// tick, several milliseconds.)
fn cpu_ns() -> f64 {
    everleaf_machine::thread_time().as_secs_f64() * 1e9
}

/// Keys of 16 bytes, hexadecimal digits.
fn key(number: u64) -> [u8; 16] {
    let word = mixed(number);
    std::array::from_fn(|digit| b"0123456789abcdef"[(word >> (4 * digit) & 15) as usize])
}

struct Side {
    trees: Trees,
    hashed: bool,
}

impl Side {
    fn new(hashed: bool, keys: u64) -> Side {
        let pool = Pool::in_memory(1 << 26, 64 << 30, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        if hashed {
            trees.make_hashed_leaves().expect("writable");
        }
        let side = Side { trees, hashed };
        let tree = side.trees.bytes_tree("map").expect("room");
        let mut session = side.trees.heap().session().expect("a session");
        let started = cpu_ns();
        for number in 0..keys {
            change(&tree, &mut session, number, Some(number));
        }
        let ns = (cpu_ns() - started) / keys as f64;
        println!("{}: filled with {keys} keys, {ns:.0} ns each", side.name());
        side
    }

    fn name(&self) -> &'static str {
        if self.hashed { "hashed leaves" } else { "nbtree" }
    }

    /// One round of a row: the nanoseconds it took. `fresh` are numbers of keys that are not there.
    fn round(&self, row: &str, keys: u64, round: u64, fresh: u64) -> f64 {
        let tree = self.trees.bytes_tree("map").expect("there");
        let mut session = self.trees.heap().session().expect("a session");
        let session = &mut session;
        let chosen = |index: u64| mixed(round << 32 | index) % keys;
        let started = cpu_ns();
        match row {
            "get" | "absent" => {
                let absent = if row == "absent" { 1 << 40 } else { 0 };
                for index in 0..OPERATIONS {
                    let found = tree.get_with(session, &key(chosen(index) + absent), <[u8]>::len);
                    assert_eq!(found.expect("sound").is_none(), row == "absent");
                }
            }
            "get_many 32" => {
                for first in (0..OPERATIONS).step_by(32) {
                    let asked: Vec<_> = (first..first + 32).map(|at| key(chosen(at))).collect();
                    let keys = asked.iter().map(<[u8; 16]>::as_slice);
                    let found = tree.get_many(session, keys, Verify::Key, |_, value| {
                        assert!(value.is_some());
                    });
                    found.expect("sound");
                }
            }
            "update" => {
                for index in 0..OPERATIONS {
                    change(&tree, session, chosen(index), Some(index));
                }
            }
            "insert" => {
                for index in 0..OPERATIONS {
                    change(&tree, session, fresh + index, Some(index));
                }
            }
            "remove" => {
                for index in 0..OPERATIONS {
                    change(&tree, session, fresh + index, None);
                }
            }
            _ => {
                let length = if row.ends_with("10") { 10 } else { SCAN };
                for index in 0..OPERATIONS / length as u64 {
                    scan(&tree, session, &key(chosen(index)), length, row.ends_with("back"));
                }
            }
        }
        cpu_ns() - started
    }
}

fn change(tree: &BytesTree, session: &mut Session<Hardware>, number: u64, value: Option<u64>) {
    let bytes = [value.unwrap_or(0) as u8; 100];
    let key = key(number);
    let change = value.map_or(Change::remove(&key), |_| Change::upsert(&key, &bytes));
    assert!(tree.change(session, &change).expect("room").changed);
}

fn scan(tree: &BytesTree, session: &mut Session<Hardware>, from: &[u8], length: usize, back: bool) {
    let (mut left, mut sum) = (length, 0);
    let bound = Bound::Included(from);
    let (low, high) = if back { (Bound::Unbounded, bound) } else { (bound, Bound::Unbounded) };
    let scanned = tree.scan(session, low, high, back, |_, value| {
        sum += u64::from(value[0]);
        left -= 1;
        left > 0
    });
    scanned.expect("sound");
    std::hint::black_box(sum);
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |usual| arguments.next().map_or(usual, |number| number.expect("a number"));
    let (keys, rounds) = (next(1_000_000), next(5));
    let sides = [Side::new(false, keys), Side::new(true, keys)];
    for row in ROWS {
        let mut ratios = vec![];
        let mut best = [f64::MAX; 2];
        for round in 0..rounds {
            let mut times = [0.0; 2];
            // They take turns at going first.
            for at in [round as usize % 2, (round as usize + 1) % 2] {
                let fresh = keys + round * OPERATIONS;
                let time = sides[at].round(row, keys, round, fresh);
                times[at] = time / OPERATIONS as f64;
                best[at] = best[at].min(times[at]);
            }
            ratios.push(times[1] / times[0]);
        }
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (ratios[0], ratios[ratios.len() - 1]);
        println!(
            "{row:12} {:6.0} ns, {:6.0} ns: {:.2} ({low:.2} to {high:.2})",
            best[0],
            best[1],
            ratios[ratios.len() / 2]
        );
    }
}
