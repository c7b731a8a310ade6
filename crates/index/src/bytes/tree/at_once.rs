//! Many keys at one moment.
//!
//! All keys are looked up first, and only then shown: a record that was found stays as long as the session is pinned,
//! so that no value is copied, summed or kept before it is known that all of them belong together. What tells that is
//! another's where writers keep an order (`write_order/look.rs`). Where they do not, it is a second look at every key:
//! one that leads to the same record was not written in between, since no record is used again meanwhile, and one that
//! is absent for the same reason as before was not inserted. So all keys are what was found from the end of the first
//! look to the beginning of the second.
//!
//! The expiry is the one part of a record that changes in place: it is noted where the record is found, compared by the
//! second look, and shown as it was noted. (Where writers keep no order, one that was changed and changed back in
//! between is not told from one that stayed.)

use std::ops::ControlFlow;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering};

use super::BytesTree;
use crate::api::error::IndexError;
use crate::bytes::entry::BytesKey;
use crate::bytes::found::{record_of, sound_record_of};
use crate::bytes::record::{Moment, Record, Verify};
use crate::geometry::Geometry;
use crate::nbtree::{Absence, Run, TOGETHER, group as together};
use crate::pool_trees::nodes::BytesNodes;
use crate::pool_trees::pool_base::PoolBase;

/// What is told of a key by its place among those that were asked for, and whether more is wanted.
pub type SeeRecord<'a> = dyn FnMut(usize, Option<Record<'_>>) -> ControlFlow<()> + 'a;

/// The record of a key, with the expiry that it had.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Found {
    payload: u64,
    expiry_ms: u64,
}

/// What shows that a key was not written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Witness {
    Found(Found),
    Absent(Absence),
}

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    /// Looks all keys up, and runs `see(i, record)` for each of them, in order, until it breaks, if `is_so` then says
    /// that all of that was so at one moment of its choice. Otherwise nothing is shown, and the answer is false.
    /// Whether keys have expired is judged by one look at the clock, which lies between the first lookup and `is_so`.
    ///
    /// # Errors
    /// As [`Self::get_verified`]: behind a key that is damaged none is shown.
    pub fn get_many_if(
        &self,
        session: &mut Session<M>,
        keys: &[&[u8]],
        verify: Verify,
        is_so: impl FnOnce() -> bool,
        see: &mut SeeRecord<'_>,
    ) -> Result<bool, IndexError> {
        let (mut few, mut many) = ([None; TOGETHER], vec![]);
        let found = match keys.len() {
            count @ ..=TOGETHER => &mut few[..count],
            count => {
                many.resize(count, None);
                &mut many[..]
            }
        };
        self.cell.try_with(session, |tree, session| {
            find_all(tree, session, keys, verify, found)?;
            let moment = Moment::default();
            for (key, found) in keys.iter().zip(&mut *found) {
                if let Some(known) = *found {
                    let exact = exactly(tree, session, key, known.payload)?;
                    *found = exact.filter(|found| !moment.is_behind::<M>(found.expiry_ms));
                }
            }
            if !is_so() {
                return Ok(false);
            }
            show(session, keys, found, verify, see)?;
            Ok(true)
        })
    }

    /// As [`Self::get_many_if`], where writers keep no order: false if a key was written meanwhile. The caller is
    /// pinned, and no batch runs before that ends.
    ///
    /// # Errors
    /// As [`Self::get_many_if`].
    pub fn get_many_unchanged(
        &self,
        session: &mut Session<M>,
        keys: &[&[u8]],
        verify: Verify,
        see: &mut SeeRecord<'_>,
    ) -> Result<bool, IndexError> {
        let mut found = vec![None; keys.len()];
        let mut witnesses = Vec::with_capacity(keys.len());
        self.cell.try_with(session, |tree, session| {
            find_all(tree, session, keys, verify, &mut found)?;
            for (key, found) in keys.iter().zip(&found) {
                let exact = match *found {
                    Some(known) => exactly(tree, session, key, known.payload)?,
                    None => None,
                };
                let witness = match exact {
                    Some(found) => Witness::Found(found),
                    None => match tree.absence(session, BytesKey::new(key))? {
                        Some(absence) => Witness::Absent(absence),
                        // It has come meanwhile.
                        None => return Ok(false),
                    },
                };
                witnesses.push(witness);
            }
            // Behind the first look, and before the second.
            let moment = Moment::default();
            for (witness, found) in witnesses.iter().zip(&mut found) {
                *found = match *witness {
                    Witness::Absent(_) => None,
                    Witness::Found(known) => {
                        (!moment.is_behind::<M>(known.expiry_ms)).then_some(known)
                    }
                };
            }
            // Acquire: all of the first look is read before any of the second, also what of it is read relaxed:
            // fingerprints, and expiries. A thread that has read a change of one key finds what was changed before it;
            // pairs with the exchanges of entries, the releases of fingerprints behind a removal, and that of an
            // expiry.
            M::fence(Ordering::Acquire);
            for (key, witness) in keys.iter().zip(&witnesses) {
                let is_same = match witness {
                    Witness::Found(found) => is_still(tree, session, key, *found)?,
                    Witness::Absent(absence) => {
                        tree.absence(session, BytesKey::new(key))? == Some(*absence)
                    }
                };
                if !is_same && !M::mutant("at_once.looks_once") {
                    return Ok(false);
                }
            }
            show(session, keys, &found, verify, see)?;
            Ok(true)
        })
    }
}

