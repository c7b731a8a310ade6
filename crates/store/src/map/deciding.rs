//! Writes that look at a key before: what is there is read, decided on and replaced as one atomic step.

use std::cell::Cell;

use everleaf_index::{
    Change, Decision, ExpiryChange, Hardware, IndexError, LONG_VALUE_SIZE, Record, Session, Verify,
    lock_rank,
};

use super::Map;
use super::own_writes::{self, Asking};
use crate::Result;
use crate::conversion::copy_of;
use crate::wal::LogEffect;

/// So often a decision is made on what was read before; then other writes of the key wait until it is done, if it does
/// not use the store.
const ATTEMPTS: u32 = 8;

/// What of a key a decision depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sees {
    /// The value, and when it expires.
    Value,
    /// When it expires; what is shown of the value means nothing.
    Expiry,
}

impl Sees {
    /// The part of the value that is shown.
    fn shown(self, record: Record<'_>) -> &[u8] {
        match self {
            Sees::Value => record.value,
            Sees::Expiry => &[],
        }
    }
}

/// What decides a key's fate by what is there; called through a pointer, so that the steps around it are
/// compiled once.
pub(crate) type Decide<'a> = dyn FnMut(Option<Record<'_>>) -> Decision + 'a;

/// What a decision was made by: a copy of what of the record it depends on.
struct Seen {
    /// Empty if the value is not shown.
    value: Vec<u8>,
    expiry_ms: u64,
    is_long: bool,
}

impl Seen {
    fn of(record: Record<'_>, sees: Sees) -> Result<Self> {
        let is_long = record.value.len() >= LONG_VALUE_SIZE;
        Ok(Seen { value: copy_of(sees.shown(record))?, expiry_ms: record.expiry_ms, is_long })
    }

    fn record<'a>(&'a self, key: &'a [u8]) -> Record<'a> {
        Record { key, value: &self.value, expiry_ms: self.expiry_ms }
    }
}

/// Whether what a decision was made by is there still.
fn is_same(found: Option<Record<'_>>, seen: Option<&Seen>, sees: Sees) -> bool {
    match (found, seen) {
        (Some(found), Some(seen)) => {
            sees.shown(found) == seen.value && found.expiry_ms == seen.expiry_ms
        }
        (None, None) => true,
        _ => false,
    }
}

/// Whether what is to change is only the expiry of a long value, which can be done in place.
fn expires_in_place(found: Record<'_>, decision: &Decision) -> bool {
    matches!(decision, Decision::Expire(_)) && found.value.len() >= LONG_VALUE_SIZE
}

