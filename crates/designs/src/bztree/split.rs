//! Replacing nodes: consolidation, splits, and what they change above. No node is changed but by exchanges of
//! one child; whatever else is to change is copied.
//!
//! ```text
//!        root                 root              1. freeze L, and P because it gets a child more
//!         |                    |  <- exchange   2. build L', L'' and P', persist them
//!         P           ==>      P'               3. exchange the link to P, if what has it is active
//!       / | \                / | | \            4. retire L and P
//!      .  L  .              . L' L'' .
//! ```
//!
//! If P has no room, it becomes two nodes, and the node above is copied likewise: still one exchange. A thread that
//! comes upon a frozen node builds such copies too; one exchange succeeds.
//!
//! If the pool has no room for that, what was frozen is copied as it is (`thaw`), or not even updates and removals
//! could go on there. It cannot become active again itself: others may have copied it. Each node is frozen by a
//! thread that has a node for such a copy of it, and of all that it has frozen before; it keeps them until its nodes
//! are replaced, also while no descriptor is free. That includes P if another thread has replaced L before P was
//! frozen: nobody else would copy P for that (`thaw_holders`).

use everleaf_alloc::{AllocError, Session};
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_machine::{Machine, Ordering};

use super::BzTree;
use super::design::{collects_every, tries};
use super::layout::{LEAF, PAIR_SIZE, SHAPE, meta_at, node_size};
use super::scan::Pairs;
use super::search::Step;
use super::state::{FREE, Status, VISIBLE};
use super::variant::Variant;
use super::write::{Attempt, Done, Stop};
use crate::node::pmwcas::Entry;
use crate::node::version_lock::Retry;

/// Nodes for a change above a leaf: what it may build, what it has built, and what it replaces.
#[derive(Debug, Default)]
pub(super) struct Rebuild {
    spare: Vec<u64>,
    built: Vec<u64>,
    replaced: Vec<u64>,
    /// What the caller has frozen for a child that was another's already. They outlast attempts.
    in_vain: Vec<u64>,
}

/// Children of a node to be replaced.
#[derive(Debug)]
pub(super) struct Edit {
    /// The first one.
    pub at: usize,
    /// How many.
    pub count: usize,
    /// By what: lower bounds, the first of which does not matter, and nodes.
    pub by: Pairs,
}

impl Rebuild {
    /// Says that a node will be replaced.
    pub fn replaces(&mut self, node: u64) {
        self.replaced.push(node);
    }

    /// Begins anew with the nodes that it has.
    pub fn restart(&mut self) {
        self.spare.append(&mut self.built);
        self.replaced.clear();
    }

    /// How many nodes it has that are not built yet.
    pub fn spare_count(&self) -> usize {
        self.spare.len()
    }
}

/// How often one tries to replace a frozen node for whose copy there is room.
pub(super) const fn thaw_tries<M: Machine>() -> u32 {
    if M::SIMULATED { 100 } else { 1000 }
}

impl<V: Variant, M: Machine> BzTree<V, M> {
    /// Bytes of a node.
    pub(super) const NODE_SIZE: usize = node_size(V::SLOT_COUNT, V::CHILD_COUNT);

    /// Makes room for the nodes of a change before anything is frozen: for a copy of what is to be frozen, at
    /// least.
    pub(super) fn begin(
        &self,
        session: &mut Session<M>,
        count: usize,
    ) -> Result<Rebuild, AllocError> {
        let mut rebuild = Rebuild::default();
        for _ in 0..count {
            match session.allocate_record(Self::NODE_SIZE) {
                Ok(node) => rebuild.spare.push(node),
                Err(error) => {
                    self.end(session, rebuild, false);
                    return Err(error);
                }
            }
        }
        Ok(rebuild)
    }

    /// Gives back what a change has left over: what was replaced, if it was made, and else what was built.
    pub(super) fn end(&self, session: &mut Session<M>, mut rebuild: Rebuild, is_made: bool) {
        if is_made {
            self.commit(session, &mut rebuild);
        }
        for node in rebuild.spare.into_iter().chain(rebuild.built) {
            session.free_record(node, Self::NODE_SIZE);
        }
    }

    /// Gives back what was replaced: what was built is part of the tree.
    fn commit(&self, session: &mut Session<M>, rebuild: &mut Rebuild) {
        rebuild.built.clear();
        for node in rebuild.replaced.drain(..) {
            if M::mutant("bztree.frees_at_once") {
                session.free_record(node, Self::NODE_SIZE);
            } else {
                session.retire_record(node, Self::NODE_SIZE);
            }
        }
    }

