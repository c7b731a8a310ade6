//! What a stage has in memory of the orders of sorted sets that change (`types/separators.rs`).
//!
//! Nearly always that is one set, but a transaction may change a million of them. So a command pays for those that it
//! has to do with, and not for all: sets are found by their number, only those that were asked for since are written,
//! and the size of all is a sum that is kept up to date. Beyond a limit all are written and forgotten.

use super::Stage;
use super::known_orders::Orders;
use crate::types::places::order_key;
use crate::types::separators::{SIZE_MAX, Separators};
use crate::types::{Ready, Types};

impl Stage {
    /// What is known of the order of a set that changes, or of nothing.
    pub fn separators(&self, id: u64) -> Option<&Separators> {
        let all = &self.orders;
        match all.known.first() {
            Some(known) if known.order.id == id => Some(&known.order),
            _ => Some(&all.known[all.find(id)?].order),
        }
    }

    /// What is known of the order of a set that changes, whose header counts so many changes so far.
    #[inline]
    pub fn separators_mut(&mut self, ready: &Ready, id: u64, changes: u64) -> &mut Separators {
        // Nearly always there is one set.
        let index = match self.orders.known.first() {
            Some(known) if known.order.id == id => 0,
            _ => self.order_index(ready, id, changes),
        };
        self.orders.touch(index)
    }

    #[cold]
    #[inline(never)]
    fn order_index(&mut self, ready: &Ready, id: u64, changes: u64) -> usize {
        self.orders.find(id).unwrap_or_else(|| {
            self.orders.sum_up();
            if self.orders.size > SIZE_MAX {
                self.forget_orders();
            }
            let kept = if self.was_rolled_back { None } else { ready.separators.take(id, changes) };
            self.orders.add(kept.unwrap_or_else(|| Separators::new(id, changes)))
        })
    }

    /// Writes and forgets all that is known. What is kept between steps may not be taken for it then.
    fn forget_orders(&mut self) {
        self.write_counts();
        self.orders = Orders::default();
        self.was_rolled_back = true;
    }

    /// Bytes of all that is in memory.
    pub fn separators_size(&mut self) -> usize {
        let last = self.orders.last;
        self.orders.sum_up();
        self.orders.last = last;
        self.orders.size
    }

    /// Notes how many changes a header counts.
    pub fn note_changes(&mut self, id: u64, changes: u64) {
        if let Some(index) = self.orders.find(id) {
            self.orders.touch(index).changes = changes;
        }
    }

    /// Forgets what is known of the order of a set that is no more.
    pub fn forget_separators(&mut self, id: u64) {
        self.orders.forget(id);
    }

    /// Begins a command that can be rolled back.
    pub(super) fn mark_orders(&mut self) {
        self.write_counts();
        self.orders.written.clear();
    }

    /// Forgets what is known of the orders that may have changed since the mark.
    pub(super) fn roll_back_orders(&mut self) {
        let Orders { touched, written, .. } = &mut self.orders;
        let changed = [std::mem::take(touched), std::mem::take(written)];
        changed.into_iter().flatten().for_each(|id| self.orders.forget(id));
    }

    /// Writes the counts that changed in memory.
    pub(super) fn write_counts(&mut self) {
        if self.orders.touched.is_empty() {
            return;
        }
        let mut orders = std::mem::take(&mut self.orders);
        orders.sum_up();
        for id in std::mem::take(&mut orders.touched) {
            let Some(index) = orders.find(id) else { continue };
            if self.undo.is_some() {
                orders.written.push(id);
            }
            orders.known[index].order.write(|level, position, count| {
                self.set_member(&order_key(id, level, position), Some(&count.to_le_bytes()));
            });
        }
        self.orders = orders;
    }

    /// Keeps for later steps what is known, now that this one is done.
    pub fn keep_separators(&mut self, types: &Types) {
        let all = std::mem::take(&mut self.orders);
        if let Some(ready) = types.ready() {
            all.known.into_iter().for_each(|known| ready.separators.keep(known.order));
        }
    }
}

#[cfg(test)]
mod tests {
    use everleaf::Options;

