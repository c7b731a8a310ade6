//! Calloc, the paper's allocator for leaves, on top of ours: which leaves are allocated, which were
//! freed lately, and which replacement is under way are words of the pool.
//!
//! ```text
//!   root object    | tag | head | segments | areas |
//!   segment   | next 8 | span 8 | one bit for each leaf of a span of 4 MiB, 512 |
//!   area      | next 8 | 0 56 | log: 2 x (old, new, new, 0) 64 | ring: 16 places, 128 |
//! ```
//!
//! *Bitmap*: a leaf's bit is set before the leaf is linked. Leaves that are allocated one after the
//! other are neighbours, so their bits are on one line. *Reclaimed ring*: a thread puts the leaves
//! that it frees in its ring and takes the next ones from there, while their bits stay set; only
//! when the ring is full is a bit cleared. *Recyclable log*: before a replacement sets bits it says
//! which leaf is to be replaced by which; when it is done, it clears that for the next one.
//!
//! *Source*: section III-C of the paper. What stands for its two layers of free space are the
//! chunks and the sessions' free lists of our allocator, which bitmap, ring and log are kept in
//! addition to: a session is a thread. *Departures*: recovery trusts none of the three. Crashes
//! between their stores leak leaves or free them twice, as the paper has it; so recovery marks the
//! leaves of the list, which is all that our allocator needs, sets the bitmap to that, and empties
//! rings and logs. A leaf in a ring is taken out again only after its grace period, of which the
//! paper says nothing.

mod recover;

use std::collections::BTreeMap;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_index::{PoolBase, RootObject};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering, SpinLock};
use everleaf_pool::Medium;

/// Words of the root object.
const SEGMENTS: usize = 2;
const AREAS: usize = 3;

/// Binary logarithm of the bytes that a segment is for.
const SPAN_SHIFT: u32 = 22;
/// Words of bits in a segment: a bit for each 1024 bytes.
const BIT_WORDS: usize = 1 << (SPAN_SHIFT - 10 - 6);
/// Words of a segment: next, span, bits.
const SEGMENT_WORDS: usize = 2 + BIT_WORDS;
/// Words of an area.
const AREA_WORDS: usize = 32;
/// Where an area's log is, in words.
const LOG: usize = 8;
/// Words of an entry of the log.
const LOG_ENTRY: usize = 4;
/// Entries of the log: a replacement may have to replace the leaf in front first.
const LOG_COUNT: usize = 2;
/// Where an area's ring is, in words.
const RING: usize = 16;
/// Places of a ring.
const RING_COUNT: usize = 16;
/// Sessions that have an area of their own.
const THREAD_COUNT: usize = 128;

/// What a session keeps of its area.
struct Thread {
    /// The area; 0 if it has none yet.
    area: u64,
    /// The place in the ring that was filled first.
    first: usize,
    /// Places that are filled.
    count: usize,
    /// The span whose segment was used last, and the segment; 0 if there is none.
    last: (u64, u64),
    /// Under which epoch each place was filled; 0: nobody else has seen the leaf.
    epochs: [u64; RING_COUNT],
}

/// The entry of the log that says what a replacement does, until it is done.
#[must_use]
pub(super) struct Logged {
    /// Where its first word is; 0 if the log was full.
    pub place: u64,
}

/// The leaves for a replacement.
pub(super) struct New {
    /// The places of one or two blocks.
    pub blocks: Vec<u64>,
    pub logged: Logged,
}

/// See the module.
pub(super) struct Calloc<M: Machine> {
    base: PoolBase<M>,
    medium: Medium<M>,
    root_object: RootObject<M>,
    record_size: usize,
    /// The segment of each span.
    segments: SpinLock<BTreeMap<u64, u64>, M>,
    /// Areas that no session has.
    spare: SpinLock<Vec<u64>, M>,
    threads: Box<[SpinLock<Thread, M>]>,
}

impl<M: Machine> Calloc<M> {
    /// The allocator of a new tree.
    pub fn new(heap: &Heap<M>, root_object: RootObject<M>, record_size: usize) -> Self {
        let epochs = [0; RING_COUNT];
        let thread = || Thread { area: 0, first: 0, count: 0, last: (0, 0), epochs };
        Calloc {
            base: PoolBase::of(heap),
            medium: heap.medium(),
            root_object,
            record_size,
            segments: SpinLock::new(BTreeMap::new()),
            spare: SpinLock::new(vec![]),
            threads: (0..THREAD_COUNT).map(|_| SpinLock::new(thread())).collect(),
        }
    }

    /// What the session keeps. Nobody else uses it, unless there are more sessions than these: then
    /// some share.
    fn thread(&self, session: &Session<M>) -> &SpinLock<Thread, M> {
        &self.threads[session.stripe() % THREAD_COUNT]
    }

    /// The words of a record of ours.
    fn words(&self, record: u64, count: usize) -> &[Atomic<u64, M>] {
        let start = self.base.start().wrapping_add(record as usize).cast();
        // SAFETY: a segment or an area: a record of that size, aligned, inside the pool, which
        // stays open; made of atomic words, valid whatever their bits.
        unsafe { std::slice::from_raw_parts(start, count) }
    }

