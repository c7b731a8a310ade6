//! What the operations of the programs of batches do, as a store does it: under the gate and the stripes.

use std::ops::ControlFlow;

use everleaf_index::{BatchOp, BytesTree, Change, IndexError, Record, Session, Verify};
use everleaf_machine::Machine;
use everleaf_machine::simulated::history::Reply;
use everleaf_pool::FEATURE_EXPIRY_IN_BATCHES;

use super::{
    ABSENT, G, LONE_FIRST, M, Opened, Operation, OwnKind, SINGLE, TWINS, added_key, fillers,
    lone_key, moving_key, number, own_keys, swapping_keys, text, time_of, value_of,
};

/// How often it is tried to read several keys without stripes.
const ATTEMPTS: u32 = 2;

impl Opened {
    /// Reads a key as a store does.
    fn read(
        &self,
        session: &mut Session<M>,
        key: &[u8],
        see: impl FnOnce(Record<'_>) -> u64,
    ) -> Result<Option<u64>, IndexError> {
        let mut see = Some(see);
        self.order.read(session, key, |session, single| {
            let seen = self.tree.get_record(session, key, |record| {
                if single.may_be_shown() { see.take().map(|see| see(record)) } else { None }
            });
            seen.map(Option::flatten)
        })
    }

    /// Reads keys at one moment as a store does: their values, or 0 for those of another size, and expiries.
    fn read_at_once<const COUNT: usize>(
        &self,
        session: &mut Session<M>,
        keys: [&[u8]; COUNT],
    ) -> Result<[Option<(u64, u64)>; COUNT], IndexError> {
        let mut found = [None; COUNT];
        let mut see = |index: usize, record: Option<Record<'_>>| {
            found[index] = record.map(|record| {
                let value =
                    record.value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                (value, record.expiry_ms)
            });
            ControlFlow::Continue(())
        };
        for attempt in 0..ATTEMPTS {
            let mut pinned = session.pinned();
            let is_shown = if self.order.is_free() {
                self.tree.get_many_unchanged(&mut pinned, &keys, Verify::Sum, &mut see)?
            } else if let Some(look) = self.order.look(&keys) {
                let is_so = || look.is_unchanged();
                self.tree.get_many_if(&mut pinned, &keys, Verify::Sum, is_so, &mut see)?
            } else {
                false
            };
            if is_shown {
                return Ok(found);
            }
            drop(pinned);
            M::spin(attempt);
        }
        M::mark("batches.reads_behind_stripes");
        self.order.raise(self.trees.heap());
        let stripes = self.order.lock_to_read(keys);
        let mut pinned = session.pinned();
        let is_so = || {
            drop(stripes);
            self.order.lower();
            true
        };
        self.tree.get_many_if(&mut pinned, &keys, Verify::Sum, is_so, &mut see)?;
        drop(pinned);
        Ok(found)
    }

    /// Reads keys at one moment that no thread changes without the others.
    fn judge_moment(
        &self,
        session: &mut Session<M>,
        operation: Operation,
    ) -> Result<(), IndexError> {
        match operation {
            Operation::TwinsAmong => {
                let keys = [TWINS[0], ABSENT, SINGLE, TWINS[1]];
                let found = self.read_at_once(session, keys)?;
                assert!(found[0] == found[3], "half a batch at one moment: {found:?}");
                assert!(found[1].is_none(), "nobody put that: {found:?}");
            }
            Operation::ReadSwapping(thread) => {
                // One of them twice: a thread that looks at each once may find it there, and then not.
                let [left, right] = swapping_keys(thread);
                let found = self.read_at_once(session, [&left, &right, &left])?;
                let is_so = found[0] == found[2] && found != [None; 3];
                assert!(is_so, "a moment that never was: {found:?} of swapping keys");
            }
            _ => {
                let found = self.read_at_once(session, TWINS)?;
                assert!(found[0] == found[1], "half a batch at one moment: {found:?}");
            }
        }
        Ok(())
    }

    /// Puts that of a thread's swapping keys that is absent, and then removes the other.
    fn swap(&self, session: &mut Session<M>, thread: usize) -> Result<(), IndexError> {
        let [left, right] = swapping_keys(thread);
        let is_left = self.read(session, &left, |_| 0)?.is_some();
        let (put, removed) = if is_left { (right, left) } else { (left, right) };
        self.change(session, &Change::upsert(&put, b"here"))?;
        self.change(session, &Change::remove(&removed))
    }

    /// Makes a change of one key as a store does.
    fn change(&self, session: &mut Session<M>, change: &Change<'_>) -> Result<(), IndexError> {
        let mut pinned = session.pinned();
        if self.order.is_free() {
            return self.tree.change(&mut pinned, change).map(drop);
        }
        drop(pinned);
        let _stripe = self.order.lock(change.key);
        self.tree.change(session, change).map(drop)
    }

