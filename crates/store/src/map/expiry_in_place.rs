//! The expiry of a key with a long value, changed without writing the value again.
//!
//! To others it is a batch of one change: the gate is raised, and the stripe of the key is taken so that
//! readers wait, too. It needs no journal, because one store of eight bytes does it. A log gets the key
//! and the time, and no value.

use everleaf_index::{Change, ExpiryChange, Record, Verify};

use crate::Result;
use crate::map::Map;
use crate::wal::LogEffect;

impl Map {
    /// Changes the expiry of `key` if it is still `old_ms`, and the value the one that was `shown`, if one was. The
    /// caller is inside of no operation; if another function of its thread is, the record has to be written again.
    #[cold]
    #[inline(never)]
    pub(crate) fn expire_in_place(
        &self,
        key: &[u8],
        shown: Option<&[u8]>,
        old_ms: u64,
        expiry_ms: u64,
    ) -> Result<ExpiryChange> {
        let shared = self.shared();
        // Before anybody has to wait for a change that will not be made.
        if !self.tree().changes_expiries_in_place() {
            return Ok(ExpiryChange::NoPlace);
        }
        let stripe = shared.order.stripe_of(key);
        let Ok(in_order) = shared.batch_in_order(shared.session()?, [stripe]) else {
            return Ok(ExpiryChange::NoPlace);
        };
        let mut write = self.begin(in_order, key)?;
        let session = write.session();
        let is_shown = |value: &&[u8]| {
            let is_same = |record: Record<'_>| record.value == *value;
            Ok(self.tree().get_verified(session, key, Verify::Sum, is_same)? == Some(true))
        };
        // Behind the stripe: nobody changes it from here on.
        let outcome = match shown.as_ref().map_or(Ok(true), is_shown) {
            Ok(true) => {
                self.tree().change_expiry(write.session(), key, old_ms, expiry_ms, Verify::Key)
            }
            Ok(false) => Ok(ExpiryChange::Mismatch),
            Err(error) => Err(error),
        };
        write.finish(outcome.map(|outcome| {
            let is_done = outcome == ExpiryChange::Done;
            (outcome, LogEffect::of(Change::expire(key, expiry_ms), is_done))
        }))
    }
}
