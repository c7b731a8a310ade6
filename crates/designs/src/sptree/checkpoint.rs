//! Checkpoints of the heads of buffers, and an opening that reads the last one and what the logs have behind it.
//!
//! The head of a buffer, the place of its newest record, is in the middle node. To find it after a crash, all records
//! of the logs would have to be read. So the heads of all leaves are written to the pool now and then
//! (`node/head_areas.rs`):
//!
//! 1. the *tails* are noted: where each log ends;
//! 2. the leaves are looked at from left to right: if its buffer has records, an *entry* says the low fence of the
//!    leaf, where it is, and the place and the sequence of the newest; of those without records each seventeenth in a
//!    row has an entry without a record, so that opening at once finds the way to all (`lazy.rs`);
//! 3. entries and tails are made durable, and count from then on.
//!
//! Nobody waits for a checkpoint. A leaf is looked at as a reader does, and others go on: what they write after 1
//! is behind the tails, and opening reads it. A thread that adds a chunk to a log looks at as many leaves as half a
//! chunk has records; then it goes on with its own work, and the thread that adds the next chunk goes on from there. So
//! a write costs at most half of an entry, 12 bytes, and behind the tails are at most four records a leaf (those of two
//! checkpoints, since the one that is being written does not count yet) and what the chunks have that were begun.
//!
//! # Opening
//!
//! Of each log the chunks are followed by their headers, which the allocator has to know of anyway; records are read
//! only behind the tail. The newest record of a leaf is that of the highest sequence, of its entry and of the records
//! with its keys. Everything else is as without checkpoints (`restore.rs`): the first touch restores a buffer by its
//! links. *Why that is all* (S10): a record that its leaf still needs and that is not behind the tails was
//! appended before 1, by a thread that had the leaf locked until the middle node knew the record. So the thread that
//! looked at the leaf in 2 has seen it, or a later one of the same buffer, which is linked to it.
//!
//! - *An entry that is older than what the leaf has*: its sequence is not above what line 0 says, and it does not
//!   count. Its record may be in a chunk that was given up, and is not looked at. The other way round, a record that
//!   line 0 does not cover is in a chunk that stays: a chunk is given up when the leaves of all its records have
//!   them, durably.
//! - *A tail in a chunk that was given up*: the marks of chunks ascend along a log, by the opening of the pool and the
//!   chunk's number in it. All chunks whose mark is greater are read.
//! - *A leaf that was split* behind 2 has ended its records in both halves, and one that was merged had ended them
//!   before: the low fence of the entry belongs to a leaf that has all of them. New records are behind the tails.
//!   A leaf that is met twice, because it was merged with one on its left that was looked at already, is passed over
//!   for the same reason.
//! - *A split that a crash has cut* before the records of the left half were ended: some of them are of keys of the
//!   right half. Without checkpoints opening tells by the number of its records (S9); here it has not read them. So in
//!   this variant a split leaves `covered` as it is when the left half has records, and the line that ends them
//!   changes it. Opening restores a leaf with such a line 0 at once and writes it back. Its numbers go on behind
//!   those of the right half: of two leaves that have numbers in common, an older checkpoint could name the other's
//!   record. An entry names the low fence of its leaf, not the key of its record, which may be the right half's now.
//! - *A crash in a checkpoint*, a damaged one, none: the other area, or all records (`head_areas.rs`). Older is not
//!   wrong, only further from the tails.
//! - *A crash in opening* leaves what it found: opening writes nothing but the repairs of line 0, and ends of cut
//!   splits, and those say the same when they are done again.
//! - *A leaf that is not restored yet* has its head in the middle node all the same, and the next checkpoint has it.
//! - *A record that the medium loses* in front of the tails is not noticed by opening. A thread that touches its leaf
//!   is told, as when it is lost after opening.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::Machine;