    /// Writes a key as a store does.
    fn put(&self, session: &mut Session<M>, value: u64) -> Result<Option<u64>, IndexError> {
        let value = value.to_le_bytes();
        let put = |session: &mut Session<M>| {
            self.tree
                .change_seeing(session, &Change::upsert(SINGLE, &value), |_, old| old.map(number))
        };
        let mut pinned = session.pinned();
        if self.order.is_free() {
            return put(&mut pinned);
        }
        drop(pinned);
        let _stripe = self.order.lock(SINGLE);
        put(session)
    }

    /// Returns what the single key was.
    fn batch(&self, session: &mut Session<M>, value: u64) -> Result<Option<u64>, IndexError> {
        self.order.raise(self.trees.heap());
        let (added, removed) = (fillers(value), fillers(value ^ 1));
        let keys = TWINS.iter().copied().chain([SINGLE]);
        let more = added.iter().chain(&removed).map(Vec::as_slice).filter(|_| self.fills);
        let stripes = self.order.lock_many(keys.chain(more).map(|key| self.order.stripe_of(key)));
        let next = self.tree.get_with(session, TWINS[0], number)?.unwrap_or(0) + 1;
        let before = self.tree.get_with(session, SINGLE, number)?;
        let (next, value) = (next.to_le_bytes(), value.to_le_bytes());
        let put = |key, value| BatchOp::put(&self.tree, key, value, 0);
        let mut operations = vec![put(TWINS[0], &next), put(SINGLE, &value), put(TWINS[1], &next)];
        if self.fills {
            operations.extend(added.iter().map(|key| put(key, &next)));
            operations.extend(removed.iter().map(|key| BatchOp::remove(&self.tree, key)));
        }
        let done = self.journal.apply(session, &operations);
        drop(stripes);
        self.order.lower_after_batch();
        done.map(|()| before)
    }

    /// Changes a thread's own keys as one. Returns what they were.
    fn change_own(
        &self,
        session: &mut Session<M>,
        thread: usize,
        kind: OwnKind,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        let [first, second] = own_keys(thread);
        self.order.raise(self.trees.heap());
        let keys = [&first[..], &second[..]];
        let stripes = self.order.lock_many(keys.map(|key| self.order.stripe_of(key)));
        let see = |record: Record<'_>| value_of(record.expiry_ms);
        let before = self.tree.get_record(session, &first, see)?;
        let bytes = value.to_le_bytes();
        let put = |tree, key| BatchOp::put(tree, key, &bytes, time_of(value));
        let of_both = [(&*self.other, keys[1]), (&*self.tree, keys[0])];
        let operations = match (kind, before) {
            (OwnKind::Remove, _) => of_both.map(|(tree, key)| BatchOp::remove(tree, key)),
            // Of two keys that are not there, neither becomes another.
            (OwnKind::Expire, before) => of_both.map(|(tree, key)| {
                match value % 2 == 1 && before.is_some() && key == keys[1] {
                    true => put(tree, key),
                    false => BatchOp::expire(tree, key, time_of(value)),
                }
            }),
            (OwnKind::Renew, _) => {
                of_both.map(|(tree, key)| BatchOp::expire(tree, key, time_of(value)))
            }
            (OwnKind::Put, _) => of_both.map(|(tree, key)| put(tree, key)),
        };
        let added = added_key(thread);
        let added = matches!(kind, OwnKind::Renew).then(|| put(&self.tree, &added));
        let operations: Vec<_> = operations.into_iter().chain(added).collect();
        let done = self.journal.apply(session, &operations);
        if done.is_ok() && matches!(kind, OwnKind::Expire | OwnKind::Renew) {
            // Code that knows no such batches must refuse the pool.
            let features = self.trees.heap().pool().features();
            assert!(
                features & FEATURE_EXPIRY_IN_BATCHES != 0,
                "the pool does not say what its journal may have"
            );
        }
        drop(stripes);
        self.order.lower_after_batch();
        done.map(|()| before)
    }

    /// Changes a thread's lone key by a batch of one change. Returns what it was.
    fn change_lone(
        &self,
        session: &mut Session<M>,
        thread: usize,
        kind: OwnKind,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        let key = lone_key(thread);
        self.order.raise(self.trees.heap());
        let stripes = self.order.lock_many([self.order.stripe_of(&key)]);
        let before = self.tree.get_record(session, &key, |record| value_of(record.expiry_ms))?;
        let bytes = value.to_le_bytes();
        let change = match kind {
            OwnKind::Remove => BatchOp::remove(&self.tree, &key),
            OwnKind::Expire | OwnKind::Renew => BatchOp::expire(&self.tree, &key, time_of(value)),
            OwnKind::Put => BatchOp::put(&self.tree, &key, &bytes, time_of(value)),
        };
        let done = self.journal.apply(session, &[change]);
        drop(stripes);
        self.order.lower_after_batch();
        done.map(|()| before)
    }