    /// The leaves for the replacement of `old`: their log is written, their bits are set.
    ///
    /// # Errors
    /// No space; then nothing was taken.
    pub fn begin(
        &self,
        session: &mut Session<M>,
        old: u64,
        count: usize,
    ) -> Result<New, AllocError> {
        let mut blocks = vec![];
        let taken = (0..count).try_for_each(|_| self.take(session).map(|block| blocks.push(block)));
        let logged = taken.and_then(|()| self.log(session, old, &blocks));
        let set = logged.and_then(|logged| {
            // A block that was in a ring has its bit already.
            match self.set_bits(session, &blocks) {
                Ok(()) => Ok(logged),
                Err(error) => {
                    self.end(logged);
                    Err(error)
                }
            }
        });
        match set {
            Ok(logged) => Ok(New { blocks, logged }),
            Err(error) => {
                // Not to the ring, where only leaves are whose bits are set.
                for block in blocks {
                    self.clear_bit(session, block);
                    session.free_record(block, self.record_size);
                }
                Err(error)
            }
        }
    }

    /// A leaf from the session's ring, or a new one.
    fn take(&self, session: &mut Session<M>) -> Result<u64, AllocError> {
        let mut thread = self.thread(session).lock();
        let heap = session.heap();
        let epoch = thread.epochs[thread.first];
        let is_free = || epoch == 0 || heap.is_expired(epoch);
        if thread.count > 0 && thread.count.is_multiple_of(RING_COUNT / 2) && !is_free() {
            heap.advance_epoch();
        }
        if thread.count == 0 || !is_free() {
            drop(thread);
            return session.allocate_record(self.record_size);
        }
        M::mark("nbtree_published.from_ring");
        let word = &self.words(thread.area, AREA_WORDS)[RING + thread.first];
        let block = word.read_private();
        // Relaxed: only the session uses its ring; recovery empties it.
        word.store(0, Ordering::Relaxed);
        // Persist: as the paper has it. Nobody would miss it: recovery trusts no ring.
        self.medium.persist(word.as_ptr(), 8);
        thread.first = (thread.first + 1) % RING_COUNT;
        thread.count -= 1;
        Ok(block)
    }

    /// Says durably which leaf is to be replaced by which.
    fn log(&self, session: &mut Session<M>, old: u64, new: &[u64]) -> Result<Logged, AllocError> {
        let mut thread = self.thread(session).lock();
        let area = self.area(session, &mut thread)?;
        let words = self.words(area, AREA_WORDS);
        let places = (0..LOG_COUNT).map(|entry| LOG + entry * LOG_ENTRY);
        let Some(place) = places.into_iter().find(|place| words[*place].read_private() == 0) else {
            return Ok(Logged { place: 0 });
        };
        for index in 0..2 {
            let block = new.get(index).copied().unwrap_or(0);
            // Relaxed: only the session uses its log.
            words[place + 1 + index].store(block, Ordering::Relaxed);
        }
        // Release: last, in the pool too, being on one line: an entry that names an old leaf is whole. Pairs with
        // recovery's reads.
        words[place].store(old, Ordering::Release);
        // Persist: the entry before the bits that it speaks of, as the paper has it.
        self.medium.persist(words[place].as_ptr(), 8);
        Ok(Logged { place: area + 8 * place as u64 })
    }

    /// Clears the log of a replacement that is done, or was given up.
    pub fn end(&self, logged: Logged) {
        if logged.place == 0 {
            return;
        }
        let word = &self.words(logged.place, 1)[0];
        // Relaxed: only the session uses its log.
        word.store(0, Ordering::Relaxed);
        // Persist: as the paper has it.
        self.medium.persist(word.as_ptr(), 8);
    }

    /// Takes a leaf back that nobody else has seen.
    pub fn give_back(&self, session: &mut Session<M>, block: u64) {
        if !self.put_in_ring(session, block, 0) {
            self.clear_bit(session, block);
            session.free_record(block, self.record_size);
        }
    }

    /// Takes a leaf back that the list and the inner nodes have lost: reused when nobody can hold
    /// it.
    pub fn retire(&self, session: &mut Session<M>, block: u64) {
        let epoch = session.heap().retire_epoch();
        if !self.put_in_ring(session, block, epoch) {
            M::mark("nbtree_published.ring_full");
            self.clear_bit(session, block);
            session.retire_record(block, self.record_size);
        }
    }

    /// Whether there was a place in the session's ring.
    fn put_in_ring(&self, session: &mut Session<M>, block: u64, epoch: u64) -> bool {
        let mut thread = self.thread(session).lock();
        if thread.area == 0 || thread.count == RING_COUNT {
            return false;
        }
        let place = (thread.first + thread.count) % RING_COUNT;
        let word = &self.words(thread.area, AREA_WORDS)[RING + place];
        // Relaxed: only the session uses its ring.
        word.store(block, Ordering::Relaxed);
        // Persist: as the paper has it.
        self.medium.persist(word.as_ptr(), 8);
        thread.epochs[place] = epoch;
        thread.count += 1;
        true
    }

