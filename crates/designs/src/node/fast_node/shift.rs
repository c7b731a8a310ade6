//! FAST: putting records in and taking them out by shifting. All by the holder of the node's lock.
//!
//! A shift never touches a line before the line it comes from is durable, so that in every crash at
//! most one record is there twice, and none is lost.

use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};

use super::{Node, NodeShape, Nodes, slots};

impl<S: NodeShape, M: Machine> Nodes<S, M> {
    #[inline(always)]
    fn put(&self, cell: &Atomic<u64, M>, word: u64) {
        // Release: total store order, which the protocol is built on: a store is visible after all
        // stores before it. Pairs with the acquire loads in `read.rs`.
        cell.store(word, Ordering::Release);
        if S::FENCED {
            // SeqCst: no two locations need one order; a release fence would do on a machine that lets
            // stores overtake each other. It is there to cost, and to be counted.
            M::fence(Ordering::SeqCst);
        }
    }

    /// Makes the line of a record durable.
    #[inline(always)]
    #[track_caller]
    pub fn persist_slot(&self, node: Node<S, M>, slot: usize) {
        self.medium.persist(node.key(slot).as_ptr(), 16);
    }

    /// Makes the line with sibling and state durable.
    #[track_caller]
    pub fn persist_header(&self, node: Node<S, M>) {
        self.medium.persist(node.start, 32);
    }

    /// Says up to which buffered write a leaf has all, durably.
    pub fn set_flushed(&self, node: Node<S, M>, sequence: u64) {
        // Release: after the records, which are durable; recovery's view.
        node.flushed_word().store(sequence, Ordering::Release);
        // Persist: the number before the buffer is emptied, and before the log forgets it.
        self.medium.persist(node.flushed_word().as_ptr(), 8);
    }

    /// Puts a record in, whose key and word the node does not have. There is room.
    ///
    /// *Linearizes* at the store of its word; *durable* when it returns.
    pub fn insert(&self, node: Node<S, M>, key: u64, word: u64) {
        let count = node.count();
        node.turn(false, false);
        // The end moves first: behind it there may be words that a split left.
        if node.value(count + 1).read_private() != 0 {
            self.put(node.value(count + 1), 0);
        }
        let mut slot = count;
        while slot > 0 && node.key(slot - 1).read_private() > key {
            let (moved, its_word) = node.entry(slot - 1);
            if slot == count || M::mutant("fast_fair.key_first") {
                // Behind the end the key comes first: nobody shall see the word with another.
                self.put(node.key(slot), moved);
                self.put(node.value(slot), its_word);
            } else {
                self.put(node.value(slot), its_word);
                self.put(node.key(slot), moved);
            }
            if Node::<S, M>::starts_line(slot) && !M::mutant("fast_fair.no_shift_persist") {
                // Persist: the record in its new line before its old place is written over (F1).
                self.persist_slot(node, slot);
            }
            slot -= 1;
        }
        if slot < count {
            self.put(node.value(slot), node.left_of(slot).read_private());
        }
        self.put(node.key(slot), key);
        self.put(node.value(slot), word);
        // Persist: the record before the write returns.
        self.persist_slot(node, slot);
        node.set_count(count + 1);
    }

    /// Replaces a record's word.
    ///
    /// *Linearizes* at the store; *durable* when it returns.
    pub fn replace(&self, node: Node<S, M>, slot: usize, word: u64) {
        self.put(node.value(slot), word);
        let odd = node.state_word().read_private() & super::SWITCH_ONE != 0;
        // Between the store above and a removal of the right neighbour, which copies the word over
        // its own: a reader that read the old word here and the copy there would take the copy for the
        // neighbour's value. Now it reads again.
        node.turn(odd, !M::mutant("fast_fair.quiet_update"));
        // Persist: the value before the write returns.
        self.persist_slot(node, slot);
    }

    /// Takes a record out.
    ///
    /// *Linearizes* at the store that makes its word its left neighbour's; *durable* when it returns.
    pub fn remove(&self, node: Node<S, M>, slot: usize) {
        let count = node.count();
        node.turn(true, false);
        self.put(node.value(slot), node.left_of(slot).read_private());
        self.close(node, slot, count);
        node.set_count(count - 1);
    }

    /// Shifts the records behind an invalid one to the left, over it.
    pub(super) fn close(&self, node: Node<S, M>, hole: usize, count: usize) {
        for slot in hole..count - 1 {
            let (moved, its_word) = node.entry(slot + 1);
            self.put(node.key(slot), moved);
            self.put(node.value(slot), its_word);
            let leaves_line = if M::mutant("fast_fair.wrong_line_end") {
                Node::<S, M>::starts_line(slot)
            } else {
                Node::<S, M>::starts_line(slot + 1)
            };
            if leaves_line {
                // Persist: the record in its new line before its old place is written over (F1).
                self.persist_slot(node, slot);
            }
        }
        self.put(node.value(count - 1), 0);
        // Persist: the removal before the write returns.
        self.persist_slot(node, count - 1);
    }

    /// Ends the node's records at `keep`, durably. What was behind is in the right sibling, which is
    /// linked durably and said to have it ([`UNCUT`](super::UNCUT)) until this returns.
    pub fn cut(&self, node: Node<S, M>, keep: usize) {
        let is_early = M::mutant("fast_fair.early_cut");
        if is_early {
            let odd = node.state_word().read_private() & super::SWITCH_ONE != 0;
            node.turn(odd, true);
        }
        self.put(node.value(keep), 0);
        // Persist: the end before the node is said to be cut.
        self.persist_slot(node, keep);
        // Behind the end, and before the sibling is all that has what was there: a thread that came past the
        // record before it went, and looks at the sibling after, would not look there. Now it reads again.
        if is_early { node.set_count(keep) } else { node.turn_shorter(keep) }
    }

    /// Appends records, greater than all there are, for which there is room, and leaves nothing
    /// behind them. All become visible at once.
    ///
    /// *Durable* when it returns.
    pub fn append(&self, node: Node<S, M>, mut entries: impl Iterator<Item = (u64, u64)>) {
        let count = node.count();
        node.turn(false, false);
        let first = entries.next();
        let mut end = count + 1;
        for (key, word) in entries {
            self.put(node.key(end), key);
            self.put(node.value(end), word);
            end += 1;
        }
        for slot in end..slots::<S>() {
            if M::mutant("fast_fair.append_no_tail") {
                break;
            }
            self.put(node.value(slot), 0);
        }
        if count + 1 < slots::<S>() {
            let start = node.key(count + 1).as_ptr();
            // Persist: everything behind the first record before that makes it visible; and no
            // word of a former split behind the end once the sibling is another one (F2).
            self.medium.persist(start, node.start.addr() + S::NODE_SIZE - start.addr());
        }
        if let Some((key, word)) = first {
            self.put(node.key(count), key);
            self.put(node.value(count), word);
            // Persist: the records before the node they come from is unlinked.
            self.persist_slot(node, count);
            node.set_count(end);
        }
        // Between the records and the sibling, which changes next: a thread that read the former before
        // and reads the latter after would miss what has moved. Now it reads again.
        node.turn(false, !M::mutant("fast_fair.quiet_merge"));
    }
}

const _: () = assert!(LINE_SIZE == 64, "records are laid out for lines of 64 bytes");
