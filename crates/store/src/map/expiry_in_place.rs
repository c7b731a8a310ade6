//! The expiry of a key with a long value, changed without writing the value again.
//!
//! To others it is a batch of one change: the gate is raised, and the stripe of the key is taken so that
//! readers wait, too. It needs no journal, because one store of eight bytes does it. A log gets the key
//! and the time, and no value.

use everleaf_index::{Change, ExpiryChange, Hardware, IndexError, Record, Session, Verify};

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
        let is_shown = |session: &mut Session<Hardware>, value: &[u8]| {
            let is_same = |record: Record<'_>| record.value == value;
            Ok(self.tree().get_verified(session, key, Verify::Sum, is_same)? == Some(true))
        };
        self.expire_in_place_if(key, |session| {
            let is_wanted = shown.map_or(Ok(true), |value| is_shown(session, value));
            is_wanted.map(|is_wanted| is_wanted.then_some((old_ms, expiry_ms)))
        })
    }

    /// Changes the expiry of `key` from one to another, which `wanted` says behind the stripe; `None`: it is not to be
    /// changed. The caller is as that of [`Self::expire_in_place`].
    pub(crate) fn expire_in_place_if(
        &self,
        key: &[u8],
        wanted: impl FnOnce(
            &mut Session<Hardware>,
        ) -> std::result::Result<Option<(u64, u64)>, IndexError>,
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
        let mut new_ms = 0;
        // Behind the stripe: nobody changes it from here on.
        let outcome = match wanted(write.session()) {
            Ok(Some((old_ms, expiry_ms))) => {
                new_ms = expiry_ms;
                self.tree().change_expiry(write.session(), key, old_ms, expiry_ms, Verify::Key)
            }
            Ok(None) => Ok(ExpiryChange::Mismatch),
            Err(error) => Err(error),
        };
        write.finish(outcome.map(|outcome| {
            let is_done = outcome == ExpiryChange::Done;
            (outcome, LogEffect::of(Change::expire(key, new_ms), is_done))
        }))
    }
}
