//! Checkpoints of the heads of write buffers, for logs whose records are linked: two areas in the pool, written in
//! turn.
//!
//! ```text
//!   root object   2 words: the first block of each area
//!   block    | next 8 | number 8 | length 8 | sum 8 | committed 8 | total 8 | sum 8 | leads 8 | words | ...
//!   words    | entry 24 | ... | 2 words a log: its tail |
//!   entry    | low fence 8 | newest record / 32: 43 bits, sequence: 21 | leaf / 64: 42 bits, sequence: upper 22 |
//! ```
//!
//! The words of a checkpoint go on from block to block. Its *number* is that of no other: the opening of the pool, and
//! its place among those of this opening. Each block has the number of the checkpoint that its words are of, and a
//! sum of them; the first block has, beside, the number of the checkpoint that is complete and how many words it
//! has. All of it is flushed, each line once: the sums tell whether it is whole. A thread that ends a block waits for
//! it at the end of its turn, since the drain of the thread that completes the checkpoint covers its own flushes only;
//! so one of one block is waited for once.
//!
//! *A crash* while one area is written leaves the other, which is older but whole. A checkpoint is a short cut and
//! no more: one that is damaged does not count, the other one does, and without both the logs are read from their
//! beginning. So nothing that a checkpoint could say is lost with it.
//!
//! *The way to leaves*: an entry says where its leaf is, and as long as no leaf was merged away since the checkpoint
//! was begun, each leaf that has an entry is there, in the same place and with the same low fence (leaves behind it
//! may have been split off). Then the first block's word *leads* is the number of the checkpoint. Before the first
//! merge that comes behind, the word is cleared, durably; a checkpoint that was begun before a merge never gets it. So
//! opening need not walk the leaves to find them (`sptree/lazy.rs`).
//!
//! *Space*: an area has as many blocks as its last checkpoint took. A block that is added is empty, durably, before
//! it is linked: what was in its place before could be a checkpoint, of another tree. Without space for one the
//! checkpoint is given up; its area is written anew by the next.

mod entry;

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{PoolBase, RootObject};
use everleaf_machine::{Atomic, Machine, Ordering, SpinGuard, SpinLock};
use everleaf_pool::Medium;

use entry::{ENTRY_LENGTH, TAIL_LENGTH};
pub use entry::{Entry, Tail};

const HEADER_SIZE: usize = 64;

#[repr(C)]
struct Header<M: Machine> {
    next: Atomic<u64, M>,
    number: Atomic<u64, M>,
    length: Atomic<u64, M>,
    sum: Atomic<u64, M>,
    committed: Atomic<u64, M>,
    total: Atomic<u64, M>,
    commit_sum: Atomic<u64, M>,
    leads: Atomic<u64, M>,
}

const _: () = assert!(size_of::<Header<everleaf_machine::Hardware>>() == HEADER_SIZE);

/// How large blocks are, and of how many logs a checkpoint has tails.
#[derive(Clone, Copy, Debug)]
pub struct AreaShape {
    /// Words of a block.
    pub block_length: usize,
    /// Logs of the tree.
    pub log_count: usize,
}

/// A checkpoint that is being written.
pub struct Writing {
    number: u64,
    first: u64,
    block: u64,
    /// Words of the block.
    length: usize,
    /// Words of all blocks.
    total: u64,
    /// Of the words of the block.
    sum: u32,
    /// Whether a block has been flushed in this turn.
    is_flushed: bool,
    /// Where the logs ended when it was begun.
    pub tails: Vec<Tail>,
    /// The key from which on leaves have not been looked at.
    pub from: u64,
    /// Leaves that were passed since the last entry, since their buffers had nothing.
    pub passed: usize,
    /// Leaves that had been merged away when it was begun.
    merges: u64,
}

/// What the merges of leaves mean for checkpoints.
struct Merges {
    /// How many there were in this opening.
    count: u64,
    /// Whether the pool has a checkpoint that leads to leaves.
    leads: bool,
}

/// The right to write checkpoints, and the checkpoint that is being written.
pub struct Turn {
    /// The area that is written, or will be.
    area: usize,
    /// Checkpoints that were begun in this opening.
    begun: u32,
    /// The one that is not complete.
    pub open: Option<Writing>,
}

/// A checkpoint that was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Ascending by their low fences.
    pub entries: Vec<Entry>,
    /// Where the logs ended.
    pub tails: Vec<Tail>,
    /// Whether no leaf was merged away since it was begun.
    pub leads: bool,
}

