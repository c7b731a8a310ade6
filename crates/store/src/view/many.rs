//! Many keys of a view in one call.
//!
//! The values are read in the tree together, in one pinned operation, and shown in place. Each is shown
//! only after the books of the view were looked at: what is in the tree, and in no book *afterwards*, is
//! what the key was (V2); a view that was given up is found marked *afterwards* (V3).

use everleaf_index::IndexError;

use super::MapView;
use crate::versions::BeforeImage;
use crate::{Error, Result};

impl MapView {
    /// Runs `see(i, value)` for each of `keys`, in the order in which they are given, with overlapping
    /// cache misses. Keys need not be sorted, and may be given more than once; of one that was not there
    /// the value is `None`.
    ///
    /// All answers are of the moment of the view, whatever is written meanwhile. Values are verified as
    /// closely as by [`Self::get`], and shown without a copy. `see` must be quick, and may do what the
    /// function of [`Map::get_with`](crate::Map::get_with) may.
    ///
    /// *Cost*: for each key a search in the tree, O(log n), and one in what was saved for views, O(log m);
    /// the space of one reference per key. *Thread safety*: any number of threads may call it at once, of
    /// one view or of several, beside writers; it waits for none of them.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// let trees = store.map("trees")?;
    /// trees.put("oak", "Quercus")?;
    /// trees.put("ash", "Fraxinus")?;
    /// let view = store.view()?;
    /// trees.put("oak", "changed")?;
    /// let mut found = vec![];
    /// view.map(&trees).get_many(&["oak", "elm", "ash"], |index, value| {
    ///     found.push((index, value.map(<[u8]>::to_vec)));
    /// })?;
    /// let expected = [(0, Some(b"Quercus".to_vec())), (1, None), (2, Some(b"Fraxinus".to_vec()))];
    /// assert_eq!(found, expected);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::get`]. `see` was not called for the keys whose values are damaged, and perhaps not for
    /// others; what it was shown is right.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let (tree, shared) = (self.map.tree_arc(), self.map.shared());
        shared.check_process()?;
        self.check_store()?;
        self.inner.check()?;
        let mut shown = Shown { view: self, keys, see, next: 0, error: None, is_damaged: false };
        if self.inner.views().is_born_after(tree, self.inner.version) {
            (0..keys.len()).for_each(|index| (shown.see)(index, None));
            return Ok(());
        }
        shared.reached("store.view_looked");
        let mut session = shared.session()?;
        let bytes = keys.iter().map(AsRef::as_ref);
        let read = tree.get_many(&mut session.pinned(), bytes, shared.verify, |index, value| {
            // Those that are left out are damaged.
            shown.up_to(index, Now::Damaged);
            shown.up_to(index + 1, Now::Is(value));
        });
        drop(session);
        match read {
            // What it held when it was dropped was saved.
            Err(IndexError::Removed) => shown.up_to(keys.len(), Now::Is(None)),
            _ => shown.up_to(keys.len(), Now::Damaged),
        }
        match (shown.error, shown.is_damaged) {
            (Some(error), _) => Err(error),
            (None, true) => Ok(read?),
            // Whatever is wrong now, each key was saved before.
            (None, false) => Ok(()),
        }
    }
}

/// What a key is in the tree.
#[derive(Clone, Copy)]
enum Now<'a> {
    Is(Option<&'a [u8]>),
    Damaged,
}

/// Many keys, of which some were shown.
struct Shown<'a, K, F> {
    view: &'a MapView,
    keys: &'a [K],
    see: F,
    /// The first key of which nothing was said.
    next: usize,
    /// What is wrong with the view, or with what was saved for it.
    error: Option<Error>,
    /// Whether the answer is a record in the tree that is damaged.
    is_damaged: bool,
}

impl<K: AsRef<[u8]>, F: FnMut(usize, Option<&[u8]>)> Shown<'_, K, F> {
    /// Shows the next keys, of which this is in the tree, up to that of number `end`.
    fn up_to(&mut self, end: usize, now: Now<'_>) {
        while self.next < end {
            self.show(now);
            self.next += 1;
        }
    }

    /// Shows the next key.
    fn show(&mut self, now: Now<'_>) {
        let MapView { inner, map } = self.view;
        let key = self.keys[self.next].as_ref();
        let hash = map.shared().order.hash_of(key);
        // After the tree (V2), and what says whether the view still counts after both (V3).
        let was = inner.views().find(map.tree_arc(), key, hash, inner.version);
        let was = match inner.check().and(was) {
            Ok(was) => was,
            // The view was given up, or there is no memory for the value.
            Err(error) => {
                self.error = Some(error);
                return;
            }
        };
        match (was, now) {
            (Some(BeforeImage::Value((value, _))), _) => (self.see)(self.next, Some(&value)),
            (Some(BeforeImage::Absent), _) => (self.see)(self.next, None),
            (Some(BeforeImage::Damaged(text)), _) => {
                self.error = Some(Error::Corrupt(text.to_string()))
            }
            (None, Now::Is(value)) => (self.see)(self.next, value),
            (None, Now::Damaged) => self.is_damaged = true,
        }
    }
}
