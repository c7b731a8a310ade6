//! What the search layer learns of the list, in the order of the log.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::IndexError;
use everleaf_machine::Machine;

use super::PacTree;
use super::layout::NODE_SIZE;
use super::state::{Change, Kind};
use super::variant::Variant;

impl<V: Variant, const BITS: u32, M: Machine> PacTree<V, BITS, M> {
    /// Lets the search layer learn of all splits and merges so far: what an updater thread calls. Returns
    /// how many there were; 0 if another thread is at it.
    ///
    /// *Durable*: the list was before. *Complexity*: a search in the radix tree for each.
    ///
    /// # Errors
    /// [`IndexError::ReadOnly`]; no space for a node of the radix tree: what is left stays in the log.
    pub fn update_search(&self, session: &mut Session<M>) -> Result<usize, IndexError> {
        if !self.is_writable {
            return Err(IndexError::ReadOnly);
        }
        let mut session = session.pinned();
        Ok(self.follow(&mut session, 0)?)
    }

    /// Lets the search layer learn of what is in the log, if that is more than a few changes and nobody
    /// else is at it. Without space it learns later. For a thread that has just split or merged nodes.
    pub(super) fn follow_some(&self, session: &mut Session<M>) {
        if self.log.pending() > V::LAG {
            let _later = self.follow(session, V::LAG / 2);
        }
    }

    /// A place in the log; the search layer learns of some changes if there is none.
    pub(super) fn claim_place(&self, session: &mut Session<M>) -> Result<usize, AllocError> {
        let mut attempt = 0;
        loop {
            if let Some(place) = self.log.claim() {
                return Ok(place);
            }
            M::mark("pactree.log_full");
            // A thread that has a place and has not linked it waits for no thread that holds a node.
            if self.follow(session, 0)? == 0 {
                M::spin(attempt);
                attempt += 1;
            }
        }
    }

    /// Takes changes from the log until `rest` are left. Returns how many; 0 if another thread does.
    fn follow(&self, session: &mut Session<M>, rest: usize) -> Result<usize, AllocError> {
        let Some(_turn) = self.search.lock.try_lock() else { return Ok(0) };
        let mut count = 0;
        while self.log.pending() > rest {
            let Some((place, change)) = self.log.oldest() else { break };
            self.learn(session, change)?;
            // Before the node that was merged away may be used again (PT5).
            self.log.forget_oldest(place);
            self.drop_merged(session, change);
            count += 1;
        }
        Ok(count)
    }

    /// Makes the search layer know a change, durably. May be repeated.
    pub(super) fn learn(&self, session: &mut Session<M>, change: Change) -> Result<(), AllocError> {
        let low = self.node(change.right).low();
        let spot = self.search.seek(low);
        match change.kind {
            Kind::Split if spot.leaf == Some(change.right) => {}
            Kind::Split => drop(self.search.insert(session, &spot, low, change.right)?),
            Kind::Merge if spot.leaf != Some(change.right) => {}
            Kind::Merge if M::mutant("pactree.keeps_merged") => {}
            Kind::Merge => self.search.remove(session, &spot),
        }
        Ok(())
    }

    /// Gives the node back that a merge has left without keys; the search layer does not know it any more.
    fn drop_merged(&self, session: &mut Session<M>, change: Change) {
        if change.kind == Kind::Split {
            return;
        }
        if M::mutant("pactree.free_at_once") {
            return session.free_record(change.right, NODE_SIZE);
        }
        session.retire_record(change.right, NODE_SIZE);
    }
}
