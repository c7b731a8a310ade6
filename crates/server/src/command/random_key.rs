//! `RANDOMKEY`: a key, drawn.
//!
//! Keys lie in order, and nothing tells the rank of one. So it goes from the start of the keys down, choosing
//! at each byte in which they differ one of those there are, until few keys are left, of which it
//! takes any. Each key may be drawn, but one with few like it more often.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::{Bound, ControlFlow};
use std::time::{Duration, Instant};

use super::context::Context;
use super::keys::Keys;
use super::scan::TIME_MAX;
use super::walk::Bounds;
use crate::failure::{CommandResult, Result};
use crate::resp::Request;

/// Keys among which each is as likely as another.
const FEW: usize = 128;
/// Bytes that are chosen at most.
const DEPTH_MAX: usize = 64;

/// A random number; good enough for drawing.
fn random(below: usize) -> usize {
    (RandomState::new().build_hasher().finish() % below.max(1) as u64) as usize
}

/// `RANDOMKEY`
pub fn randomkey(context: &mut Context<'_>, _: &Request<'_>) -> CommandResult {
    let drawn = Draw::within(TIME_MAX, &mut context.keys).draw()?;
    context.reply.bulk_or_null(drawn.as_deref());
    Ok(())
}

/// A draw. It takes up to some hundred walks, and each may pass over all that has expired and is not swept yet, so
/// there is a time for all of them.
struct Draw<'a, 'k> {
    keys: &'a mut Keys<'k>,
    began: Instant,
    time: Duration,
    /// The key that was reached when it was over.
    over_at: Option<Vec<u8>>,
}

impl<'a, 'k> Draw<'a, 'k> {
    fn within(time: Duration, keys: &'a mut Keys<'k>) -> Self {
        Draw { keys, began: Instant::now(), time, over_at: None }
    }

    /// When its time is over it is one of those that were seen last, or if none was the next one there is.
    fn draw(&mut self) -> Result<Option<Vec<u8>>> {
        let (mut bounds, mut known) = (Bounds::of_prefix(b""), None);
        for depth in 0..=DEPTH_MAX {
            let mut few = self.first_keys(&bounds)?;
            if few.is_empty() && self.over_at.is_some() {
                return if known.is_some() { Ok(known) } else { self.next_key() };
            }
            if few.len() <= FEW || depth == DEPTH_MAX {
                return Ok(one_of(few));
            }
            let last = self.last_key(&bounds)?;
            if self.over_at.is_some() {
                return Ok(one_of(few));
            }
            let (Some(last), first) = (last, few[0].clone()) else { continue };
            let shared = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
            let choices = self.choices(&bounds, &first[..shared])?;
            if self.over_at.is_some() {
                return Ok(one_of(few));
            }
            // One more choice than there are longer keys, if the first key is what all begin with.
            match choices.get(random(choices.len() + usize::from(shared == first.len()))) {
                Some(prefix) => bounds = Bounds::of_prefix(prefix),
                None => return Ok(Some(first)),
            }
            known = few.pop();
        }
        Ok(None)
    }

    /// Visits keys until `visit` breaks or the time is over.
    fn walk(
        &mut self,
        bounds: &Bounds,
        reverse: bool,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let Draw { keys, began, time, over_at } = self;
        let pause = |reached: &[u8]| {
            if began.elapsed() <= *time {
                return ControlFlow::Continue(());
            }
            *over_at = Some(reached.to_vec());
            ControlFlow::Break(())
        };
        keys.walk_with_pauses(bounds, reverse, |key, _| visit(key), pause)
    }

    /// The first keys inside bounds, one more than are few.
    fn first_keys(&mut self, bounds: &Bounds) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        self.walk(bounds, false, |key| {
            keys.push(key.to_vec());
            if keys.len() > FEW { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(keys)
    }

    /// The last key inside bounds.
    fn last_key(&mut self, bounds: &Bounds) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.walk(bounds, true, |key| {
            found = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The first key behind what was reached, however long that takes.
    fn next_key(&mut self) -> Result<Option<Vec<u8>>> {
        let (mut bounds, mut found) = (Bounds::of_prefix(b""), None);
        if let Some(reached) = self.over_at.take() {
            bounds.skip_to_after(reached);
        }
        self.keys.walk(&bounds, false, |key, _| {
            found = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The prefixes, one byte longer than one that all keys inside bounds share, that keys have.
    fn choices(&mut self, bounds: &Bounds, prefix: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (mut bounds, mut choices) = (bounds.clone(), Vec::new());
        bounds.start = Bound::Excluded(prefix.to_vec());
        loop {
            let mut next = None;
            self.walk(&bounds, false, |key| {
                next = Some(key[..key.len().min(prefix.len() + 1)].to_vec());
                ControlFlow::Break(())
            })?;
            let Some(next) = next else { return Ok(choices) };
            let Bound::Excluded(behind) = Bounds::of_prefix(&next).end else {
                choices.push(next);
                return Ok(choices);
            };
            bounds.start = Bound::Included(behind);
            choices.push(next);
        }
    }
}

/// One of some keys, if there are any.
fn one_of(mut keys: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let count = keys.len();
    (count > 0).then(|| keys.swap_remove(random(count)))
}

#[cfg(test)]
mod tests {
    use everleaf::Expiry;

    use super::*;
    use crate::batch::context_of;
    use crate::batch::test_run::Bench;
    use crate::statistics::Tally;

    /// The first bytes of keys that are drawn within a time, of 50, beside keys that have expired.
    fn drawn(time: Duration, live: &[u8]) -> Vec<u8> {
        let bench = Bench::new(Bench::config());
        let map = bench.shared.store.default_map();
        for number in 0..10_000_u32 {
            let over = Expiry::from_unix_ms(1);
            map.put_with_expiry([b"m", &number.to_be_bytes()[..]].concat(), "", over).unwrap();
        }
        for (first, number) in live.iter().flat_map(|first| (0..200).map(move |it| (*first, it))) {
            map.put([first, number], "").unwrap();
        }
        let (mut session, mut tally, mut out) = (bench.client(), Tally::default(), vec![]);
        let limit = usize::MAX;
        let mut context = context_of(&bench.shared, &mut session, &mut tally, &mut out, limit);
        let mut draw = || Draw::within(time, &mut context.keys).draw().ok().unwrap();
        let mut firsts: Vec<u8> = (0..50).filter_map(|_| draw().map(|key| key[0])).collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts
    }

    /// What took seconds, and in a transaction for everybody: each of many walks passed over all that had expired.
    #[test]
    fn a_draw_ends_among_what_has_expired() {
        assert_eq!(drawn(Duration::MAX, b"az"), b"az");
        // To draw of the others the walk from the other end would have to be made, and those of the choices.
        assert_eq!(drawn(Duration::ZERO, b"az"), b"a");
        assert_eq!(drawn(Duration::ZERO, b"z"), b"z", "one is there");
        assert_eq!(drawn(Duration::ZERO, b""), b"");
    }
}
