//! The orders of sorted sets that a stage has in memory (`orders.rs`).

use std::collections::BTreeMap;

use crate::types::separators::Separators;

/// Up to so many sets all are looked at to find one.
const UNINDEXED_LEN: usize = 8;

/// What is known of a set.
pub struct Known {
    pub order: Separators,
    /// Its part of the sum of all.
    pub size: usize,
}

/// The orders of sorted sets that are in memory.
#[derive(Default)]
pub struct Orders {
    pub known: Vec<Known>,
    /// Where each is, by its number, if they are many.
    places: BTreeMap<u64, usize>,
    /// Those that may have something to be written, by their numbers.
    pub touched: Vec<u64>,
    /// Those that were touched since the last mark and are written, by their numbers; perhaps more than once.
    pub written: Vec<u64>,
    /// The last one of those that were touched, whose size may have changed.
    pub last: Option<usize>,
    /// Bytes of all of them.
    pub size: usize,
    /// Sets that were looked at.
    #[cfg(test)]
    pub looks: std::cell::Cell<usize>,
}

impl Orders {
    pub fn find(&self, id: u64) -> Option<usize> {
        if self.known.len() > UNINDEXED_LEN {
            self.note_looks(1);
            return self.places.get(&id).copied();
        }
        self.note_looks(self.known.len());
        self.known.iter().position(|known| known.order.id == id)
    }

    /// For tests, which count the work.
    #[inline(always)]
    fn note_looks(&self, _count: usize) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + _count);
    }

    pub fn add(&mut self, order: Separators) -> usize {
        let index = self.known.len();
        if index >= UNINDEXED_LEN {
            if index == UNINDEXED_LEN {
                let all = self.known.iter().zip(0..);
                self.places = all.map(|(known, index)| (known.order.id, index)).collect();
            }
            self.places.insert(order.id, index);
        }
        self.known.push(Known { order, size: 0 });
        index
    }

    /// Says that a set may change.
    #[inline]
    pub fn touch(&mut self, index: usize) -> &mut Separators {
        if self.last != Some(index) {
            self.sum_up();
            self.touched.push(self.known[index].order.id);
            self.last = Some(index);
        }
        &mut self.known[index].order
    }

    /// Brings the sum up to date.
    pub fn sum_up(&mut self) {
        let Some(known) = self.last.take().and_then(|last| self.known.get_mut(last)) else {
            return;
        };
        let size = known.order.kept_size();
        self.size = self.size - known.size + size;
        known.size = size;
    }

    pub fn forget(&mut self, id: u64) {
        let Some(index) = self.find(id) else { return };
        self.sum_up();
        self.size -= self.known.swap_remove(index).size;
        self.places.remove(&id);
        let moved = self.known.get(index);
        if let Some(place) = moved.and_then(|moved| self.places.get_mut(&moved.order.id)) {
            *place = index;
        }
    }
}
