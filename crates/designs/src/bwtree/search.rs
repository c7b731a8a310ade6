//! From a key to its page, and what a page says of a key. Callers are pinned.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::layout::{Kind, Record, RecordRef};
use super::{BwTree, ROOT};

/// A page, and its topmost record at some moment.
pub(super) type Page<'t, M> = (u64, RecordRef<'t, M>);

impl<const PAIRS: usize, const CHAIN: u64, M: Machine> BwTree<PAIRS, CHAIN, M> {
    /// A record that the table or another record led to.
    #[inline(always)]
    pub(super) fn record(&self, record: *mut Record<M>) -> RecordRef<'_, M> {
        // SAFETY: it was complete before it could be reached, and does not change; the caller is pinned since
        // before that, so one that was replaced meanwhile is still there.
        unsafe { RecordRef::new(record) }
    }

    /// The topmost record of a page that something leads to (B2).
    #[inline(always)]
    #[track_caller]
    pub(super) fn top(&self, page: u64) -> RecordRef<'_, M> {
        self.record(self.table.top(page))
    }

    /// The page of `key` at a level that there is, and its topmost record.
    #[inline(always)]
    pub(super) fn find(&self, session: &mut Session<M>, key: u64, level: u64) -> Page<'_, M> {
        let mut page = ROOT;
        loop {
            let top = self.top(page);
            if let Some((high, right)) = top.end()
                && key >= high
                && !M::mutant("bwtree.no_range_check")
            {
                // The page above did not know of the split yet: a thread that comes by tells it.
                M::mark("bwtree.help");
                self.enter(session, top.level(), high, right);
                page = right;
                continue;
            }
            if top.level() == level {
                return (page, top);
            }
            page = self.child(top, key).1;
        }
    }

    /// The child for `key` of an inner page, and from which key on it is: the greatest up to `key`.
    #[inline(always)]
    pub(super) fn child(&self, top: RecordRef<'_, M>, key: u64) -> (u64, u64) {
        let mut record = top;
        let mut best: Option<(u64, u64)> = None;
        while record.kind() != Kind::Base {
            let low = record.key();
            let is_closer = low <= key && best.is_none_or(|best| low > best.0);
            if record.kind() == Kind::Insert && is_closer {
                best = Some((low, record.value()));
            }
            record = self.record(record.next());
        }
        // A base has its low key at least, which is not greater than any that is looked for.
        let rank = record.rank(key).saturating_sub(1);
        let of_base = (record.key_at(rank), record.value_at(rank));
        best.filter(|best| best.0 > of_base.0).unwrap_or(of_base)
    }

    /// The value of `key` in a leaf: what the topmost record that names it says, or else the base.
    #[inline(always)]
    pub(super) fn value(&self, top: RecordRef<'_, M>, key: u64) -> Option<u64> {
        let mut record = top;
        loop {
            match record.kind() {
                Kind::Insert | Kind::Update if record.key() == key => return Some(record.value()),
                Kind::Delete if record.key() == key => return None,
                Kind::Base => {
                    let rank = record.rank(key).checked_sub(1)?;
                    return (record.key_at(rank) == key).then(|| record.value_at(rank));
                }
                _ => record = self.record(record.next()),
            }
        }
    }

    /// The value of `key`.
    ///
    /// *Linearizes at* the load of the leaf's topmost record.
    #[inline(always)]
    pub(super) fn read(&self, session: &mut Session<M>, key: u64) -> Option<u64> {
        let (_, top) = self.find(session, key, 0);
        self.value(top, key)
    }
}