    /// Builds a node of these pairs, durably.
    pub(super) fn build(
        &self,
        session: &mut Session<M>,
        rebuild: &mut Rebuild,
        is_leaf: bool,
        pairs: &[(u64, u64)],
    ) -> Result<u64, AllocError> {
        let node = match rebuild.spare.pop() {
            Some(node) => node,
            None => session.allocate_record(Self::NODE_SIZE)?,
        };
        rebuild.built.push(node);
        self.write_node(node, is_leaf, pairs);
        if !M::mutant("bztree.no_node_flush") {
            // Persist: the node before a link leads to it (Z1).
            self.medium.persist(self.word(node).as_ptr(), Self::NODE_SIZE);
        }
        Ok(node)
    }

    /// Fills a node that nobody else has seen.
    pub(super) fn write_node(&self, node: u64, is_leaf: bool, pairs: &[(u64, u64)]) {
        self.word(node).write_private(Status::of(pairs.len()).0);
        let leaf = if is_leaf { LEAF } else { 0 };
        self.word(node + SHAPE).write_private(leaf | pairs.len() as u64);
        for slot in 0..if is_leaf { V::SLOT_COUNT } else { 0 } {
            let meta = if slot < pairs.len() { VISIBLE } else { FREE };
            self.word(node + meta_at(slot)).write_private(meta);
        }
        let mut place = node + Self::pairs_of(is_leaf);
        for (key, value) in pairs {
            self.word(place).write_private(*key);
            self.word(place + 8).write_private(*value);
            place += PAIR_SIZE;
        }
    }

    /// Builds one node of these pairs, or two if they are more than `most`; gives bounds and nodes.
    pub(super) fn build_parts(
        &self,
        session: &mut Session<M>,
        rebuild: &mut Rebuild,
        (is_leaf, most): (bool, usize),
        pairs: &[(u64, u64)],
    ) -> Result<Pairs, AllocError> {
        let middle = if pairs.len() > most { pairs.len().div_ceil(2) } else { pairs.len() };
        let (left, right) = pairs.split_at(middle);
        let mut parts = vec![(0, self.build(session, rebuild, is_leaf, left)?)];
        if let Some((bound, _)) = right.first() {
            parts.push((*bound, self.build(session, rebuild, is_leaf, right)?));
        }
        Ok(parts)
    }

    /// How many pairs a new leaf may have, so that it has room for more.
    pub(super) const LEAF_MAX: usize = V::SLOT_COUNT * 3 / 4;
    /// A leaf of so many pairs has little.
    pub(super) const THIN: usize = Self::LEAF_MAX / 4;

    /// Replaces a leaf that is full or frozen by one without what is gone, or by two, in which the caller's write
    /// is done. Others may have replaced it; then the caller looks again.
    ///
    /// Places that others have reserved in the leaf are lost to them. So the thread that takes them away gets on
    /// itself: else threads that add pairs could take each other's last place away for ever.
    ///
    /// *Linearizes at* the exchange of the link. *Durable* when it returns.
    pub(super) fn replace(
        &self,
        session: &mut Session<M>,
        leaf: u64,
        change: &Change,
    ) -> Attempt<Done> {
        let mut kept = None;
        let mut done = Ok(None);
        for round in 1..=thaw_tries::<M>() {
            let path = self.find_path(session.stripe(), change.key);
            if path.last().is_none_or(|last| last.node != leaf) {
                done = Ok(None);
                break;
            }
            // Kept for the next attempt: given to others, there might be none then, and the leaf would stay frozen.
            let rebuild = match &mut kept {
                Some(rebuild) => rebuild,
                none => none.insert(self.begin_replace(session, leaf)?),
            };
            rebuild.restart();
            done = self.try_replace(session, rebuild, (leaf, &path), change);
            match &done {
                Ok(None) if round < thaw_tries::<M>() => {}
                Ok(None) => self.gives_up_frozen(),
                Err(Stop::NoDescriptor) if !M::mutant("bztree.leaves_frozen") => {
                    if !self.waited_for_descriptor(session) {
                        done = Err(AllocError::DescriptorsInUse(self.words.count()).into());
                        break;
                    }
                }
                _ => break,
            }
        }
        if let Some(mut rebuild) = kept {
            match &done {
                Ok(Some(_)) => self.commit(session, &mut rebuild),
                Ok(None) => {}
                Err(stop) if stop.lacks_space() => {
                    self.thaw(session, &mut rebuild, change.key, leaf);
                }
                Err(_) => self.gives_up_frozen(),
            }
            self.thaw_holders(session, &mut rebuild, change.key);
            self.end(session, rebuild, false);
        }
        Ok(done?.flatten().ok_or(Retry::Now))
    }