use super::layout::HIGH_MAX;
use super::recover::corrupt;
use super::variant::Variant;
use super::{LeafAndMiddle, Tree};
use crate::node::head_areas::{Entry, Found, Tail, Writing};
use crate::node::write_log::SEQUENCE_BOUND;

/// What a checkpoint says of a leaf, if there is anything, where the leaf begins and ends, and the next one.
struct Look<'t, M: Machine> {
    /// With the place of its newest record, if its buffer has records.
    entry: Entry,
    low: u64,
    high: u64,
    next: Option<LeafAndMiddle<'t, M>>,
}

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// After so many leaves without records one has an entry that only leads there.
    const PASSED: usize = if G::SLOT_COUNT < 62 { 1 } else { 16 };

    /// Leaves that are looked at for each chunk that a log gets.
    fn looks(&self) -> usize {
        self.logs.shape().chunk_length / 2
    }

    /// Goes on with a checkpoint, or begins one, unless somebody else is at it. Without room in the pool it is given
    /// up. The session is pinned.
    #[cold]
    pub(super) fn checkpoint(&self, session: &mut Session<M>) {
        let Some(mut turn) = self.areas.try_turn() else { return };
        let open = match turn.open.take() {
            Some(writing) => Ok(writing),
            // First the tails, then the heads: what is appended meanwhile is behind the tails (S10).
            None => self.areas.begin(session, &mut turn, self.logs.tails()),
        };
        let Ok(mut writing) = open else { return };
        match self.add_heads(session, &mut writing) {
            Ok(true) => {
                let tails = self.tails_of(&writing);
                self.areas.commit(session, &mut turn, writing, &tails);
                M::mark("sptree.checkpoint");
            }
            Ok(false) => {
                self.areas.pause(&mut writing);
                turn.open = Some(writing);
            }
            Err(_) => {}
        }
    }

    /// The tails of a checkpoint that is complete.
    fn tails_of(&self, writing: &Writing) -> Vec<Tail> {
        if M::mutant("sptree.checkpoint_late_tails") {
            self.logs.tails()
        } else {
            writing.tails.clone()
        }
    }

    /// Adds the heads of some leaves to a checkpoint. True if they were the last ones.
    fn add_heads(
        &self,
        session: &mut Session<M>,
        writing: &mut Writing,
    ) -> Result<bool, IndexError> {
        let mut next = None;
        // Each leaf that is not known yet is made known, which takes longer, and longer still as long as that has to
        // read the log for it. The first write after opening at once comes here.
        let looks = match self.is_lazy() {
            true if self.logs.unread_chunks() > 0 => 2,
            true => (self.looks() / 16).max(2),
            false => self.looks(),
        };
        for _ in 0..looks {
            let look = self.look(session, next, writing.from)?;
            let entry = look.entry;
            // The leaves that are looked at have no gap between them, from key 0 on.
            self.note_known(look.low, look.high);
            writing.passed += 1;
            // A leaf that begins before has been merged since the tails were noted: all that it needs is behind
            // them.
            if (entry.head != 0 || writing.passed > Self::PASSED) && entry.low >= writing.from {
                let what = "a leaf was written too often for a checkpoint";
                let words = entry.words().ok_or_else(|| corrupt(entry.leaf, what))?;
                self.areas.push(session, writing, &words)?;
                writing.passed = 0;
            }
            if look.high == HIGH_MAX {
                return Ok(true);
            }
            writing.from = look.high;
            next = look.next;
        }
        Ok(false)
    }

    /// Looks at the leaf for a key as a reader does, first in the place where it is expected.
    ///
    /// # Errors
    /// As [`Self::leaf_for`].
    fn look<'t>(
        &'t self,
        session: &mut Session<M>,
        expected: Option<LeafAndMiddle<'t, M>>,
        key: u64,
    ) -> Result<Look<'t, M>, IndexError> {
        let mut seek = || self.leaf_for(session, key).map(|leaf| self.place(leaf));
        let mut place = expected.map_or_else(&mut seek, Ok)?;
        let mut attempt = 0;
        loop {
            let middle = place.middle;
            let version = match middle.view() {
                Ok(version) => version,
                Err(retry) if !M::mutant("sptree.checkpoint_ignores_locks") => {
                    retry.pause::<M>(&mut attempt);
                    place = seek()?;
                    continue;
                }
                Err(_) => return Ok(self.heads_of(place)),
            };
            let range = self.check_range(place, key);
            let look = self.heads_of(place);
            match (middle.is_current(version), range) {
                (true, Ok(())) => return Ok(look),
                (true, Err(elsewhere)) => {
                    place = self.move_right(elsewhere).map_or_else(&mut seek, Ok)?;
                }
                (false, _) => {}
            }
        }
    }

    /// What a middle node says, good if its version is found unchanged afterwards.
    fn heads_of<'t>(&'t self, place: LeafAndMiddle<'t, M>) -> Look<'t, M> {
        let middle = place.middle;
        let (low, high, next) = (middle.low(), middle.high(), middle.next());
        let (head, sequence) = (middle.head(), middle.sequence());
        let has_records = sequence > middle.flushed();
        let name = if has_records && M::mutant("sptree.checkpoint_names_key") {
            self.logs.read(head, sequence).map_or(low, |record| record.key)
        } else {
            low
        };
        let (head, sequence) = if has_records { (head, sequence) } else { (0, 0) };
        let entry = Entry { low: name, leaf: place.offset, head, sequence };
        // Else it is looked for: it may be one that is not known yet.
        let next = (next != 0 && !self.is_lazy()).then(|| self.place(next));
        Look { entry, low, high, next }
    }

    /// Finds the newest record of each buffer, of those that the last checkpoint knows and of those behind it. `leaves`
    /// are all, by their low fences. Nobody else is active.
    pub(super) fn find_heads(
        &mut self,
        recovery: &Recovery<M>,
        Found { entries, tails, .. }: Found,
        leaves: &[(u64, u64)],
    ) -> Result<(), AllocError> {
        self.logs.recover(recovery, &tails, |place, record| {
            self.find_head(self.known_leaf_for(record.key), record.sequence, place);
        })?;
        let mut leaf = 0;
        for entry in entries {
            // Both ascend. The leaf of an entry may be gone: then one on its left has everything.
            while leaves.get(leaf + 1).is_some_and(|next| next.0 <= entry.low) {
                leaf += 1;
            }
            self.find_head(leaves[leaf].1, entry.sequence, entry.head);
        }
        Ok(())
    }

    /// Notes a record of a leaf that recovery found.
    pub(super) fn find_head(&self, leaf: u64, sequence: u64, place: u64) {
        if self.table.at(leaf).find_record(sequence, place) {
            self.unrestored.add(0, 1);
        }
    }

    /// Ends the records of a leaf whose split a crash has cut: its line 0 does not cover its range. Some of the records
    /// may be linked to some of keys that have gone to the right half, whose chunks may be dropped when that does not
    /// need them (S9). Nobody else is at work on the leaf or the right half.
    pub(super) fn end_cut_split(&self, offset: u64) -> Result<(), AllocError> {
        let place = self.place(offset);
        let middle = place.middle;
        let next = middle.next();
        let right = if next == 0 { 0 } else { self.leaf(next).flushed() };
        // Opened at once, nobody has looked at the right half.
        if right >= SEQUENCE_BOUND {
            let what = format!("a leaf says that {right} writes are in their place");
            return Err(corrupt(next, what));
        }
        if middle.needs_restore() {
            // No search is known to come here.
            self.restore(place)?;
        }
        if next != 0 {
            // No number twice: the right half has them up to here.
            middle.note_record(middle.sequence().max(right), middle.head());
        }
        if !self.write_back(place, None) {
            return Err(corrupt(offset, "half a leaf has no room for its buffer"));
        }
        Ok(())
    }
}
