//! Changes of a byte string's value that depend on what it is.

use std::borrow::Cow;

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use crate::api::change::Intent;
use crate::api::error::IndexError;
use crate::bytes::change::Answer;
use crate::bytes::entry::BytesKey;
use crate::bytes::found::record_of;
use crate::bytes::record::{self, LONG_VALUE_SIZE, Moment, Record, VALUE_SIZE_MAX, Verify};
use crate::bytes::tree::{BytesTree, Decision};
use crate::geometry::Geometry;
use crate::nbtree::write::Write;

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    /// Replaces a key's value by what `decide` makes of it, atomically; `decide` may run several
    /// times, and the last answer counts. Returns whether the tree changed.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub fn decide(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        mut decide: impl FnMut(Option<&[u8]>) -> Decision,
    ) -> Result<bool, IndexError> {
        self.decide_record(session, key, |found| decide(found.map(|record| record.value)))
    }

    /// As [`Self::decide`], with the time at which the key expires.
    ///
    /// # Errors
    /// As [`Self::change`]; the record that is there is damaged. Then nothing was changed.
    pub fn decide_record(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        mut decide: impl FnMut(Option<Record<'_>>) -> Decision,
    ) -> Result<bool, IndexError> {
        let changed = self.decide_up_to(session, key, usize::MAX, &mut decide)?;
        Ok(changed.expect("no value is so long"))
    }

    /// As [`Self::decide_record`] of a key whose value is short. If it is not, `decide` is not asked, and
    /// the answer is `None`: its expiry can be changed without writing it again
    /// ([`Self::change_expiry`]).
    ///
    /// # Errors
    /// As [`Self::decide_record`].
    pub fn decide_short(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        mut decide: impl FnMut(Option<Record<'_>>) -> Decision,
    ) -> Result<Option<bool>, IndexError> {
        self.decide_up_to(session, key, LONG_VALUE_SIZE, &mut decide)
    }

    /// Lets a key that is there expire at this time (0: never), by writing its record again.
    #[cold]
    pub(crate) fn expire(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        expiry_ms: u64,
    ) -> Result<Answer, IndexError> {
        let mut old_size = None;
        let changed = self.decide_record(session, key, |found| {
            old_size = found.map(|record| record.value.len());
            Decision::Expire(expiry_ms)
        })?;
        Ok(Answer { changed, old_size })
    }

    /// As the others, compiled once and not for each closure: a write through two kinds of leaves is 40 KB of code.
    fn decide_up_to(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        long: usize,
        decide: &mut dyn FnMut(Option<Record<'_>>) -> Decision,
    ) -> Result<Option<bool>, IndexError> {
        self.admit(key, None, 0)?;
        self.cell().try_with(session, |tree, session| {
            let key = BytesKey::new(key);
            loop {
                let near = tree.approach(key);
                let found = tree.get_near(session, &near, key)?;
                let read = |payload, verify| record_of(session.heap(), payload, key.bytes, verify);
                let record = match found {
                    Some(payload) => {
                        if long <= VALUE_SIZE_MAX && read(payload, Verify::Key)?.value.len() >= long
                        {
                            return Ok(None);
                        }
                        Some(read(payload, Verify::Sum)?)
                    }
                    None => None,
                };
                let moment = Moment::default();
                let record = record.filter(|record| !record.had_expired::<M>(&moment));
                let kept = record.map_or(0, |record| record.expiry_ms);
                let (value, expiry_ms): (Option<Cow<'_, [u8]>>, u64) =
                    match (decide(record), record) {
                        (Decision::Keep, _)
                        | (Decision::Remove, None)
                        | (Decision::Expire(_), None) => return Ok(Some(false)),
                        (Decision::Remove, Some(_)) => (None, 0),
                        (Decision::Put(value), _) => (Some(value.into()), kept),
                        (Decision::PutExpiring(value, expiry_ms), _) => {
                            (Some(value.into()), expiry_ms)
                        }
                        // In place: our pin keeps the old record until the new one is written.
                        (Decision::Expire(expiry_ms), Some(record)) => {
                            (Some(record.value.into()), expiry_ms)
                        }
                    };
                self.admit(key.bytes, value.as_deref(), expiry_ms)?;
                let payload = match &value {
                    Some(value) => {
                        key.payload(record::create_expiring(session, key.bytes, value, expiry_ms)?)
                    }
                    None => 0,
                };
                let intent = match (&value, found) {
                    (_, None) => Intent::Insert,
                    (None, Some(old)) => Intent::RemoveExact(old),
                    (Some(_), Some(old)) => Intent::Exchange(old),
                };
                let write = Write { key, intent, payload };
                let see = |answer: Answer, _: Option<&[u8]>| answer.changed;
                if self.perform_near(tree, session, near, write, &moment, see)? {
                    return Ok(Some(true));
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pool::{Domain, Pool};

    use crate::{Answer, Change, Trees};

    #[test]
    fn a_change_of_the_expiry_alone_leaves_the_value() {
        const FAR: u64 = u64::MAX - 1;
        let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let expire = Change::expire(b"key", FAR);
        assert_eq!(tree.change(&mut session, &expire).expect("room"), Answer::default());
        tree.change(&mut session, &Change::insert(b"key", b"value")).expect("room");
        let done = Answer { changed: true, old_size: Some(5) };
        assert_eq!(tree.change(&mut session, &expire).expect("room"), done);
        let own = |record: crate::Record<'_>| (record.value.to_vec(), record.expiry_ms);
        let found = tree.get_record(&mut session, b"key", own).expect("there");
        assert_eq!(found, Some((b"value".to_vec(), FAR)));
        // Of what has expired there is nothing to change.
        tree.change(&mut session, &Change::upsert(b"key", b"value").expiring(1)).expect("room");
        assert_eq!(tree.change(&mut session, &expire).expect("room"), Answer::default());
        assert_eq!(tree.len(&mut session).expect("there"), 1);
    }
}
