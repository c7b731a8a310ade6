//! Members that were looked up before the commands that ask for them are run.
//!
//! A lookup waits for memory several times. Those of a pipeline of `SADD`s, `HSET`s or `ZADD`s are made together, where
//! one goes on while others wait; and what the batch will change lies in the cache then. What the store has is kept
//! as it was read, behind the header: that it still is so is a condition of the step, as for everything that was read
//! of a collection. What the stage itself writes comes first everywhere.

use std::ops::ControlFlow;

use crate::failure::Result;
use crate::read_size::counted;
use crate::short_bytes::ShortBytes;
use crate::types::Ready;

use super::Staged;

/// Of what is longer no copy is kept: it is looked up again.
const VALUE_SIZE_MAX: usize = 256;
/// Behind one that is longer nothing is looked up.
const LONG_SIZE: usize = 16 << 10;
/// So many of those that are next are looked through: a command that fails asks for nothing.
const NEXT: usize = 4;
/// So many keys need no further memory.
const FIRST_LEN: usize = 32;

/// What was looked up, in the order in which it will be asked for.
#[derive(Default)]
pub struct LookedUp {
    keys: Vec<ShortBytes>,
    /// What each of the first keys has; `None` of one that has to be looked up again.
    values: Vec<Option<Option<ShortBytes>>>,
    next: usize,
}

impl LookedUp {
    /// Takes what a key has, if it was looked up and is among the next ones.
    #[inline]
    pub fn take(&mut self, key: &[u8]) -> Option<Option<ShortBytes>> {
        let mut next = self.keys[self.next..self.values.len()].iter().take(NEXT);
        let at = self.next + next.position(|found| **found == *key)?;
        self.next = at + 1;
        self.values[at].take()
    }

    /// Forgets all of it: it may have been changed since.
    pub fn forget(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.next = 0;
    }

    /// Forgets all of it, and gives room for the keys that are looked up next.
    pub fn begin(&mut self) -> Vec<ShortBytes> {
        self.forget();
        let mut keys = std::mem::take(&mut self.keys);
        keys.reserve(FIRST_LEN);
        keys
    }
}

impl Staged<'_> {
    /// Looks members up that the next commands ask for, in their order. The header of their collection was read.
    pub fn look_up(&mut self, ready: &Ready, keys: Vec<ShortBytes>) -> Result<()> {
        let known = &mut self.stage.looked_up;
        known.forget();
        known.keys = keys;
        let LookedUp { keys, values, .. } = known;
        values.reserve(keys.len());
        Ok(ready.members.peek_many(&keys[..], |index, value| {
            // Damaged ones are left out.
            values.resize(index, None);
            let is_short = value.is_none_or(|value| value.len() <= VALUE_SIZE_MAX);
            values.push(is_short.then(|| value.map(ShortBytes::from)));
            // One that is long is read again, and takes long by itself: those behind it wait for their turn.
            let is_large = value.is_some_and(|value| counted(value).len() > LONG_SIZE);
            if is_large { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?)
    }
}
