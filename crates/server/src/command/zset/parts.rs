//! Parts of a sorted set as clients write them: by rank, by score, by member.

use std::ops::{Bound, ControlFlow};

use crate::command::integer::integer_arg;
use crate::failure::{Failure, Result};
use crate::score;
use crate::types::collection::Collection;
use crate::types::order::{Part, position};

/// By what a part is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Rank,
    Score,
    Member,
}

/// A part as it was told.
pub enum Told {
    /// From one rank to another; negative ones count from the end.
    Ranks(i64, i64),
    /// From one position to another.
    Scores(Part),
    /// From one member to another, of one score.
    Members(Bound<Vec<u8>>, Bound<Vec<u8>>),
    /// Nothing can be inside.
    Nothing,
}

impl Told {
    /// A part, told by its first and last rank, score or member.
    pub fn parse(by: By, first: &[u8], last: &[u8]) -> Result<Told> {
        match by {
            By::Rank => Ok(Told::Ranks(integer_arg(first)?, integer_arg(last)?)),
            By::Score => {
                let bound = |arg: &[u8], is_end: bool| {
                    let (open, number) = match arg.strip_prefix(b"(") {
                        Some(number) => (true, number),
                        None => (false, arg),
                    };
                    let score = score::parse_bound(number)?;
                    // Codes are numbers, and the one above that of infinity is none of a score.
                    let code = score::code(score) + u64::from(open != is_end);
                    Some(code.to_be_bytes().to_vec())
                };
                bound(first, false)
                    .zip(bound(last, true))
                    .map(|(start, end)| {
                        Told::Scores((Bound::Included(start), Bound::Excluded(end)))
                    })
                    .ok_or(Failure::text("ERR min or max is not a float"))
            }
            By::Member => {
                let failure = || Failure::text("ERR min or max not valid string range item");
                let start = member_bound(first).ok_or_else(failure)?;
                let end = member_bound(last).ok_or_else(failure)?;
                Ok(match (start, end) {
                    (MemberBound::Last, _) | (_, MemberBound::First) => Told::Nothing,
                    (start, end) => Told::Members(start.bound(), end.bound()),
                })
            }
        }
    }

    /// The part of a set that it means; `None` if nothing is in it.
    pub fn of(&self, set: &mut Collection<'_, '_>) -> Result<Option<Part>> {
        match self {
            Told::Nothing => Ok(None),
            Told::Scores(part) => Ok(Some(part.clone())),
            Told::Ranks(first, last) => {
                let Some((first, last)) = ranks(*first, *last, set.header.count) else {
                    return Ok(None);
                };
                let start = match first {
                    0 => Some(Bound::Unbounded),
                    _ => set.position_at(first)?.map(Bound::Included),
                };
                let end = match last + 1 {
                    end if end == set.header.count => Some(Bound::Unbounded),
                    _ => set.position_at(last)?.map(Bound::Included),
                };
                Ok(start.zip(end))
            }
            Told::Members(start, end) => {
                let Some(position) = set.position_at(0)? else { return Ok(None) };
                let code = position.get(..8).unwrap_or(b"");
                let last = set.position_at(set.header.count.saturating_sub(1))?;
                if last.is_some_and(|last| !last.starts_with(code)) {
                    return mixed(set, start, end).map(Some);
                }
                let placed = |member: &Vec<u8>| [code, member].concat();
                let start = match start {
                    Bound::Unbounded => Bound::Unbounded,
                    bound => bound.as_ref().map(placed),
                };
                Ok(Some((start, end.as_ref().map(placed))))
            }
        }
    }
}

/// The part between two members of a set with several scores: as the protocol's original server finds it, which
/// goes through the members, from the first in the range to the first behind it.
fn mixed(
    set: &mut Collection<'_, '_>,
    start: &Bound<Vec<u8>>,
    end: &Bound<Vec<u8>>,
) -> Result<Part> {
    let (mut from, mut to) = (None, None);
    set.walk_order(&(Bound::Unbounded, Bound::Unbounded), false, |member, score| {
        let is_behind_start = match start {
            Bound::Unbounded => true,
            Bound::Included(start) => member >= &start[..],
            Bound::Excluded(start) => member > &start[..],
        };
        let is_before_end = match end {
            Bound::Unbounded => true,
            Bound::Included(end) => member <= &end[..],
            Bound::Excluded(end) => member < &end[..],
        };
        if from.is_none() && is_behind_start {
            from = Some(position(member, score).to_vec());
        }
        if from.is_some() && !is_before_end {
            to = Some(position(member, score).to_vec());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(match (from, to) {
        (Some(from), Some(to)) => (Bound::Included(from), Bound::Excluded(to)),
        (Some(from), None) => (Bound::Included(from), Bound::Unbounded),
        // Behind all members.
        (None, _) => (Bound::Excluded(vec![u8::MAX; 9]), Bound::Unbounded),
    })
}

/// The ranks inside of a set of so many, the first and the last.
pub fn ranks(first: i64, last: i64, count: u64) -> Option<(u64, u64)> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let first = if first < 0 { (count + first).max(0) } else { first };
    let last = if last < 0 { count + last } else { last.min(count - 1) };
    (first <= last && first < count).then_some((first.unsigned_abs(), last.unsigned_abs()))
}

/// A member as the end of a part.
enum MemberBound {
    /// Before all.
    First,
    /// Behind all.
    Last,
    With(Vec<u8>),
    Without(Vec<u8>),
}

impl MemberBound {
    fn bound(self) -> Bound<Vec<u8>> {
        match self {
            MemberBound::First | MemberBound::Last => Bound::Unbounded,
            MemberBound::With(member) => Bound::Included(member),
            MemberBound::Without(member) => Bound::Excluded(member),
        }
    }
}

fn member_bound(arg: &[u8]) -> Option<MemberBound> {
    match arg {
        b"-" => Some(MemberBound::First),
        b"+" => Some(MemberBound::Last),
        [b'[', member @ ..] => Some(MemberBound::With(member.to_vec())),
        [b'(', member @ ..] => Some(MemberBound::Without(member.to_vec())),
        _ => None,
    }
}
