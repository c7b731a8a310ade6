//! A tree of 64-bit integers of any design, without anything above it.

use everleaf_index::build::{Change, Outcome};
use everleaf_index::{Design, Hardware, Intent, Pool, Session, SingleTreePool};

use super::{Footprint, Target, Worker};
use crate::error::BenchError;
use crate::keys::IntegerKeys;

/// Bits of a value that tell versions apart; the others are the key's.
const VERSION_MASK: u64 = 0xffff;

/// An integer tree in a pool of its own.
pub(crate) struct Integers<T> {
    tree_pool: SingleTreePool<T>,
}

impl<T: Design> Integers<T> {
    /// An empty tree in a new pool.
    pub fn create(pool: Pool<Hardware>) -> Result<Self, BenchError> {
        Ok(Integers { tree_pool: SingleTreePool::create(pool)? })
    }
}

/// The bits that every value of the design can have.
const fn value_mask<T: Design>() -> u64 {
    let most = *T::INFO.values.end();
    if most == u64::MAX { most } else { (1 << (64 - (most + 1).leading_zeros() - 1)) - 1 }
}

#[inline(always)]
fn value_of<T: Design>(key: u64, version: u64) -> u64 {
    let value = (key & !VERSION_MASK | version & VERSION_MASK) & value_mask::<T>();
    value.max(*T::INFO.values.start())
}

/// The key itself, but for the few that the design cannot hold.
#[inline(always)]
fn key_of<T: Design>(key: u64) -> u64 {
    key.clamp(*T::INFO.keys.start(), *T::INFO.keys.end())
}

/// Whether a value was written for this key.
#[inline(always)]
fn is_right<T: Design>(key: u64, value: u64) -> bool {
    (key ^ value) & !VERSION_MASK & value_mask::<T>() == 0
}

#[inline(always)]
fn check<T: Design>(key: u64, value: u64) -> Result<(), BenchError> {
    if is_right::<T>(key, value) { Ok(()) } else { Err(wrong(key, value)) }
}

/// Checks every pair of a scan, as all targets do.
#[inline(always)]
fn check_scan<T: Design>(from: u64, pairs: &[(u64, u64)]) -> Result<(), BenchError> {
    let mut are_right = true;
    for &(key, value) in pairs {
        are_right &= key >= from && is_right::<T>(key, value);
    }
    if are_right { Ok(()) } else { Err(wrong_scan::<T>(from, pairs)) }
}

#[cold]
fn wrong_scan<T: Design>(from: u64, pairs: &[(u64, u64)]) -> BenchError {
    let bad = pairs.iter().find(|&&(key, value)| key < from || !is_right::<T>(key, value));
    match *bad.expect("a pair was wrong") {
        (key, _) if key < from => {
            BenchError::Wrong(format!("a scan from key {from:#018x} gave key {key:#018x}"))
        }
        (key, value) => wrong(key, value),
    }
}

#[cold]
fn wrong(key: u64, value: u64) -> BenchError {
    let text = format!("the value of key {key:#018x} is {value:#018x}, which was never written");
    BenchError::Wrong(text)
}

impl<T: Design> Target for Integers<T> {
    type Keys = IntegerKeys;
    type Worker<'t> = IntegerWorker<'t, T>;

    fn new_keys(&self, capacity: usize) -> IntegerKeys {
        IntegerKeys(Vec::with_capacity(capacity))
    }

    fn worker(&self) -> Result<IntegerWorker<'_, T>, BenchError> {
        let session = self.tree_pool.heap().session().map_err(everleaf_index::IndexError::from)?;
        Ok(IntegerWorker {
            tree: self.tree_pool.tree(),
            session,
            pairs: vec![],
            values: vec![],
            changes: vec![],
            outcomes: vec![],
        })
    }

    fn domain(&self) -> String {
        self.tree_pool.heap().medium().domain().to_string()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        let heap = self.tree_pool.heap();
        let mut session = heap.session().map_err(everleaf_index::IndexError::from)?;
        let shape = self.tree_pool.tree().shape(&mut session)?;
        drop(session);
        Ok(Footprint {
            keys: shape.keys,
            pool_used_bytes: heap.used_bytes(),
            pool_size_bytes: heap.pool().size(),
            dram_bytes: self.tree_pool.sessions().node_bytes()
                + self.tree_pool.tree().table_bytes(),
            leaves: shape.leaves,
            height: shape.height,
        })
    }
}

