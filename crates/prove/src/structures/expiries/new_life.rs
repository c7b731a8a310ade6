//! What has expired stays so, whatever is asked for.

use everleaf_index::{ExpiryChange, IndexError, Record, Session, Verify};

use super::{M, NEVER, Opened};

impl Opened {
    /// Demands that a record whose time has come is given no other, not even by a caller that knows
    /// its time.
    pub(super) fn demand_no_new_life(
        &self,
        session: &mut Session<M>,
        expiry_ms: u64,
    ) -> Result<(), IndexError> {
        let see = |record: Record<'_>| record.expiry_ms;
        let stored = self.tree.get_stored(session, self.key, Verify::Key, see)?;
        let Some(gone) = stored.filter(|stored| *stored != NEVER && *stored <= self.far + self.now)
        else {
            return Ok(());
        };
        self.order.raise(self.trees.heap());
        let stripes = self.order.lock_many([self.order.stripe_of(self.key)]);
        let done = self.tree.change_expiry(session, self.key, gone, expiry_ms, Verify::Key);
        drop(stripes);
        self.order.lower_after_batch();
        assert_eq!(done?, ExpiryChange::Mismatch, "what has expired gets a new life");
        Ok(())
    }
}
