//! Scans: pages of the global tree with what was pending before the page was read put over them.

use everleaf_alloc::Session;
use everleaf_index::build::Way;
use everleaf_index::{IndexError, OrderedIndex, TreeShape};
use everleaf_machine::Machine;

use super::F3Tree;
use super::pending::Page;
use super::search::is_under_way;
use super::variant::Variant;

/// Pairs of the global tree, or keys of a shard, that a page is made of.
const PAGE: usize = 256;

/// Whether `key` comes after `other`.
fn is_after(way: Way, key: u64, other: u64) -> bool {
    if way == Way::Up { key > other } else { key < other }
}

/// The key that comes next.
fn key_after(way: Way, key: u64) -> Option<u64> {
    if way == Way::Up { key.checked_add(1) } else { key.checked_sub(1) }
}

impl<V: Variant, M: Machine> F3Tree<V, M> {
    /// Appends up to `limit` pairs from `from` on.
    pub(super) fn scan_pages(
        &self,
        session: &mut Session<M>,
        way: Way,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        let end = pairs.len().saturating_add(limit);
        let mut next = Some(from);
        while let Some(from) = next
            && pairs.len() < end
        {
            let direct = self.direct_writes();
            // A thread that writes to the global tree without an entry holds this.
            let turn = is_under_way(direct).then(|| self.direct_turn.lock());
            let start = pairs.len();
            let last = self.scan_page(session, way, from, end - start, pairs)?;
            if turn.is_none() && !self.is_durable_since(direct) {
                pairs.truncate(start);
                continue;
            }
            pairs.truncate(end);
            next = key_after(way, last);
        }
        Ok(())
    }

    /// Appends the pairs of a page. Returns the last key up to which they are all.
    fn scan_page(
        &self,
        session: &mut Session<M>,
        way: Way,
        from: u64,
        wanted: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<u64, IndexError> {
        let limit = wanted.min(PAGE);
        let pending = match way {
            Way::Up => self.table.page_up(from, limit),
            Way::Down => self.table.page_down(from, limit),
        };
        let mut stored = vec![];
        // The table first: what leaves it is in the tree before, so no key is missed.
        self.scan_global(session, way, from, limit, &mut stored)?;
        let bound = match stored.last() {
            Some((last, _)) if stored.len() == limit && is_after(way, pending.bound, *last) => {
                *last
            }
            _ => pending.bound,
        };
        merge(way, bound, &stored, &pending, pairs);
        Ok(bound)
    }

    fn scan_global(
        &self,
        session: &mut Session<M>,
        way: Way,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), IndexError> {
        match way {
            Way::Up => self.global.scan(session, from, limit, pairs),
            Way::Down => self.global.scan_back(session, from, limit, pairs),
        }
    }

    /// Walks the whole tree, with what is pending.
    pub(super) fn count(&self, session: &mut Session<M>) -> Result<TreeShape, IndexError> {
        let mut shape = self.global.shape(session)?;
        for shard in self.table.shards() {
            for (key, pending) in shard.lock().keys().iter() {
                let stored = self.global.get(session, *key)?;
                match (stored, pending.current()) {
                    (None, Some(_)) => shape.keys += 1,
                    // (Beside writers the counts are of different moments.)
                    (Some(_), None) => shape.keys = shape.keys.saturating_sub(1),
                    _ => {}
                }
            }
        }
        Ok(shape)
    }
}

/// Appends `stored` with `pending` over it, up to `bound`.
fn merge(way: Way, bound: u64, stored: &[(u64, u64)], pending: &Page, pairs: &mut Vec<(u64, u64)>) {
    let within = |key: u64| !is_after(way, key, bound);
    let mut stored = stored.iter().copied().filter(|(key, _)| within(*key)).peekable();
    for (key, value) in pending.keys.iter().filter(|(key, _)| within(*key)) {
        while let Some(pair) = stored.next_if(|(other, _)| is_after(way, *key, *other)) {
            pairs.push(pair);
        }
        stored.next_if(|(other, _)| other == key);
        pairs.extend(value.map(|value| (*key, value)));
    }
    pairs.extend(stored);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_keys_replace_hide_and_add() {
        let stored = [(1, 10), (3, 30), (5, 50), (7, 70)];
        let keys = vec![(2, Some(21)), (3, None), (5, Some(51)), (9, Some(91))];
        let page = Page { keys, bound: 6 };
        let mut pairs = vec![];
        merge(Way::Up, 6, &stored, &page, &mut pairs);
        assert_eq!(pairs, [(1, 10), (2, 21), (5, 51)]);
        let keys = vec![(9, Some(91)), (5, Some(51)), (3, None), (2, Some(21))];
        let page = Page { keys, bound: 0 };
        let mut pairs = vec![];
        let down: Vec<_> = stored.into_iter().rev().collect();
        merge(Way::Down, 0, &down, &page, &mut pairs);
        assert_eq!(pairs, [(9, 91), (7, 70), (5, 51), (2, 21), (1, 10)]);
    }
}
