//! Pools with hashed leaves that were not closed, and have no sums: what cannot be in a leaf refuses the opening that
//! restores everything, as it is an error of who touches the leaf in one that was opened at once.

use std::collections::BTreeMap;
use std::path::Path;

use everleaf_index::salvage::{Salvage, SalvagedPair};
use everleaf_index::{Change, CreateMode, Domain, Hardware, Pool, PoolOptions, Trees};

const KEYS: u64 = 3000;

fn pool(path: &Path) -> Pool<Hardware> {
    let (create, domain) = (CreateMode::IfMissing, Some(Domain::Process));
    let options = PoolOptions { create, domain, max_size_bytes: 1 << 30, ..Default::default() };
    Pool::open(path, &options).expect("the pool")
}

fn word_of(key: u64) -> Vec<u8> {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec()
}

/// A pool as a killed process would leave it, with a map of integers or of byte strings of which every third key was
/// removed.
fn killed(path: &Path, has_bytes: bool) {
    let trees: Trees = Trees::create(pool(path)).expect("a new pool");
    trees.make_hashed_leaves().expect("writable");
    let mut session = trees.heap().session().expect("a session");
    for removes in [false, true] {
        for key in (0..KEYS).step_by(if removes { 3 } else { 1 }) {
            if has_bytes {
                let (word, value) = (word_of(key), key.to_le_bytes());
                let put = Change::upsert(&word, &value);
                let change = if removes { Change::remove(&word) } else { put };
                let tree = trees.bytes_tree("words").expect("room");
                tree.change(&mut session, &change).expect("room");
            } else {
                let tree = trees.u64_tree("numbers").expect("room");
                match removes {
                    true => tree.remove(&mut session, key).expect("no room needed"),
                    false => tree.insert(&mut session, key, key).expect("room"),
                };
            }
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Where the words with the states of this kind are, in live leaves of 4 KiB.
fn states(bytes: &[u8], has_bytes: bool, state: u64) -> Vec<usize> {
    const LIVE: u64 = 2 << 61 | ((1 << 30) - 1) << 31 | ((1 << 30) - 1) << 1;
    let leaves = (0..bytes.len()).step_by(4096).filter(|at| word(bytes, *at) == LIVE);
    let of_leaf = |leaf: usize| (leaf + 32..leaf + 4096).step_by(16);
    let states = leaves.flat_map(of_leaf).map(|at| if has_bytes { at + 8 } else { at });
    states.filter(|at| word(bytes, *at) >> 61 == state).collect()
}

fn flip(bytes: &mut [u8], at: usize, bits: u64) {
    let word = word(bytes, at) ^ bits;
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Demands that the pool is refused, and left as it was.
fn assert_refused(path: &Path, damaged: &[u8], what: &str) {
    std::fs::write(path, damaged).expect("the file");
    for _ in 0..2 {
        let opened = <Trees>::open(pool(path), 2).err();
        let text = opened.expect("it is damaged").to_string();
        assert!(text.contains("damaged") && text.contains("run `everleaf check`"), "{text}");
        assert!(text.contains(&format!("a leaf: {what}")), "{text}");
    }
}

/// What was lost: a state that is none was taken for that of a removed entry, until the leaf was replaced; then the
/// removed key was back. Of byte strings the record that it referred to had another owner by then.
#[test]
fn a_state_that_is_none_refuses_a_pool_that_was_not_closed() {
    const REMOVED: u64 = 0b011;
    const LIVE: u64 = 0b010;
    for has_bytes in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        killed(&path, has_bytes);
        let whole = std::fs::read(&path).expect("the file");
        let removed = states(&whole, has_bytes, REMOVED);
        assert!(removed.len() > 100, "{} removed entries", removed.len());
        let mut damaged = whole.clone();
        flip(&mut damaged, removed[50], 1 << 63);
        assert_refused(&path, &damaged, "a position has a state that is none");
        if has_bytes {
            let salvaged = salvage(&path);
            let kept = (0..KEYS).filter(|key| key % 3 != 0);
            let kept = kept.map(|key| (word_of(key), key.to_le_bytes().to_vec()));
            assert!(salvaged == kept.collect(), "{} pairs", salvaged.len());
        } else {
            // A key that is not of its leaf: there are several of its class.
            let mut damaged = whole.clone();
            let live = states(&whole, has_bytes, LIVE);
            let at = live.into_iter().find(|at| word(&whole, *at) == LIVE << 61 | 100);
            flip(&mut damaged, at.expect("it was not removed"), 1 << 59);
            assert_refused(&path, &damaged, "a key is outside of its fences");
        }
        std::fs::write(&path, &whole).expect("the file");
        let trees: Trees = Trees::open(pool(&path), 2).expect("nothing is damaged");
        assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
    }
}

/// What can be proven of a pool.
fn salvage(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let bytes = std::fs::read(path).expect("the file");
    let read = |offset: u64, into: &mut [u8]| {
        let from = bytes.get(offset as usize..).and_then(|from| from.get(..into.len()));
        from.is_some_and(|from| {
            into.copy_from_slice(from);
            true
        })
    };
    let salvage = Salvage::new(bytes.len() as u64, &read, &|offset| offset);
    let mut pairs = BTreeMap::new();
    let mut found = |pair: SalvagedPair| {
        if pair.is_certain {
            pairs.insert(pair.key, pair.value);
        }
    };
    salvage.pairs(&mut found, &mut |_| ());
    pairs
}