    /// One attempt to replace a leaf, with nodes that the caller has and keeps: none if something has changed, or else
    /// what came of the write, if that was done.
    fn try_replace(
        &self,
        session: &mut Session<M>,
        rebuild: &mut Rebuild,
        (leaf, path): (u64, &[Step]),
        change: &Change,
    ) -> Result<Option<Option<Done>>, Stop> {
        let stripe = session.stripe();
        if !M::mutant("bztree.copies_active_leaf") {
            self.freeze(stripe, leaf);
        }
        let mut pairs = self.pairs(stripe, leaf);
        let carried = (!M::mutant("bztree.no_carry")).then(|| carry(change, &mut pairs));
        // One more than usual, if it is the caller's: then nothing is split that would not be without it.
        let most = Self::LEAF_MAX + carried.map_or(0, |(_, added)| added);
        M::mark(if pairs.len() > most { "bztree.split" } else { "bztree.consolidate" });
        rebuild.replaces(leaf);
        let by = self.build_parts(session, rebuild, (true, most), &pairs)?;
        if !self.substitute(session, rebuild, path, by)? {
            return Ok(None);
        }
        M::mark("bztree.replaced");
        let is_thin = change.intent.removes() && pairs.len() <= Self::THIN;
        Ok(Some(carried.map(|(outcome, _)| Done { outcome, is_thin })))
    }

    /// Waits for a descriptor, for a while; returns whether one can be had. Descriptors are free when all that could
    /// help with them have ended their pins, so the caller's is ended, and begun anew: what it knows of nodes is of no
    /// use then.
    pub(super) fn waited_for_descriptor(&self, session: &mut Session<M>) -> bool {
        M::mark("bztree.keeps_nodes");
        for attempt in 0..tries::<M>() {
            session.unpin();
            session.heap().advance_epoch();
            session.pin();
            if self.words.has_free() {
                return true;
            }
            M::spin(attempt);
        }
        false
    }

    /// Makes room for the replacement of a leaf: for two leaves and a copy of what is above, or for one leaf. If it
    /// turns out to need more, that is allocated then.
    fn begin_replace(&self, session: &mut Session<M>, leaf: u64) -> Result<Rebuild, AllocError> {
        let stripe = session.stripe();
        let is_split = self.pairs(stripe, leaf).len() > Self::LEAF_MAX;
        match self.begin(session, if is_split { 3 } else { 1 }) {
            Err(error) if error.lacks_space() && self.status(stripe, leaf).is_frozen() => {
                // It must not stay so.
                self.begin(session, 1).map_err(|_| error)
            }
            begun => begun,
        }
    }

    /// Replaces a frozen node on the way to `key`, and what is frozen above it, by copies as they are, with the
    /// nodes that the caller has. What cannot be replaced in so many attempts stays frozen: then others use all
    /// descriptors, or do not get on with what is above, and a later write has to do it.
    ///
    /// It may end the caller's pin and begin another: what the caller knows of nodes is of no use behind it.
    pub(super) fn thaw(
        &self,
        session: &mut Session<M>,
        rebuild: &mut Rebuild,
        key: u64,
        node: u64,
    ) {
        let stripe = session.stripe();
        for attempt in 0..thaw_tries::<M>() {
            rebuild.restart();
            // The path first: behind another pin `node` may be anything, unless it is there.
            let path = self.find_path(stripe, key);
            let Some(level) = path.iter().position(|step| step.node == node) else { return };
            if !self.status(stripe, node).is_frozen() {
                return;
            }
            rebuild.replaces(node);
            let (is_leaf, _) = self.shape(node);
            let contents = self.contents(stripe, node, is_leaf);
            let done =
                self.build(session, rebuild, is_leaf, &contents).map_err(Stop::from).and_then(
                    |copy| self.substitute(session, rebuild, &path[..=level], vec![(0, copy)]),
                );
            match done {
                Ok(true) => return self.commit(session, rebuild),
                Ok(false) => {}
                // Nodes that are given up here go to others, and nobody may have one to replace what is frozen.
                Err(Stop::NoDescriptor) if !M::mutant("bztree.leaves_frozen") => {
                    if !self.waited_for_descriptor(session) {
                        break;
                    }
                    continue;
                }
                // The thread that has frozen what is above has a node for a copy of it.
                Err(stop) if stop.lacks_space() => {
                    if attempt % collects_every::<M>() == 0 {
                        self.collect_retired(session);
                        continue;
                    }
                }
                Err(_) => break,
            }
            M::spin(attempt);
        }
        self.gives_up_frozen();
        rebuild.restart();
    }

    /// Notes that the caller leaves a node frozen that it could not replace.
    fn gives_up_frozen(&self) {
        // Relaxed: read when nobody is active.
        self.has_left_frozen.store(1, Ordering::Relaxed);
    }

