//! What recovery and checks do with bitmap, rings and logs: they hold them against the leaves of
//! the list, which alone are believed.
//!
//! The planted bug `nbtree_published.trusts_calloc` is recovery as the paper has it: it goes by bits,
//! rings and logs. `nbtree_published.frees_once` is the same, but for a leaf that a log and a ring
//! give back both: that is free once.

use std::collections::{BTreeMap, BTreeSet};

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_index::RootObject;
use everleaf_machine::{Atomic, Machine};

use super::{
    AREA_WORDS, AREAS, BIT_WORDS, Calloc, LOG, LOG_COUNT, LOG_ENTRY, RING, RING_COUNT,
    SEGMENT_WORDS, SEGMENTS, SPAN_SHIFT,
};

/// The segment of each span, and its bits.
type Segments = BTreeMap<u64, (u64, [u64; BIT_WORDS])>;

impl<M: Machine> Calloc<M> {
    /// The records of a chain.
    fn follow(&self, head: usize) -> Vec<u64> {
        let next = |record: &u64| Some(self.words(*record, 1)[0].read_private());
        let first = Some(self.root_object.word(head).read_private());
        let end = |record: &Option<u64>| record.filter(|record| *record != 0);
        std::iter::successors(end(&first), |record| end(&next(record))).collect()
    }

    /// The allocator after a crash or a clean end, for a tree with these leaves.
    ///
    /// # Errors
    /// Damage.
    pub fn open(
        heap: &Heap<M>,
        root_object: RootObject<M>,
        record_size: usize,
        recovery: &Recovery<M>,
        blocks: impl Iterator<Item = u64>,
    ) -> Result<Self, AllocError> {
        let this = Self::new(heap, root_object, record_size);
        let mut segments = Segments::new();
        this.find(recovery, SEGMENTS, SEGMENT_WORDS, |record| {
            segments.insert(this.words(record, 2)[1].read_private(), (record, [0; BIT_WORDS]));
        })?;
        let mut areas = vec![];
        this.find(recovery, AREAS, AREA_WORDS, |record| areas.push(record))?;
        let frees_once = M::mutant("nbtree_published.frees_once");
        if frees_once || M::mutant("nbtree_published.trusts_calloc") {
            this.believe(&mut segments, &areas, &blocks.collect())?;
        } else {
            for block in blocks {
                let (word, bit) = this.position(block);
                // A leaf's segment was durable before the leaf was linked.
                if let Some((_, bits)) = segments.get_mut(&(block >> SPAN_SHIFT)) {
                    bits[word] |= bit;
                }
            }
        }
        if !heap.pool().is_read_only() {
            for (segment, bits) in segments.values() {
                this.write_back(&this.words(*segment, SEGMENT_WORDS)[2..], bits);
            }
            for area in &areas {
                this.write_back(&this.words(*area, AREA_WORDS)[LOG..], &[0; AREA_WORDS - LOG]);
            }
        }
        let found = segments.into_iter().map(|(span, (segment, _))| (span, segment));
        *this.segments.lock() = found.collect();
        *this.spare.lock() = areas;
        Ok(this)
    }

    /// Takes the bits as they are stored, and corrects them by logs and rings: of each replacement
    /// that was under way either the old leaf becomes free or the new ones do, and then what is in
    /// rings.
    fn believe(
        &self,
        segments: &mut Segments,
        areas: &[u64],
        listed: &BTreeSet<u64>,
    ) -> Result<(), AllocError> {
        for (segment, bits) in segments.values_mut() {
            let words = &self.words(*segment, SEGMENT_WORDS)[2..];
            bits.iter_mut().zip(words).for_each(|(bits, word)| *bits = word.read_private());
        }
        let mut free = |block: u64| {
            let (word, bit) = self.position(block);
            let Some((_, bits)) = segments.get_mut(&(block >> SPAN_SHIFT)) else { return false };
            let was_set = bits[word] & bit != 0;
            bits[word] &= !bit;
            was_set
        };
        for area in areas {
            let log = &self.words(*area, AREA_WORDS)[LOG..LOG + LOG_COUNT * LOG_ENTRY];
            for entry in log.chunks(LOG_ENTRY) {
                let [old, left, right] = [0, 1, 2].map(|index| entry[index].read_private());
                if old != 0 && listed.contains(&left) {
                    free(old);
                } else if old != 0 {
                    free(left);
                    free(right);
                }
            }
        }
        for block in self.in_rings(areas) {
            if !free(block) && !M::mutant("nbtree_published.frees_once") {
                let what = "a leaf is in a ring and free: it would be used twice".into();
                return Err(AllocError::Corrupt { offset: block, what });
            }
        }
        Ok(())
    }

