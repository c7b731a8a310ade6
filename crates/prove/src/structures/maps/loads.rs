//! Trees made of sorted pairs in a program of maps: by one thread or partition by partition, with expiries, and with
//! pairs that must be refused. Which of these it is follows from the first value.

use everleaf_index::{AllocError, IndexError, PoolError, Sink, Tiny, Trees};
use everleaf_machine::{Machine, Simulated};
use everleaf_pool::FEATURE_EXPIRY_WORD;

use crate::structures::maps::names::{KEYS, is_integers, name_of, word_of};

type M = Simulated;
type G = Tiny<3, 3>;

/// What expires then never expires here.
const FAR: u64 = 1 << 47;
/// The first keys of the partitions but the first.
const LOWS: [u64; 2] = [2, 4];

/// How a tree is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    /// Each key has an expiry.
    Expiring,
    /// Three partitions, by two threads.
    Partitions,
    /// The first key of the second partition comes with the first, too.
    Overlapping,
    /// The keys do not ascend; the number says at which of them.
    Unsorted(u64),
}

/// Values of loads are multiples of ten.
fn form_of(value: u64) -> Form {
    match value / 10 % 8 {
        1 | 5 => Form::Partitions,
        2 => Form::Expiring,
        3 => Form::Overlapping,
        6 => Form::Unsorted(value / 80 % KEYS),
        _ => Form::Plain,
    }
}

/// The value of a key of a tree that is loaded with `value`.
pub fn loaded(value: u64, key: u64) -> u64 {
    value + key
}

/// When what is loaded so expires.
fn expiry_of(value: u64, key: u64) -> u64 {
    if form_of(value) == Form::Expiring { FAR + loaded(value, key) } else { 0 }
}

/// Whether a record of this value may have this expiry. What is put alone never expires, and its value is a multiple
/// of ten, too.
pub fn fits(value: u64, expiry_ms: u64) -> bool {
    let key = value % 10;
    let is_loaded = expiry_ms != 0 || key != 0;
    !is_loaded || expiry_ms == expiry_of(value - key, key)
}

/// Makes a tree of sorted pairs. Whether it did: not if there is one, or if the pairs are to be refused.
pub fn load(trees: &Trees<G, M>, map: u64, value: u64) -> Result<bool, IndexError> {
    let (name, form) = (name_of(map), form_of(value));
    let made = match (is_integers(map), form) {
        (_, Form::Unsorted(at)) => unsorted(trees, map, value, at),
        (true, _) => {
            let pairs = (0..KEYS).map(|key| (key, loaded(value, key)));
            trees.load_u64_tree(&name, pairs).map(drop)
        }
        (false, Form::Partitions | Form::Overlapping) => {
            let lows = LOWS.map(word_of).to_vec();
            let overlap = u64::from(form == Form::Overlapping);
            let feed = |partition: usize, sink: &mut Sink<'_>| {
                let from = partition.checked_sub(1).map_or(0, |below| LOWS[below]);
                let to = LOWS.get(partition).map_or(KEYS, |low| low + overlap);
                (from..to)
                    .try_for_each(|key| sink(&word_of(key), &loaded(value, key).to_le_bytes(), 0))
            };
            trees.load_partitions(&name, &lows, 2, feed).map(drop)
        }
        (false, _) => {
            let pair =
                |key| (word_of(key), loaded(value, key).to_le_bytes(), expiry_of(value, key));
            trees.load_expiring(&name, (0..KEYS).map(pair)).map(drop)
        }
    };
    let is_wrong =
        matches!(form, Form::Unsorted(_)) || form == Form::Overlapping && !is_integers(map);
    match made {
        Err(IndexError::Alloc(AllocError::Pool(PoolError::RootExists { .. }))) => Ok(false),
        Err(IndexError::NotSorted(_)) if is_wrong => {
            M::mark("maps.load_refused");
            Ok(false)
        }
        Ok(()) if is_wrong => panic!("a tree was made of {form:?} pairs"),
        Ok(()) if form == Form::Expiring && !is_integers(map) => {
            // Code that knows no expiries must refuse the pool.
            let features = trees.heap().pool().features();
            assert!(
                features & FEATURE_EXPIRY_WORD != 0,
                "expiries are in the pool, which says nothing"
            );
            Ok(true)
        }
        made => made.map(|()| true),
    }
}

/// As [`load`], with one key a second time behind the one at `at`.
fn unsorted(trees: &Trees<G, M>, map: u64, value: u64, at: u64) -> Result<(), IndexError> {
    let keys = (0..=at).chain(at..KEYS);
    let name = name_of(map);
    if is_integers(map) {
        return trees.load_u64_tree(&name, keys.map(|key| (key, loaded(value, key)))).map(drop);
    }
    let pair = |key| (word_of(key), loaded(value, key).to_le_bytes());
    trees.load_bytes_tree(&name, keys.map(pair)).map(drop)
}