/// One thread on an integer tree.
pub(crate) struct IntegerWorker<'t, T> {
    tree: &'t T,
    session: Session<Hardware>,
    pairs: Vec<(u64, u64)>,
    values: Vec<Option<u64>>,
    changes: Vec<Change>,
    outcomes: Vec<Outcome>,
}

impl<T: Design> Worker for IntegerWorker<'_, T> {
    type Keys = IntegerKeys;

    #[inline(always)]
    fn get(&mut self, key: u64) -> Result<bool, BenchError> {
        let key = key_of::<T>(key);
        match self.tree.get(&mut self.session, key)? {
            Some(value) => check::<T>(key, value).map(|()| true),
            None => Ok(false),
        }
    }

    #[inline(always)]
    fn get_many(
        &mut self,
        keys: &IntegerKeys,
        position: usize,
        count: usize,
    ) -> Result<u64, BenchError> {
        let keys = &keys.0[position..][..count];
        self.values.resize(count, None);
        self.tree.get_many(&mut self.session, keys, &mut self.values)?;
        let mut found = 0;
        for (key, value) in keys.iter().zip(&self.values) {
            if let Some(value) = value {
                check::<T>(*key, *value)?;
                found += 1;
            }
        }
        Ok(found)
    }

    #[inline(always)]
    fn insert(&mut self, key: u64, version: u64) -> Result<bool, BenchError> {
        let key = key_of::<T>(key);
        let old = self.tree.insert(&mut self.session, key, value_of::<T>(key, version))?;
        Ok(old.is_none())
    }

    #[inline(always)]
    fn update(&mut self, key: u64, version: u64) -> Result<bool, BenchError> {
        let key = key_of::<T>(key);
        let value = value_of::<T>(key, version);
        Ok(self.tree.change(&mut self.session, key, Intent::Update, value)?.changed)
    }

    #[inline(always)]
    fn update_many(
        &mut self,
        keys: &IntegerKeys,
        position: usize,
        count: usize,
        version: u64,
    ) -> Result<u64, BenchError> {
        let change = |key: &u64| {
            let key = key_of::<T>(*key);
            Change { key, intent: Intent::Update, value: value_of::<T>(key, version) }
        };
        self.changes.clear();
        self.changes.extend(keys.0[position..][..count].iter().map(change));
        self.outcomes.resize(count, Outcome { changed: false, old: None });
        self.tree.write_many(&mut self.session, &self.changes, &mut self.outcomes)?;
        Ok(self.outcomes.iter().filter(|outcome| outcome.changed).count() as u64)
    }

    #[inline(always)]
    fn put(&mut self, key: u64, version: u64) -> Result<(), BenchError> {
        let key = key_of::<T>(key);
        self.tree.upsert(&mut self.session, key, value_of::<T>(key, version))?;
        Ok(())
    }

    #[inline(always)]
    fn remove(&mut self, key: u64) -> Result<bool, BenchError> {
        Ok(self.tree.change(&mut self.session, key_of::<T>(key), Intent::Remove, 0)?.changed)
    }

    #[inline(always)]
    fn scan(&mut self, from: u64, length: u32) -> Result<u64, BenchError> {
        self.pairs.clear();
        self.tree.scan(&mut self.session, from, length as usize, &mut self.pairs)?;
        check_scan::<T>(from, &self.pairs)?;
        Ok(self.pairs.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_index::U64Tree;

    #[test]
    fn a_wrong_pair_anywhere_in_a_scan_is_found_and_named() {
        type Tree = U64Tree;
        let keys = [0x10_0000, 0x20_0000, 0x30_0000];
        let right = keys.map(|key| (key, value_of::<Tree>(key, 7)));
        check_scan::<Tree>(keys[0], &right).unwrap();
        check_scan::<Tree>(keys[0], &[]).unwrap();
        for at in 0..right.len() {
            let mut pairs = right;
            pairs[at].1 ^= 0x40_0000;
            let error = check_scan::<Tree>(keys[0], &pairs).unwrap_err().to_string();
            assert!(error.contains(&format!("value of key {:#018x}", keys[at])), "{error}");
            pairs = right;
            pairs[at] = (0xf_0000, value_of::<Tree>(0xf_0000, 7));
            let error = check_scan::<Tree>(keys[0], &pairs).unwrap_err().to_string();
            assert!(error.contains("gave key 0x00000000000f0000"), "{error}");
        }
    }
}