/// The payloads of the keys, by what entries say; no record is looked at, nor is its expiry known.
fn find_all<G: Geometry, M: Machine, const HEADS: bool>(
    tree: &BytesNodes<G, M, HEADS>,
    session: &mut Session<M>,
    keys: &[&[u8]],
    verify: Verify,
    found: &mut [Option<Found>],
) -> Result<(), AllocError> {
    let (groups, mut run) = (found.chunks_mut(together::<M>()), Run::none());
    for (keys, found) in keys.chunks(together::<M>()).zip(groups) {
        let mut hashed = [BytesKey::NONE; TOGETHER];
        hashed.iter_mut().zip(keys).for_each(|(place, key)| *place = BytesKey::new(key));
        let mut payloads = [None; TOGETHER];
        let payloads = &mut payloads[..keys.len()];
        let hashed = &hashed[..keys.len()];
        tree.get_many_payloads(session, hashed, &mut run, verify.into(), payloads)?;
        for (found, payload) in found.iter_mut().zip(payloads) {
            *found = payload.map(|payload| Found { payload, expiry_ms: 0 });
        }
    }
    Ok(())
}

/// The record of a key by the payload of the entry that seems to be its; its value is not looked at before it is shown.
///
/// # Errors
/// It is damaged.
#[inline]
fn exactly<G: Geometry, M: Machine, const HEADS: bool>(
    tree: &BytesNodes<G, M, HEADS>,
    session: &mut Session<M>,
    key: &[u8],
    payload: u64,
) -> Result<Option<Found>, IndexError> {
    match sound_record_of(PoolBase::of(session.heap()), payload, key, Verify::Key) {
        Some(record) => Ok(Some(Found { payload, expiry_ms: record.expiry_ms })),
        None => found_again(tree, session, key),
    }
}

/// A key looked up by itself: the entry that seemed to be its is another one's, or its record is damaged.
#[cold]
#[inline(never)]
fn found_again<G: Geometry, M: Machine, const HEADS: bool>(
    tree: &BytesNodes<G, M, HEADS>,
    session: &mut Session<M>,
    key: &[u8],
) -> Result<Option<Found>, IndexError> {
    let Some(payload) = tree.get_payload(session, BytesKey::new(key))? else { return Ok(None) };
    let record = record_of(session.heap(), payload, key, Verify::Key)?;
    Ok(Some(Found { payload, expiry_ms: record.expiry_ms }))
}

/// Whether a key still has the record that was found, with its expiry.
fn is_still<G: Geometry, M: Machine, const HEADS: bool>(
    tree: &BytesNodes<G, M, HEADS>,
    session: &mut Session<M>,
    key: &[u8],
    found: Found,
) -> Result<bool, IndexError> {
    if tree.get_payload(session, BytesKey::new(key))? != Some(found.payload) {
        return Ok(false);
    }
    let record = record_of(session.heap(), found.payload, key, Verify::Key)?;
    Ok(record.expiry_ms == found.expiry_ms)
}

