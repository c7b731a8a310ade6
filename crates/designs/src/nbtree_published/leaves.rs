//! Where leaves come from: Calloc, as the paper has it, or one of the allocators it is compared with.

use std::collections::BTreeSet;

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::RootObject;
use everleaf_machine::{Atomic, Machine};

use super::blocks::Blocks;
use super::calloc::{Calloc, Logged, New};

/// See the module. An allocator of blocks does what Calloc does, with destinations.
pub(super) enum Leaves<M: Machine> {
    /// Bitmap, ring and log.
    Calloc(Calloc<M>),
    /// Another allocator.
    Blocks(Blocks<M>),
}

impl<M: Machine> Leaves<M> {
    /// Space for the first leaf.
    ///
    /// # Errors
    /// No space.
    pub fn reserve_first(
        &self,
        session: &mut Session<M>,
        record_size: usize,
    ) -> Result<u64, AllocError> {
        match self {
            Leaves::Calloc(_) => session.allocate_record(record_size),
            Leaves::Blocks(blocks) => blocks.reserve(session),
        }
    }

    /// Makes it the first leaf, which the head names from then on, durably.
    ///
    /// # Errors
    /// No space; then nothing is there but the head.
    pub fn activate_first(
        &self,
        session: &mut Session<M>,
        block: u64,
        head: &Atomic<u64, M>,
        record_size: usize,
    ) -> Result<(), AllocError> {
        match self {
            Leaves::Calloc(calloc) => {
                head.write_private(block);
                // Persist: block, then root object, before the directory names the tree.
                session.medium().persist(head.as_ptr(), 8);
                calloc
                    .set_bits(session, &[block])
                    .inspect_err(|_| session.free_record(block, record_size))
            }
            Leaves::Blocks(blocks) => {
                blocks.activate(session, block, head);
                Ok(())
            }
        }
    }

    /// Takes the first leaf back, of a tree that was not made.
    pub fn forget_first(
        &self,
        session: &mut Session<M>,
        head: &Atomic<u64, M>,
        record_size: usize,
    ) {
        match self {
            Leaves::Calloc(_) => session.free_record(head.read_private(), record_size),
            Leaves::Blocks(blocks) => blocks.free_first(session, head),
        }
    }

    /// The leaves for the replacement of `old`.
    ///
    /// # Errors
    /// No space; then nothing was taken.
    pub fn begin(
        &self,
        session: &mut Session<M>,
        old: u64,
        count: usize,
    ) -> Result<New, AllocError> {
        let new = match self {
            Leaves::Calloc(calloc) => calloc.begin(session, old, count)?,
            Leaves::Blocks(blocks) => {
                let (blocks, place) = blocks.begin(session, old, count)?;
                New { blocks, logged: Logged { place } }
            }
        };
        M::mark("nbtree_published.replaced");
        new.blocks.iter().for_each(|_| M::mark("nbtree_published.leaf_allocated"));
        Ok(new)
    }

    /// Clears the log of a replacement that is done, or that is taken back.
    pub fn end(&self, logged: Logged) {
        match self {
            Leaves::Calloc(calloc) => calloc.end(logged),
            Leaves::Blocks(blocks) => blocks.end(logged.place),
        }
    }

    /// Gives a log up before its replacement is done, where sessions share what logs there are: for one that waits for
    /// another replacement. What it named may stay allocated without a name.
    pub fn give_up(&self, session: &Session<M>, logged: &mut Option<Logged>) {
        if let Leaves::Blocks(blocks) = self
            && let Some(logged) = logged.take()
        {
            if M::mutant("nbtree_blocks.late_note") {
                blocks.end(logged.place);
                return blocks.note_unnamed(session);
            }
            blocks.note_unnamed(session);
            blocks.end(logged.place);
        }
    }

    /// Says that a leaf which was replaced may stay allocated without a name.
    pub fn note_unnamed(&self, session: &Session<M>) {
        if let Leaves::Blocks(blocks) = self {
            blocks.note_unnamed(session);
        }
    }

    /// Takes a leaf back that nobody else has seen.
    pub fn give_back(&self, session: &mut Session<M>, block: u64) {
        match self {
            Leaves::Calloc(calloc) => calloc.give_back(session, block),
            Leaves::Blocks(blocks) => blocks.give_back(session, block),
        }
    }

    /// Takes a leaf back that the list and the inner nodes have lost.
    pub fn retire(&self, session: &mut Session<M>, block: u64) {
        match self {
            Leaves::Calloc(calloc) => calloc.retire(session, block),
            Leaves::Blocks(blocks) => blocks.retire(session, block),
        }
    }

    /// Marks what is used, and holds it against the leaves of the tree. Nobody else is active.
    pub fn check(
        &self,
        used: &Recovery<M>,
        leaves: &BTreeSet<u64>,
        record_size: usize,
        problems: &mut Vec<String>,
    ) {
        match self {
            Leaves::Calloc(calloc) => {
                for block in leaves {
                    if let Err(error) = used.mark_record(*block, record_size) {
                        problems.push(error.to_string());
                    }
                }
                calloc.check(used, leaves, problems);
            }
            Leaves::Blocks(blocks) => blocks.check(used, leaves, problems),
        }
    }

    /// Gives everything back, the tree's leaves too. Nobody uses the tree any more.
    pub fn free_all(
        &self,
        session: &mut Session<M>,
        leaves: impl Iterator<Item = u64>,
        record_size: usize,
    ) {
        match self {
            Leaves::Calloc(calloc) => {
                leaves.for_each(|block| session.free_record(block, record_size));
                calloc.free_all(session);
            }
            Leaves::Blocks(blocks) => blocks.free_all(session, leaves),
        }
    }
}

/// What a tree is opened with, before its leaves are known.
pub(super) struct Opening<'o, M: Machine> {
    pub recovery: &'o Recovery<M>,
    pub blocks: Option<Blocks<M>>,
    pub record_size: usize,
}

impl<M: Machine> Opening<'_, M> {
    /// Marks the leaf at an offset; whether there can be one.
    ///
    /// # Errors
    /// It is marked already.
    pub fn mark(&self, block: u64) -> Result<bool, AllocError> {
        if let Some(blocks) = &self.blocks {
            // Marked when all leaves are known: a space is one record.
            return Ok(blocks.is_block(self.recovery, block));
        }
        let room = self.recovery.record_room(block);
        if room.is_none_or(|room| room < self.record_size) {
            return Ok(false);
        }
        self.recovery.mark_record(block, self.record_size)?;
        Ok(true)
    }

    /// The allocator, for a tree with these leaves.
    ///
    /// # Errors
    /// Damage.
    pub fn finish(
        self,
        session: &mut Session<M>,
        root_object: RootObject<M>,
        leaves: impl Iterator<Item = u64>,
    ) -> Result<Leaves<M>, AllocError> {
        let Some(mut blocks) = self.blocks else {
            let heap = session.heap().clone();
            let calloc = Calloc::open(&heap, root_object, self.record_size, self.recovery, leaves)?;
            return Ok(Leaves::Calloc(calloc));
        };
        blocks.free_unlisted(session, self.recovery, &leaves.collect())?;
        Ok(Leaves::Blocks(blocks))
    }
}
