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
    /// Copies a map of integers, which nobody writes. One that is dropped meanwhile is left out.
    pub(super) fn copy_integers(
        &self,
        to: &Trees,
        name: &str,
        tree: &U64Tree,
        copied: &mut Copied,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let before = *copied;
        copied.maps += 1;
        match self.copy_pairs(to, name, tree, copied, progress) {
            Err(Error::MapDropped) => {
                *copied = before;
                to.remove(name)?;
                Ok(())
            }
            result => result,
        }
    }

    /// Copies all pairs of a map of integers.
    fn copy_pairs(
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

#[cfg(test)]
mod tests {
    use crate::{Options, Store};

    /// A store with a map of integers, which no store makes.
    fn with_integers(path: &std::path::Path) -> Store {
        let options = Options::new().create(true).sweep(false).max_size_bytes(1 << 26);
        let store = options.open(path).expect("it opens");
        let trees = &store.shared().trees;
        let tree = trees.u64_tree("numbers").expect("room");
        let mut session = trees.heap().session().expect("a session");
        for number in 0..20_000 {
            assert_eq!(tree.insert(&mut session, number, number).expect("room"), None);
        }
        drop((session, tree));
        store.default_map().put("k", "v").expect("room");
        store
    }

    /// What failed as a whole: a backup beside which a map of integers was dropped.
    #[test]
    fn a_map_of_integers_that_is_dropped_meanwhile_is_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = with_integers(&folder.path().join("pool"));
        let copy = folder.path().join("copy");
        let mut is_dropped = false;
        let copied = store.backup(&copy, |keys| {
            assert!(keys < 20_000, "it is told before the end");
            let drop_map = || store.drop_map("numbers").expect("writable");
            is_dropped |= std::thread::scope(|scope| scope.spawn(drop_map).join().expect("done"));
        });
        let copied = copied.expect("room");
        assert!(is_dropped, "in the midst of it");
        assert_eq!((copied.maps, copied.keys), (1, 1));
        let copy = Options::new().read_only(true).open(&copy).expect("it opens");
        assert_eq!(copy.map_names(), ["default"]);
        assert_eq!(copy.check().expect("a check").problems, Vec::<String>::new());
    }
}
