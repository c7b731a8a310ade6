//! Any design of the catalogue as a subject: a pool with one tree.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::{
    Design, IndexError, OrderedIndex, Progress, Reads, Scans, SingleTreePool, Writes,
};
use everleaf_machine::Simulated;
use everleaf_pool::Pool;

use crate::tree::nbtree::SHARES;
use crate::tree::subject::Subject;

type M = Simulated;

/// The design `T`, which should have small nodes; opened at once, and restored when it is touched, if it says so.
pub struct Of<T, const AT_ONCE: bool = false>(PhantomData<T>);

impl<T, const AT_ONCE: bool> Clone for Of<T, AT_ONCE> {
    fn clone(&self) -> Self {
        Of(PhantomData)
    }
}

impl<T, const AT_ONCE: bool> fmt::Debug for Of<T, AT_ONCE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<T>())
    }
}

impl<T: Design<M>, const AT_ONCE: bool> Subject for Of<T, AT_ONCE> {
    type OpenTree = SingleTreePool<T, M>;
    const LOCK_FREE: bool = matches!(T::INFO.progress, Progress::LockFree);
    const READS_COMMITTED: bool = matches!(T::INFO.reads, Reads::Committed);
    const DEFERS: bool = matches!(T::INFO.reads, Reads::Deferred);
    const VOLATILE: bool = matches!(T::INFO.reads, Reads::Volatile);
    const LEAVES_SPACE: bool = AT_ONCE && T::MARKS_LATER;
    const WRITES_BLINDLY: bool = matches!(T::INFO.writes, Writes::Blind);
    const ORDERED: bool = !matches!(T::INFO.scans, Scans::Never);
    const KEY_MIN: u64 = *T::INFO.keys.start();
    const KEY_MAX: u64 = *T::INFO.keys.end();
    const VALUE_MIN: u64 = *T::INFO.values.start();
    const VALUE_MAX: u64 = *T::INFO.values.end();

    fn create(pool: Pool<M>, chunk_shift: u32) -> Result<SingleTreePool<T, M>, IndexError> {
        SingleTreePool::create_with_chunks(pool, chunk_shift)
    }

    fn open(pool: Pool<M>) -> Result<SingleTreePool<T, M>, String> {
        let open = if AT_ONCE { SingleTreePool::open_at_once_on } else { SingleTreePool::open };
        open(pool, SHARES).map_err(|error| error.to_string())
    }

    fn heap(opened: &SingleTreePool<T, M>) -> &Arc<Heap<M>> {
        opened.heap()
    }

    fn tree(opened: &SingleTreePool<T, M>) -> &dyn OrderedIndex<M> {
        opened.tree()
    }

    fn close(opened: &SingleTreePool<T, M>) -> Result<(), IndexError> {
        opened.close()
    }

    fn check(opened: &SingleTreePool<T, M>) -> Result<Vec<String>, IndexError> {
        // Until then what was free counts as leaked. What a sweep refuses, the check tells.
        if Self::LEAVES_SPACE {
            let _ = opened.sweep();
        }
        Ok(opened.check()?.problems)
    }
}
