//! The values of many keys in one call.

use std::ops::ControlFlow;

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::BytesTree;
use crate::api::error::IndexError;
use crate::bytes::entry::BytesKey;
use crate::bytes::found::{plain_value_of, record_of, sound_record_of};
use crate::bytes::record::{self, Record, Verify};
use crate::geometry::Geometry;
use crate::nbtree::{Approached, Extent, Run, TOGETHER, group as together};
use crate::pool_trees::nodes::BytesNodes;
use crate::pool_trees::pool_base::PoolBase;

/// Bytes of a value at most that are asked for before its record was looked at.
const ASKED_FIRST_MAX: usize = 512;

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    /// Runs `see(i, value)` for each of `keys`, in order, with overlapping cache misses. The records
    /// are looked at as closely as `verify` says.
    ///
    /// # Errors
    /// As [`Self::get_verified`]: the damaged ones were left out.
    pub fn get_many<'k>(
        &self,
        session: &mut Session<M>,
        keys: impl IntoIterator<Item = &'k [u8]>,
        verify: Verify,
        mut see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), IndexError> {
        self.get_many_until(session, keys, verify, 0, |index, value| {
            see(index, value);
            ControlFlow::Continue(())
        })
    }

    /// As [`Self::get_many`], until `see` breaks: of the values behind nothing is summed. Most values have
    /// `value_size` bytes: their lines are asked for ahead. It may be wrong.
    ///
    /// # Errors
    /// As [`Self::get_many`].
    pub fn get_many_until<'k>(
        &self,
        session: &mut Session<M>,
        keys: impl IntoIterator<Item = &'k [u8]>,
        verify: Verify,
        value_size: usize,
        mut see: impl FnMut(usize, Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let (mut keys, mut first, mut result) = (keys.into_iter(), 0, Ok(()));
        self.cell.with(session, |tree, session| {
            let base = PoolBase::of(session.heap());
            let mut show = |session: &mut Session<M>, group: &Group<'_, M>| {
                for (index, (key, payload)) in group.found().enumerate() {
                    let value = match (verify, *payload) {
                        (_, None) => Ok(None),
                        (Verify::Key, Some(payload)) => {
                            match plain_value_of(base, payload, key.bytes) {
                                None => value_closely(tree, session, *key, payload, verify),
                                value => Ok(value),
                            }
                        }
                        (Verify::Sum, Some(payload)) => {
                            value_closely(tree, session, *key, payload, verify)
                        }
                    };
                    match value {
                        Ok(value) => see(first + index, value)?,
                        Err(error) => result = Err(error),
                    }
                }
                first += group.count;
                ControlFlow::Continue(())
            };
            // Each group is one step behind the next: what a step reads was asked for by the one before, and is on its
            // way while the other groups have theirs.
            let (mut next, mut group, mut last) =
                (&mut Group::new(), &mut Group::new(), &mut Group::new());
            let mut run = Run::none();
            loop {
                next.fill(keys.by_ref().take(together::<M>()));
                if next.count > 0 {
                    next.near = tree.approach_group(next.keys(), &mut run);
                }
                let Group { keys, near, payloads, count } = &mut *group;
                let keys = &keys[..*count];
                let extent = extent_of(keys.first(), verify, value_size);
                let matched = tree.match_group(session, keys, near, extent, payloads);
                let flow = show(session, last);
                last.count = 0;
                matched?;
                if flow.is_break() {
                    return Ok::<(), IndexError>(());
                }
                tree.take_group(keys, near, extent, payloads);
                if next.count == 0 && *count == 0 {
                    return Ok(());
                }
                // The next one is the group, and the group the last.
                std::mem::swap(&mut group, &mut last);
                std::mem::swap(&mut next, &mut group);
            }
        })??;
        result
    }
}

/// How much will be looked at of the records of keys such as this one, whose values have so many bytes, or 0 if that is
/// not known.
#[inline(always)]
fn extent_of(key: Option<&BytesKey<'_>>, verify: Verify, value_size: usize) -> Extent {
    match (verify, key) {
        (Verify::Key, Some(key)) if value_size > 0 => {
            let value_size = value_size.min(ASKED_FIRST_MAX);
            Extent::Until(record::record_size(key.bytes.len(), value_size) - 1)
        }
        _ => verify.into(),
    }
}

