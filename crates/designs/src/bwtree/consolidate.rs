//! Chains that became long are replaced by one base.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use super::layout::{CAPACITY, Kind, Record, RecordRef};
use super::{BwTree, ROOT};

impl<const PAIRS: usize, const CHAIN: u64, M: Machine> BwTree<PAIRS, CHAIN, M> {
    /// The base of a page.
    pub(super) fn base(&self, top: RecordRef<'_, M>) -> RecordRef<'_, M> {
        let mut record = self.record(top.place());
        while record.kind() != Kind::Base {
            record = self.record(record.next());
        }
        record
    }

    /// All pairs of a page as its topmost record knows it, ascending.
    pub(super) fn pairs(&self, top: RecordRef<'_, M>) -> Vec<(u64, u64)> {
        let mut deltas: Vec<(u64, Option<u64>)> = vec![];
        let mut record = top;
        while record.kind() != Kind::Base {
            match record.kind() {
                Kind::Insert | Kind::Update => deltas.push((record.key(), Some(record.value()))),
                Kind::Delete if !M::mutant("bwtree.forgets_removals") => {
                    deltas.push((record.key(), None));
                }
                _ => {}
            }
            record = self.record(record.next());
        }
        // The topmost of a key comes first, and is the one that counts.
        if M::mutant("bwtree.oldest_first") {
            deltas.reverse();
        }
        deltas.sort_by_key(|(key, _)| *key);
        deltas.dedup_by_key(|(key, _)| *key);
        let mut deltas = deltas.into_iter().peekable();
        let mut pairs = Vec::with_capacity(record.count() + deltas.len());
        let mut add = |key, value: Option<u64>| pairs.extend(value.map(|value| (key, value)));
        for index in 0..record.count() {
            let key = record.key_at(index);
            while let Some((key, value)) = deltas.next_if(|delta| delta.0 < key) {
                add(key, value);
            }
            match deltas.next_if(|delta| delta.0 == key) {
                Some((key, value)) => add(key, value),
                None => add(key, Some(record.value_at(index))),
            }
        }
        deltas.for_each(|(key, value)| add(key, value));
        // What a split has moved is in the page on the right.
        if let Some((high, _)) = top.end()
            && !M::mutant("bwtree.keeps_moved")
        {
            pairs.truncate(pairs.partition_point(|(key, _)| *key < high));
        }
        pairs
    }

    /// Makes one base of a page that has become long, or splits it if it has too many pairs. If somebody else
    /// changes it meanwhile it stays as it is.
    ///
    /// # Errors
    /// No memory; then it stays as it is, too.
    pub(super) fn consolidate(
        &self,
        session: &mut Session<M>,
        page: u64,
    ) -> Result<(), AllocError> {
        let top = self.top(page);
        if top.depth() < CHAIN {
            return Ok(());
        }
        let pairs = self.pairs(top);
        if pairs.len() > PAIRS {
            let has_room = match page {
                ROOT => self.grow(session, top, &pairs),
                _ => self.split(session, page, top, &pairs),
            };
            // Without room for another page, one base is better than a chain that only grows.
            if has_room {
                return Ok(());
            }
            if pairs.len() > CAPACITY {
                return Err(AllocError::OutOfMemory);
            }
        }
        let low = self.base(top).key();
        let base = Record::make_base(session, top.level(), low, top.end(), &pairs)?;
        self.install(session, page, top, base);
        Ok(())
    }

    /// Whether nothing may be put on a page's topmost record before somebody has made a base of them (B5).
    #[inline(always)]
    pub(super) fn is_full(&self, top: RecordRef<'_, M>) -> bool {
        top.depth() >= Self::CHAIN_MAX && !M::mutant("bwtree.no_bound")
    }

    /// Puts a base in the place of a chain, which goes; or frees the base if the chain has changed.
    pub(super) fn install(
        &self,
        session: &mut Session<M>,
        page: u64,
        top: RecordRef<'_, M>,
        base: *mut Record<M>,
    ) -> bool {
        if M::mutant("bwtree.blind_install") {
            self.table.set(page, base);
        } else if !self.table.change(page, top.place(), base) {
            M::mark("bwtree.consolidated_in_vain");
            let size = self.record(base).size();
            // SAFETY: made by the caller; nobody else has seen it.
            unsafe { session.free_node(base.cast(), size) };
            return false;
        }
        self.retire_chain(session, top);
        true
    }

    /// Gives a chain back that has left the table.
    fn retire_chain(&self, session: &mut Session<M>, top: RecordRef<'_, M>) {
        let mut record = top.place();
        while !record.is_null() {
            let (next, size) = (self.record(record).next(), self.record(record).size());
            if M::mutant("bwtree.free_at_once") {
                // SAFETY: planted: others may still read it.
                unsafe { session.free_node(record.cast(), size) };
            } else {
                // SAFETY: made with this size; only the thread that took the chain out of the table, the caller,
                // retires it. A thread that is pinned may still read it.
                unsafe { session.retire_node(record.cast(), size) };
            }
            record = next;
        }
    }
}
