//! Where a full leaf is cut in two.
//!
//! In the middle, unless keys arrive in order: then most of them stay together, and the leaf that goes on
//! to be filled is nearly empty, so that leaves become full and half as many are split. Keys arrive in
//! order at the end of a tree (a counter, a time), but also in many places at once: those of each series
//! of `series, time`, or of a list that is pushed at either end. Entries lie in the order in which their
//! slots were claimed, so that the last ones are the newest.

use everleaf_machine::{Machine, Pair};

use crate::kind::Kind;
use crate::pool_trees::pool_base::PoolBase;

/// So many newest entries, each next to the one before it, are keys that arrive in order.
const RUN: usize = 8;

/// How keys arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    Ascending,
    Descending,
}

/// How many of `entries`, by the order of their keys, go to the left. `entries` are those of a leaf in the
/// order of their slots, and behind them `inserted`, if there is one. Nothing lies behind the leaf that
/// could be part of the same order of keys if it `is_last`.
pub(super) fn split_point<K: Kind<M>, M: Machine>(
    base: PoolBase<M>,
    entries: &[Pair],
    inserted: Option<Pair>,
    is_last: bool,
) -> usize {
    let count = entries.len();
    let (middle, few) = (count / 2, (count / 10).max(1));
    let Some(inserted) = inserted else { return middle };
    let is_at_most = |entry: &Pair| K::compare(base, *entry, inserted).is_le();
    if is_last && entries.iter().all(is_at_most) {
        return count - few;
    }
    let Some(arrival) = arrival::<K, M>(base, entries) else { return middle };
    let at_most = entries.iter().filter(|entry| is_at_most(entry)).count();
    match arrival {
        // The next one belongs between this and what is above it: to the left, unless that is all.
        Arrival::Ascending if at_most == count => count - few,
        Arrival::Ascending => at_most,
        Arrival::Descending if at_most == 1 => few,
        // Where the fence is the inserted key, the next one goes to the left: there must be room.
        Arrival::Descending => (at_most - 1).min(middle),
    }
}

/// How the newest entries have arrived, if it was in an order and with no older entry between them.
fn arrival<K: Kind<M>, M: Machine>(base: PoolBase<M>, entries: &[Pair]) -> Option<Arrival> {
    if entries.len() <= 2 * RUN {
        return None;
    }
    let (older, run) = entries.split_at(entries.len() - RUN);
    let follows = |ordering: std::cmp::Ordering| {
        run.windows(2).all(|pair| K::compare(base, pair[0], pair[1]) == ordering)
    };
    let (arrival, least, greatest) = if follows(std::cmp::Ordering::Less) {
        (Arrival::Ascending, run[0], run[RUN - 1])
    } else if follows(std::cmp::Ordering::Greater) {
        (Arrival::Descending, run[RUN - 1], run[0])
    } else {
        return None;
    };
    let is_between = |entry: &Pair| {
        K::compare(base, least, *entry).is_lt() && K::compare(base, *entry, greatest).is_lt()
    };
    (!older.iter().any(is_between)).then_some(arrival)
}
