//! What hashes and sets have in common: drawing some members, and arguments.
//!
//! Members lie in the order of a hash value. A member is drawn by drawing a value: in a large collection one of the
//! next members from there on is nearly as likely as any other, in a small one all are listed, and then exactly.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;

use super::copy_budget::CopyBudget;
use super::integer::{integer_arg, parse_integer};
use super::stage::Staged;
use crate::failure::{Failure, Result};
use crate::resp::Request;
use crate::types::Kind;
use crate::types::collection::Collection;

/// Collections up to this size are shown in one step, and drawn from exactly.
pub const SMALL_COUNT_MAX: u64 = 128;
/// So many times is a member drawn at most for each that is wanted. At most a quarter of the members is drawn
/// like this, so that nearly every second time it is a new one.
const ATTEMPT_FACTOR: u64 = 64;

/// Fewer than so many members are passed over to draw one.
const PASSED_COUNT: u64 = 32;

/// What is made of several sets, or of several sorted ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SetOperation {
    Intersection,
    Union,
    Difference,
}

/// The number of members to draw.
pub fn count_arg(arg: &[u8]) -> Result<i64> {
    let count = integer_arg(arg)?;
    if count == i64::MIN {
        let max = i64::MAX;
        return Err(Failure::text(format!(
            "ERR value is out of range, value must between -{max} and {max}"
        )));
    }
    Ok(count)
}

/// A number of one or more, or the given error.
pub fn positive_arg(arg: &[u8], error: &'static str) -> Result<u64> {
    let number = parse_integer(arg).filter(|number| *number > 0);
    number.map(i64::unsigned_abs).ok_or(Failure::text(error))
}