    /// Visits the records of a chain, each checked and marked before it is read.
    fn find(
        &self,
        recovery: &Recovery<M>,
        head: usize,
        count: usize,
        mut visit: impl FnMut(u64),
    ) -> Result<(), AllocError> {
        let mut record = self.root_object.word(head).read_private();
        while record != 0 {
            if recovery.record_room(record).is_none_or(|room| room < count * 8) {
                let what = "a part of a tree's allocator was expected here".into();
                return Err(AllocError::Corrupt { offset: record, what });
            }
            recovery.mark_record(record, count * 8)?;
            visit(record);
            record = self.words(record, 1)[0].read_private();
        }
        Ok(())
    }

    /// Makes words what they should be.
    fn write_back(&self, words: &[Atomic<u64, M>], wanted: &[u64]) {
        let mut differ = false;
        for (word, wanted) in words.iter().zip(wanted) {
            if word.read_private() != *wanted {
                word.write_private(*wanted);
                differ = true;
            }
        }
        if differ {
            M::mark("nbtree_published.calloc_mended");
            // Persist: before they are changed again.
            self.medium.persist(words[0].as_ptr(), 8 * wanted.len());
        }
    }

    /// The leaves in the rings of these areas. Nobody else is active.
    fn in_rings(&self, areas: &[u64]) -> Vec<u64> {
        let ring = |area| self.words(area, AREA_WORDS)[RING..RING + RING_COUNT].iter();
        let places = areas.iter().flat_map(|area| ring(*area).map(Atomic::read_private));
        places.filter(|block| *block != 0).collect()
    }

    /// Marks what the allocator uses, and holds the bits against `leaves`, the records that the
    /// tree uses. Nobody else is active.
    pub fn check(&self, used: &Recovery<M>, leaves: &BTreeSet<u64>, problems: &mut Vec<String>) {
        let mut marked = |record: u64, size: usize| {
            if let Err(error) = used.mark_record(record, size) {
                problems.push(error.to_string());
            }
        };
        self.follow(SEGMENTS).into_iter().for_each(|record| marked(record, SEGMENT_WORDS * 8));
        let areas = self.follow(AREAS);
        areas.iter().for_each(|record| marked(*record, AREA_WORDS * 8));
        let rings = self.in_rings(&areas);
        rings.iter().for_each(|block| marked(*block, self.record_size));
        let segments = self.segments.lock();
        let mut set = 0;
        for segment in segments.values() {
            let bits = &self.words(*segment, SEGMENT_WORDS)[2..];
            set += bits.iter().map(|word| u64::from(word.read_private().count_ones())).sum::<u64>();
        }
        for block in leaves.iter().chain(&rings) {
            let bit = segments.get(&(block >> SPAN_SHIFT)).map(|it| self.bit_in(*it, *block));
            if bit.is_none_or(|(word, bit)| word.read_private() & bit == 0) {
                problems.push(format!("the leaf at {block} is in use and its bit is not set"));
            }
        }
        let used = (leaves.len() + rings.len()) as u64;
        if set != used {
            problems.push(format!("{set} leaves are allocated, {used} are in use or in rings"));
        }
    }

    /// Gives everything back. Nobody uses the tree any more.
    pub fn free_all(&self, session: &mut Session<M>) {
        for block in self.in_rings(&self.follow(AREAS)) {
            session.free_record(block, self.record_size);
        }
        for (head, count) in [(SEGMENTS, SEGMENT_WORDS), (AREAS, AREA_WORDS)] {
            for record in self.follow(head) {
                session.free_record(record, count * 8);
            }
        }
    }
}
