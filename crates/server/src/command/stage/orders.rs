//! What a stage has in memory of the orders of sorted sets that change (`types/separators.rs`).

use super::Stage;
use crate::types::places::order_key;
use crate::types::separators::Separators;
use crate::types::{Ready, Types};

impl Stage {
    /// What is known of the order of a set that changes, or of nothing.
    pub fn separators(&self, id: u64) -> Option<&Separators> {
        self.separators.iter().find(|known| known.id == id)
    }

    /// What is known of the order of a set that changes, whose header counts so many changes so far.
    #[inline]
    pub fn separators_mut(&mut self, ready: &Ready, id: u64, changes: u64) -> &mut Separators {
        // Nearly always there is one set.
        let index = match self.separators.first() {
            Some(known) if known.id == id => 0,
            _ => self.separators_index(ready, id, changes),
        };
        &mut self.separators[index]
    }

    #[cold]
    #[inline(never)]
    fn separators_index(&mut self, ready: &Ready, id: u64, changes: u64) -> usize {
        let index = self.separators.iter().position(|known| known.id == id);
        index.unwrap_or_else(|| {
            let kept = if self.was_rolled_back { None } else { ready.separators.take(id, changes) };
            self.separators.push(kept.unwrap_or_else(|| Separators::new(id, changes)));
            self.separators.len() - 1
        })
    }

    /// Bytes of all levels that are in memory.
    pub fn separators_size(&self) -> usize {
        self.separators.iter().map(Separators::size).sum()
    }

    /// Notes how many changes a header counts.
    pub fn note_changes(&mut self, id: u64, changes: u64) {
        if let Some(known) = self.separators.iter_mut().find(|known| known.id == id) {
            known.changes = changes;
        }
    }

    /// Forgets what is known of the order of a set that is no more.
    pub fn forget_separators(&mut self, id: u64) {
        self.separators.retain(|known| known.id != id);
    }

    /// Writes the counts that changed in memory.
    pub(super) fn write_counts(&mut self) {
        let mut all = std::mem::take(&mut self.separators);
        for known in &mut all {
            let id = known.id;
            known.write(|level, position, count| {
                self.set_member(&order_key(id, level, position), Some(&count.to_le_bytes()));
            });
        }
        self.separators = all;
    }

    /// Keeps for later steps what is known, now that this one is done.
    pub fn keep_separators(&mut self, types: &Types) {
        let all = std::mem::take(&mut self.separators);
        if let Some(ready) = types.ready() {
            all.into_iter().for_each(|known| ready.separators.keep(known));
        }
    }
}