/// The number of keys that follow.
pub fn key_count_arg(arg: &[u8]) -> Result<usize> {
    let count = positive_arg(arg, "ERR numkeys should be greater than 0")?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// The `COUNT count` that may stand at `index`, behind which there is nothing; otherwise 1.
pub fn count_option(request: &Request<'_>, index: usize) -> Result<u64> {
    let mut options = request.args_from(index);
    let Some(option) = options.next() else { return Ok(1) };
    let value = options.next().filter(|_| option.eq_ignore_ascii_case(b"count"));
    let count = positive_arg(value.ok_or(Failure::Syntax)?, "ERR count should be greater than 0")?;
    // Only then, as Redis reads them one by one.
    if options.next().is_some() { Err(Failure::Syntax) } else { Ok(count) }
}

/// A random number; good enough for drawing.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Is shown a member that was drawn, and what it has; breaks if nothing more is wanted.
pub type Show<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Draws members: so many different ones, or if negative so many, the same several times. Of values nothing is kept,
/// of members no more than is allowed.
pub fn draw(
    collection: &mut Collection<'_, '_>,
    count: i64,
    budget: &mut CopyBudget,
    show: &mut Show<'_>,
) -> Result<()> {
    let total = collection.header.count;
    let wanted = count.unsigned_abs();
    if wanted == 0 || total == 0 {
        return Ok(());
    }
    if count < 0 {
        budget.check_count(wanted)?;
    }
    if count > 0 && wanted >= total {
        return collection.walk(show);
    }
    if total > SMALL_COUNT_MAX && count < 0 {
        return draw_places(collection, wanted, None, show);
    }
    // Those that were drawn have to be known; if they are too many for that all are gone through.
    let kept = budget.beside(wanted).filter(|_| wanted < total / 4);
    if total > SMALL_COUNT_MAX && count > 0 && kept.is_some() {
        return draw_places(collection, wanted, kept, show);
    }
    match count < 0 {
        true => draw_repeated(collection, wanted, budget, show),
        false => draw_some(collection, wanted, show),
    }
}

/// Removes a member of a set that is drawn.
pub fn pop_one(set: &mut Collection<'_, '_>) -> Result<Option<Vec<u8>>> {
    set.pop_drawn(|set, count| {
        let total = set.header.count;
        if total <= SMALL_COUNT_MAX {
            let count = (count as u64).min(total) as i64;
            return drawn(set, count, &mut CopyBudget::new(usize::MAX));
        }
        let mut members = Vec::new();
        let mut take = |member: &[u8], _: &[u8]| {
            members.push(member.to_vec());
            if members.len() == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        walk_from_drawn(set, &mut take)?;
        Ok(members)
    })
}

/// Copies of so many different members that are drawn, in a drawn order; for a command that removes them, and asks for
/// no more than a step can remove.
pub fn drawn(
    collection: &mut Collection<'_, '_>,
    count: i64,
    budget: &mut CopyBudget,
) -> Result<Vec<Vec<u8>>> {
    let (mut members, mut kept) = (Vec::new(), CopyBudget::new(budget.left()));
    draw(collection, count, budget, &mut |member, _| {
        kept.take_packed(member.len())?;
        members.push(member.to_vec());
        ControlFlow::Continue(())
    })?;
    kept.check()?;
    for index in 1..members.len() {
        members.swap(index, (random() % (index as u64 + 1)) as usize);
    }
    Ok(members)
}

/// Goes through all members, twice, and takes each as likely as any other.
fn draw_some(collection: &mut Collection<'_, '_>, wanted: u64, show: &mut Show<'_>) -> Result<()> {
    let mut left = 0;
    collection.walk(|_, _| {
        left += 1;
        ControlFlow::Continue(())
    })?;
    // Others may have removed members since the header was read, or since they were counted: then there are fewer, and
    // the command is run again. A damaged header counts too many for good.
    let mut wanted = wanted.min(left);
    collection.walk(|member, value| {
        if left == 0 || wanted == 0 {
            return ControlFlow::Break(());
        }
        let is_drawn = random() % left < wanted;
        left -= 1;
        if is_drawn {
            wanted -= 1;
            return show(member, value);
        }
        ControlFlow::Continue(())
    })
}

/// Draws from a list of all members, again and again.
fn draw_repeated(
    collection: &mut Collection<'_, '_>,
    wanted: u64,
    budget: &mut CopyBudget,
    show: &mut Show<'_>,
) -> Result<()> {
    let mut members = Vec::new();
    collection.walk(|member, _| {
        budget.take(member.len())?;
        members.push(member.to_vec());
        ControlFlow::Continue(())
    })?;
    budget.check()?;
    if members.is_empty() {
        return Ok(());
    }
    for _ in 0..wanted {
        let member = &members[(random() % members.len() as u64) as usize];
        let flow = collection.see(member, |value| show(member, value))?;
        // One that is gone was removed meanwhile: then it is run again.
        if flow != Some(ControlFlow::Continue(())) {
            break;
        }
    }
    Ok(())
}

/// Draws places, and takes the first member from there on; different ones, if those that were drawn may be kept.
fn draw_places(
    collection: &mut Collection<'_, '_>,
    count: u64,
    mut kept: Option<CopyBudget>,
    show: &mut Show<'_>,
) -> Result<()> {
    let (mut shown, mut known) = (0, BTreeSet::new());
    // Others may remove members meanwhile, until fewer than these are left; then it is run again.
    for _ in 0..count.saturating_mul(ATTEMPT_FACTOR) {
        let (mut flow, mut is_found) = (ControlFlow::Continue(()), false);
        walk_from_drawn(collection, &mut |member, value| {
            is_found = true;
            if let Some(kept) = &mut kept {
                if known.contains(member) {
                    return ControlFlow::Break(());
                }
                flow = kept.take(member.len());
                known.insert(member.to_vec());
            }
            if flow.is_continue() {
                shown += 1;
                flow = show(member, value);
            }
            ControlFlow::Break(())
        })?;
        kept.as_ref().map_or(Ok(()), CopyBudget::check)?;
        if !is_found || flow.is_break() || shown == count {
            break;
        }
    }
    Ok(())
}

/// Visits the members from a drawn one on, at least one if there is any. The first from a drawn place on is drawn as
/// often as the gap before it is wide, which may be next to nothing; so a drawn number of them is passed over, and it
/// depends on the mean of as many gaps.
fn walk_from_drawn(collection: &mut Collection<'_, '_>, visit: &mut Show<'_>) -> Result<()> {
    if collection.header.kind == Kind::Hash {
        return walk_from_drawn_field(collection, visit);
    }
    let mut passed = random() % PASSED_COUNT;
    let mut is_found = false;
    // Behind the last one comes the first. If others have removed most meanwhile, none is passed over in the end.
    for (start, may_pass) in [(collection.place(random()), true), (0, true), (0, false)] {
        passed = if may_pass { passed } else { 0 };
        collection.walk_from(start, |member, value| {
            if passed > 0 {
                passed -= 1;
                return ControlFlow::Continue(());
            }
            is_found = true;
            visit(member, value)
        })?;
        if is_found {
            break;
        }
    }
    Ok(())
}

/// The same of a hash, and of one field: the others are passed over without their values, which may be long.
fn walk_from_drawn_field(hash: &mut Collection<'_, '_>, visit: &mut Show<'_>) -> Result<()> {
    let mut passed = random() % PASSED_COUNT;
    let mut drawn = None;
    for (start, may_pass) in [(hash.place(random()), true), (0, true), (0, false)] {
        passed = if may_pass { passed } else { 0 };
        hash.pass_from(start, |field| {
            if passed > 0 {
                passed -= 1;
                return ControlFlow::Continue(());
            }
            drawn = Some((field.to_vec(), start));
            ControlFlow::Break(())
        })?;
        if drawn.is_some() {
            break;
        }
    }
    let Some((field, start)) = drawn else { return Ok(()) };
    if hash.see(&field, |value| visit(&field, value))?.is_none() {
        // It was removed meanwhile, and then this is run again; or its name, which was not verified on the way to it,
        // is damaged: the values are summed with the names, so that this says so.
        hash.walk_from(start, visit)?;
    }
    Ok(())
}

/// Members that are looked at together.
const PAGE_LENGTH: usize = 512;

/// How many members all collections of some keys have, at most so many, unless that is 0. Looks at those of the
/// smallest, and holds a page of them. Each must be of one of these kinds, or nothing.
pub fn count_common(
    staged: &mut Staged<'_>,
    keys: &[&[u8]],
    kinds: &[Kind],
    limit: u64,
) -> Result<u64> {
    let mut counts = Vec::new();
    for key in keys {
        counts.push(Collection::find_any(staged, key, kinds)?.map_or(0, |set| set.header.count));
    }
    let Some(smallest) = (0..keys.len()).min_by_key(|index| counts[*index]) else { return Ok(0) };
    let (mut count, mut start) = (0, Some(0));
    while let Some(from) = start.take() {
        let Some(mut set) = Collection::find_any(staged, keys[smallest], kinds)? else { break };
        let (mut page, mut last) = (Vec::new(), from);
        set.walk_ordered(from, |place, member, _| {
            // Those of one place stay together.
            if page.len() >= PAGE_LENGTH && place != last {
                start = Some(place);
                return ControlFlow::Break(());
            }
            last = place;
            page.push(member.to_vec());
            ControlFlow::Continue(())
        })?;
        for (_, key) in keys.iter().enumerate().filter(|(index, _)| *index != smallest) {
            let set = Collection::find_any(staged, key, kinds)?;
            let (Some(mut set), false) = (set, page.is_empty()) else {
                page.clear();
                break;
            };
            let mut kept = Vec::new();
            for member in page {
                if set.contains(&member)? {
                    kept.push(member);
                }
            }
            page = kept;
        }
        count += page.len() as u64;
        if limit > 0 && count >= limit {
            return Ok(limit);
        }
    }
    Ok(count)
}
