//! Opening at once: leaves are made known when they are first touched, and not by opening.
//!
//! The top index and the middle nodes are in DRAM, so opening reads line 0 of each leaf to make them. But a checkpoint
//! (`checkpoint.rs`) says of a leaf its low fence and where it is, and as long as no leaf was merged away since it was
//! begun, that is so still (S11, `node/head_areas.rs`). So opening at once reads the last checkpoint and the heads of
//! the logs' chunks, and makes the first leaf known. A search for a key whose leaf is not known goes to the
//! leaf of the greatest low fence that the checkpoint has up to the key, makes it known, and goes on to the right,
//! along the links of leaves that were split off behind it or had no entry.
//!
//! *Making a leaf known* is what opening does otherwise: line 0 is read and repaired, the middle node gets its range
//! and, from the checkpoint and the records, its newest record, and a split that a crash has cut is ended; then the top
//! index leads there, and the lock is opened. It is done under one lock for all leaves, and only after a second
//! look under that lock at whether it is still to be done: else two threads would do it, and the second would take the
//! middle node, its lock and its buffer from threads that are at work on the leaf.
//!
//! *Why that look is enough.* Under the lock nobody makes a leaf known. So the leaves that are known become more by
//! splits only, and a split adds its right half to the top index before the left half's lock is opened. The look reads
//! the high fence and the neighbour of the leaf `K` that the index gives, asks the index again, and then finds `K`'s
//! version unchanged. If `K`'s neighbour were known, the index would have given it the second time, or a leaf behind
//! it. A leaf of the checkpoint whose low fence is not below `K`'s high fence is not known for the same reason.
//!
//! *The records behind the tails* are read chunk by chunk, when a leaf is made known of which the chunk's filter may
//! have some (`node/write_log/fences.rs`), before anything of the leaf can be seen. A filter has the low fences of the
//! leaves that the records were written for. *Why that is enough*: a record that a leaf needs still was written for
//! this leaf. One that was written for a leaf on its left, before a split, is ended by that split in both halves, and
//! as long as a checkpoint leads to leaves, none was merged into this one. *A crash while chunks are read* leaves what
//! was there: reading writes nothing.
//!
//! No thread that holds the lock waits for the lock of a leaf: the thread that has that may be waiting for this one.
//!
//! *What others may do meanwhile.* A leaf that is not known cannot be locked, so nobody writes to it, splits it or
//! appends a record of it. The neighbour of one that is known may not be: links are not followed as long as some are
//! unknown, the top index is asked again. No leaf is merged away meanwhile. A thread that frees an old chunk of the
//! log makes the leaves of its records known, so a record that an unknown leaf needs is in a chunk that stays. A thread
//! that writes a checkpoint makes the leaves known that it looks at. `len`, the check and giving the tree back make all
//! leaves known first; the check tells damage that hinders it, and does not walk then.
//!
//! *All are known* when leaves without a gap from key 0 to the end are. What they cover only is covered by more leaves
//! later. That is noted by what goes through all leaves: `restore_next`, a checkpoint, and the calls that need all.
//! From then on the tree is one that was opened as usual.
//!
//! *Space* that was free is found by a sweep (`SingleTreePool::sweep`), since nobody knows what is in use before all
//! leaves are known. What is freed after opening is used again.

use everleaf_alloc::{Recovery, Session};
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::{Machine, Ordering};

use super::Tree;
use super::layout::{HEAD_WORD, HIGH_MAX};
use super::top::TopIndex;
use super::variant::Variant;
use crate::node::head_areas::{Entry, Found};

/// What leads to leaves that are not known.
#[derive(Default)]
pub(super) struct Unknown {
    /// Those of the last checkpoint, ascending.
    entries: Vec<Entry>,
    /// Of the records behind its tails, those that were read.
    records: Runs,
    /// The leaves of all keys below are known.
    known_below: u64,
    /// Leaves that have an entry and are known.
    known_entries: usize,
}

impl Unknown {
    /// The entry of the greatest low fence up to `key`.
    fn entry_for(&self, key: u64) -> Option<Entry> {
        let behind = self.entries.partition_point(|entry| entry.low <= key);
        behind.checked_sub(1).map(|index| self.entries[index])
    }
}

/// Key, number and place of a record.
type Known = (u64, u64, u64);