/// Keys that are looked for together, how far they have come, and what was found.
struct Group<'k, M: Machine> {
    keys: [BytesKey<'k>; TOGETHER],
    near: Option<Approached<M>>,
    payloads: [Option<u64>; TOGETHER],
    count: usize,
}

impl<'k, M: Machine> Group<'k, M> {
    fn new() -> Self {
        let keys = [BytesKey::NONE; TOGETHER];
        Group { keys, near: None, payloads: [None; TOGETHER], count: 0 }
    }

    fn keys(&self) -> &[BytesKey<'k>] {
        &self.keys[..self.count]
    }

    /// Takes the keys, of which nothing is known yet.
    #[inline(always)]
    fn fill(&mut self, keys: impl Iterator<Item = &'k [u8]>) {
        self.count = 0;
        for (place, key) in self.keys.iter_mut().zip(keys) {
            *place = BytesKey::new(key);
            self.count += 1;
        }
    }

    fn found(&self) -> impl Iterator<Item = (&BytesKey<'k>, &Option<u64>)> {
        self.keys().iter().zip(&self.payloads)
    }
}

/// The value of a key by the payload of the entry that seems to be its, of a record of any kind; none if it has
/// expired.
#[inline(never)]
fn value_closely<'a, const HEADS: bool, G: Geometry, M: Machine>(
    tree: &BytesNodes<G, M, HEADS>,
    session: &mut Session<M>,
    key: BytesKey<'_>,
    payload: u64,
    verify: Verify,
) -> Result<Option<&'a [u8]>, IndexError> {
    let base = PoolBase::of(session.heap());
    let record = match sound_record_of(base, payload, key.bytes, verify) {
        None => record_again(tree, session, key, verify)?,
        record => record,
    };
    Ok(record.filter(|record| !record.has_expired::<M>()).map(|record| record.value))
}

