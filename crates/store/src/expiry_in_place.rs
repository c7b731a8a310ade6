//! The expiry of a key with a long value, changed without writing the value again.
//!
//! To others it is a batch of one change: the gate is raised, and the stripe of the key is taken so that
//! readers wait, too. It needs no journal, because one store of eight bytes does it. A log gets the key
//! and the time, and no value.

use everleaf_index::{Domain, ExpiryChange, Hardware, Session, Verify};

use crate::Result;
use crate::batch::Raised;
use crate::map::Map;
use crate::wal::LogEffect;

impl Map {
    /// Changes the expiry of `key` if it is still `old_ms`. The caller is inside of no operation; if
    /// another function of its thread is, the record has to be written again.
    #[cold]
    #[inline(never)]
    pub(crate) fn expire_in_place(
        &self,
        key: &[u8],
        old_ms: u64,
        expiry_ms: u64,
    ) -> Result<ExpiryChange> {
        let shared = self.shared();
        // A reader that looked before we have the stripe may read behind the store and before its flush:
        // what it is told would not survive. So only where what is visible is durable.
        if shared.trees.heap().medium().domain() == Domain::Adr {
            return Ok(ExpiryChange::NoPlace);
        }
        let mut session = shared.session()?;
        if shared.raise(1).is_err() {
            return Ok(ExpiryChange::NoPlace);
        }
        let raised = Raised(shared);
        let stripe = shared.order.lock_many([shared.order.stripe_of(key)]);
        if let Some(log) = &shared.log {
            log.check()?;
        }
        let hash_of = |key: &[u8]| shared.order.hash_of(key);
        shared.views.save_key(self.tree_arc(), &mut session, key, hash_of)?;
        let change = |session: &mut Session<Hardware>| {
            let outcome =
                self.tree().change_expiry(session, key, old_ms, expiry_ms, Verify::Key)?;
            if outcome == ExpiryChange::Done {
                shared.watches.mark(self.tree_arc(), key, hash_of);
            }
            let is_done = outcome == ExpiryChange::Done;
            Ok((outcome, LogEffect::expiry_if_changed(is_done, expiry_ms)))
        };
        let (outcome, lsn) = match &shared.log {
            None => (change(&mut session).map_err(crate::Error::from)?.0, None),
            Some(log) => {
                log.write(self.number(), self.tree(), &mut session, key, &mut |_, session| {
                    change(session)
                })?
            }
        };
        drop((stripe, raised, session));
        match (lsn, &shared.log) {
            (None, Some(log)) => log.relieve(),
            _ => shared.wait(lsn)?,
        }
        Ok(outcome)
    }
}
