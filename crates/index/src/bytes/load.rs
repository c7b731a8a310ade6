//! Loading a tree of byte strings from sorted pairs, by one thread or partition by partition by several.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::{Machine, SpinLock};

use crate::api::error::IndexError;
use crate::bytes::entry::{BytesKey, BytesKind};
use crate::bytes::record::{self, KEY_SIZE_MAX};
use crate::bytes::tree::BytesTree;
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::nbtree::state::LIVE;
use crate::nbtree::{BulkLoader, Left, Loadable, Part, join};
use crate::pool_trees::nodes::{BytesNodes, NodesDesign};

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    /// Makes a new tree from pairs in strictly ascending key order, each with the time at which it
    /// expires (0: never).
    pub(crate) fn load<Key: AsRef<[u8]>, Value: AsRef<[u8]>>(
        session: &mut Session<M>,
        design: &NodesDesign<G, M>,
        id: u32,
        pairs: impl IntoIterator<Item = (Key, Value, u64)>,
    ) -> Result<BytesNodes<G, M, HEADS>, IndexError> {
        let heap = session.heap().clone();
        Self::load_tree(session, BytesNodes::without_leaves(design, &heap, id), pairs)
    }

    fn load_tree<T: Loadable<BytesKind<HEADS>, M>, Key: AsRef<[u8]>, Value: AsRef<[u8]>>(
        session: &mut Session<M>,
        tree: T,
        pairs: impl IntoIterator<Item = (Key, Value, u64)>,
    ) -> Result<T, IndexError> {
        let mut loader = BulkLoader::<BytesKind<HEADS>, T, M>::new(session, tree);
        Self::load_into(&mut loader, pairs)?;
        Ok(loader.finish()?)
    }

    fn load_into<T: Loadable<BytesKind<HEADS>, M>, Key: AsRef<[u8]>, Value: AsRef<[u8]>>(
        loader: &mut BulkLoader<'_, BytesKind<HEADS>, T, M>,
        pairs: impl IntoIterator<Item = (Key, Value, u64)>,
    ) -> Result<(), IndexError> {
        let mut last = Last::default();
        for (position, (key, value, expiry_ms)) in pairs.into_iter().enumerate() {
            last.follow(key.as_ref(), position)?;
            Self::push(loader, key.as_ref(), value.as_ref(), expiry_ms)?;
        }
        Ok(())
    }

    /// Adds a pair, whose key is greater than all before.
    #[inline]
    fn push<T: Loadable<BytesKind<HEADS>, M>>(
        loader: &mut BulkLoader<'_, BytesKind<HEADS>, T, M>,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> Result<(), IndexError> {
        if key.len() > KEY_SIZE_MAX {
            return Err(IndexError::KeyTooLarge(key.len()));
        }
        let limit = record::value_size_max(key.len(), expiry_ms);
        if value.len() > limit {
            return Err(IndexError::ValueTooLarge(value.len()));
        }
        let features = record::features_of(value.len(), expiry_ms);
        if features != 0 && !M::mutant("bytes.load_no_features") {
            loader.session().heap().pool().enable_features(features)?;
        }
        let key = BytesKey::new(key);
        let record = record::create_expiring(loader.session(), key.bytes, value, expiry_ms)?;
        let payload = key.payload(record);
        Ok(loader.push(key, <BytesKind<HEADS> as Kind<M>>::entry(key, 0, payload, LIVE))?)
    }

    /// As [`Self::load`], by several threads: `feed(i, sink)` gives the pairs of partition `i`, whose keys
    /// begin at `lows[i - 1]` and end before `lows[i]`.
    pub(crate) fn load_partitions<E: From<IndexError> + Send>(
        heap: &Arc<Heap<M>>,
        design: &NodesDesign<G, M>,
        id: u32,
        lows: &[Vec<u8>],
        threads: usize,
        feed: &(impl Fn(usize, &mut Sink<'_>) -> Result<(), E> + Sync),
    ) -> Result<BytesNodes<G, M, HEADS>, E> {
        let tree = || BytesNodes::without_leaves(design, heap, id);
        Self::load_trees(heap, &tree, lows, threads, feed)
    }

    fn load_trees<T: Loadable<BytesKind<HEADS>, M>, E: From<IndexError> + Send>(
        heap: &Arc<Heap<M>>,
        tree: &(impl Fn() -> T + Sync),
        lows: &[Vec<u8>],
        threads: usize,
        feed: &(impl Fn(usize, &mut Sink<'_>) -> Result<(), E> + Sync),
    ) -> Result<T, E> {
        let mut session = heap.session().map_err(IndexError::from)?;
        let mut fences = vec![0];
        for low in lows {
            match record::create(&mut session, low, &[]) {
                Ok(fence) => fences.push(fence),
                Err(error) => {
                    free_fences::<M, HEADS>(&mut session, &fences);
                    return Err(IndexError::from(error).into());
                }
            }
        }
        let count = fences.len();
        let new = || SpinLock::<Option<Part>, M>::new(None);
        let parts = (0..count).map(|_| new()).collect();
        let mut loading =
            Loading::<'_, HEADS, T, M> { session, tree, fences, parts, is_whole: false };
        let errors: Vec<_> = (0..count).map(|_| SpinLock::<Option<E>, M>::new(None)).collect();
        let (fences, parts) = (&loading.fences, &loading.parts);
        M::parallel(threads.min(count), count, &|index| {
            let bounds = Bounds {
                low: index.checked_sub(1).map(|below| lows[below].as_slice()),
                high: lows.get(index).map(Vec::as_slice),
            };
            let high = fences.get(index + 1).copied().unwrap_or(0);
            let (fences, left) = ((fences[index], high), &parts[index]);
            let feed = |sink: &mut Sink<'_>| feed(index, sink);
            let (part, done) = Self::load_partition(heap, (tree(), left), fences, bounds, &feed);
            *left.lock() = Some(part);
            if let Err(error) = done {
                *errors[index].lock() = Some(error);
            }
        });
        match errors.into_iter().find_map(|mut error| error.get_mut().take()) {
            // What there is goes back.
            Some(error) => Err(error),
            None => Ok(loading.join().map_err(IndexError::from)?),
        }
    }

    /// One partition, and whether it is whole. It owns the first of the two fences, also if it fails.
    fn load_partition<T: Loadable<BytesKind<HEADS>, M>, E: From<IndexError>>(
        heap: &Arc<Heap<M>>,
        (tree, left): (T, &Left<M>),
        (low, high): (u64, u64),
        bounds: Bounds<'_>,
        feed: &dyn Fn(&mut Sink<'_>) -> Result<(), E>,
    ) -> (Part, Result<(), E>) {
        let mut session = match heap.session() {
            Ok(session) => session,
            Err(error) => return (Part::of_fence(low), Err(IndexError::from(error).into())),
        };
        let mut loader =
            BulkLoader::<BytesKind<HEADS>, T, M>::partition(&mut session, tree, low, left);
        let (mut last, mut position) = (Last::default(), 0);
        let overlaps = M::mutant("bytes.partitions_overlap");
        let fed = feed(&mut |key, value, expiry_ms| {
            if bounds.low.is_some_and(|low| key < low)
                || bounds.high.is_some_and(|high| key > high || key == high && !overlaps)
            {
                return Err(IndexError::NotSorted(position));
            }
            last.follow(key, position)?;
            position += 1;
            Self::push(&mut loader, key, value, expiry_ms)
        });
        match fed {
            Ok(()) => {
                let (part, done) = loader.finish_partition(high);
                (part, done.map_err(|error| IndexError::from(error).into()))
            }
            Err(error) => (loader.stop(), Err(error)),
        }
    }
}

/// A tree of which the partitions are being built. Unless it is whole, all there is of it goes back when it is dropped,
/// so also when the pairs of a partition panic: by then all have ended. Each could read the first fence of the next one
/// until then.
struct Loading<'a, const HEADS: bool, T: Loadable<BytesKind<HEADS>, M>, M: Machine> {
    session: Session<M>,
    tree: &'a dyn Fn() -> T,
    /// The first of each partition, which has it as soon as there is something of it.
    fences: Vec<u64>,
    parts: Vec<Left<M>>,
    is_whole: bool,
}

impl<const HEADS: bool, T: Loadable<BytesKind<HEADS>, M>, M: Machine> Loading<'_, HEADS, T, M> {
    fn join(&mut self) -> Result<T, AllocError> {
        self.is_whole = true;
        let parts = self.parts.iter_mut().filter_map(|part| part.get_mut().take()).collect();
        join(&mut self.session, (self.tree)(), parts)
    }
}

impl<const HEADS: bool, T: Loadable<BytesKind<HEADS>, M>, M: Machine> Drop
    for Loading<'_, HEADS, T, M>
{
    fn drop(&mut self) {
        if self.is_whole || M::mutant("bytes.partitions_leak") {
            return;
        }
        let tree = (self.tree)();
        for (part, fence) in self.parts.iter_mut().zip(&self.fences) {
            // One that was never begun has its fence all the same.
            let part = part.get_mut().take().unwrap_or_else(|| Part::of_fence(*fence));
            part.give_back(&mut self.session, &tree);
        }
    }
}

/// Takes the pairs of a load in the order of their keys: key, value, and when it expires.
pub type Sink<'a> = dyn FnMut(&[u8], &[u8], u64) -> Result<(), IndexError> + 'a;

/// Where the keys of a partition lie.
#[derive(Clone, Copy)]
struct Bounds<'a> {
    low: Option<&'a [u8]>,
    high: Option<&'a [u8]>,
}

/// The key that was added last.
#[derive(Default)]
struct Last {
    key: Vec<u8>,
    is_any: bool,
}

impl Last {
    /// Refuses a key that does not come behind the last one.
    #[inline]
    fn follow(&mut self, key: &[u8], position: usize) -> Result<(), IndexError> {
        if std::mem::replace(&mut self.is_any, true) && self.key.as_slice() >= key {
            return Err(IndexError::NotSorted(position));
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        Ok(())
    }
}

fn free_fences<M: Machine, const HEADS: bool>(session: &mut Session<M>, fences: &[u64]) {
    for fence in fences {
        <BytesKind<HEADS> as Kind<M>>::free_fence(session, *fence);
    }
}
