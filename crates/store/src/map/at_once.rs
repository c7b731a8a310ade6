//! Several keys as one step: what they are at one moment, and their removal.
//!
//! Reading takes nothing: while writers keep an order (with a log always), the stripes of all keys are looked at, the
//! keys are read, and the stripes are looked at again (`write_order/look.rs`); while they keep none, the keys are. A
//! reader that is disturbed tries again. One that is disturbed again and again takes the stripes to read, for which
//! writes of them wait, and others that take them so, and single reads do not; they are let go before anything is
//! shown. So a get waits for no call that reads several keys, nor do these for each other but in the last resort; the
//! gate is raised only for that, and lowered at once; and no value is copied before it is known that all belong
//! together, nor behind the one with which `see` has enough.
//!
//! What was weighed besides: to take the stripes as a batch does makes gets wait; a view takes all 1024 of them, and
//! makes each write save what it replaces.

use std::ops::ControlFlow;

use everleaf_index::{Hardware, Machine, Record, SeeRecord, SessionGuard};

use crate::map::{Map, SeeValue};
use crate::shared::Shared;
use crate::{Expiry, Result, WriteBatch};

/// Keys that are looked up together where writers keep an order.
const GROUP: usize = 32;
/// How often it is tried to read without stripes.
const ATTEMPTS: u32 = 6;

/// What is told of a key by its place among those that were asked for, with its expiry, and whether more is wanted.
pub type SeeKey<'a> = dyn FnMut(usize, Option<(&[u8], Expiry)>) -> ControlFlow<()> + 'a;

/// The gate, raised for a moment.
struct Raised<'a>(&'a Shared);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.order.lower();
    }
}

impl Map {
    /// As [`Self::get_many`], for the server: shows what all of the keys are at one moment within the call, and when
    /// they expire, until `see` breaks. Others may use the store meanwhile, as `see` may.
    ///
    /// # Errors
    /// As [`Self::get_many`]; behind a key whose value is damaged none is shown. [`Error::Nested`] if it was called
    /// from within an operation for which it would have to wait.
    ///
    /// [`Error::Nested`]: crate::Error::Nested
    #[doc(hidden)]
    pub fn get_many_at_once(&self, keys: &[&[u8]], see: &mut SeeKey<'_>) -> Result<()> {
        self.read_at_once(keys, &mut |index, record: Option<Record<'_>>| {
            see(index, record.map(|it| (it.value, Expiry::from_unix_ms(it.expiry_ms))))
        })
    }

    /// [`Self::get_many`] while writers keep an order: some keys at a time, or each by itself when others write them.
    /// Compiled once.
    pub(super) fn get_groups(
        &self,
        keys: &mut dyn Iterator<Item = &[u8]>,
        see: &mut SeeValue<'_>,
    ) -> Result<()> {
        let (mut group, mut first) = ([&b""[..]; GROUP], 0);
        loop {
            let mut count = 0;
            for (place, key) in group.iter_mut().zip(&mut *keys) {
                (*place, count) = (key, count + 1);
            }
            let keys = &group[..count];
            let mut flow = ControlFlow::Continue(());
            let mut show = |index: usize, value: Option<&[u8]>| {
                flow = see(first + index, value);
                flow
            };
            let is_shown = count > 1
                && self.try_at_once(keys, &mut |index, record| {
                    show(index, record.map(|it| it.value))
                })?;
            if !is_shown {
                for (index, key) in keys.iter().enumerate() {
                    let seen = self.get_with(key, |value| show(index, Some(value)))?;
                    if seen.unwrap_or_else(|| show(index, None)).is_break() {
                        break;
                    }
                }
            }
            if count < GROUP || flow.is_break() {
                return Ok(());
            }
            first += count;
        }
    }

    /// Shows the keys if nobody writes one of them meanwhile. Returns whether they were shown.
    fn try_at_once(&self, keys: &[&[u8]], see: &mut SeeRecord<'_>) -> Result<bool> {
        let shared = self.shared();
        let mut session = shared.session()?;
        let mut pinned = session.pinned();
        let Some(look) = shared.order.look(keys) else { return Ok(false) };
        let is_so = || look.is_unchanged();
        Ok(self.tree().get_many_if(&mut pinned, keys, shared.verify, is_so, see)?)
    }

    fn read_at_once(&self, keys: &[&[u8]], see: &mut SeeRecord<'_>) -> Result<()> {
        let (shared, tree) = (self.shared(), self.tree());
        let mut session = shared.session()?;
        for attempt in 0..ATTEMPTS {
            let mut pinned = session.pinned();
            // A batch that comes behind this waits until we are pinned no more.
            let is_shown = if shared.order.is_free() {
                tree.get_many_unchanged(&mut pinned, keys, shared.verify, see)?
            } else if let Some(look) = shared.order.look(keys) {
                shared.reached("store.looked");
                let is_so = || look.is_unchanged();
                tree.get_many_if(&mut pinned, keys, shared.verify, is_so, see)?
            } else {
                false
            };
            if is_shown {
                return Ok(());
            }
            drop(pinned);
            Hardware::spin(attempt);
        }
        self.read_behind_stripes(session, keys, see)
    }

    /// Reads keys that others write all the time.
    #[cold]
    fn read_behind_stripes(
        &self,
        mut session: SessionGuard<'_, Hardware>,
        keys: &[&[u8]],
        see: &mut SeeRecord<'_>,
    ) -> Result<()> {
        let shared = self.shared();
        shared.raise(1)?;
        let raised = Raised(shared);
        // In the order in which they go.
        let held = (shared.order.lock_to_read(keys.iter().copied()), raised);
        // What was found stays as long as the session is pinned: the stripes are not needed to show it.
        let mut pinned = session.pinned();
        let is_so = || {
            drop(held);
            true
        };
        let is_shown = self.tree().get_many_if(&mut pinned, keys, shared.verify, is_so, see)?;
        debug_assert!(is_shown, "it is so");
        Ok(())
    }

    /// Removes keys as one change, for the server: all of them or none, for everybody, and across a crash. Returns how
    /// many were there; one that is named twice counts once. What has expired was not there, and is removed behind
    /// that, each by itself: one that is revived in between (by a batch that has seen it before its time came, or by a
    /// clock that is set back) stays, though it was named.
    ///
    /// # Errors
    /// As [`Store::write`](crate::Store::write): a full pool may have no room to write down what is to be removed.
    #[doc(hidden)]
    pub fn remove_many_at_once(&self, keys: &[&[u8]]) -> Result<usize> {
        let mut batch = WriteBatch::new();
        batch.reserve(keys.len(), keys.iter().map(|key| key.len()).sum());
        for key in keys {
            batch.remove(self, key);
        }
        self.shared().remove_present(&batch)
    }
}