    /// Makes room of what the session has retired: another copy may have taken the place of that. It ends the
    /// caller's pin, behind which nothing that it retired would become free, and begins another.
    fn collect_retired(&self, session: &mut Session<M>) {
        session.unpin();
        session.collect_all();
        session.pin();
    }

    /// Thaws what the caller has frozen in vain on the way to `key`: others know of no work there, and may have no room
    /// for a copy. It may end the caller's pin and begin another.
    pub(super) fn thaw_holders(&self, session: &mut Session<M>, rebuild: &mut Rebuild, key: u64) {
        while let Some(holder) = rebuild.in_vain.pop() {
            if !M::mutant("bztree.leaves_holder") {
                self.thaw(session, rebuild, key, holder);
            }
        }
    }

    /// Puts nodes in the place of the last one of a path. False if something has changed there.
    pub(super) fn substitute(
        &self,
        session: &mut Session<M>,
        rebuild: &mut Rebuild,
        path: &[Step],
        by: Pairs,
    ) -> Result<bool, Stop> {
        let [above @ .., last] = path else { return Ok(false) };
        let Some(holder) = above.last() else {
            return self.set_root(session, rebuild, last.node, by);
        };
        let (stripe, index) = (session.stripe(), holder.index);
        let status = self.status(stripe, holder.node);
        if let [(_, node)] = by[..]
            && (!status.is_frozen() || M::mutant("bztree.swap_ignores_freeze"))
        {
            let address = Self::child_at(holder.node, index);
            let child = Entry { address, old: last.node, new: node };
            let active = Entry { address: holder.node, old: status.0, new: status.0 };
            return self.exchange(session, &mut [active, child]);
        }
        if self.child(stripe, holder.node, index) != last.node {
            return Ok(false);
        }
        self.edit(session, rebuild, above, Edit { at: index, count: 1, by })
    }

    /// Replaces the last node of a path, an inner one, by a copy with other children, or two.
    pub(super) fn edit(
        &self,
        session: &mut Session<M>,
        rebuild: &mut Rebuild,
        path: &[Step],
        edit: Edit,
    ) -> Result<bool, Stop> {
        let [above @ .., last] = path else { return Ok(false) };
        let (stripe, holder) = (session.stripe(), last.node);
        let is_own = !M::mutant("bztree.copies_active_inner") && self.freeze(stripe, holder);
        M::mark("bztree.copy_inner");
        let mut children = self.children(stripe, holder);
        let Edit { at, count, mut by } = edit;
        if !rebuild.replaced.iter().any(|node| *node == children[at].1) {
            // Another thread has replaced it before the holder was frozen.
            if is_own {
                rebuild.in_vain.push(holder);
            }
            return Ok(false);
        }
        by[0].0 = children[at].0;
        children.splice(at..at + count, by);
        rebuild.replaces(holder);
        if let ([], [(_, child)]) = (above, &children[..]) {
            M::mark("bztree.root_goes");
            return self.set_root(session, rebuild, holder, vec![(0, *child)]);
        }
        let by = self.build_parts(session, rebuild, (false, V::CHILD_COUNT), &children)?;
        self.substitute(session, rebuild, path, by)
    }

    /// The children of an inner node, with their lower bounds.
    pub(super) fn children(&self, stripe: usize, inner: u64) -> Pairs {
        let (_, count) = self.shape(inner);
        let child = |index| (self.key(inner, false, index), self.child(stripe, inner, index));
        (0..count).map(child).collect()
    }

    /// Makes a node the root, or one above several.
    fn set_root(
        &self,
        session: &mut Session<M>,
        rebuild: &mut Rebuild,
        old: u64,
        by: Pairs,
    ) -> Result<bool, Stop> {
        let new = match by[..] {
            [(_, node)] => node,
            _ => {
                M::mark("bztree.new_root");
                self.build(session, rebuild, false, &by)?
            }
        };
        self.exchange(session, &mut [Entry { address: self.root_place, old, new }])
    }
}

/// Does a write on the pairs of a frozen leaf; gives what comes of it, and how many pairs are added.
fn carry(change: &Change, pairs: &mut Pairs) -> (Outcome, usize) {
    let place = pairs.binary_search_by_key(&change.key, |pair| pair.0);
    let (outcome, effect) = change.decide(place.ok().map(|at| pairs[at].1));
    match (effect, place) {
        (Effect::Put, Ok(at)) => pairs[at].1 = change.value,
        (Effect::Put, Err(at)) => {
            pairs.insert(at, (change.key, change.value));
            return (outcome, 1);
        }
        (Effect::Delete, Ok(at)) => {
            pairs.remove(at);
        }
        _ => {}
    }
    (outcome, 0)
}