/// See the module.
pub struct HeadAreas<M: Machine> {
    base: PoolBase<M>,
    medium: Medium<M>,
    root_object: RootObject<M>,
    /// The root object's word that names the first area.
    first_word: usize,
    generation: u32,
    shape: AreaShape,
    turn: SpinLock<Turn, M>,
    /// Taken last, and for a moment: by threads that have leaves locked, too.
    merges: SpinLock<Merges, M>,
}

// SAFETY: `base` is the pool's mapping, which the tree keeps; everything shared is atomic or locked.
unsafe impl<M: Machine> Send for HeadAreas<M> {}
// SAFETY: as for `Send`.
unsafe impl<M: Machine> Sync for HeadAreas<M> {}

fn corrupt(offset: u64, what: &str) -> AllocError {
    AllocError::Corrupt { offset, what: what.to_owned() }
}

/// A sum that goes on with these words.
fn sum_of(sum: u32, words: &[u64]) -> u32 {
    let mut bytes = [0; 64];
    words.chunks(bytes.len() / 8).fold(sum, |sum, part| {
        for (place, word) in bytes.chunks_exact_mut(8).zip(part) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        crc32c::crc32c_append(sum, &bytes[..part.len() * 8])
    })
}

impl<M: Machine> HeadAreas<M> {
    /// Areas that the root object's words from `first_word` on name; there are none yet.
    pub fn new(
        base: PoolBase<M>,
        medium: Medium<M>,
        (root_object, first_word): (RootObject<M>, usize),
        generation: u32,
        shape: AreaShape,
    ) -> Self {
        let turn = SpinLock::new(Turn { area: 0, begun: 0, open: None });
        let merges = SpinLock::new(Merges { count: 0, leads: false });
        HeadAreas { base, medium, root_object, first_word, generation, shape, turn, merges }
    }

    /// Bytes of a block.
    fn block_size(&self) -> usize {
        HEADER_SIZE + self.shape.block_length * 8
    }

    fn header(&self, block: u64) -> &Header<M> {
        let start = self.base.start().wrapping_add(block as usize).cast();
        // SAFETY: a block is a record of at least a header's size, aligned, inside the pool, made of atomic words.
        unsafe { &*start }
    }

    fn word(&self, block: u64, index: usize) -> &Atomic<u64, M> {
        debug_assert!(index < self.shape.block_length);
        let start = self.base.start().wrapping_add(block as usize + HEADER_SIZE + index * 8).cast();
        // SAFETY: a block is a record with room for so many words behind its header, aligned, inside the pool.
        unsafe { &*start }
    }

    /// The word that names the first block of an area.
    fn head(&self, area: usize) -> &Atomic<u64, M> {
        self.root_object.word(self.first_word + area)
    }

