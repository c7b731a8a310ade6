//! Splits: a new page, a split record on the old one, and then a child in the page above.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use super::layout::{CAPACITY, End, Kind, Record, RecordRef};
use super::{BwTree, ROOT};

impl<const PAIRS: usize, const CHAIN: u64, M: Machine> BwTree<PAIRS, CHAIN, M> {
    /// A new page, which nothing leads to.
    fn make_page(
        &self,
        session: &mut Session<M>,
        level: u64,
        low: u64,
        end: End,
        pairs: &[(u64, u64)],
    ) -> Result<u64, AllocError> {
        let page = self.table.take(session)?;
        match Record::make_base(session, level, low, end, pairs) {
            Ok(base) => {
                self.table.set(page, base);
                Ok(page)
            }
            Err(error) => {
                self.table.give_back(page);
                Err(error)
            }
        }
    }

    /// Takes back a new page that nothing leads to.
    fn unmake_page(&self, session: &mut Session<M>, page: u64) {
        let base = self.table.top(page);
        let size = self.record(base).size();
        self.table.set(page, std::ptr::null_mut());
        // SAFETY: made by the caller; nobody else has seen the page.
        unsafe { session.free_node(base.cast(), size) };
        self.table.give_back(page);
    }

    /// Moves the upper half of a page, whose pairs these are, to a new page, unless the page has changed
    /// meanwhile. False if there was no room for the new page.
    pub(super) fn split(
        &self,
        session: &mut Session<M>,
        page: u64,
        top: RecordRef<'_, M>,
        pairs: &[(u64, u64)],
    ) -> bool {
        // A page that many write at once can have become very long.
        let half = (pairs.len() / 2).max(pairs.len().saturating_sub(CAPACITY));
        let (level, middle) = (top.level(), pairs[half].0);
        let Ok(right) = self.make_page(session, level, middle, top.end(), &pairs[half..]) else {
            return false;
        };
        let top = if M::mutant("bwtree.stale_split") { self.top(page) } else { top };
        let Ok(delta) = Record::make_delta(session, Kind::Split, top, (middle, right)) else {
            self.unmake_page(session, right);
            return false;
        };
        if !self.table.change(page, top.place(), delta) {
            M::mark("bwtree.split_in_vain");
            // SAFETY: made above, of one line; nobody else has seen it.
            unsafe { session.free_node(delta.cast(), size_of::<Record<M>>()) };
            self.unmake_page(session, right);
            return true;
        }
        self.splits.add(session.stripe(), 1);
        self.enter(session, level, middle, right);
        true
    }

    /// Tells the page above a level that keys from `low` on are in `child`, unless it knows. Without memory
    /// it stays as it is: searches go to the right, and try again.
    pub(super) fn enter(&self, session: &mut Session<M>, level: u64, low: u64, child: u64) {
        loop {
            let (page, top) = self.find(session, low, level + 1);
            if self.child(top, low) == (low, child) {
                return;
            }
            if self.is_full(top) {
                match self.consolidate(session, page) {
                    Ok(()) => continue,
                    Err(_) => return,
                }
            }
            let Ok(delta) = Record::make_delta(session, Kind::Insert, top, (low, child)) else {
                return;
            };
            if self.put_on(session, page, top, delta) {
                return;
            }
        }
    }

    /// Moves all of the root, whose pairs these are, to two new pages below it, at one instant; to more of
    /// them if it has become very long. False if there was no room for them.
    pub(super) fn grow(
        &self,
        session: &mut Session<M>,
        top: RecordRef<'_, M>,
        pairs: &[(u64, u64)],
    ) -> bool {
        let part = pairs.len().div_ceil(2).min(CAPACITY);
        let level = top.level();
        let (mut children, mut end) = (vec![], None);
        for (number, pairs) in pairs.chunks(part).enumerate().rev() {
            // The first one begins where the root does.
            let low = if number == 0 { 0 } else { pairs[0].0 };
            let Ok(page) = self.make_page(session, level, low, end, pairs) else { break };
            children.push((low, page));
            end = Some((low, page));
        }
        children.reverse();
        let is_whole = children.first().is_some_and(|child| child.0 == 0);
        let root = if is_whole {
            Record::make_base(session, level + 1, 0, None, &children).ok()
        } else {
            None
        };
        if root.is_some_and(|root| self.install(session, ROOT, top, root)) {
            self.splits.add(session.stripe(), 1);
            return true;
        }
        for (_, page) in children {
            self.unmake_page(session, page);
        }
        // With room for all somebody else was faster.
        root.is_some()
    }
}