/// The record of a key, looked for by itself: the entry that seemed to be the key's is another one's, or its record is
/// damaged.
#[cold]
#[inline(never)]
fn record_again<'a, const HEADS: bool, G: Geometry, M: Machine>(
    tree: &BytesNodes<G, M, HEADS>,
    session: &mut Session<M>,
    key: BytesKey<'_>,
    verify: Verify,
) -> Result<Option<Record<'a>>, IndexError> {
    let Some(payload) = tree.get_payload(session, key)? else { return Ok(None) };
    record_of(session.heap(), payload, key.bytes, verify).map(Some)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use everleaf_pool::{Domain, Pool};

    use super::*;
    use crate::{Change, Trees};

    /// Two keys of which entries say the same: eight bytes and the tag.
    fn alike() -> [Vec<u8>; 2] {
        let mut seen = HashMap::new();
        (0_u32..)
            .find_map(|number| {
                let key = [&b"the same"[..], &number.to_be_bytes()].concat();
                let tag = BytesKey::new(&key).payload(0);
                seen.insert(tag, key.clone()).map(|other| [other, key])
            })
            .expect("there are more numbers than tags")
    }

    #[test]
    fn keys_that_their_entries_do_not_tell_apart_are_told_apart() {
        let pool = Pool::in_memory(1 << 20, 1 << 28, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let [one, other] = alike();
        let asked = [&one[..], &other, &one, b"none"];
        let changes = [
            (Change::insert(&one, b"1"), [Some(1), None]),
            (Change::insert(&other, b"22"), [Some(1), Some(2)]),
            (Change::remove(&one), [None, Some(2)]),
        ];
        for (change, expected) in changes {
            tree.change(&mut session, &change).expect("room");
            for (verify, value_size) in [(Verify::Key, 0), (Verify::Key, 600), (Verify::Sum, 9)] {
                let mut found = vec![];
                let see = |_, value: Option<&[u8]>| {
                    found.push(value.map(<[u8]>::len));
                    ControlFlow::Continue(())
                };
                tree.get_many_until(&mut session, asked, verify, value_size, see).expect("sound");
                assert_eq!(found, [expected[0], expected[1], expected[0], None]);
            }
        }
    }

    #[test]
    fn more_keys_than_go_together_are_all_shown_in_order() {
        let pool = Pool::in_memory(1 << 20, 1 << 28, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let keys: Vec<[u8; 4]> = (0..3 * TOGETHER as u32).map(u32::to_be_bytes).collect();
        for key in keys.iter().step_by(3) {
            tree.change(&mut session, &Change::insert(key, key)).expect("room");
        }
        for count in [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, keys.len()] {
            let mut next = 0;
            let asked = keys[..count].iter().map(<[u8; 4]>::as_slice);
            let see = |at: usize, value: Option<&[u8]>| {
                assert_eq!((at, value), (next, at.is_multiple_of(3).then_some(&keys[at][..])));
                next += 1;
            };
            tree.get_many(&mut session, asked, Verify::Key, see).expect("sound");
            assert_eq!(next, count);
        }
    }

    #[test]
    fn behind_a_break_nothing_is_shown() {
        let pool = Pool::in_memory(1 << 20, 1 << 28, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let keys: Vec<[u8; 4]> = (0..4 * TOGETHER as u32).map(u32::to_be_bytes).collect();
        for end in [1, 2, TOGETHER, TOGETHER + 1, keys.len()] {
            let mut shown = 0;
            let asked = keys.iter().map(<[u8; 4]>::as_slice);
            let see = |at: usize, _: Option<&[u8]>| {
                assert_eq!(at, shown);
                shown += 1;
                if shown == end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            tree.get_many_until(&mut session, asked, Verify::Sum, 0, see).expect("sound");
            assert_eq!(shown, end);
        }
    }

    /// A fence may lie between two keys with the same first eight bytes.
    #[test]
    fn keys_in_order_are_found_on_both_sides_of_each_fence() {
        let pool = Pool::in_memory(1 << 20, 1 << 28, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let key_of =
            |number: u64| [&(number / 16).to_be_bytes()[..], &[number as u8 % 16]].concat();
        let keys: Vec<Vec<u8>> = (0..4000).map(key_of).collect();
        for key in keys.iter().enumerate().filter(|(at, _)| at % 3 != 0).map(|(_, key)| key) {
            tree.change(&mut session, &Change::insert(key, key)).expect("room");
        }
        let count = keys.len();
        // Upwards, downwards, and in steps that go to and fro.
        let orders: [&dyn Fn(usize) -> usize; 3] =
            [&|at| at, &|at| count - 1 - at, &|at| at / 20 * 20 + at * 7 % 20];
        for order in orders {
            let (asked, mut seen): (Vec<usize>, _) = ((0..count).map(order).collect(), 0);
            let sorted = asked.iter().map(|at| keys[*at].as_slice());
            let see = |at: usize, value: Option<&[u8]>| {
                let key = asked[at];
                assert_eq!(value, (key % 3 != 0).then_some(&keys[key][..]), "key {key}");
                seen += 1;
            };
            tree.get_many(&mut session, sorted, Verify::Key, see).expect("sound");
            assert_eq!(seen, count);
        }
    }

    /// Keys on their way keep to nodes and leaves that were found before.
    #[test]
    fn what_is_written_between_is_seen_of_keys_further_on() {
        let pool = Pool::in_memory(1 << 20, 1 << 28, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let mut writer = trees.heap().session().expect("a session");
        let keys: Vec<[u8; 8]> = (0..6000_u64).map(|number| (number * 8).to_be_bytes()).collect();
        for key in &keys {
            tree.change(&mut session, &Change::insert(key, b"old")).expect("room");
        }
        let mut seen = 0;
        let see = |at: usize, value: Option<&[u8]>| {
            // Groups of which the first steps may be behind them have any of both.
            let is_on_its_way = at < 4 * TOGETHER;
            assert!(value == Some(b"new") || (is_on_its_way && value == Some(b"old")), "{at}");
            seen += 1;
            let Some(key) = keys.get(at + 3 * TOGETHER) else { return };
            tree.change(&mut writer, &Change::upsert(key, b"new")).expect("room");
            for more in 0..5 {
                // Leaves are split, and so are the nodes above.
                let beside = [&key[..], &[more]].concat();
                tree.change(&mut writer, &Change::insert(&beside, b"other")).expect("room");
            }
        };
        let asked = keys.iter().map(<[u8; 8]>::as_slice);
        tree.get_many(&mut session, asked, Verify::Key, see).expect("sound");
        assert_eq!(seen, keys.len());
    }
}