/// Records in some runs, each of which ascends: so many that a key is found soon, and so short that nobody waits long
/// for two to be merged.
#[derive(Default)]
struct Runs(Vec<Vec<Known>>);

impl Runs {
    /// Records of a run to which no others are added.
    const MOST: usize = 1 << 17;

    /// Adds records in any order.
    fn add(&mut self, mut run: Vec<Known>) {
        if run.is_empty() {
            return;
        }
        run.sort_unstable();
        let is_short = |last: &mut Vec<Known>, run: &[Known]| {
            last.len() <= 2 * run.len() && last.len() + run.len() <= Self::MOST
        };
        while let Some(mut last) = self.0.pop_if(|last| is_short(last, &run)) {
            last.append(&mut run);
            // Two runs, which this sort finds and merges.
            last.sort();
            run = last;
        }
        self.0.push(run);
    }

    /// The records of keys from `low` on, below `high`.
    fn within(&self, low: u64, high: u64) -> impl Iterator<Item = &Known> {
        self.0.iter().flat_map(move |run| {
            let from = run.partition_point(|record| record.0 < low);
            let end = run.partition_point(|record| record.0 < high);
            &run[from..end]
        })
    }
}

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// Whether there may be leaves that are not known.
    #[inline(always)]
    pub(super) fn is_lazy(&self) -> bool {
        // Acquire: middle nodes and their pages; pairs with the release in `note_known`.
        V::CHECKPOINTED && self.opened_at_once && self.is_lazy.load(Ordering::Acquire) != 0
    }

    /// Leaves that opening at once has left and that nobody has touched, of those that the checkpoint has; one at least
    /// if there are any.
    pub fn unknown_leaves(&self) -> u64 {
        if !self.is_lazy() {
            return 0;
        }
        let unknown = self.unknown.lock();
        (unknown.entries.len().saturating_sub(unknown.known_entries) as u64).max(1)
    }

    /// How many leaves there are, as far as anybody knows.
    pub(super) fn leaf_count(&self) -> u64 {
        let known = self.leaves.sum();
        if self.is_lazy() { known.max(self.unknown.lock().entries.len() as u64) } else { known }
    }

    /// Opens the tree with what a checkpoint has found, and leaves all leaves but the first.
    pub(super) fn leave_leaves(
        &mut self,
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        Found { entries, tails, .. }: Found,
    ) -> Result<(), IndexError> {
        M::mark("sptree.opened_at_once");
        self.logs.leave(recovery, &tails)?;
        self.logs.end_adoption();
        let first = self.root_object.word(HEAD_WORD).read_private();
        let unknown = Unknown { entries, ..Unknown::default() };
        *self.unknown.get_mut() = unknown;
        self.opened_at_once = true;
        self.is_lazy.write_private(1);
        self.load_top(session, &[(0, first)])?;
        let mut unknown = self.unknown.lock();
        self.read_leaf(session, &mut unknown, 0, first)?;
        self.place(first).middle.lock.unlock();
        Ok(())
    }

    /// The leaf for a key, which is made known if it is not.
    ///
    /// # Errors
    /// It is damaged, or one that leads to it; no memory.
    #[cold]
    pub(super) fn find_known(&self, session: &mut Session<M>, key: u64) -> Result<u64, IndexError> {
        let mut attempt = 0;
        loop {
            let leaf = self.known_leaf_for(key);
            let (high, next) = (self.table.at(leaf).high(), self.table.at(leaf).next());
            if key < high {
                return Ok(leaf);
            }
            let mut unknown = self.unknown.lock();
            if M::mutant("sptree.knows_twice") {
                self.make_known(session, &mut unknown, key, (high, next))?;
                continue;
            }
            // The second look. Others may have been here, or have split the leaf.
            let leaf = self.known_leaf_for(key);
            let middle = self.table.at(leaf);
            let version = match middle.view() {
                Ok(version) => version,
                Err(retry) => {
                    drop(unknown);
                    retry.pause::<M>(&mut attempt);
                    continue;
                }
            };
            let (high, next) = (middle.high(), middle.next());
            let is_same = self.known_leaf_for(key) == leaf;
            if is_same && middle.is_current(version) && key >= high {
                self.make_known(session, &mut unknown, key, (high, next))?;
            }
        }
    }

    /// Makes a leaf known that is nearer to `key` than the one that ends at `high` in front of it, or the one for it.
    fn make_known(
        &self,
        session: &mut Session<M>,
        unknown: &mut Unknown,
        key: u64,
        (high, next): (u64, u64),
    ) -> Result<(), IndexError> {
        M::mark("sptree.known");
        let entry = unknown.entry_for(key).filter(|entry| entry.low > high);
        let (low, offset) = entry.map_or((high, next), |entry| (entry.low, entry.leaf));
        self.read_leaf(session, unknown, low, offset)?;
        let added = self.top.insert(session, low, offset, |leaf| self.low_of(leaf));
        let place = self.place(offset);
        if let Err(error) = added {
            // It stays locked, and nobody can find it: the next thread begins anew.
            self.keys.add(session.stripe(), -i64::from(place.leaf.bitmap().count_ones()));
            self.leaves.add(session.stripe(), -1);
            self.unrestored.add(session.stripe(), -i64::from(place.middle.needs_restore()));
            return Err(error.into());
        }
        place.middle.lock.unlock();
        Ok(())
    }

    /// Gives a leaf that is not known its middle node, locked. The caller makes the top index lead there.
    fn read_leaf(
        &self,
        session: &mut Session<M>,
        unknown: &mut Unknown,
        low: u64,
        offset: u64,
    ) -> Result<(), IndexError> {
        self.check_place(None, offset)?;
        // Before the leaf can be seen: the newest of its records, or of some that may be its own, may be unread.
        let mut run = vec![];
        let read = self.logs.read_unread(low, |place, record| {
            run.push((record.key, record.sequence, place));
        });
        unknown.records.add(run);
        read?;
        let heading = self.mend(None, offset, low)?;
        self.make_room(session, offset)?;
        let middle = self.table.at(offset);
        middle.set(&heading);
        self.buffers.at(offset).empty();
        let entry = unknown.entry_for(low).filter(|entry| entry.low == low);
        let mut needs_restore = false;
        if let Some(entry) = entry
            && !M::mutant("sptree.knows_no_head")
        {
            needs_restore |= middle.find_record(entry.sequence, entry.head);
        }
        for (_, sequence, place) in unknown.records.within(low, heading.high) {
            if M::mutant("sptree.knows_no_tail") {
                break;
            }
            needs_restore |= middle.find_record(*sequence, *place);
        }
        let stripe = session.stripe();
        self.unrestored.add(stripe, i64::from(needs_restore));
        if heading.covered != heading.high
            && let Err(error) = self.end_cut_split(offset)
        {
            // Restoring has taken back what it has counted, unless it was done.
            self.unrestored.add(stripe, -i64::from(middle.needs_restore()));
            return Err(error.into());
        }
        self.keys.add(stripe, i64::from(heading.bitmap.count_ones()));
        self.leaves.add(stripe, 1);
        unknown.known_entries += usize::from(entry.is_some());
        Ok(())
    }

    /// Notes that the leaf from `low` on was known when it ended at `high`.
    pub(super) fn note_known(&self, low: u64, high: u64) {
        if !self.is_lazy() {
            return;
        }
        let mut unknown = self.unknown.lock();
        if low <= unknown.known_below && high > unknown.known_below {
            unknown.known_below = high;
        }
        if unknown.known_below == HIGH_MAX {
            M::mark("sptree.all_known");
            *unknown = Unknown { known_below: HIGH_MAX, ..Unknown::default() };
            self.logs.forget_all_unread();
            // Release: middle nodes and their pages; pairs with the acquire in `is_lazy`.
            self.is_lazy.store(0, Ordering::Release);
        }
    }

    /// Makes all leaves known. Others may be at work.
    ///
    /// # Errors
    /// That of the first leaf that cannot be.
    pub(super) fn know_all(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        while self.is_lazy() {
            // Pinned for one leaf: what others give up meanwhile can be used again soon.
            let mut session = session.pinned();
            let from = self.unknown.lock().known_below;
            if from == HIGH_MAX {
                break;
            }
            let middle = self.table.at(self.find_known(&mut session, from)?);
            self.note_known(middle.low(), middle.high());
        }
        Ok(())
    }

    /// The low fence of the next leaf that the checkpoint has behind a key.
    pub(super) fn next_in_checkpoint(&self, key: u64) -> u64 {
        let unknown = self.unknown.lock();
        let behind = unknown.entries.partition_point(|entry| entry.low <= key);
        unknown.entries.get(behind).map_or(HIGH_MAX, |entry| entry.low)
    }
}
