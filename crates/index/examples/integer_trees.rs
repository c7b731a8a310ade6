//! The two trees of integers of a pool beside each other, as `byte_trees` has those of byte strings: time on the
//! CPU, in turn, in one process. Prints the best round of each, and the median of the ratios of the rounds with the
//! lowest and the highest.
//!
//! `cargo run --release -p everleaf-index --example integer_trees [KEYS] [ROUNDS] [nbtree | hashed-leaf]`
//!
//! With one tree only there are no ratios, and the instructions can be counted, on a machine that is not quiet: each
//! row is a function, and callgrind counts what is done inside of it.
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=counts target/release/examples/integer_trees 100000 1 nbtree
//! callgrind_annotate --inclusive=yes counts | grep integer_trees::row
//! ```

#![expect(clippy::print_stdout, reason = "what was measured is the result")]

use everleaf_index::{Domain, Hardware, Pool, Session, Trees, U64Tree};
use everleaf_machine::random::mix as mixed;

/// Operations of each kind in a round on each tree.
const OPERATIONS: u64 = 50_000;
/// Pairs of a scan.
const SCAN: usize = 100;

/// Nanoseconds that this thread has had a CPU.
fn cpu_ns() -> f64 {
    everleaf_machine::thread_time().as_secs_f64() * 1e9
}

/// What a row works on.
struct Round<'t> {
    tree: &'t U64Tree,
    session: Session<Hardware>,
    keys: u64,
    number: u64,
}

impl Round<'_> {
    /// A key that is there.
    fn chosen(&self, index: u64) -> u64 {
        mixed(mixed(self.number << 32 | index) % self.keys)
    }

    /// A key that is not there, until this round inserts it.
    fn fresh(&self, index: u64) -> u64 {
        mixed(self.keys + self.number * OPERATIONS + index)
    }

    fn scans(&mut self, length: usize, back: bool) {
        let mut pairs = Vec::with_capacity(length);
        for index in 0..OPERATIONS / length as u64 {
            let from = self.chosen(index);
            pairs.clear();
            let scanned = match back {
                true => self.tree.scan_back(&mut self.session, from, length, &mut pairs),
                false => self.tree.scan(&mut self.session, from, length, &mut pairs),
            };
            scanned.expect("sound");
            assert!(!pairs.is_empty());
        }
    }
}

#[inline(never)]
fn row_get(round: &mut Round<'_>) {
    for index in 0..OPERATIONS {
        let key = round.chosen(index);
        assert!(round.tree.get(&mut round.session, key).expect("sound").is_some());
    }
}

#[inline(never)]
fn row_absent(round: &mut Round<'_>) {
    for index in 0..OPERATIONS {
        let key = round.fresh(index);
        assert!(round.tree.get(&mut round.session, key).expect("sound").is_none());
    }
}

#[inline(never)]
fn row_get_many_32(round: &mut Round<'_>) {
    let mut values = [None; 32];
    for first in (0..OPERATIONS).step_by(32) {
        let keys: [u64; 32] = std::array::from_fn(|at| round.chosen(first + at as u64));
        round.tree.get_many(&mut round.session, &keys, &mut values).expect("sound");
        assert!(values.iter().all(Option::is_some));
    }
}

#[inline(never)]
fn row_update(round: &mut Round<'_>) {
    for index in 0..OPERATIONS {
        let key = round.chosen(index);
        assert!(round.tree.update(&mut round.session, key, index).expect("room").is_some());
    }
}

#[inline(never)]
fn row_insert(round: &mut Round<'_>) {
    for index in 0..OPERATIONS {
        let key = round.fresh(index);
        assert!(round.tree.insert(&mut round.session, key, index).expect("room").is_none());
    }
}

#[inline(never)]
fn row_remove(round: &mut Round<'_>) {
    for index in 0..OPERATIONS {
        let key = round.fresh(index);
        assert!(round.tree.remove(&mut round.session, key).expect("no room needed").is_some());
    }
}

#[inline(never)]
fn row_scan_100(round: &mut Round<'_>) {
    round.scans(SCAN, false);
}

#[inline(never)]
fn row_scan_10(round: &mut Round<'_>) {
    round.scans(10, false);
}

#[inline(never)]
fn row_scan_back_100(round: &mut Round<'_>) {
    round.scans(SCAN, true);
}

/// The same again: leaves that were scanned before, and not changed since.
#[inline(never)]
fn row_scan_again_100(round: &mut Round<'_>) {
    // Else it would be the same function as the first.
    round.scans(std::hint::black_box(SCAN), false);
}

type Row = (&'static str, fn(&mut Round<'_>));
const ROWS: [Row; 10] = [
    ("get", row_get),
    ("absent", row_absent),
    ("get_many 32", row_get_many_32),
    ("update", row_update),
    ("insert", row_insert),
    ("remove", row_remove),
    ("scan 100", row_scan_100),
    ("scan 10", row_scan_10),
    ("scan back 100", row_scan_back_100),
    ("scan again 100", row_scan_again_100),
];

/// A pool whose trees are of one design, with a filled one.
fn filled(name: &str, keys: u64) -> Trees {
    let pool = Pool::in_memory(1 << 26, 8 << 30, Domain::Process).expect("memory");
    let trees: Trees = Trees::create(pool).expect("room");
    if name == "hashed-leaf" {
        trees.make_hashed_leaves().expect("writable");
    }
    let tree = trees.u64_tree("map").expect("room");
    let mut session = trees.heap().session().expect("a session");
    for number in 0..keys {
        assert!(tree.insert(&mut session, mixed(number), number).expect("room").is_none());
    }
    drop((session, tree));
    trees
}

/// The nanoseconds that an operation or a pair of a row takes.
fn time(trees: &Trees, row: fn(&mut Round<'_>), keys: u64, number: u64) -> f64 {
    let tree = trees.u64_tree("map").expect("there");
    let session = trees.heap().session().expect("a session");
    let mut round = Round { tree: &tree, session, keys, number };
    let started = cpu_ns();
    row(&mut round);
    (cpu_ns() - started) / OPERATIONS as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| {
        arguments.get(at).map_or(usual, |text| text.parse().expect("a number"))
    };
    let (keys, rounds) = (number(0, 1_000_000), number(1, 5));
    let names = match arguments.get(2) {
        Some(name) => vec![name.as_str()],
        None => vec!["nbtree", "hashed-leaf"],
    };
    println!("{keys} keys, {rounds} rounds: {}", names.join(", "));
    let sides: Vec<Trees> = names.iter().map(|name| filled(name, keys)).collect();
    for (name, row) in ROWS {
        let (mut ratios, mut best) = (vec![], vec![f64::MAX; sides.len()]);
        for round in 0..rounds {
            let mut times = vec![0.0; sides.len()];
            // They take turns at going first.
            for turn in 0..sides.len() {
                let at = (round as usize + turn) % sides.len();
                times[at] = time(&sides[at], row, keys, round);
                best[at] = best[at].min(times[at]);
            }
            ratios.push(times[times.len() - 1] / times[0]);
        }
        ratios.sort_by(f64::total_cmp);
        let best: Vec<String> = best.iter().map(|ns| format!("{ns:6.0} ns")).collect();
        let (middle, low, high) = (ratios[ratios.len() / 2], ratios[0], ratios[ratios.len() - 1]);
        println!("{name:15} {}: {middle:.2} ({low:.2} to {high:.2})", best.join(", "));
    }
}
