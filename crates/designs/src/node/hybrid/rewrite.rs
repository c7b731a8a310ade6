//! Making room by rewriting a full leaf in place, under the protection of an image.
//!
//! 1. A new leaf, if one is needed, is filled with the upper half and made durable. It is locked.
//! 2. The inner tree learns of it: a thread that looks for its keys waits. Up to here everything can
//!    be undone and fail.
//! 3. The leaf is copied to an image, durably; a micro-log record says so, durably.
//! 4. The leaf is rewritten with the lower half and linked to the new one, durably.
//! 5. The record is cleared, durably: the commit. Both leaves are opened.
//!
//! A crash before 5 is durable puts the image back: the new leaf is then in no list and free again.
//! Nobody has seen the new state before 5, because both leaves were locked.

use everleaf_alloc::Session;
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::{Machine, Ordering};

use super::Hybrid;
use super::leaf::LeafDesign;
use crate::node::micro_log::Record;

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Hybrid<D, G, M> {
    /// Splits the leaf, or compacts it if at most half of it is in use. The caller holds its lock.
    pub fn rewrite(&self, session: &mut Session<M>, offset: u64) -> Result<(), IndexError> {
        let leaf = self.leaf(offset);
        let pairs = D::pairs(self.context, leaf);
        let splits = pairs.len() > self.context.capacity / 2 && pairs.len() > 1;
        let keep = if splits { pairs.len() / 2 } else { pairs.len() };
        let mut new = 0;
        if splits {
            M::mark("hybrid.split");
            let next = D::header(leaf).next();
            new = self.built(session, pairs[keep].0, next, &pairs[keep..])?;
            if let Err(error) = self.inner.insert_separator(session, pairs[keep].0, new) {
                session.free_record(new, Self::LEAF_SIZE);
                return Err(error.into());
            }
        } else {
            M::mark("hybrid.compact");
        }
        let log = self.logs.claim(session.stripe());
        self.copy(offset, self.image(log.index()));
        if !M::mutant("hybrid.no_image_flush") {
            // Persist: the image before the record that refers to it, or recovery would put garbage
            // back (M27).
            self.persist_leaf(self.leaf(self.image(log.index())));
        }
        log.write(Record::Rewrite { leaf: offset });
        D::freeze(self.context, leaf);
        D::fill(self.context, leaf, &pairs[..keep]);
        if splits {
            D::header(leaf).set_next(new);
        }
        if !M::mutant("hybrid.no_rewrite_flush") {
            // Persist: the leaf, its header with the link included, before the record is cleared, or
            // the upper half could be reachable from nowhere (M28).
            self.persist_leaf(leaf);
        }
        log.end();
        D::thaw(self.context, leaf);
        if splits {
            let right = self.leaf(new);
            D::thaw(self.context, right);
            D::header(right).lock.unlock();
        }
        self.note_split(session, i64::from(splits));
        Ok(())
    }

    /// A locked, durable leaf with these pairs.
    pub(super) fn built(
        &self,
        session: &mut Session<M>,
        low: u64,
        next: u64,
        pairs: &[(u64, u64)],
    ) -> Result<u64, IndexError> {
        let new = self.new_leaf(session, low, next)?;
        let leaf = self.leaf(new);
        D::fill(self.context, leaf, pairs);
        if !M::mutant("hybrid.no_new_flush") {
            // Persist: the whole leaf before the link to it (H1).
            self.persist_leaf(leaf);
        }
        Ok(new)
    }

    /// Copies a leaf or an image, word by word.
    pub(super) fn copy(&self, from: u64, to: u64) {
        for (source, target) in self.words(from).iter().zip(self.words(to)) {
            // Relaxed: the caller holds the leaf; the image is the log holder's.
            let word = source.load(Ordering::Relaxed);
            // Relaxed: the image is the log holder's.
            target.store(word, Ordering::Relaxed);
        }
    }
}
