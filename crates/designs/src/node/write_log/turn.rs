//! A record that is changed where it is: a removal for which there is no room for another one.

use everleaf_alloc::AllocError;
use everleaf_machine::{Machine, Ordering};

use super::Logs;
use super::chunk::corrupt;
use super::record::{Mark, Record, removal_meta};

/// Where a record is, and the mark of its chunk.
type Found = (u64, Mark);

/// Which records a leaf needs.
#[derive(Clone, Copy, Debug)]
pub struct Needed {
    /// The place of the newest, if they are linked.
    pub head: Option<u64>,
    /// Its number.
    pub newest: u64,
    /// The number up to which the leaf has everything.
    pub flushed: u64,
}

impl<M: Machine> Logs<M> {
    /// Makes the newest record of a key, of those that its leaf needs, one of its removal, durably. One word of it
    /// changes, so a crash leaves the one or the other.
    ///
    /// Linked records are followed, so that what other leaves have lost is not met. Of a plain log all is read.
    ///
    /// The caller has the leaf locked: so nobody appends a record of the key, and the chunks of those there are stay.
    ///
    /// # Errors
    /// A record is damaged before the key's newest is found: then that may be it, or hide it, and nothing is changed.
    #[cold]
    pub fn turn_to_removal(&self, key: u64, needed: Needed) -> Result<(), AllocError> {
        let found = match needed.head {
            Some(head) => self.newest_linked(key, head, needed)?,
            None => self.newest_of_all(key, needed)?,
        };
        let lost = || corrupt(0, "the log has no record of a key in a buffer");
        let (place, mark) = found.ok_or_else(lost)?;
        let cells = self.cells(place);
        let words = self.words(place);
        if M::mutant("sptree.turns_value_first") {
            cells.value.write_private(0);
        }
        // Release: as in `append`; the other words stay what they are.
        cells.meta.store(removal_meta(mark, words), Ordering::Release);
        if !M::mutant("sptree.no_turn_flush") {
            // Persist: the removal before the write returns.
            self.medium.persist(cells.meta.as_ptr(), 8);
        }
        Ok(())
    }

    /// The newest record of a key in a buffer whose newest record is at `head`.
    fn newest_linked(
        &self,
        key: u64,
        head: u64,
        needed: Needed,
    ) -> Result<Option<Found>, AllocError> {
        let mut place = head;
        let mut found = None;
        for sequence in (needed.flushed + 1..=needed.newest).rev() {
            let read = self.chunk_of(place).and_then(|chunk| {
                let mark = self.mark(chunk);
                Record::decode(self.words(place), mark).map(|record| (record, mark))
            });
            let (record, mark) = read
                .filter(|(record, _)| record.sequence == sequence)
                .ok_or_else(|| AllocError::Corrupt {
                    offset: place,
                    what: format!("record {sequence} of a leaf's buffer was expected here"),
                })?;
            if record.key == key {
                found = Some((place, mark));
                if !M::mutant("sptree.turns_oldest") {
                    break;
                }
            }
            place = record.link;
        }
        Ok(found)
    }

    /// The newest record of a key in the chunks of all logs.
    fn newest_of_all(&self, key: u64, needed: Needed) -> Result<Option<Found>, AllocError> {
        let (mut found, mut newest) = (None, needed.flushed);
        for state in self.logs.iter() {
            // Locked: nobody appends what is read here, or frees a chunk.
            let state = state.lock();
            for chunk in state.chunks.iter().map(|chunk| chunk.place) {
                let mut count = 0;
                for (place, record) in self.records(chunk) {
                    count += 1;
                    if record.key == key && record.sequence > newest {
                        newest = record.sequence;
                        found = Some((place, self.mark(chunk)));
                    }
                }
                if !self.has_all(&state, chunk, count) {
                    return Err(corrupt(chunk, "a chunk of the log has a damaged record"));
                }
            }
        }
        Ok(found)
    }

    /// The chunk that has a place.
    fn chunk_of(&self, place: u64) -> Option<u64> {
        let has_it = |chunk: &u64| {
            place.checked_sub(*chunk).is_some_and(|within| self.shape.has_record_at(within))
        };
        self.logs.iter().find_map(|log| {
            let state = log.lock();
            state.chunks.iter().map(|chunk| chunk.place).find(has_it)
        })
    }
}
