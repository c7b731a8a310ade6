//! From a key to its node: as a reader, which changes nothing but dirty bits, and as a writer, which unlinks
//! what is marked.

use everleaf_machine::{Machine, Ordering};

use super::PSkiplist;
use super::layout::{Link, live};
use super::variant::{LEVEL_COUNT_MAX, Variant};

/// Where a key is, or would be, on each level.
#[derive(Clone)]
pub(super) struct Path {
    /// The last node with a smaller key.
    pub before: [u64; LEVEL_COUNT_MAX],
    /// The node behind it: 0 at the end.
    pub after: [u64; LEVEL_COUNT_MAX],
    /// The node of the key.
    pub found: Option<u64>,
}

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    /// Where a search for `key` begins, which is in front of it, and on how many levels.
    #[inline(always)]
    fn start(&self, key: u64) -> (u64, usize) {
        if V::CACHED {
            let number = key.checked_sub(1).map_or(0, |below| self.partitions.cached(below));
            return (self.partitions.at(number).node(), self.low_levels());
        }
        if self.is_writable {
            return (self.head, V::LEVEL_COUNT);
        }
        let smaller = self.guide.partition_point(|guide| guide.0 < key);
        (smaller.checked_sub(1).map_or(self.head, |last| self.guide[last].1), 1)
    }

    /// Levels on which a search goes within a partition.
    #[inline(always)]
    pub(super) fn low_levels(&self) -> usize {
        // What a crash has left of the upper ones cannot be made right.
        if self.is_writable { V::LOW_LEVELS.min(V::LEVEL_COUNT) } else { 1 }
    }

    /// The value of `key`.
    ///
    /// *Linearizes at* the load of the value; if the key is absent, at an instant when it was, since the
    /// search began.
    #[inline(always)]
    pub(super) fn read(&self, key: u64) -> Option<u64> {
        live(self.read_word(self.find(key)?))
    }

    /// The node of `key`, which was on level 0 since the call began.
    #[inline(always)]
    fn find(&self, key: u64) -> Option<u64> {
        if V::CACHED {
            return self.find_in(self.partitions.at(self.partitions.cached(key)).node(), key);
        }
        let (node, levels) = self.start(key);
        self.find_from(node, levels, key)
    }

    /// The node of `key`, from a tall node or the head on, which is not behind it.
    #[inline(always)]
    pub(super) fn find_in(&self, first: u64, key: u64) -> Option<u64> {
        if first != self.head && self.key(first) == key {
            return Some(first);
        }
        self.find_from(first, self.low_levels(), key)
    }

    /// The node of `key`, from one in front of it on.
    #[inline(always)]
    fn find_from(&self, mut node: u64, levels: usize, key: u64) -> Option<u64> {
        let mut larger = 0;
        for level in (0..levels).rev() {
            let mut link = self.follow(node, level);
            loop {
                let next = link.node();
                // What was too large on the level above is so here.
                if next == 0 || next == larger {
                    break;
                }
                let found = self.key(next);
                if found > key {
                    larger = next;
                    break;
                }
                if found == key && !self.load(next, level).is_marked() {
                    return Some(next);
                }
                (node, link) = self.pass(node, next, level);
            }
        }
        None
    }

    /// From a node over the next one, which is smaller than what is looked for, or removed: where the search
    /// stands then, and the link to go on with.
    #[inline(always)]
    fn pass(&self, node: u64, next: u64, level: usize) -> (u64, Link) {
        let link = self.follow(next, level);
        // A node that is marked may have left level 0 before the search began, and what is on lower levels
        // behind it, too (K5): it is no place to go down from.
        let is_gone = link.is_marked() && !M::mutant("skiplist.descends_from_removed");
        (if is_gone { node } else { next }, link)
    }

    /// The last node whose key is `before` what is looked for, near `key`, or the head; it was on level 0
    /// since the call began.
    #[inline(always)]
    pub(super) fn last(&self, key: u64, before: impl Fn(u64) -> bool) -> u64 {
        let (node, levels) = self.start(key);
        self.last_from(node, levels, before)
    }

    /// The last node whose key is `before` what is looked for, from one on that is.
    #[inline(always)]
    pub(super) fn last_from(
        &self,
        mut node: u64,
        levels: usize,
        before: impl Fn(u64) -> bool,
    ) -> u64 {
        let mut larger = 0;
        for level in (0..levels).rev() {
            let mut link = self.follow(node, level);
            loop {
                let next = link.node();
                if next == 0 || next == larger {
                    break;
                }
                if !before(self.key(next)) {
                    larger = next;
                    break;
                }
                (node, link) = self.pass(node, next, level);
            }
        }
        node
    }

    /// Where `key` is, or would be. Unlinks all removed nodes that it meets, and that of `key`.
    #[inline(always)]
    pub(super) fn seek(&self, key: u64) -> Path {
        let ends = [0; LEVEL_COUNT_MAX];
        let mut path = Path { before: [self.head; LEVEL_COUNT_MAX], after: ends, found: None };
        while !self.try_seek(key, &mut path) {
            M::mark("skiplist.seek_again");
        }
        path
    }

    /// As [`Self::seek`], unless a node was removed on which it stood.
    #[inline(always)]
    fn try_seek(&self, key: u64, path: &mut Path) -> bool {
        let (mut node, levels) = self.start(key);
        for level in (0..levels).rev() {
            loop {
                let link = self.load(node, level);
                if link.is_marked() {
                    return false;
                }
                if level == 0 && link.is_dirty() {
                    self.help_persist(node, link);
                    continue;
                }
                let next = link.node();
                path.before[level] = node;
                path.after[level] = next;
                if next == 0 {
                    break;
                }
                let beyond = self.load(next, level);
                if beyond.is_marked() {
                    self.unlink(node, level, next, beyond);
                    continue;
                }
                if self.key(next) >= key {
                    break;
                }
                node = next;
            }
        }
        path.found = Some(path.after[0]).filter(|next| *next != 0 && self.key(*next) == key);
        true
    }

    /// Takes a removed node out of a level, if nothing has changed there.
    fn unlink(&self, node: u64, level: usize, next: u64, beyond: Link) {
        M::mark("skiplist.unlink");
        if level == 0 && beyond.is_dirty() {
            // What it leads to must be durably linked behind it, before nobody sees that link any more (K8).
            self.help_persist(next, beyond);
        }
        let word = self.link(node, level);
        // AcqRel: what the removed node leads to, for a thread that comes this way; pairs with the acquire
        // in `load`. Relaxed on failure: the caller looks again.
        let _ = word.compare_exchange(next, beyond.node(), Ordering::AcqRel, Ordering::Relaxed);
    }
}
