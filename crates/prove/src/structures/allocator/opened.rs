//! What the operations of the program for the allocator do.

use everleaf_alloc::{AllocError, BLOCK_SIZE, Session};
use everleaf_machine::simulated::history::Reply;
use everleaf_machine::{Atomic, Ordering};

use super::{
    LONG_CHUNKS, LONG_PLACES, M, NODE, NODE_SIZE, Opened, Operation, PLACES, class_of_block,
    demand_space, fill, holds_record, leave_unflushed, place, read, size_of_record,
};

pub(super) fn check_node(node: &Atomic<u64, M>) {
    // Relaxed: written before it was published. Not a private read, so that others may come before.
    let held = node.load(Ordering::Relaxed);
    assert!((NODE..NODE + 8).contains(&held), "a node holds {held:#x}");
}

impl Opened {
    pub(super) fn allocate(
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<u64, AllocError> {
        if holds_record(key) {
            session.allocate_record(size_of_record(value))
        } else {
            let class = class_of_block(session.heap(), key);
            Ok(u64::from(session.allocate_block_of(class)?) * BLOCK_SIZE as u64)
        }
    }

    /// Puts what lies at `offset` (0: nothing) in a place; what was there is retired.
    pub(super) fn exchange(&self, session: &mut Session<M>, key: u64, offset: u64) -> Option<u64> {
        let word = place(&self.heap, key);
        // AcqRel: publishes what lies there; acquires what lay there. Pairs with itself and `get`.
        let old = word.swap(offset, Ordering::AcqRel);
        self.heap.medium().persist(word.as_ptr(), 8);
        if old == 0 {
            return None;
        }
        let value = read(&self.heap, key, old);
        if holds_record(key) {
            session.retire_record(old, size_of_record(value));
        } else {
            let class = class_of_block(&self.heap, key);
            session.retire_block_of(class, (old / BLOCK_SIZE as u64) as u32);
        }
        Some(value)
    }

    fn get(&self, key: u64) -> Option<u64> {
        let word = place(&self.heap, key);
        // Acquire: pairs with `exchange`.
        let offset = word.load(Ordering::Acquire);
        let value = (offset != 0).then(|| read(&self.heap, key, offset));
        self.heap.medium().persist(word.as_ptr(), 8);
        value
    }

    /// Demands that there was no space where one thread was refused some: none is free in chunks that serve for
    /// something else, with what the session has free itself. It is pinned as it was then, so that nothing more can be
    /// collected.
    pub(super) fn demand_full(&self, session: &mut Session<M>, operation: Operation) {
        let is_alone = self.sessions.len() == 1 && self.pool.borrow().is_none();
        let Operation::Put(key, value) = operation else { return };
        if !is_alone || self.late.is_some() {
            return;
        }
        session.give_back();
        self.heap.release_empty_chunks();
        let found = Self::allocate(session, key, value);
        assert!(found.is_err(), "{operation:?} was refused space, and there is some");
    }

    /// Demands that what one thread has in use can be stored to behind a return of what lies beside it.
    fn demand_all_space(&self) {
        let is_alone = self.sessions.len() == 1 && self.pool.borrow().is_none();
        if !is_alone || self.late.is_some() {
            return;
        }
        for key in 0..if self.heap.chunk_shift() == LONG_CHUNKS { LONG_PLACES } else { PLACES } {
            let offset = place(&self.heap, key).read_private();
            if offset != 0 {
                demand_space(&self.heap, key, offset, read(&self.heap, key, offset));
            }
        }
    }

    fn turn(&self, session: &mut Session<M>, thread: usize) -> Result<(), AllocError> {
        let node: *mut Atomic<u64, M> = session.allocate_node(NODE_SIZE)?.cast();
        // SAFETY: ours alone, aligned and large enough.
        unsafe { node.write(Atomic::new(NODE + thread as u64)) };
        // AcqRel: publishes the node; pairs with itself and `peek`.
        let old = self.node.swap(node, Ordering::AcqRel);
        if !old.is_null() {
            // SAFETY: retired by us below; until then nobody else may reclaim it.
            check_node(unsafe { &*old });
            // SAFETY: of `allocate_node` with this size, taken out by us alone.
            unsafe { session.retire_node(old.cast(), NODE_SIZE) };
        }
        Ok(())
    }

    fn peek(&self) {
        // Acquire: pairs with `turn`.
        let node = self.node.load(Ordering::Acquire);
        // SAFETY: not reclaimed while the caller is pinned.
        if let Some(node) = unsafe { node.as_ref() } {
            check_node(node);
        }
    }

    pub(super) fn run(
        &self,
        session: &mut Session<M>,
        thread: usize,
        operation: Operation,
    ) -> Result<Option<Reply>, AllocError> {
        if let Operation::Get(key) | Operation::Put(key, _) | Operation::Remove(key) = operation {
            self.touch(key)?;
        }
        Ok(match operation {
            Operation::Get(key) => Some(Reply::Previous(self.get(key))),
            Operation::Put(key, value) => {
                let offset = Self::allocate(session, key, value)?;
                demand_space(&self.heap, key, offset, value);
                fill(&self.heap, key, offset, value);
                Some(Reply::Previous(self.exchange(session, key, offset)))
            }
            Operation::Remove(key) => Some(Reply::Previous(self.exchange(session, key, 0))),
            Operation::Turn => {
                self.turn(session, thread)?;
                None
            }
            Operation::Peek => {
                self.peek();
                None
            }
            Operation::Release => {
                self.touch_next()?;
                leave_unflushed(session);
                session.collect_all();
                session.give_back();
                self.heap.release_empty_chunks();
                None
            }
            Operation::Return(keep) => {
                session.collect_all();
                session.give_back();
                self.heap.return_space_but(keep << self.heap.chunk_shift(), || true)?;
                self.demand_all_space();
                None
            }
            Operation::Rejoin => unreachable!("done without a session"),
            Operation::Reopen => unreachable!("done without a heap"),
        })
    }
}
