//! Any design of the catalogue as a subject: a pool with one tree.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::{Heap, Session};
use everleaf_index::{Design, Progress, Reads};
use everleaf_index::{Exchange, IndexError, Solo};
use everleaf_machine::Simulated;
use everleaf_pool::Pool;

use crate::subject::{Pairs, Subject};

type M = Simulated;

/// The design `T`, which should have small nodes.
pub struct Of<T>(PhantomData<T>);

impl<T> Clone for Of<T> {
    fn clone(&self) -> Self {
        Of(PhantomData)
    }
}

impl<T> fmt::Debug for Of<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<T>())
    }
}

impl<T: Design<M>> Subject for Of<T> {
    type Opened = Solo<T, M>;
    const LOCK_FREE: bool = matches!(T::INFO.progress, Progress::LockFree);
    const READS_COMMITTED: bool = matches!(T::INFO.reads, Reads::Committed);
    const KEY_MIN: u64 = *T::INFO.keys.start();
    const KEY_MAX: u64 = *T::INFO.keys.end();
    const VALUE_MIN: u64 = *T::INFO.values.start();
    const VALUE_MAX: u64 = *T::INFO.values.end();

    fn create(pool: Pool<M>, chunk_shift: u32) -> Result<Solo<T, M>, IndexError> {
        Solo::create_with_chunks(pool, chunk_shift)
    }

    fn open(pool: Pool<M>) -> Result<Solo<T, M>, String> {
        Solo::open(pool, 1).map_err(|error| error.to_string())
    }

    fn heap(opened: &Solo<T, M>) -> &Arc<Heap<M>> {
        opened.heap()
    }

    fn get(
        opened: &Solo<T, M>,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree().get(session, key)
    }

    fn insert(
        opened: &Solo<T, M>,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree().insert(session, key, value)
    }

    fn update(
        opened: &Solo<T, M>,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree().update(session, key, value)
    }

    fn upsert(
        opened: &Solo<T, M>,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree().upsert(session, key, value)
    }

    fn remove(
        opened: &Solo<T, M>,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree().remove(session, key)
    }

    fn compare_exchange(
        opened: &Solo<T, M>,
        session: &mut Session<M>,
        key: u64,
        expected: u64,
        new: u64,
    ) -> Result<Exchange, IndexError> {
        opened.tree().compare_exchange(session, key, expected, new)
    }

    fn scan(
        opened: &Solo<T, M>,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), IndexError> {
        opened.tree().scan(session, from, limit, pairs)
    }

    fn scan_back(
        opened: &Solo<T, M>,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), IndexError> {
        if T::INFO.scans_back {
            return opened.tree().scan_back(session, from, limit, pairs);
        }
        let mut all = Pairs::new();
        opened.tree().scan(session, Self::KEY_MIN, usize::MAX, &mut all)?;
        pairs.extend(all.into_iter().rev().filter(|(key, _)| *key <= from).take(limit));
        Ok(())
    }

    fn get_many(
        opened: &Solo<T, M>,
        session: &mut Session<M>,
        keys: &[u64],
    ) -> Result<Vec<Option<u64>>, IndexError> {
        let mut values = vec![None; keys.len()];
        opened.tree().get_many(session, keys, &mut values)?;
        Ok(values)
    }

    fn check(opened: &Solo<T, M>) -> Result<Vec<String>, IndexError> {
        Ok(opened.check()?.problems)
    }
}
