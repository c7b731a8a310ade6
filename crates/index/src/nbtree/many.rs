//! Looking up or writing many keys at once, so that their cache misses overlap.
//!
//! All keys go down the tree together, one level at a time: while the line of one is on its way, the
//! next one's is asked for. The answers are those of separate gets, and the writes are separate
//! writes, in order.
//!
//! A search has three steps: down to the leaf, to a slot by its fingerprint, to what the entry says. Each
//! asks for what the next one reads, so a caller with more than one group takes steps of other groups in
//! between. No step reads sooner than the one before it, as in a search of one key by a slow thread, and
//! all of them are under one pin.

use everleaf_alloc::layout::RECORD_ALIGN;
use everleaf_alloc::{AllocError, BLOCK_SIZE, Session};
use everleaf_machine::{LINE_SIZE, Machine, Ordering};

use super::NbTree;
use super::layout::{BLOCK_HEADER_SIZE, Inner, Leaf};
use super::scan::Extent;
use super::shared::Shared;
use super::state::{COMMITTED, REPLACED, holds};
use super::write::Write;
use crate::api::change::Outcome;
use crate::geometry::Geometry;
use crate::kind::Kind;

/// Keys that travel together: as many misses as a core has in flight, and some.
pub(crate) const TOGETHER: usize = 32;

/// So many of them: few on a simulated machine, so that there is more than one group.
pub(crate) const fn group<M: Machine>() -> usize {
    if M::SIMULATED { 4 } else { TOGETHER }
}

/// Keys that come in order go through one node right above the leaves for a while, and to one leaf after another: that
/// node, the leaf, and the heads of the keys that their ranges have for certain. They stand for what the nodes above
/// have led to, and are used under the same pin.
pub(crate) struct Run<M: Machine> {
    node: Option<Shared<Inner<M>>>,
    heads: Heads,
    leaf: Option<Shared<Leaf<M>>>,
    leaf_heads: Heads,
}

/// The heads from one to another, both included.
#[derive(Clone, Copy)]
struct Heads {
    first: u64,
    last: u64,
}

impl Heads {
    const NONE: Heads = Heads { first: u64::MAX, last: 0 };

    #[inline(always)]
    fn have(self, head: u64) -> bool {
        self.first <= head && head <= self.last
    }
}

impl<M: Machine> Run<M> {
    /// No node is known.
    #[inline(always)]
    pub(crate) fn none() -> Self {
        Run { node: None, heads: Heads::NONE, leaf: None, leaf_heads: Heads::NONE }
    }

    #[inline(always)]
    fn node_of(&self, head: u64) -> Option<Shared<Inner<M>>> {
        if self.heads.have(head) { self.node } else { None }
    }

    #[inline(always)]
    fn leaf_of(&self, head: u64) -> Option<Shared<Leaf<M>>> {
        if self.leaf_heads.have(head) { self.leaf } else { None }
    }
}