impl Map {
    /// Reads, decides and writes one key as one atomic step. `decide` never runs behind a stripe: it
    /// may be the user's, and use the store. So it may run as often as another thread changes the key; if it does so
    /// itself, that is refused, and the key stays as it is.
    pub(crate) fn decide(&self, key: &[u8], sees: Sees, decide: &mut Decide<'_>) -> Result<bool> {
        let (mut has_asked, is_refused) = (false, Cell::new(false));
        let mut ask = |found: Option<Record<'_>>| {
            let asking = has_asked.then(|| Asking::begin(self, key));
            has_asked = true;
            let decision = decide(found);
            is_refused.set(asking.is_some_and(|asking| asking.has_written()));
            if is_refused.get() { Decision::Keep } else { decision }
        };
        loop {
            let changed = self.try_decide(key, sees, &mut ask)?;
            if is_refused.get() {
                return Err(own_writes::refused());
            }
            if let Some(changed) = changed {
                return Ok(changed);
            }
        }
    }

    /// As [`Self::decide`] on the value, by what does not use the store. What was lost otherwise: a long value takes
    /// long to read, to change and to compare, and another thread changes its expiry in no time, again and again.
    pub(crate) fn decide_at_last(&self, key: &[u8], decide: &mut Decide<'_>) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            if let Some(changed) = self.try_decide(key, Sees::Value, decide)? {
                return Ok(changed);
            }
        }
        self.decide_behind_stripe(key, decide)
    }

    /// Reads, decides and writes one key. `None`: another thread has changed it meanwhile.
    fn try_decide(&self, key: &[u8], sees: Sees, decide: &mut Decide<'_>) -> Result<Option<bool>> {
        self.check_own_write(key)?;
        {
            let mut session = self.shared.session()?;
            let mut pinned = session.pinned();
            if self.shared.order.is_free() {
                let done = match sees {
                    Sees::Value => self.decide_shown(&mut pinned, key, &mut *decide),
                    Sees::Expiry => self.tree.decide_short(&mut pinned, key, &mut *decide),
                };
                match done {
                    Ok(Some(changed)) => return Ok(Some(changed)),
                    Err(error) if !error.lacks_space() => return Err(error.into()),
                    // No space, or its expiry can be changed in place.
                    Err(_) | Ok(None) => {}
                }
            }
        }
        self.decide_in_order(key, sees, decide)
    }

    /// Reads, decides and writes one key while other writes of it wait, by what does not use the store. But a long
    /// value of which the expiry alone changes is not written again, and for that the stripe is taken anew: by what
    /// another thread has made of the value in between it is decided once more.
    #[cold]
    #[inline(never)]
    fn decide_behind_stripe(&self, key: &[u8], decide: &mut Decide<'_>) -> Result<bool> {
        let (owner, mut has_place) = (self.shared.address(), true);
        loop {
            let mut is_in_place = false;
            let mut apart = |found: Option<Record<'_>>| {
                let decision = lock_rank::apart(owner, || decide(found));
                is_in_place =
                    has_place && found.is_some_and(|record| expires_in_place(record, &decision));
                if is_in_place { Decision::Keep } else { decision }
            };
            let changed = self.write(key, |tree, session| {
                let changed = tree.decide_record(session, key, &mut apart)?;
                Ok((changed, LogEffect::if_changed(changed)))
            })?;
            if !is_in_place {
                return Ok(changed);
            }
            match self.expire_in_place_if(key, |session| {
                let new = |record: Record<'_>| {
                    let decision = lock_rank::apart(owner, || decide(Some(record)));
                    let Decision::Expire(expiry_ms) = decision else { return None };
                    expires_in_place(record, &decision).then_some((record.expiry_ms, expiry_ms))
                };
                Ok(self.tree.get_verified(session, key, Verify::Sum, new)?.flatten())
            })? {
                ExpiryChange::Done => return Ok(true),
                ExpiryChange::Mismatch => {}
                ExpiryChange::NoPlace => has_place = false,
            }
        }
    }

    /// Reads, decides and writes one key as one atomic step, by what does not use the store.
    pub(crate) fn decide_apart(&self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let owner = self.shared.address();
        let mut apart = |found: Option<Record<'_>>| lock_rank::apart(owner, || decide(found));
        self.write(key, |tree, session| {
            let changed = tree.decide_record(session, key, &mut apart)?;
            Ok(((), LogEffect::if_changed(changed)))
        })
    }

    /// Decides on what is there, and does it. `None`: what is to change is only the expiry of a long value, which can
    /// be done in place.
    fn decide_shown(
        &self,
        session: &mut Session<Hardware>,
        key: &[u8],
        decide: &mut Decide<'_>,
    ) -> std::result::Result<Option<bool>, IndexError> {
        let mut is_in_place = false;
        let changed = self.tree.decide_record(session, key, |found| {
            let decision = decide(found);
            is_in_place = found.is_some_and(|record| expires_in_place(record, &decision));
            if is_in_place { Decision::Keep } else { decision }
        })?;
        Ok((!is_in_place).then_some(changed))
    }

    /// Decides on what is there now, and does it if the same is there still. `None`: it is not.
    #[cold]
    #[inline(never)]
    fn decide_in_order(
        &self,
        key: &[u8],
        sees: Sees,
        decide: &mut Decide<'_>,
    ) -> Result<Option<bool>> {
        // What is not shown is verified before it is changed.
        let verify = if sees == Sees::Value { Verify::Sum } else { Verify::Key };
        let seen = self.read(key, verify, |record| Seen::of(record, sees))?.transpose()?;
        let decision = decide(seen.as_ref().map(|seen| seen.record(key)));
        if matches!(decision, Decision::Keep) {
            return Ok(Some(false));
        }
        let long = seen.as_ref().filter(|seen| seen.is_long);
        if let (Decision::Expire(expiry_ms), Some(long)) = (&decision, long) {
            let shown = (sees == Sees::Value).then_some(long.value.as_slice());
            match self.expire_in_place(key, shown, long.expiry_ms, *expiry_ms)? {
                ExpiryChange::Done => return Ok(Some(true)),
                ExpiryChange::Mismatch => return Ok(None),
                ExpiryChange::NoPlace => {}
            }
        }
        let (mut same, is_blind) = (true, self.shared.mutant("store.decides_blindly"));
        self.shared.reached("store.decided");
        let changed = self.write(key, |tree, session| {
            let changed = tree.decide_record(session, key, |found| {
                same = is_blind || is_same(found, seen.as_ref(), sees);
                if same { decision.clone() } else { Decision::Keep }
            })?;
            let effect = match decision {
                Decision::Expire(expiry_ms) => {
                    LogEffect::of(Change::expire(key, expiry_ms), changed)
                }
                _ => LogEffect::if_changed(changed),
            };
            Ok((changed, effect))
        })?;
        Ok(same.then_some(changed))
    }
}
