//! Copies of maps of integers.

use everleaf_index::{Hardware, IndexError, Session, Trees, U64Tree};

use super::{Copied, other_count};
use crate::{Error, Result, Store};

/// Pairs that are read at once.
const TOGETHER: usize = 1024;

/// The pairs of a map of integers, counted.
struct Pairs<'a> {
    tree: &'a U64Tree,
    session: Session<Hardware>,
    /// Those that were read and not handed on.
    read: std::vec::IntoIter<(u64, u64)>,
    /// The first key that was not looked for; none behind the last key that there can be.
    next: Option<u64>,
    copied: &'a mut Copied,
    progress: &'a mut dyn FnMut(u64),
    /// Why it ended early.
    error: &'a mut Option<Error>,
}

impl Pairs<'_> {
    fn read_more(&mut self) -> Result<()> {
        let Some(from) = self.next else { return Ok(()) };
        let mut pairs = vec![];
        self.tree.scan(&mut self.session, from, TOGETHER, &mut pairs)?;
        let last = pairs.last().filter(|_| pairs.len() == TOGETHER);
        self.next = last.and_then(|(key, _)| key.checked_add(1));
        self.read = pairs.into_iter();
        Ok(())
    }
}

impl Iterator for Pairs<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.read.len() == 0
            && let Err(error) = self.read_more()
        {
            *self.error = Some(error);
            return None;
        }
        let pair = self.read.next()?;
        self.copied.count(self.progress);
        Some(pair)
    }
}

impl Store {
    /// Copies a map of integers, which nobody writes; it may be dropped meanwhile.
    pub(super) fn copy_integers(
        &self,
        to: &Trees,
        name: &str,
        tree: &U64Tree,
        copied: &mut Copied,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut session = self.shared().trees.heap().session().map_err(IndexError::from)?;
        let (keys, before) = (tree.len(&mut session)?, copied.keys);
        let mut error = None;
        let pairs = Pairs {
            tree,
            session,
            read: vec![].into_iter(),
            next: Some(0),
            copied: &mut *copied,
            progress,
            error: &mut error,
        };
        to.load_u64_tree(name, pairs)?;
        // A copy that ended early must not pass for one of everything.
        error.map_or(Ok(()), Err)?;
        match copied.keys - before {
            read if read == keys => Ok(()),
            read => Err(other_count(name, read, keys)),
        }
    }
}
