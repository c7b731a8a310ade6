//! What hashes and sets have in common: going through their members in steps, and drawing some.
//!
//! Members lie in the order of a hash value. So a cursor is the value to go on at: it needs no memory, and
//! means the same after a restart. A member is drawn by drawing a value: in a large collection the first
//! member from there on is nearly as likely as any other, in a small one all are listed, and then exactly.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::ControlFlow;

use super::keys::Result;
use super::{Context, Failure, Outcome, integer_arg, parse_integer, scan};
use crate::glob;
use crate::resp::Request;
use crate::score;
use crate::types::Kind;
use crate::types::collection::Collection;
use crate::types::order::score_of;

/// Collections up to this size are shown in one step, and drawn from exactly.
const SMALL_COUNT_MAX: u64 = 128;
/// Members looked at per step at most.
const COUNT_MAX: u64 = 1 << 20;
/// So many times is a member drawn at most for each that is wanted. At most a quarter of the members is drawn
/// like this, so that nearly every second time it is a new one.
const ATTEMPT_FACTOR: u64 = 64;

/// How a step is to be made.
struct ScanOptions<'a> {
    cursor: u64,
    pattern: Option<&'a [u8]>,
    count: u64,
}

impl<'a> ScanOptions<'a> {
    /// The options of `HSCAN key cursor [MATCH pattern] [COUNT count]` and its like, of which the cursor
    /// was read before.
    fn parse(request: &Request<'a>, cursor: u64) -> Result<Self> {
        let mut options = ScanOptions { cursor, pattern: None, count: 10 };
        let mut args = request.args_from(3);
        while let Some(option) = args.next() {
            let value = args.next().ok_or(Failure::Syntax)?;
            match option.to_ascii_lowercase().as_slice() {
                b"match" => options.pattern = Some(value),
                b"count" => {
                    let count = u64::try_from(integer_arg(value)?).map_err(|_| Failure::Syntax)?;
                    if count == 0 {
                        return Err(Failure::Syntax);
                    }
                    options.count = count.min(COUNT_MAX);
                }
                _ => return Err(Failure::Syntax),
            }
        }
        Ok(options)
    }
}

/// Answers with one step of `HSCAN key cursor [MATCH pattern] [COUNT count]` and its like. Of a key that
/// is not there nobody looks at the options.
pub fn step(context: &mut Context<'_>, request: &Request<'_>, kind: Kind) -> Outcome {
    let cursor = scan::parse_cursor(request.arg(2))?;
    let Context { keys, reply, .. } = context;
    let collection = Collection::find(keys.staged()?, request.arg(1), kind)?;
    let mut items: Vec<Vec<u8>> = Vec::new();
    let mut next = 0;
    if let Some(mut collection) = collection {
        let options = ScanOptions::parse(request, cursor)?;
        let is_small = collection.header.count <= SMALL_COUNT_MAX;
        let (mut seen, mut last) = (0, 0);
        collection.walk_ordered(options.cursor, |order, member, value| {
            // Members of one value come together.
            if !is_small && seen >= options.count && order != last {
                next = order;
                return ControlFlow::Break(());
            }
            (seen, last) = (seen + 1, order);
            if options.pattern.is_none_or(|pattern| glob::matches(pattern, member)) {
                items.push(member.to_vec());
                match kind {
                    Kind::Hash => items.push(value.to_vec()),
                    Kind::SortedSet => items.push(score::format(score_of(value)).into_bytes()),
                    Kind::Set | Kind::List => {}
                }
            }
            ControlFlow::Continue(())
        })?;
    }
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(items.len());
    items.iter().for_each(|item| reply.bulk(item));
    if reply.is_full() { Err(Failure::ReplyTooLong) } else { Ok(()) }
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

/// A member, and what it has.
type Member = (Vec<u8>, Vec<u8>);

/// Draws members: so many different ones, or if negative so many, the same several times.
pub fn draw(collection: &mut Collection<'_, '_>, count: i64) -> Result<Vec<Member>> {
    let total = collection.header.count;
    let wanted = count.unsigned_abs();
    if wanted == 0 || total == 0 {
        return Ok(Vec::new());
    }
    let is_all = count > 0 && wanted >= total;
    if !is_all && total > SMALL_COUNT_MAX && (count < 0 || wanted < total / 4) {
        return draw_places(collection, wanted, count > 0);
    }
    let mut all = Vec::new();
    collection.walk(|member, value| {
        all.push((member.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    if is_all || all.is_empty() {
        return Ok(all);
    }
    if count < 0 {
        check_count(wanted)?;
        let one = |_| all[(random() % all.len() as u64) as usize].clone();
        return Ok((0..wanted).map(one).collect());
    }
    // Others may have removed members since the header was read: then there are fewer than it counts, and the
    // command is run again. A damaged header counts too many for good.
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(all.len());
    for index in 0..wanted {
        let other = index + (random() % (all.len() - index) as u64) as usize;
        all.swap(index, other);
    }
    all.truncate(wanted);
    Ok(all)
}

/// Removes a member of a set that is drawn.
pub fn pop_one(set: &mut Collection<'_, '_>) -> Result<Option<Vec<u8>>> {
    set.pop_drawn(|set, count| {
        let total = set.header.count;
        if total <= SMALL_COUNT_MAX {
            let drawn = draw(set, (count as u64).min(total) as i64)?;
            return Ok(drawn.into_iter().map(|(member, _)| member).collect());
        }
        let mut members = Vec::new();
        let mut take = |member: &[u8], _: &[u8]| {
            members.push(member.to_vec());
            if members.len() == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        set.walk_from(set.place(random()), &mut take)?;
        if members.is_empty() {
            // Behind the last one comes the first.
            set.walk_from(0, |member, _| {
                members.push(member.to_vec());
                ControlFlow::Break(())
            })?;
        }
        Ok(members)
    })
}

/// A reply can have so many items.
fn check_count(count: u64) -> Outcome {
    if count > 1 << 26 { Err(Failure::ReplyTooLong) } else { Ok(()) }
}

fn draw_places(
    collection: &mut Collection<'_, '_>,
    count: u64,
    distinct: bool,
) -> Result<Vec<Member>> {
    check_count(count)?;
    let (mut drawn, mut known) = (Vec::new(), std::collections::BTreeSet::new());
    // Others may remove members meanwhile, until fewer than these are left; then it is run again.
    for _ in 0..ATTEMPT_FACTOR * count {
        if drawn.len() as u64 == count {
            break;
        }
        let mut found = None;
        let mut take = |member: &[u8], value: &[u8]| {
            found = Some((member.to_vec(), value.to_vec()));
            ControlFlow::Break(())
        };
        collection.walk_from(collection.place(random()), &mut take)?;
        if found.is_none() {
            // Behind the last one comes the first.
            collection.walk_from(0, |member, value| {
                found = Some((member.to_vec(), value.to_vec()));
                ControlFlow::Break(())
            })?;
        }
        let Some(member) = found else { return Ok(drawn) };
        if !distinct || known.insert(member.0.clone()) {
            drawn.push(member);
        }
    }
    Ok(drawn)
}