/// Shows what was found, with the expiries that were noted: those in the records may have been changed since.
fn show<M: Machine>(
    session: &Session<M>,
    keys: &[&[u8]],
    found: &[Option<Found>],
    verify: Verify,
    see: &mut SeeRecord<'_>,
) -> Result<(), IndexError> {
    for (index, (key, found)) in keys.iter().zip(found).enumerate() {
        let record = match *found {
            Some(Found { payload, expiry_ms }) => {
                Some(Record { expiry_ms, ..record_of(session.heap(), payload, key, verify)? })
            }
            None => None,
        };
        if see(index, record).is_break() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use everleaf_pool::{Domain, Pool};

    use super::*;
    use crate::{Change, Trees};

    fn trees(hashes: bool) -> Trees {
        let pool = Pool::in_memory(1 << 20, 1 << 28, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        if hashes {
            trees.make_hashed_leaves().expect("the pool can be written");
        }
        trees
    }

    /// With one thread: what is shown, and in which order.
    #[test]
    fn what_is_there_is_shown_in_order_until_enough_was_seen() {
        for hashes in [false, true] {
            let trees = trees(hashes);
            let tree = trees.bytes_tree("t").expect("room");
            let mut session = trees.heap().session().expect("a session");
            let names: Vec<Vec<u8>> = (0..100).map(|it: u32| it.to_be_bytes().to_vec()).collect();
            for (number, key) in names.iter().enumerate().filter(|(number, _)| number % 3 > 0) {
                let expiry_ms = u64::from(number % 3 == 2);
                let put = Change::insert(key, key).expiring(expiry_ms);
                tree.change(&mut session, &put).expect("room");
            }
            for count in [0, 1, TOGETHER, TOGETHER + 1, names.len()] {
                let keys: Vec<&[u8]> = names[..count].iter().map(Vec::as_slice).collect();
                for enough in [count, count / 2] {
                    let mut next = 0;
                    let mut see = |at: usize, record: Option<Record<'_>>| {
                        assert_eq!(at, next);
                        next += 1;
                        let expected = (at % 3 == 1).then_some(keys[at]);
                        assert_eq!(record.map(|record| record.value), expected);
                        if next == enough {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    };
                    let mut pinned = session.pinned();
                    let shown = match enough == count {
                        true => tree.get_many_unchanged(&mut pinned, &keys, Verify::Sum, &mut see),
                        false => {
                            tree.get_many_if(&mut pinned, &keys, Verify::Sum, || true, &mut see)
                        }
                    };
                    assert!(shown.expect("sound"));
                    assert_eq!(next, if enough == 0 { count } else { enough });
                }
            }
            let mut see = |_: usize, _: Option<Record<'_>>| panic!("nothing was so");
            let keys = [&b"a"[..]];
            let shown = tree.get_many_if(&mut session, &keys, Verify::Sum, || false, &mut see);
            assert!(!shown.expect("sound"));
        }
    }

    /// What shows that a key is absent is another one when it has come and gone; writes of other keys in the leaf may
    /// change it, and reading does not.
    #[test]
    fn a_key_that_has_come_and_gone_is_absent_for_another_reason() {
        for hashes in [false, true] {
            let trees = trees(hashes);
            let tree = trees.bytes_tree("t").expect("room");
            let mut session = trees.heap().session().expect("a session");
            let mut change = |change: Change<'_>| {
                tree.change(&mut session, &change).expect("room");
            };
            (0..2000_u32).for_each(|it| change(Change::insert(&it.to_be_bytes(), b"v")));
            let mut session = trees.heap().session().expect("a session");
            let mut seen = vec![];
            for _ in 0..200 {
                let absence = |session: &mut Session<_>| {
                    let key = BytesKey::new(b"\0\0\x03\x03 absent");
                    tree.cell().with(session, |tree, session| tree.absence(session, key))
                };
                // As a reader does: nothing of it may be used again while we look.
                let mut pinned = session.pinned();
                let before = absence(&mut pinned).expect("there").expect("sound");
                assert_eq!(absence(&mut pinned).expect("there").expect("sound"), before);
                assert!(before.is_some());
                let key = b"\0\0\x03\x03 absent";
                tree.change(&mut pinned, &Change::insert(key, b"v")).expect("room");
                assert_eq!(absence(&mut pinned).expect("there").expect("sound"), None);
                tree.change(&mut pinned, &Change::remove(key)).expect("room");
                let behind = absence(&mut pinned).expect("there").expect("sound");
                assert!(behind.is_some());
                assert_ne!(behind, before);
                seen.push(behind);
            }
            seen.dedup();
            assert_eq!(seen.len(), 200);
        }
    }
}
