//! What opening a pool costs behind a kill, with a map of byte strings in either tree: the time on the CPU of one
//! thread, since all of it is work that several can share, and since other processes do not count then.
//!
//! A child fills the pool and aborts. Then the pool is opened again and again without being closed.
//!
//! `cargo run --release -p everleaf-index --example recovery [KEYS] [ROUNDS]`

#![expect(clippy::print_stdout, reason = "what was measured is the result")]

use std::path::Path;
use std::process::Command;

use everleaf_index::{Change, CreateMode, Pool, PoolOptions, Trees};
use everleaf_machine::random::mix as mixed;
use everleaf_machine::thread_time;

fn open(path: &Path) -> Trees {
    let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    let pool = Pool::open(path, &options).expect("the pool opens");
    Trees::open(pool, 1).expect("nothing is damaged")
}

/// Fills a pool with keys and values of 8 bytes, and leaves it open.
fn fill(path: &Path, hashed: bool, keys: u64) -> ! {
    let trees = open(path);
    if hashed {
        trees.make_hashed_leaves().expect("writable");
    }
    let tree = trees.bytes_tree("map").expect("room");
    let mut session = trees.heap().session().expect("a session");
    for number in 0..keys {
        let (key, value) = (mixed(number).to_be_bytes(), number.to_le_bytes());
        assert!(tree.change(&mut session, &Change::insert(&key, &value)).expect("room").changed);
    }
    std::process::abort();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [path, tree, keys] = arguments.as_slice() {
        fill(Path::new(path), tree == "hashed leaves", keys.parse().expect("a number"));
    }
    let number = |at: usize, usual| {
        arguments.get(at).map_or(usual, |text| text.parse::<u64>().expect("a number"))
    };
    let (keys, rounds) = (number(0, 1_000_000), number(1, 5));
    for tree in ["nbtree", "hashed leaves"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.arg(&path).args([tree.to_string(), keys.to_string()]);
        // It ends by a signal, as it should.
        child.status().expect("it starts");
        let mut times = vec![];
        let mut leaves = 0;
        for _ in 0..rounds {
            let started = thread_time();
            let trees = open(&path);
            times.push((thread_time() - started).as_secs_f64() * 1e3);
            let map = trees.find_bytes_tree("map").expect("of bytes").expect("there");
            let mut session = trees.heap().session().expect("a session");
            let shape = map.shape(&mut session).expect("there");
            assert_eq!(shape.keys, keys);
            leaves = shape.leaves;
        }
        times.sort_by(f64::total_cmp);
        println!(
            "{tree:14} {keys} keys, {leaves} leaves: opened in {:.0} ms of CPU ({:.0} to {:.0})",
            times[times.len() / 2],
            times[0],
            times[times.len() - 1]
        );
    }
}
