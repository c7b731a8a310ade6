//! Saving what keys are, before they change.

use std::ops::Bound;
use std::sync::Arc;

use everleaf_index::{BytesTree, Hardware, Record, Session, Verify};

use super::{BeforeImage, Versions};
use crate::conversion::copy_of;
use crate::{Error, Result};

impl Versions {
    /// Saves a key before it is changed (V2). The caller has its stripe.
    pub fn save_key(
        &self,
        tree: &Arc<BytesTree>,
        session: &mut Session<Hardware>,
        key: &[u8],
        hash_of: impl Fn(&[u8]) -> u64,
    ) -> Result<()> {
        if self.saves_for() == 0 {
            return Ok(());
        }
        let see = |record: Record<'_>| copy_of(record.value).map(|value| (value, record.expiry_ms));
        self.save(tree, key, hash_of(key), || {
            let found = tree.get_verified(session, key, Verify::Sum, see).map_err(Error::from);
            match found.and_then(Option::transpose) {
                Ok(found) => Ok(found.map_or(BeforeImage::Absent, BeforeImage::Value)),
                // Views say so, and the thread that changes it may go on.
                Err(Error::Corrupt(text)) => Ok(BeforeImage::Damaged(text.into())),
                Err(error) => Err(error),
            }
        })
    }

    /// Saves all keys of a map before it is emptied. The caller has all stripes.
    pub fn save_all(
        &self,
        tree: &Arc<BytesTree>,
        session: &mut Session<Hardware>,
        hash_of: impl Fn(&[u8]) -> u64,
    ) -> Result<()> {
        if self.saves_for() == 0 {
            return Ok(());
        }
        let (mut keys, mut damage) = (vec![], None);
        // Behind damage from both ends, and past records whose bytes have changed, as far as leaves can be read. The
        // key of such a one need not be what was put.
        for (reverse, verify) in [(false, Verify::Sum), (false, Verify::Key), (true, Verify::Key)] {
            let all = (Bound::Unbounded, Bound::Unbounded);
            let scanned = tree.scan_verified(session, all, reverse, verify, |record| {
                if !record.has_expired::<Hardware>() {
                    keys.push(record.key.to_vec());
                }
                true
            });
            match (scanned.map_err(Error::from), &damage) {
                (Ok(()), _) => break,
                (Err(Error::Corrupt(_)), Some(_)) => {}
                (Err(Error::Corrupt(text)), None) => {
                    damage = Some(text);
                    keys.clear();
                }
                (Err(error), _) => return Err(error),
            }
        }
        // Before them: damage may have misled the search for one of them, too.
        damage.iter().for_each(|text| self.note_unsaved(tree, text));
        keys.iter().try_for_each(|key| self.save_key(tree, session, key, &hash_of))
    }
}
