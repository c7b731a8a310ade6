//! What the operations of a program on a tree of 64-bit integers do, and what their answers say key by key.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Intent, Outcome};
use everleaf_index::{Exchange, IndexError};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::Reply;

use super::U64Program;
use crate::tree::living::{Living, session_of};
use crate::tree::operation::{Operation, asked, sorted};

impl U64Program {
    /// What all keys are, asked for in the order of this turn.
    pub(super) fn get_many(
        &self,
        tree: &dyn Living,
        session: &mut Session<Simulated>,
        turn: usize,
    ) -> Result<Vec<Option<u64>>, IndexError> {
        let order = asked(turn, self.universe.len());
        let keys: Vec<u64> = order.iter().map(|place| self.universe[*place]).collect();
        let mut found = vec![None; keys.len()];
        tree.tree().get_many(session, &keys, &mut found)?;
        Ok(sorted(&order, &found))
    }

    /// What an operation answers, in a session of its thread.
    pub(super) fn replies(
        &self,
        tree: &dyn Living,
        slot: &mut Option<Session<Simulated>>,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        if *operation == Operation::Rejoin {
            // The old one ends first: what it had is judged, and goes to others.
            *slot = None;
            let mut session = tree.heap().session()?;
            session.reserve_blocks(self.space.blocks_at_hand)?;
            *slot = Some(session);
            return Ok(());
        }
        let session = session_of(slot, tree.heap())?;
        let previous = match *operation {
            Operation::Get(key) => tree.tree().get(session, key)?,
            Operation::Insert(key, value) => tree.tree().insert(session, key, value)?,
            Operation::Update(key, value) => tree.tree().update(session, key, value)?,
            Operation::Upsert(key, value) => tree.tree().upsert(session, key, value)?,
            Operation::Remove(key) => tree.tree().remove(session, key)?,
            Operation::Exchange(key, expected, new) => {
                match tree.tree().compare_exchange(session, key, expected, new)? {
                    Exchange::Done => Some(expected),
                    Exchange::Absent => None,
                    Exchange::Mismatch(found) => {
                        assert_ne!(found, expected, "a mismatch that is none");
                        Some(found)
                    }
                }
            }
            Operation::GetMany => {
                let values = self.get_many(tree, session, session.stripe())?;
                replies.extend(values.into_iter().map(Reply::Previous));
                return Ok(());
            }
            Operation::Scan(from, limit) => {
                let mut pairs = vec![];
                tree.tree().scan(session, from, limit, &mut pairs)?;
                let keys = self.universe.iter().filter(|&&key| key >= from);
                note_scan(&pairs, limit, keys.copied(), replies);
                return Ok(());
            }
            Operation::ScanBack(from, limit) => {
                let mut pairs = vec![];
                tree.scan_back(session, from, limit, &mut pairs)?;
                let keys = self.universe.iter().rev().filter(|&&key| key <= from);
                note_scan(&pairs, limit, keys.copied(), replies);
                return Ok(());
            }
            Operation::Range(range) => {
                let keys = range.of(self.universe.iter().copied());
                let mut pairs = vec![];
                // As many as there may be: what is beyond the other end comes behind them.
                match range.reverse {
                    false => tree.tree().scan(session, range.low, keys.len() + 2, &mut pairs)?,
                    true => tree.scan_back(session, range.high, keys.len() + 2, &mut pairs)?,
                }
                pairs.retain(|(key, _)| range.has(*key));
                note_scan(&pairs, usize::MAX, keys.into_iter(), replies);
                return Ok(());
            }
            Operation::Release => return release(tree, session),
            Operation::Rejoin | Operation::Reopen { .. } => return Ok(()),
            Operation::WriteMany(ref all) => {
                return self.write_many(tree, session, all, replies);
            }
            Operation::Clear => {
                tree.clear(session, &self.universe)?;
                replies.extend(self.universe.iter().map(|_| Reply::Unknown));
                return Ok(());
            }
        };
        replies.push(Reply::Previous(previous));
        Ok(())
    }

    /// Many writes in one call. Those that were not made, for want of space, are refused.
    fn write_many(
        &self,
        tree: &dyn Living,
        session: &mut Session<Simulated>,
        all: &[Operation],
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        // What no write answers: that it has changed nothing, and found a value that nobody writes.
        const UNTOUCHED: Outcome = Outcome { changed: false, old: Some(u64::MAX - 7) };
        let changes: Vec<Change> = all.iter().map(change_of).collect();
        let mut outcomes = vec![UNTOUCHED; changes.len()];
        let done = tree.tree().write_many(session, &changes, &mut outcomes);
        let made = match &done {
            Err(error) if self.space.may_fail(error) => {
                self.seen.refused.set(self.seen.refused.get() + 1);
                let made = outcomes.iter().position(|outcome| *outcome == UNTOUCHED);
                made.expect("the write that failed has no outcome")
            }
            _ => {
                done?;
                changes.len()
            }
        };
        let (made, rest) = outcomes.split_at(made);
        assert!(rest.iter().all(|outcome| *outcome == UNTOUCHED), "{all:?}: {outcomes:?}");
        assert!(!made.contains(&UNTOUCHED), "{all:?}: {outcomes:?}");
        replies.extend(made.iter().map(|outcome| Reply::Previous(outcome.old)));
        replies.extend(rest.iter().map(|_| Reply::Refused));
        Ok(())
    }
}

/// Makes durable what the tree defers, restores some of what opening has left, as a thread in the background does,
/// and gives back what the session holds.
fn release(tree: &dyn Living, session: &mut Session<Simulated>) -> Result<(), IndexError> {
    tree.tree().persist_deferred(session)?;
    let mut damaged = vec![];
    tree.tree().restore_next(session, 0, 3, &mut damaged)?;
    if let Some(damage) = damaged.into_iter().next() {
        return Err(damage);
    }
    session.collect_all();
    session.give_back();
    tree.heap().release_empty_chunks();
    Ok(())
}

/// A write as one of many.
fn change_of(write: &Operation) -> Change {
    let (key, intent, value) = match *write {
        Operation::Insert(key, value) => (key, Intent::Insert, value),
        Operation::Update(key, value) => (key, Intent::Update, value),
        Operation::Upsert(key, value) => (key, Intent::Upsert, value),
        Operation::Remove(key) => (key, Intent::Remove, 0),
        ref other => panic!("{other:?} is not one of many writes"),
    };
    Change { key, intent, value }
}

/// What a scan that passes `keys` in this order says about each of them.
pub(crate) fn note_scan(
    pairs: &[(u64, u64)],
    limit: usize,
    keys: impl Iterator<Item = u64>,
    replies: &mut Vec<Reply>,
) {
    assert!(pairs.len() <= limit.max(1), "a scan for {limit} pairs gives {pairs:?}");
    let mut rest = pairs.iter().peekable();
    for key in keys {
        let found = rest.next_if(|(found, _)| *found == key).map(|(_, value)| *value);
        let cut = found.is_none() && rest.peek().is_none() && pairs.len() >= limit;
        replies.push(if cut { Reply::Unknown } else { Reply::Previous(found) });
    }
    assert!(rest.peek().is_none(), "a scan gives {pairs:?}: out of order, or from nowhere");
}
