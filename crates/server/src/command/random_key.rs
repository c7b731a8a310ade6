//! `RANDOMKEY`: a key, drawn.
//!
//! Keys lie in order, and nothing tells the rank of one. So it goes from the start of the keys down, choosing
//! at each byte in which they differ one of those there are, until few keys are left, of which it
//! takes any. Each key may be drawn, but one with few like it more often.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::{Bound, ControlFlow};

use super::context::Context;
use super::keys::Keys;
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
    let drawn = draw(&mut context.keys)?;
    context.reply.bulk_or_null(drawn.as_deref());
    Ok(())
}

fn draw(keys: &mut Keys<'_>) -> Result<Option<Vec<u8>>> {
    let mut bounds = Bounds::of_prefix(b"");
    for depth in 0..=DEPTH_MAX {
        let mut few: Vec<Vec<u8>> = Vec::new();
        keys.walk(&bounds, false, |key, _| {
            few.push(key.to_vec());
            if few.len() > FEW { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if few.len() <= FEW || depth == DEPTH_MAX {
            let count = few.len();
            return Ok(if count == 0 { None } else { Some(few.swap_remove(random(count))) });
        }
        let first = few.swap_remove(0);
        let Some(last) = last_key(keys, &bounds)? else { continue };
        let shared = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        let choices = choices(keys, &bounds, &first[..shared])?;
        // One more choice than there are longer keys, if the first key is what all begin with.
        match choices.get(random(choices.len() + usize::from(shared == first.len()))) {
            Some(prefix) => bounds = Bounds::of_prefix(prefix),
            None => return Ok(Some(first)),
        }
    }
    Ok(None)
}

/// The last key inside bounds.
fn last_key(keys: &mut Keys<'_>, bounds: &Bounds) -> Result<Option<Vec<u8>>> {
    let mut found = None;
    keys.walk(bounds, true, |key, _| {
        found = Some(key.to_vec());
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The prefixes, one byte longer than one that all keys inside bounds share, that keys have.
fn choices(keys: &mut Keys<'_>, bounds: &Bounds, prefix: &[u8]) -> Result<Vec<Vec<u8>>> {
    let (mut bounds, mut choices) = (bounds.clone(), Vec::new());
    bounds.start = Bound::Excluded(prefix.to_vec());
    loop {
        let mut next = None;
        keys.walk(&bounds, false, |key, _| {
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
