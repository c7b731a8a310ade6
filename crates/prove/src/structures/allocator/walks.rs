//! What is done before a long program begins: a walk of one thread, each answer of which is held against a map.

use std::cell::RefCell;
use std::sync::Arc;

use everleaf_alloc::{Audit, Heap};
use everleaf_machine::AtomicPointer;
use everleaf_machine::simulated::history::Reply;
use everleaf_machine::simulated::{Memory, Program};

use super::{AllocatorProgram, File, M, Opened, Operation};
use crate::judge::expected::Expected;

impl AllocatorProgram {
    /// Does the walk on a new heap.
    pub(super) fn do_walk(&self, memory: Memory, heap: Arc<Heap<M>>) {
        let session = RefCell::new(Some(heap.session().expect("a free session")));
        let node = AtomicPointer::new(std::ptr::null_mut());
        let (pool, late) = (RefCell::new(None), None);
        let mut opened = Opened { sessions: vec![session], pool, node, heap, late };
        let mut expected = Expected::new();
        let (mut calls, mut replies) = (vec![], vec![]);
        for operation in &self.walk {
            if *operation == Operation::Reopen {
                let holes = opened.heap.pool().holes().expect("they are known");
                drop(opened);
                let again = self.open_with(memory, &holes);
                opened = again.expect("a pool that was left opens again");
                self.look_through(&opened);
                continue;
            }
            calls.clear();
            replies.clear();
            self.calls(operation, &mut calls);
            self.run(&opened, 0, operation, &mut replies);
            if !replies.contains(&Reply::Refused) {
                expected.hold(operation, &calls, &replies);
            }
            if self.is_watched {
                self.look_through(&opened);
            }
        }
    }

    /// Frees what was retired, and demands that everything is in use or free, by the books and by the headers, and that
    /// what counts as returned has no space.
    fn look_through(&self, opened: &Opened) {
        let heap = &opened.heap;
        let mut slot = opened.sessions[0].borrow_mut();
        let session = slot.as_mut().expect("the walk has a session");
        session.collect_all();
        let mut audit = Audit::new(heap).expect("headers that are whole");
        audit.add_session(session);
        self.mark_all(heap, audit.used()).expect("the row has what it refers to");
        let problems = audit.finish(heap);
        assert!(problems.is_empty(), "in the walk: {}", problems.join("; "));
        if self.file == File::Plain {
            return;
        }
        let holes = heap.pool().holes().expect("they are known");
        let bytes: u64 = holes.iter().map(|(from, to)| to - from).sum();
        let counted = heap.returned_bytes();
        // What was never used has none either, and a filling that was refused may have left some.
        let is_exact = self.file == File::Returning && self.pages.is_none();
        let is_right = counted == bytes || counted < bytes && !is_exact;
        assert!(is_right, "{bytes} bytes have no space, and {counted} count so");
    }
}
