//! Loading a tree of byte strings from sorted pairs.

use everleaf_alloc::Session;
use everleaf_machine::Machine;
use everleaf_pool::FEATURE_EXPIRY;

use crate::bytes_tree::BytesTree;
use crate::error::IndexError;
use crate::geometry::Geometry;
use crate::kind::{BytesKey, BytesKind, Kind};
use crate::nbtree::state::LIVE;
use crate::nbtree::{BulkLoader, NbTree};
use crate::record::{self, EXPIRING_VALUE_SIZE_MAX, KEY_SIZE_MAX, VALUE_SIZE_MAX};

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    /// Makes a new tree from pairs in strictly ascending key order, each with the time at which it
    /// expires (0: never).
    pub(crate) fn load<Key: AsRef<[u8]>, Value: AsRef<[u8]>>(
        session: &mut Session<M>,
        id: u32,
        pairs: impl IntoIterator<Item = (Key, Value, u64)>,
    ) -> Result<NbTree<BytesKind<HEADS>, G, M>, IndexError> {
        let mut loader = BulkLoader::<BytesKind<HEADS>, G, M>::new(session, id);
        match Self::load_into(&mut loader, pairs) {
            Ok(()) => Ok(loader.finish()?),
            Err(error) => {
                loader.abandon();
                Err(error)
            }
        }
    }

    fn load_into<Key: AsRef<[u8]>, Value: AsRef<[u8]>>(
        loader: &mut BulkLoader<'_, BytesKind<HEADS>, G, M>,
        pairs: impl IntoIterator<Item = (Key, Value, u64)>,
    ) -> Result<(), IndexError> {
        let mut last: Option<Vec<u8>> = None;
        for (position, (key, value, expiry_ms)) in pairs.into_iter().enumerate() {
            let (key, value) = (key.as_ref(), value.as_ref());
            if key.len() > KEY_SIZE_MAX {
                return Err(IndexError::KeyTooLarge(key.len()));
            }
            let limit = if expiry_ms == 0 { VALUE_SIZE_MAX } else { EXPIRING_VALUE_SIZE_MAX };
            if value.len() > limit {
                return Err(IndexError::ValueTooLarge(value.len()));
            }
            if expiry_ms != 0 {
                loader.session().heap().pool().enable_features(FEATURE_EXPIRY)?;
            }
            if last.as_deref().is_some_and(|last| last >= key) {
                return Err(IndexError::NotSorted(position));
            }
            last = Some(key.to_vec());
            let key = BytesKey::new(key);
            let record = record::create_expiring(loader.session(), key.bytes, value, expiry_ms)?;
            let payload = key.payload(record);
            loader.push(key, <BytesKind<HEADS> as Kind<M>>::entry(key, 0, payload, LIVE))?;
        }
        Ok(())
    }
}