    /// The session's area, made if it has none.
    fn area(&self, session: &mut Session<M>, thread: &mut Thread) -> Result<u64, AllocError> {
        if thread.area == 0 {
            let spare = self.spare.lock().pop();
            thread.area = match spare {
                Some(area) => area,
                None => {
                    let area = session.allocate_record(AREA_WORDS * 8)?;
                    let guard = self.spare.lock();
                    self.chain(AREAS, area, AREA_WORDS, 0);
                    drop(guard);
                    area
                }
            };
        }
        Ok(thread.area)
    }

    /// Puts a new record, cleared but for its second word, at the head of one of the chains. The
    /// caller holds the chain's lock.
    fn chain(&self, head: usize, record: u64, count: usize, second: u64) {
        let words = self.words(record, count);
        let head = self.root_object.word(head);
        words.iter().for_each(|word| word.write_private(0));
        words[0].write_private(head.read_private());
        words[1].write_private(second);
        // Persist: the record before the chain leads to it.
        self.medium.persist(words[0].as_ptr(), 8 * count);
        // Relaxed: only recovery follows the chain.
        head.store(record, Ordering::Relaxed);
        // Persist: the chain before anything in the record is needed.
        self.medium.persist(head.as_ptr(), 8);
    }

    /// The word with a block's bit, and the bit. Makes the span's segment if there is none.
    fn bit(
        &self,
        session: &mut Session<M>,
        block: u64,
    ) -> Result<(&Atomic<u64, M>, u64), AllocError> {
        let span = block >> SPAN_SHIFT;
        let last = self.thread(session).lock().last;
        if last.0 == span && last.1 != 0 {
            return Ok(self.bit_in(last.1, block));
        }
        let mut segments = self.segments.lock();
        let segment = match segments.get(&span) {
            Some(segment) => *segment,
            None => {
                let segment = session.allocate_record(SEGMENT_WORDS * 8)?;
                self.chain(SEGMENTS, segment, SEGMENT_WORDS, span);
                segments.insert(span, segment);
                segment
            }
        };
        drop(segments);
        self.thread(session).lock().last = (span, segment);
        Ok(self.bit_in(segment, block))
    }

    /// The word with a block's bit in its span's segment, and the bit.
    fn bit_in(&self, segment: u64, block: u64) -> (&Atomic<u64, M>, u64) {
        let (word, bit) = self.position(block);
        (&self.words(segment, SEGMENT_WORDS)[2 + word], bit)
    }

    /// Which word of its span's segment has a block's bit, and the bit.
    fn position(&self, block: u64) -> (usize, u64) {
        let index = (block % (1 << SPAN_SHIFT)) as usize / self.record_size;
        (index / 64, 1 << (index % 64))
    }

    /// Sets the bits of leaves, durably.
    pub fn set_bits(&self, session: &mut Session<M>, blocks: &[u64]) -> Result<(), AllocError> {
        let mut changed: Vec<*const u8> = vec![];
        for block in blocks {
            let (word, bit) = self.bit(session, *block)?;
            // Relaxed: only recovery and checks read bits.
            if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
                changed.push(word.as_ptr());
            }
        }
        changed.dedup_by_key(|word| word.addr() / LINE_SIZE);
        for word in changed {
            // Persist: the allocation before the leaf is linked, as the paper has it.
            self.medium.persist(word, 8);
        }
        Ok(())
    }

    /// Clears a leaf's bit, durably, if it is set.
    fn clear_bit(&self, session: &mut Session<M>, block: u64) {
        // Where there is no room for a segment, there is none, and the bit was never set.
        let Ok((word, bit)) = self.bit(session, block) else { return };
        // Relaxed: as in `set_bits`.
        if word.fetch_and(!bit, Ordering::Relaxed) & bit != 0 {
            // Persist: as the paper has it.
            self.medium.persist(word.as_ptr(), 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use everleaf_index::{Design, Domain, Heap, Pool, Production};
    use everleaf_machine::Hardware;

    use super::*;
    use crate::nbtree_published::NbTreePublished;

    /// A replacement within replacements finds the log full, and goes on without it, as published.
    #[test]
    fn a_replacement_beyond_the_log_goes_on_without_an_entry() {
        let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Process).expect("memory");
        let heap = Heap::create(pool).expect("room");
        let mut session = heap.session().expect("a free session");
        let tree = NbTreePublished::<Production, Hardware>::create(&mut session).expect("room");
        let mut begin = || tree.space.begin(&mut session, 1, 2).expect("room").logged;
        let entries: Vec<Logged> = (0..LOG_COUNT).map(|_| begin()).collect();
        assert!(entries.iter().all(|logged| logged.place != 0));
        let beyond = begin();
        assert_eq!(beyond.place, 0);
        tree.space.end(beyond);
        entries.into_iter().for_each(|logged| tree.space.end(logged));
        assert_ne!(begin().place, 0);
    }
}