/// How far the keys of a group have come: to leaves, whose first lines are on their way to the cache, and then to
/// slots of these, whose entries are. It is used under the pin under which it was made.
pub(crate) struct Approached<M: Machine> {
    leaves: [Shared<Leaf<M>>; TOGETHER],
    hits: [u64; TOGETHER],
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// The payloads of `keys`, in order, each to its place in `payloads`. Where keys have tails, the payload is that of
    /// an entry that is the key's by what it says of the hash: a thread that comes to a record of another key asks
    /// [`Self::get_payload`]. Keys that go on where those before have ended (`run`) do not go down the tree.
    pub(crate) fn get_many_payloads(
        &self,
        session: &mut Session<M>,
        keys: &[K::Key<'_>],
        run: &mut Run<M>,
        extent: Extent,
        payloads: &mut [Option<u64>],
    ) {
        let payloads = payloads[..keys.len()].chunks_mut(group::<M>());
        for (keys, payloads) in keys.chunks(group::<M>()).zip(payloads) {
            let mut near = self.approach_group(keys, run);
            self.match_group(session, keys, &mut near);
            self.take_group(keys, &near, extent, payloads);
        }
    }

    /// The first step of a search for a group of keys, at least one: down to their leaves.
    pub(crate) fn approach_group(&self, keys: &[K::Key<'_>], run: &mut Run<M>) -> Approached<M> {
        let leaves = match run.node_of(K::key_head(keys[0], 0)) {
            Some(_) => self.go_on(run, keys),
            None => {
                let leaves = self.descend_group(keys.len(), |index| keys[index]);
                *run = match (&leaves[..keys.len()], keys) {
                    // The next group goes on from there, perhaps.
                    ([.., one, other], [.., key]) if one == other => self.run_of(*key),
                    _ => Run::none(),
                };
                leaves
            }
        };
        Approached { leaves, hits: [0; TOGETHER] }
    }

    /// The second step: to the slots that may have the keys.
    pub(crate) fn match_group(
        &self,
        session: &mut Session<M>,
        keys: &[K::Key<'_>],
        near: &mut Approached<M>,
    ) {
        let places = near.leaves.iter_mut().zip(&mut near.hits);
        for (key, (place, hits_of)) in keys.iter().zip(places) {
            // Acquire: as in `resolve`.
            let meta = place.meta.load(Ordering::Acquire);
            let (leaf, meta) = if meta & REPLACED == 0 || M::mutant("nbtree.many_reads_replaced") {
                (*place, meta)
            } else {
                self.resolve(session, *key)
            };
            if !M::mutant("nbtree.many_keeps_leaf") {
                *place = leaf;
            }
            let hits = leaf.fingerprints.matches(K::fingerprint(*key)) & meta & COMMITTED;
            *hits_of = hits;
            if hits != 0 {
                let slot = hits.trailing_zeros() as usize;
                let block = self.block(leaf).as_ptr().cast::<u8>();
                M::prefetch(block.wrapping_add(BLOCK_HEADER_SIZE + slot * 16));
            }
        }
    }

    /// The last step: to what the entries say, as [`Self::get_many_payloads`].
    pub(crate) fn take_group(
        &self,
        keys: &[K::Key<'_>],
        near: &Approached<M>,
        extent: Extent,
        payloads: &mut [Option<u64>],
    ) {
        let places = near.leaves.iter().zip(&near.hits);
        for ((key, (leaf, hits)), payload) in keys.iter().zip(places).zip(&mut *payloads) {
            *payload = if K::HAS_TAILS {
                self.get_likely_among(*leaf, *hits, *key, extent)
            } else {
                self.get_among(*leaf, *hits, *key)
            };
        }
        if extent == Extent::Whole && !M::SIMULATED {
            for payload in payloads[..keys.len()].iter().flatten() {
                K::ask_for_rest(self.base, *payload);
            }
        }
    }

    /// The node that keys in order go through from `key` on.
    fn run_of(&self, key: K::Key<'_>) -> Run<M> {
        let (path, _) = self.descend_path(key, false);
        let (node, (low, high)) = path.parent::<K>();
        // A key with the head of a fence may lie on either side of it.
        let head = |fence| K::fence_head(self.base, fence, 0);
        let more = u64::from(!M::mutant("nbtree.many_keeps_head"));
        let first = if low == 0 { Some(0) } else { head(low).checked_add(more) };
        let last = if high == 0 { Some(u64::MAX) } else { head(high).checked_sub(1) };
        match (first, last) {
            (Some(first), Some(last)) => {
                Run { node: Some(node), heads: Heads { first, last }, ..Run::none() }
            }
            _ => Run::none(),
        }
    }

    /// The leaves that the inner nodes give for keys of which the first goes through the node of `run`: as long as the
    /// next one does so, too, the nodes above are not asked.
    fn go_on(&self, run: &mut Run<M>, keys: &[K::Key<'_>]) -> [Shared<Leaf<M>>; TOGETHER] {
        let (first, mut ways_down) = (self.go_on_to(run, keys[0], &mut 1), 1);
        let mut leaves = [first; TOGETHER];
        for (place, key) in leaves.iter_mut().zip(keys).skip(1) {
            *place = match run.leaf_of(K::key_head(*key, 0)) {
                Some(leaf) => leaf,
                None => self.go_on_to(run, *key, &mut ways_down),
            };
        }
        leaves
    }

    /// The leaf of a key, its lines asked for; `run` goes on with it. As long as there are `ways_down`, it is one of
    /// another node if the key is.
    fn go_on_to(&self, run: &mut Run<M>, key: K::Key<'_>, ways_down: &mut u32) -> Shared<Leaf<M>> {
        let head = K::key_head(key, 0);
        if !run.heads.have(head) {
            // Where another key comes to yet another node, they are not in order, or few for each node.
            *run = if *ways_down > 0 { self.run_of(key) } else { Run::none() };
            *ways_down = ways_down.saturating_sub(1);
        }
        let Some(node) = run.node_of(head) else { return self.descend(key) };
        let index = node.find::<K>(1, self.base, key, false);
        let leaf = node.child_at(1, index);
        ask_for_leaf::<M>(leaf);
        // SAFETY: children of level 1 are leaves, read while pinned.
        let leaf = unsafe { Shared::new(leaf.cast()) };
        (run.leaf, run.leaf_heads) = (Some(leaf), Self::heads_of(node, index, run.heads));
        leaf
    }

    /// The heads of keys that a child of a node of level 1 has for certain, among those that the node has.
    fn heads_of(node: Shared<Inner<M>>, index: usize, heads: Heads) -> Heads {
        let is_last = index + 1 == usize::from(node.count);
        // A key with the head of a fence may lie on either side of it.
        let first = if index == 0 {
            Some(heads.first)
        } else {
            node.whole_head(1, index).and_then(|head| head.checked_add(1))
        };
        let less = u64::from(!M::mutant("nbtree.many_keeps_fence"));
        let last = if is_last {
            Some(heads.last)
        } else {
            node.whole_head(1, index + 1).and_then(|head| head.checked_sub(less))
        };
        match (first, last) {
            (Some(first), Some(last)) => {
                Heads { first: first.max(heads.first), last: last.min(heads.last) }
            }
            _ => Heads::NONE,
        }
    }

    /// As [`Self::get_among`], by what the entry says, without its record, whose lines are asked for.
    #[inline(always)]
    fn get_likely_among(
        &self,
        leaf: Shared<Leaf<M>>,
        hits: u64,
        key: K::Key<'_>,
        extent: Extent,
    ) -> Option<u64> {
        let block = self.block(leaf);
        let mut rest = hits;
        while rest != 0 {
            let slot = rest.trailing_zeros() as usize;
            let entry = block.entries[slot].load();
            if K::may_be_of(key, entry) {
                if !holds(K::state(entry)) {
                    // What it was, and whether another slot has the key, takes the record.
                    return self.get_among(leaf, hits, key);
                }
                self.observe(leaf, block, slot);
                if !M::SIMULATED {
                    let record = K::reference(self.base, entry);
                    M::prefetch(record);
                    if let Extent::Until(last) = extent {
                        for ahead in (LINE_SIZE..last).step_by(LINE_SIZE) {
                            M::prefetch(record.wrapping_add(ahead));
                        }
                        M::prefetch(record.wrapping_add(last));
                    }
                }
                return Some(K::payload(entry));
            }
            rest &= rest - 1;
        }
        None
    }

    /// Performs the writes of some items one after the other, and calls `done` for each with its
    /// outcome. The session is pinned.
    ///
    /// # Errors
    /// As `write`; then `done` was called for all items before the one whose write failed, and none
    /// behind it was looked at.
    pub(crate) fn write_many<'w, 'k, T>(
        &self,
        session: &mut Session<M>,
        items: &'w [T],
        write_of: impl Fn(&'w T) -> &'w Write<'k, K, M>,
        mut done: impl FnMut(&'w T, Outcome),
    ) -> Result<(), AllocError>
    where
        'k: 'w,
        K: 'w,
    {
        for items in items.chunks(group::<M>()) {
            let leaves = self.descend_group(items.len(), |index| write_of(&items[index]).key);
            for (item, leaf) in items.iter().zip(&leaves) {
                self.prefetch_for_write(*leaf, write_of(item).key);
            }
            for (item, leaf) in items.iter().zip(&leaves) {
                self.prefetch_record(*leaf, write_of(item).key);
            }
            for (item, leaf) in items.iter().zip(leaves) {
                let write = write_of(item);
                // Acquire: as in `resolve`. The leaf may have been replaced since, also by us.
                let meta = leaf.meta.load(Ordering::Acquire);
                let (leaf, meta) = if meta & REPLACED == 0 {
                    (leaf, meta)
                } else {
                    M::mark("nbtree.many.replaced");
                    self.resolve(session, write.key)
                };
                done(item, self.write_from(session, leaf, meta, write)?);
            }
        }
        Ok(())
    }

    /// Asks for the lines of a leaf's block that a write of `key` will touch.
    #[inline(always)]
    fn prefetch_for_write(&self, leaf: Shared<Leaf<M>>, key: K::Key<'_>) {
        if M::SIMULATED {
            return;
        }
        // Relaxed: hints.
        let committed = leaf.meta.load(Ordering::Relaxed) & COMMITTED;
        let claimed = leaf.claimed.load(Ordering::Relaxed) as usize;
        let block = self.block(leaf).as_ptr().cast::<u8>();
        let hits = leaf.fingerprints.matches(K::fingerprint(key)) & committed;
        if hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            M::prefetch(block.wrapping_add(BLOCK_HEADER_SIZE + slot * 16));
        }
        if claimed < G::SLOT_COUNT {
            M::prefetch(block.wrapping_add(BLOCK_HEADER_SIZE + claimed * 16));
        } else {
            // It will be split, most likely.
            for line in (0..BLOCK_SIZE).step_by(LINE_SIZE) {
                M::prefetch(block.wrapping_add(line));
            }
        }
    }

    /// Asks for the lines of the record that a write of `key` will compare, if it seems to be there.
    #[inline(always)]
    fn prefetch_record(&self, leaf: Shared<Leaf<M>>, key: K::Key<'_>) {
        if M::SIMULATED || !K::HAS_TAILS {
            return;
        }
        // Relaxed: a hint.
        let committed = leaf.meta.load(Ordering::Relaxed) & COMMITTED;
        let hits = leaf.fingerprints.matches(K::fingerprint(key)) & committed;
        if hits != 0 {
            let entry = self.block(leaf).entries[hits.trailing_zeros() as usize].load();
            let record = K::reference(self.base, entry);
            M::prefetch(record);
            // Most records end on this line.
            M::prefetch(record.wrapping_add(LINE_SIZE - RECORD_ALIGN));
        }
    }

    /// The leaves that the inner nodes give for so many keys, their lines asked for.
    #[inline(always)]
    fn descend_group<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> K::Key<'k>,
    ) -> [Shared<Leaf<M>>; TOGETHER] {
        let root = self.root();
        let mut nodes: [*mut (); TOGETHER] = [root.as_ptr().cast(); TOGETHER];
        // Levels may differ between keys only while a new root is being installed, and then all
        // start from the root read above: they are on one level at all times.
        for level in (1..=root.level).rev() {
            for (index, place) in nodes[..count].iter_mut().enumerate() {
                // SAFETY: nodes on levels above 0 are inner nodes, read while pinned.
                let node: Shared<Inner<M>> = unsafe { Shared::new(place.cast()) };
                debug_assert_eq!(node.level, level);
                *place = node.child_at(level, node.find::<K>(level, self.base, key(index), false));
                if level > 1 {
                    Shared::<Inner<M>>::prefetch::<K>(*place, level - 1);
                } else {
                    ask_for_leaf::<M>(*place);
                }
            }
        }
        // Unused places are given the first key's leaf.
        let first = nodes[0];
        nodes[count..].fill(first);
        // SAFETY: children of level 1 are leaves, read while pinned.
        nodes.map(|node| unsafe { Shared::new(node.cast()) })
    }
}

/// Asks for the lines of a leaf.
#[inline(always)]
fn ask_for_leaf<M: Machine>(leaf: *mut ()) {
    let leaf = leaf.cast::<u8>().cast_const();
    M::prefetch(leaf);
    M::prefetch(leaf.wrapping_add(LINE_SIZE));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use everleaf_machine::Hardware;
    use everleaf_pool::{Domain, Pool};

    use super::*;
    use crate::api::change::Intent;
    use crate::bytes::entry::BytesKey;
    use crate::geometry::Tiny;
    use crate::journal::Changes;
    use crate::kind::U64Kind;
    use crate::pool_trees::nodes::BytesNodes;
    use crate::{BatchOp, Change, Trees};

    fn trees(size_max: u64) -> Trees {
        let pool = Pool::in_memory(1 << 20, size_max, Domain::Process).expect("memory");
        Trees::create(pool).expect("room")
    }

    #[test]
    fn many_writes_at_once_do_what_they_do_one_by_one() {
        let trees = trees(1 << 30);
        let mut session = trees.heap().session().expect("a session");
        let tree = NbTree::<U64Kind, Tiny<4, 3>, Hardware>::create(&mut session, 77).expect("room");
        let mut expected = BTreeMap::new();
        let mut number = 1_u64;
        for round in 0..200 {
            let writes: Vec<Write<'_, U64Kind, Hardware>> = (0..70)
                .map(|payload| {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let intents = [Intent::Upsert, Intent::Upsert, Intent::Insert, Intent::Remove];
                    let intent = intents[(number >> 60) as usize % 4];
                    Write { key: number >> 40 & 0x1ff, intent, payload: round * 100 + payload }
                })
                .collect();
            let mut outcomes = vec![];
            let mut pinned = session.pinned();
            tree.write_many(
                &mut pinned,
                &writes,
                |write| write,
                |_, outcome| {
                    outcomes.push(outcome);
                },
            )
            .expect("room");
            for (write, outcome) in writes.iter().zip(&outcomes) {
                let before = expected.get(&write.key).copied();
                assert_eq!(outcome.old, before);
                assert_eq!((*outcome, before), (write.intent.decide(before).0, before));
                match write.intent {
                    Intent::Remove => drop(expected.remove(&write.key)),
                    Intent::Insert if before.is_some() => {}
                    _ => drop(expected.insert(write.key, write.payload)),
                }
            }
            assert_eq!(outcomes.len(), writes.len());
        }
        for key in 0..0x200 {
            let found = tree.get_payload(&mut session.pinned(), key);
            assert_eq!(found, expected.get(&key).copied(), "{key}");
        }
        tree.free_all(&mut session);
    }

    #[test]
    fn a_removal_of_a_batch_waits_for_the_space_of_its_leaf() {
        let trees = trees(4 << 20);
        let tree = trees.bytes_tree("t").expect("room");
        let heap = trees.heap();
        let mut owner = heap.session().expect("a session");
        tree.change(&mut owner, &Change::insert(b"key", b"value")).expect("room");
        owner.reserve_blocks(4).expect("room");
        let mut waster = heap.session().expect("a session");
        while waster.allocate_block().is_ok() {}
        let removal = BatchOp::remove(&tree, b"key");
        let leaf_of = |nodes: &NbTree<_, _, _>, session: &mut Session<Hardware>| {
            nodes.resolve(session, BytesKey::new(b"key")).0
        };
        let frozen = tree.cell().with(&mut owner, |nodes, owner| {
            let BytesNodes::NbTree(nodes) = nodes else { panic!("another tree was made") };
            nodes.freeze(leaf_of(nodes, owner));
        });
        frozen.expect("there");
        std::thread::scope(|scope| {
            let batch = scope.spawn(|| {
                let mut session = heap.session().expect("a session");
                let mut changes = Changes::with_capacity(1);
                changes.prepare_without_blocks(&mut session, &[removal])?;
                changes.make(&mut session)
            });
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            assert!(!batch.is_finished(), "its leaf is frozen, and there is no space to help");
            let replaced = tree.cell().with(&mut owner, |nodes, owner| {
                let BytesNodes::NbTree(nodes) = nodes else { panic!("another tree was made") };
                let leaf = leaf_of(nodes, owner);
                nodes.replace_leaf(owner, leaf, None).map(|_| ())
            });
            replaced.expect("there").expect("the space that was put by");
            batch.join().expect("no panic").expect("it was only late");
        });
        let found = tree.get_with(&mut owner, b"key", <[u8]>::to_vec).expect("there");
        assert_eq!(found, None);
    }
}
