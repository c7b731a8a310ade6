//! How long a store is away when its process is killed and it is opened again, by durability.
//!
//! ```text
//! cargo run --release -p everleaf --example restart -- 777000
//! ```
//!
//! A child process fills the store and ends without closing it; then it is opened, the time until the first
//! key is read is taken, and the time until all that can be read survives the machine. With `power` the
//! snapshot that is owed comes before the store is open, with `interval` behind that, with `process` never.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use everleaf::{Durability, Options, Store};

const DURABILITIES: [(&str, Durability); 3] = [
    ("process", Durability::Process),
    ("interval", Durability::Interval(Duration::from_secs(1))),
    ("power", Durability::Power),
];

fn open(path: &Path, durability: Durability) -> Result<Store, everleaf::Error> {
    Options::new().create(true).max_size_bytes(8 << 30).durability(durability).open(path)
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Fills the store, and leaves it open.
fn fill(path: &Path, durability: Durability, from: u64, to: u64) -> Result<(), Box<dyn Error>> {
    let store = open(path, durability)?;
    store.defer_sync();
    for number in from..to {
        store.default_map().put(key(number), [7; 100])?;
    }
    store.wait_deferred()?;
    std::process::abort();
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, path, name, from, to] = arguments.as_slice() {
        let durability = DURABILITIES.iter().find(|(other, _)| other == name).ok_or("which?")?.1;
        return fill(Path::new(path), durability, from.parse()?, to.parse()?);
    }
    let count: u64 = arguments.get(1).map_or(Ok(777_000), |count| count.parse())?;
    for (name, durability) in DURABILITIES {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("pool");
        // A snapshot that is there already is read before the second is complete.
        for (round, from) in [0, count, count + 1000].into_iter().enumerate() {
            let to = if round == 0 { count } else { from + 1000 };
            let mut child = Command::new(std::env::current_exe()?);
            child.arg(&path).arg(name).arg(from.to_string()).arg(to.to_string());
            // It ends by a signal, as it should.
            let _ = child.status()?;
            let began = Instant::now();
            let store = open(&path, durability)?;
            let found = store.default_map().get(key(to - 1))?;
            let open_after = began.elapsed();
            assert!(found.is_some(), "the last key is there");
            store.sync()?;
            println!(
                "{name}, kill {}: open after {open_after:.2?}, safe after {:.2?}",
                round + 1,
                began.elapsed()
            );
            drop(store);
        }
    }
    Ok(())
}