    /// Takes the turn to write checkpoints, unless somebody else has it.
    pub fn try_turn(&self) -> Option<SpinGuard<'_, Turn, M>> {
        self.turn.try_lock()
    }

    /// Begins a checkpoint in the area that does not have the last one. The logs ended at `tails` before.
    ///
    /// # Errors
    /// No space.
    pub fn begin(
        &self,
        session: &mut Session<M>,
        turn: &mut Turn,
        tails: Vec<Tail>,
    ) -> Result<Writing, AllocError> {
        let first = self.follow(session, self.head(turn.area))?;
        turn.begun += 1;
        let number = u64::from(self.generation) << 32 | u64::from(turn.begun);
        let sum = sum_of(0, &[number]);
        let is_flushed = false;
        Ok(Writing {
            number,
            first,
            block: first,
            length: 0,
            total: 0,
            sum,
            is_flushed,
            tails,
            from: 0,
            passed: 0,
            merges: self.merges.lock().count,
        })
    }

    /// The block that a link leads to; a new one if there is none.
    fn follow(&self, session: &mut Session<M>, link: &Atomic<u64, M>) -> Result<u64, AllocError> {
        let block = link.read_private();
        if block != 0 {
            return Ok(block);
        }
        let block = session.allocate_record(self.block_size())?;
        let Header { next, number, length, sum, committed, total, commit_sum, leads } =
            self.header(block);
        for word in [next, number, length, sum, committed, total, commit_sum, leads] {
            word.write_private(0);
        }
        // Persist: the block is empty before the area leads to it, or what it was before would be taken for a
        // checkpoint.
        self.medium.persist(next.as_ptr(), HEADER_SIZE);
        // Release: the header; recovery's view.
        link.store(block, Ordering::Release);
        // Persist: the link before a checkpoint that needs it is complete.
        self.medium.persist(link.as_ptr(), 8);
        Ok(block)
    }

    /// Adds words to a checkpoint.
    ///
    /// # Errors
    /// No space: the checkpoint is given up.
    pub fn push(
        &self,
        session: &mut Session<M>,
        writing: &mut Writing,
        words: &[u64],
    ) -> Result<(), AllocError> {
        for word in words {
            if writing.length == self.shape.block_length {
                let next = self.follow(session, &self.header(writing.block).next)?;
                self.seal(writing);
                writing.block = next;
                writing.length = 0;
                writing.sum = sum_of(0, &[writing.number]);
            }
            // Nobody but the holder of the turn looks at it.
            self.word(writing.block, writing.length).write_private(*word);
            writing.sum = sum_of(writing.sum, &[*word]);
            writing.length += 1;
        }
        writing.total += words.len() as u64;
        Ok(())
    }

    /// Ends a block: its number and sum, and all of it on its way to the medium, but the line that says that the
    /// checkpoint is complete.
    fn seal(&self, writing: &mut Writing) {
        writing.is_flushed = true;
        let header = self.header(writing.block);
        header.number.write_private(writing.number);
        header.length.write_private(writing.length as u64);
        header.sum.write_private(u64::from(sum_of(writing.sum, &[writing.length as u64])));
        // Persist: the words, by the drain of `commit` or `pause`, before the other area is written over.
        self.medium.flush(self.word(writing.block, 0).as_ptr(), writing.length * 8);
        if writing.block != writing.first {
            // Persist: number and sum, by the drain of `commit` or `pause`, before the other area is written over.
            self.medium.flush(header.next.as_ptr(), HEADER_SIZE);
        }
    }

    /// Ends a turn in which the checkpoint was not completed: the next one may be another thread's.
    pub fn pause(&self, writing: &mut Writing) {
        if std::mem::take(&mut writing.is_flushed) {
            // Persist: the blocks of this turn, before the other area is written over: no other thread's drain covers
            // these flushes.
            self.medium.drain();
        }
    }

    /// Makes a checkpoint complete, durably. The next one is written to the other area.
    pub fn commit(
        &self,
        session: &mut Session<M>,
        turn: &mut Turn,
        mut writing: Writing,
        tails: &[Tail],
    ) {
        let words: Vec<u64> = tails.iter().flat_map(|tail| tail.words()).collect();
        if self.push(session, &mut writing, &words).is_err() {
            return;
        }
        self.seal(&mut writing);
        let header = self.header(writing.first);
        let (number, total) = (writing.number, writing.total);
        let mut merges = self.merges.lock();
        let leads = merges.count == writing.merges || M::mutant("sptree.leads_past_merge");
        merges.leads |= leads;
        header.leads.write_private(if leads { number } else { 0 });
        header.committed.write_private(number);
        header.total.write_private(total);
        // Release: the checkpoint is whole; recovery's view.
        header.commit_sum.store(u64::from(sum_of(0, &[number, total])), Ordering::Release);
        // Persist: all of it, before the other area is written over.
        self.medium.persist(header.next.as_ptr(), HEADER_SIZE);
        drop(merges);
        turn.area ^= 1;
        self.cut_off(session, writing.block);
    }

    /// Says that a leaf is merged away, before anything of it is durable: from then on no checkpoint leads to leaves
    /// until one is complete that was begun behind. The caller holds the leaf's lock.
    pub fn note_merge(&self) {
        let mut merges = self.merges.lock();
        merges.count += 1;
        if !std::mem::take(&mut merges.leads) || M::mutant("sptree.keeps_leading") {
            return;
        }
        for area in 0..2 {
            // Acquire: the block's header; pairs with the release in `follow`.
            let block = self.head(area).load(Ordering::Acquire);
            if block == 0 {
                continue;
            }
            let leads = &self.header(block).leads;
            // Release: recovery's view.
            leads.store(0, Ordering::Release);
            // Persist: by the drain below.
            self.medium.flush(leads.as_ptr(), 8);
        }
        // Persist: before the merge is durable, or opening would go to a leaf that is not one any more.
        self.medium.drain();
    }

    /// Frees the blocks behind one, which the last checkpoint did not need.
    fn cut_off(&self, session: &mut Session<M>, last: u64) {
        let link = &self.header(last).next;
        let mut block = link.read_private();
        if block == 0 {
            return;
        }
        // Release: recovery's view.
        link.store(0, Ordering::Release);
        // Persist: nothing leads to the blocks before they are used again.
        self.medium.persist(link.as_ptr(), 8);
        while block != 0 {
            let next = self.header(block).next.read_private();
            session.free_record(block, self.block_size());
            block = next;
        }
    }

    /// Gives all blocks back, for when the pool is full; opening reads the whole log then. False if there are none, or
    /// somebody is at work on them.
    pub fn give_up(&self, session: &mut Session<M>) -> bool {
        let Some(mut turn) = self.try_turn() else { return false };
        turn.open = None;
        // What says that a leaf is merged away writes to the blocks.
        let mut merges = self.merges.lock();
        merges.leads = false;
        let mut blocks = vec![];
        for area in 0..2 {
            let mut block = self.head(area).read_private();
            while block != 0 {
                blocks.push(block);
                block = self.header(block).next.read_private();
            }
            // Release: recovery's view.
            self.head(area).store(0, Ordering::Release);
        }
        // Persist: nothing leads to the blocks before they are used again.
        self.medium.persist(self.head(0).as_ptr(), 16);
        drop(merges);
        for block in &blocks {
            session.free_record(*block, self.block_size());
        }
        !blocks.is_empty()
    }

    /// Visits the blocks of both areas, each before it is read, with their size.
    ///
    /// # Errors
    /// The visitor's.
    pub fn for_each_block<E>(
        &self,
        mut visit: impl FnMut(u64, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        for area in 0..2 {
            let mut block = self.head(area).read_private();
            while block != 0 {
                visit(block, self.block_size())?;
                block = self.header(block).next.read_private();
            }
        }
        Ok(())
    }

    /// Marks the blocks of both areas, and finds the newest checkpoint that is whole. The next one that is written goes
    /// to the other area.
    ///
    /// # Errors
    /// An area leads to where no block can be.
    pub fn find(&mut self, recovery: &Recovery<M>) -> Result<Option<Found>, AllocError> {
        self.for_each_block(|block, size| {
            if recovery.record_room(block).is_none_or(|room| room < size) {
                return Err(corrupt(block, "a block of a checkpoint was expected here"));
            }
            recovery.mark_record(block, size)
        })?;
        let mut complete: Vec<_> =
            (0..2).filter_map(|area| Some((self.committed(area)?, area))).collect();
        complete.sort_unstable();
        let leads = |area| {
            let block = self.head(area).read_private();
            self.header(block).leads.read_private()
        };
        let leading = complete.iter().filter(|((number, _), area)| leads(*area) == *number);
        let leading: Vec<u64> = leading.map(|((number, _), _)| *number).collect();
        self.merges.get_mut().leads = !leading.is_empty();
        let both = complete.len() == 2;
        for ((number, total), area) in complete.into_iter().rev() {
            if let Some(mut found) = self.read(self.head(area).read_private(), number, total) {
                found.leads = leading.contains(&number);
                self.turn.get_mut().area = area ^ 1;
                return Ok(Some(found));
            }
        }
        // A medium that loses nothing has one of two: nobody writes to the one before the other is durable.
        if M::SIMULATED && both {
            return Err(corrupt(self.head(0).read_private(), "neither checkpoint is whole"));
        }
        Ok(None)
    }

    /// The number and the length of the checkpoint of an area, if it says that there is one.
    fn committed(&self, area: usize) -> Option<(u64, u64)> {
        let block = self.head(area).read_private();
        let header = (block != 0).then(|| self.header(block))?;
        let (number, total) = (header.committed.read_private(), header.total.read_private());
        let sum = header.commit_sum.read_private();
        (number != 0 && sum == u64::from(sum_of(0, &[number, total]))).then_some((number, total))
    }

    /// The checkpoint of this number and length in an area, if it is whole.
    fn read(&self, mut block: u64, number: u64, total: u64) -> Option<Found> {
        let tail_words = self.shape.log_count * TAIL_LENGTH;
        let mut words: Vec<u64> = vec![];
        while (words.len() as u64) < total {
            let header = (block != 0).then(|| self.header(block))?;
            let left = usize::try_from(total).ok()? - words.len();
            let length = left.min(self.shape.block_length);
            let start = words.len();
            words.extend((0..length).map(|index| self.word(block, index).read_private()));
            let sum = sum_of(sum_of(sum_of(0, &[number]), &words[start..]), &[length as u64]);
            let is_whole = header.number.read_private() == number
                && header.length.read_private() == length as u64
                && header.sum.read_private() == u64::from(sum);
            if !is_whole {
                return None;
            }
            block = header.next.read_private();
        }
        let tails = words.split_off(words.len().checked_sub(tail_words)?);
        let entries = words.chunks_exact(ENTRY_LENGTH);
        if !entries.remainder().is_empty() {
            return None;
        }
        let entries = entries.map(|entry| Entry::of([entry[0], entry[1], entry[2]])).collect();
        let tails =
            tails.chunks_exact(TAIL_LENGTH).map(|tail| Tail::of([tail[0], tail[1]])).collect();
        Some(Found { entries, tails, leads: false })
    }
}