    use super::*;
    use crate::databases::{Databases, MapNumber};
    use crate::types::Kind;
    use crate::types::collection::Collection;

    /// Adds a member to so many sorted sets, each in a command of its own, of which some are rolled back.
    fn add_to(count: u64) -> (Stage, usize) {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(true).open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        types.begin(&store).unwrap();
        let (mut stage, mut size_max) = (Stage::new(1 << 30), 0);
        for number in 0..count {
            let mark = stage.mark();
            let mut staged = crate::command::stage::Staged {
                stage: &mut stage,
                source: &mut &store,
                types: &types,
                databases: &databases,
                place: MapNumber::default(),
            };
            let key = number.to_be_bytes();
            let mut set = Collection::open(&mut staged, &key, Kind::SortedSet).unwrap();
            set.set_score(b"member", 1.0, None).unwrap();
            set.finish().unwrap();
            if number % 5 == 0 {
                stage.roll_back(&mark);
            }
            size_max = size_max.max(stage.separators_size());
        }
        (stage, size_max)
    }

    /// What was quadratic: each command of a transaction went through all sorted sets that it had changed so far.
    #[test]
    fn a_command_pays_for_its_own_sets() {
        for count in [300, 3000] {
            let (stage, _) = add_to(count);
            let looks = stage.orders.looks.get() as u64;
            assert!(looks < 40 * count, "{looks} looks at sets for {count} commands");
        }
    }

    /// What was not counted: a transaction of a million sorted sets held a gigabyte beside what it wrote.
    #[test]
    fn what_is_known_of_many_sets_is_limited() {
        let (stage, size_max) = add_to(30_000);
        let each = Separators::new(1, 1).kept_size();
        assert!(30_000 * 4 / 5 * each > SIZE_MAX, "there are too few sets");
        assert!(size_max <= SIZE_MAX + 2 * each, "{size_max}");
        assert!(stage.orders.known.len() < 16_500);
    }

    /// What was quadratic: a transaction took the first member of a set again and again, with commands in between that
    /// failed; each of these ended what was known of the first members.
    #[test]
    fn what_fails_leaves_the_orders_that_it_did_not_touch() {
        let (mut stage, _) = add_to(10);
        let ids: Vec<u64> = stage.orders.known.iter().map(|known| known.order.id).collect();
        let mark = stage.mark();
        stage.write(MapNumber::default(), b"key", None).unwrap();
        stage.roll_back(&mark);
        assert!(ids.len() == 8 && ids.iter().all(|id| stage.separators(*id).is_some()));
        // Also if its counts were written in the middle of the command.
        let mark = stage.mark();
        stage.note_changes(ids[3], 9);
        stage.write_counts();
        stage.note_changes(ids[5], 9);
        stage.roll_back(&mark);
        let is_known = |id: &&u64| stage.separators(**id).is_some();
        let left: Vec<u64> = ids.iter().filter(is_known).copied().collect();
        assert_eq!(left, [&ids[..3], &ids[4..5], &ids[6..]].concat());
    }

    #[test]
    fn what_is_known_of_a_set_is_found_by_its_number() {
        let mut orders = Orders::default();
        let mut there = std::collections::BTreeSet::new();
        let mut state = 1;
        for step in 0..5000 {
            let id = everleaf::random::next(&mut state) % 40;
            match everleaf::random::next(&mut state) % 3 {
                0 => {
                    orders.forget(id);
                    there.remove(&id);
                }
                _ => {
                    let index = orders.find(id);
                    assert_eq!(index.is_some(), !there.insert(id), "step {step}");
                    let index = index.unwrap_or_else(|| orders.add(Separators::new(id, 1)));
                    assert_eq!(orders.touch(index).id, id);
                }
            }
            orders.sum_up();
            let size: usize = orders.known.iter().map(|known| known.order.kept_size()).sum();
            assert_eq!((orders.known.len(), orders.size), (there.len(), size));
            let all = (0..40).filter(|id| orders.find(*id).is_some());
            assert!(all.eq(there.iter().copied()), "step {step}");
        }
    }
}
