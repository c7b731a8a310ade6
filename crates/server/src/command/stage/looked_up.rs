//! Members that were looked up before the commands that ask for them are run.
//!
//! A lookup waits for memory several times. Those of a pipeline of `SADD`s, `HSET`s or `ZADD`s are made together, where
//! one goes on while others wait; and what the batch will change lies in the cache then. What the store has is kept
//! as it was read, behind the header: that it still is so is a condition of the step, as for everything that was read
//! of a collection. What the stage itself writes comes first everywhere.

use crate::failure::Result;
use crate::short_bytes::ShortBytes;
use crate::types::Ready;

use super::Staged;

/// Of what is longer no copy is kept: it is looked up again.
const VALUE_SIZE_MAX: usize = 256;
/// So many of those that are next are looked through: a command that fails asks for nothing.
const NEXT: usize = 4;

/// What was looked up, in the order in which it will be asked for.
#[derive(Default)]
pub struct LookedUp {
    found: Vec<(ShortBytes, Option<ShortBytes>)>,
    next: usize,
}

impl LookedUp {
    /// Takes what a key has, if it was looked up and is among the next ones.
    #[inline]
    pub fn take(&mut self, key: &[u8]) -> Option<Option<ShortBytes>> {
        let mut next = self.found[self.next..].iter().take(NEXT);
        let at = next.position(|(place, _)| **place == *key)?;
        self.next += at + 1;
        Some(self.found[self.next - 1].1.take())
    }

    /// Forgets all of it: it may have been changed since.
    pub fn forget(&mut self) {
        self.found.clear();
        self.next = 0;
    }
}

impl Staged<'_> {
    /// Looks members up that the next commands ask for, in their order. The header of their collection was read.
    pub fn look_up(&mut self, ready: &Ready, keys: Vec<ShortBytes>) -> Result<()> {
        let mut values = Vec::with_capacity(keys.len());
        let looked = ready.members.peek_many(&keys, |index, value| {
            if value.is_none_or(|value| value.len() <= VALUE_SIZE_MAX) {
                values.push((index, value.map(ShortBytes::from)));
            }
        });
        let known = &mut self.stage.looked_up;
        known.forget();
        looked?;
        let (mut keys, mut count) = (keys.into_iter(), 0);
        known.found.extend(values.into_iter().filter_map(|(index, value)| {
            let place = keys.nth(index - count)?;
            count = index + 1;
            Some((place, value))
        }));
        Ok(())
    }
}