    /// Sets a thread's lone key by itself, or with 0 removes it.
    fn change_alone(
        &self,
        session: &mut Session<M>,
        thread: usize,
        value: u64,
    ) -> Result<(), IndexError> {
        let (key, bytes) = (lone_key(thread), value.to_le_bytes());
        match value {
            0 => self.change(session, &Change::remove(&key)),
            _ => self.change(session, &Change::upsert(&key, &bytes).expiring(time_of(value))),
        }
    }

    /// Moves a thread's moving key from one tree to the other.
    fn move_key(&self, session: &mut Session<M>, thread: usize) -> Result<(), IndexError> {
        let key = moving_key(thread);
        self.order.raise(self.trees.heap());
        let stripes = self.order.lock_many([self.order.stripe_of(&key)]);
        let is_here = self.tree.get_with(session, &key, |_| ())?.is_some();
        let trees = [&*self.tree, &*self.other];
        let [from, to] = if is_here { trees } else { [trees[1], trees[0]] };
        let value = LONE_FIRST.to_le_bytes();
        let changes = [BatchOp::put(to, &key, &value, 0), BatchOp::remove(from, &key)];
        let done = self.journal.apply(session, &changes);
        drop(stripes);
        self.order.lower_after_batch();
        done
    }

    /// The value of a thread's own keys: both are alike, with their expiry, or there is neither.
    pub(super) fn own(
        &self,
        session: &mut Session<M>,
        thread: usize,
    ) -> Result<Option<u64>, String> {
        let keys = own_keys(thread);
        let mut see = |tree: &BytesTree<G, M>, key: &[u8]| {
            tree.get_verified(session, key, Verify::Sum, |record| {
                assert!(number(record.value) > 0, "only what is put has a value");
                record.expiry_ms
            })
        };
        let first = see(&self.tree, &keys[0]).map_err(text)?;
        let second = see(&self.other, &keys[1]).map_err(text)?;
        let is_late = first.is_some_and(|expiry| expiry != time_of(value_of(expiry)));
        if first != second || is_late {
            return Err(format!("half a batch of thread {thread}: {first:?} and {second:?}"));
        }
        Ok(first.map(value_of))
    }

    pub(super) fn replies(
        &self,
        session: &mut Session<M>,
        operation: Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        let value = |record: Record<'_>| number(record.value);
        let previous = match operation {
            Operation::Batch(value) => self.batch(session, value)?,
            Operation::Put(value) => self.put(session, value)?,
            Operation::Get => self.read(session, SINGLE, value)?,
            Operation::Own(thread, 0) => self.change_own(session, thread, OwnKind::Remove, 0)?,
            Operation::Own(thread, value) => {
                self.change_own(session, thread, OwnKind::Put, value)?
            }
            Operation::Expire(thread, value) => {
                self.change_own(session, thread, OwnKind::Expire, value)?
            }
            Operation::Renew(thread, value) => {
                self.change_own(session, thread, OwnKind::Renew, value)?
            }
            Operation::GetOwn(thread) => {
                self.read(session, &own_keys(thread)[0], |record| value_of(record.expiry_ms))?
            }
            Operation::Lone(thread, 0) => self.change_lone(session, thread, OwnKind::Remove, 0)?,
            Operation::Lone(thread, value) => {
                self.change_lone(session, thread, OwnKind::Put, value)?
            }
            Operation::LoneExpire(thread, value) => {
                self.change_lone(session, thread, OwnKind::Expire, value)?
            }
            Operation::GetLone(thread) => {
                self.read(session, &lone_key(thread), |record| value_of(record.expiry_ms))?
            }
            Operation::Alone(thread, value) => {
                self.change_alone(session, thread, value)?;
                replies.push(Reply::Unknown);
                return Ok(());
            }
            Operation::GetTogether(thread) => {
                let lone = lone_key(thread);
                let [single, _, lone] = self.read_at_once(session, [SINGLE, ABSENT, &lone])?;
                replies.push(Reply::Previous(single.map(|(value, _)| value)));
                lone.map(|(_, expiry_ms)| value_of(expiry_ms))
            }
            Operation::Twins => {
                let first = self.read(session, TWINS[0], value)?;
                // As a scan does, which waits for nobody.
                let second = self.tree.get_record(session, TWINS[1], value)?;
                assert!(second >= first, "half a batch: {first:?}, then {second:?}");
                return Ok(());
            }
            Operation::TwinsAtOnce | Operation::TwinsAmong | Operation::ReadSwapping(_) => {
                return self.judge_moment(session, operation);
            }
            Operation::Swap(thread) => return self.swap(session, thread),
            Operation::Move(thread) => return self.move_key(session, thread),
            Operation::LowerIfIdle => {
                self.order.lower_if_idle();
                return Ok(());
            }
        };
        replies.push(Reply::Previous(previous));
        Ok(())
    }
}
