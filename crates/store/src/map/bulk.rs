//! Making a map from pairs that are sorted already.

use std::sync::Arc;

use everleaf_index::{BytesTree, IndexError};

use crate::map::Map;
use crate::map::reserved::{name_is_taken, refuse_reserved};
use crate::shared::thread_number;
use crate::{Error, Result, Store, WriteBatch};

/// Bytes of a batch, where pairs are written in batches.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

impl Store {
    /// Makes a new map from pairs in strictly ascending key order: several times as fast as putting
    /// them one by one, and its leaves are full. Nobody sees the map before all of it is there.
    ///
    /// All or nothing, also across a crash. A check of the store waits for it, and from within `pairs` is
    /// refused. In a store with a log the pairs are written in batches
    /// instead, with the map in sight, and a crash may leave a part of it.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// let squares = (0..1000u32).map(|n| (n.to_be_bytes(), (n * n).to_string()));
    /// let map = store.load_map("squares", squares)?;
    /// assert_eq!(map.get(12u32.to_be_bytes())?, Some(b"144".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is a map of that name; [`Error::NotSorted`]; otherwise as [`Map::put`]. Then there is no
    /// such map.
    pub fn load_map<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        name: &str,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Map> {
        self.shared().check_process()?;
        refuse_reserved(name)?;
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        match self.shared().log {
            Some(_) => self.load_by_batches(name, pairs),
            None if self.existing_map(name)?.is_some() => Err(name_is_taken(name)),
            None => self.load_at_once(name, pairs),
        }
    }

    fn load_at_once<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        name: &str,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Map> {
        let shared = self.shared();
        // Goes last: a check waits until the map is found by its name, and the session given back.
        let _loading = shared.trees.begin_load(Some(thread_number()));
        // A session of its own, because it is held for as long as `pairs` takes.
        let mut session = shared.trees.heap().session().map_err(IndexError::from)?;
        let pairs = pairs.into_iter().map(|(key, value)| (key, value, 0));
        let built = shared.trees.build_bytes_tree(&mut session, pairs)?;
        let making = shared.making();
        let tree = shared.alone_with(&mut session, |_, session| {
            shared.check_writes()?;
            let note = |tree: &Arc<BytesTree>| shared.views.note_birth(tree);
            Ok(shared.trees.publish_bytes_tree(session, name, built, note)?)
        })?;
        drop(making);
        Ok(self.default_map().another(tree))
    }

    fn load_by_batches<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        name: &str,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Map> {
        // The name is ours from here on: a call that loads another map of that name beside us is refused.
        let map = self.map_or_new(name, true)?;
        let written = self.write_sorted(&map, pairs);
        if written.is_err() {
            // Unless somebody else has dropped it, and perhaps made another.
            let is_ours = |tree: Option<&Arc<BytesTree>>| {
                tree.is_some_and(|tree| Arc::ptr_eq(tree, map.tree_arc()))
            };
            // What it is refused for counts, also if the map cannot be dropped.
            let _ = self.drop_map_if(name, is_ours);
        }
        written.map(|()| map)
    }

    fn write_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        map: &Map,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        let (mut batch, mut last) = (WriteBatch::new(), None::<Vec<u8>>);
        for (position, (key, value)) in pairs.into_iter().enumerate() {
            let key = key.as_ref();
            if last.as_ref().is_some_and(|last| key <= last.as_slice()) {
                return Err(Error::NotSorted(position));
            }
            last = Some(key.to_vec());
            batch.put(map, key, value);
            if batch.size_bytes() >= BATCH_BYTES {
                let _ = self.write(&batch)?;
                batch.clear();
            }
        }
        self.write(&batch).map(drop)
    }
}
