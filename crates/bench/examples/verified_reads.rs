//! What it costs to verify records: the same reads of the same tree with their check sums and without,
//! turn by turn in one run, in CPU time of the thread that reads.
//!
//! Run: `cargo run --release -p everleaf-bench --example verified_reads -- [KEYS] [ROUNDS]`. A line per
//! kind of read and length of the values: nanoseconds a pair without and with (medians of the rounds),
//! and the median of the rounds' ratios, with the quartiles.

use std::ops::Bound;
use std::time::Duration;

use everleaf_bench::random::mix;
use everleaf_bench::thread_time;
use everleaf_index::{BytesTree, Change, Domain, Hardware, Pool, Record, Session, Trees, Verify};

const VALUE_SIZES: [usize; 3] = [8, 100, 1000];
/// Pairs of a scan, as in `everleaf bench`.
const SCAN_LENGTH: usize = 100;
/// Pairs read in a turn.
const TURN: usize = 100_000;

type Tree = BytesTree;

fn key(number: u64) -> [u8; 8] {
    mix(number).to_be_bytes()
}

/// A kind of read: so many pairs, from a seed on.
#[derive(Clone, Copy)]
enum Read {
    /// Scans whose visitor looks at the keys.
    ScanKeys,
    /// Scans whose visitor looks at the values, too.
    ScanValues,
    /// Scans that copy, as iterators do.
    ScanCopies,
    Get,
    GetMany,
}

const READS: [(Read, &str); 5] = [
    (Read::ScanKeys, "scan, sees keys"),
    (Read::ScanValues, "scan, sees values"),
    (Read::ScanCopies, "scan, copies"),
    (Read::Get, "get"),
    (Read::GetMany, "get 32 at once"),
];

/// All words of a value, as a reader that uses it.
fn see(value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum, word| sum ^ u64::from_le_bytes(*word));
    rest.iter().fold(sum, |sum, byte| sum ^ u64::from(*byte))
}

struct World {
    tree: std::sync::Arc<Tree>,
    session: Session<Hardware>,
    keys: u64,
}

impl World {
    fn new(keys: u64, value_size: usize) -> Result<World, Box<dyn std::error::Error>> {
        let trees: Trees = Trees::create(Pool::in_memory(1 << 20, 1 << 36, Domain::Process)?)?;
        let tree = trees.bytes_tree("t")?;
        let mut session = trees.heap().session()?;
        let mut value = vec![7; value_size];
        for number in 0..keys {
            value[..8].copy_from_slice(&number.to_be_bytes());
            tree.change(&mut session, &Change::upsert(&key(number), &value))?;
        }
        Ok(World { tree, session, keys })
    }

    fn scan(&mut self, seed: u64, verify: Verify, mut visit: impl FnMut(Record<'_>)) {
        for turn in 0..TURN / SCAN_LENGTH {
            let from = key(mix(seed ^ turn as u64) % self.keys);
            let (bounds, mut left) = ((Bound::Included(&from[..]), Bound::Unbounded), SCAN_LENGTH);
            let scanned =
                self.tree.scan_verified(&mut self.session, bounds, false, verify, |record| {
                    visit(record);
                    left -= 1;
                    left > 0
                });
            scanned.expect("nothing is damaged");
        }
    }

    /// Reads, and returns what the reader would make of it.
    fn read(&mut self, read: Read, seed: u64, verify: Verify) -> u64 {
        let mut sum = 0;
        let mut pairs = Vec::with_capacity(TURN);
        match read {
            Read::ScanKeys => self.scan(seed, verify, |record| sum ^= see(record.key)),
            Read::ScanValues => self.scan(seed, verify, |record| sum ^= see(record.value)),
            Read::ScanCopies => self.scan(seed, verify, |record| {
                if pairs.len() == 256 {
                    pairs.clear();
                }
                pairs.push((record.key.to_vec(), record.value.to_vec()));
                sum += 1;
            }),
            Read::Get => {
                for turn in 0..TURN / 4 {
                    let key = key(mix(seed ^ turn as u64) % self.keys);
                    let found = self
                        .tree
                        .get_verified(&mut self.session, &key, verify, |record| see(record.value));
                    sum ^= found.expect("nothing is damaged").expect("it is there");
                }
            }
            Read::GetMany => {
                for turn in 0..TURN / 32 {
                    let keys: [[u8; 8]; 32] = std::array::from_fn(|at| {
                        key(mix(seed ^ (turn * 32 + at) as u64) % self.keys)
                    });
                    let keys = keys.iter().map(|key| &key[..]);
                    let found = self.tree.get_many(&mut self.session, keys, verify, |_, value| {
                        sum ^= value.map_or(0, see);
                    });
                    found.expect("nothing is damaged");
                }
            }
        }
        sum
    }

    fn timed(&mut self, read: Read, seed: u64, verify: Verify) -> Duration {
        let started = thread_time();
        std::hint::black_box(self.read(read, seed, verify));
        thread_time() - started
    }
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|part| values[(values.len() - 1) * part / 4])
}

#[expect(clippy::print_stdout, reason = "the result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let keys = arguments.next().transpose()?.unwrap_or(1_000_000);
    let rounds = arguments.next().transpose()?.unwrap_or(21);
    for value_size in VALUE_SIZES {
        let mut world = World::new(keys, value_size)?;
        for (read, name) in READS {
            let mut times = [vec![], vec![]];
            let mut ratios = vec![];
            for round in 0..rounds {
                // Each comes first as often as the other, and reads what the other did not.
                let mut took = [0.0; 2];
                for half in 0..2 {
                    let which = ((round + half) % 2) as usize;
                    let verify = [Verify::Key, Verify::Sum][which];
                    let spent = world.timed(read, mix(round * 2 + half), verify);
                    let pairs = if matches!(read, Read::Get) { TURN / 4 } else { TURN };
                    took[which] = spent.as_nanos() as f64 / pairs as f64;
                    times[which].push(took[which]);
                }
                ratios.push(took[1] / took[0]);
            }
            let [without, with] = times.map(|times| quartiles(times)[1]);
            let [low, ratio, high] = quartiles(ratios);
            println!(
                "8 + {value_size:4} bytes, {name:18} {without:6.1} ns without, {with:6.1} with: \
                 {ratio:.3} ({low:.3} .. {high:.3})"
            );
        }
    }
    Ok(())
}
