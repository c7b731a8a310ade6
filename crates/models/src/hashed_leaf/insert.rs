//! Insertion: the first free position of the key's probe order is claimed, if none before it is the
//! key's own.

use super::leaf::{Entry, Leaf, UNUSED, fingerprint};
use super::place::{Answer, At, InsertAt, Next, ReplaceAt};
use super::step::{Mutant, Operation, Step};

impl Step<'_> {
    /// One step of an insertion.
    pub fn insert(&self, leaf: &mut Leaf, at: InsertAt) -> Next {
        let go = |at| Next::Go(At::Insert(at));
        match at {
            InsertAt::Fingerprint(i) if usize::from(i) == self.shape.positions => {
                Next::Go(At::Replace(ReplaceAt::first()))
            }
            InsertAt::Fingerprint(i) => {
                let found = leaf.fingerprints[self.position(i)];
                let may_be_ours = found == fingerprint(self.key) || found == 0;
                let may_be_reused = self.lacks(Mutant::ReusesTombstone) && found != UNUSED;
                let reads = may_be_ours || may_be_reused;
                go(if reads { InsertAt::Entry(i) } else { InsertAt::Fingerprint(i + 1) })
            }
            InsertAt::Entry(i) => self.inserts_at(leaf, i),
            InsertAt::Overflow(i) => {
                self.mark_overflow(leaf, i);
                go(InsertAt::Claim(i))
            }
            InsertAt::Claim(i) => {
                let claimed =
                    self.swap(leaf, i, Entry::Empty, Entry::Pending(self.key, self.value()));
                go(match claimed {
                    false => InsertAt::Entry(i),
                    true if self.lacks(Mutant::LiveBeforeFingerprint) => InsertAt::OwnLive(i),
                    true => InsertAt::OwnFingerprint(i),
                })
            }
            InsertAt::OwnFingerprint(i) => {
                leaf.fingerprints[self.position(i)] = fingerprint(self.key);
                if self.lacks(Mutant::LiveBeforeFingerprint) {
                    return self.inserted(i);
                }
                go(InsertAt::OwnLive(i))
            }
            InsertAt::OwnLive(i) => {
                let pending = Entry::Pending(self.key, self.value());
                // If it fails, somebody has made it live or frozen it: the key was inserted then.
                self.swap(leaf, i, pending, Entry::Live(self.key, self.value()));
                if self.lacks(Mutant::LiveBeforeFingerprint) {
                    return go(InsertAt::OwnFingerprint(i));
                }
                if self.lacks(Mutant::OverflowBitAfterClaim) {
                    return go(InsertAt::LateOverflow(i));
                }
                self.inserted(i)
            }
            InsertAt::LateOverflow(i) => {
                self.mark_overflow(leaf, i);
                self.inserted(i)
            }
            InsertAt::HelpFingerprint(i) => {
                let entry = leaf.entries[self.position(i)];
                leaf.fingerprints[self.position(i)] = fingerprint(self.key);
                go(InsertAt::HelpLive(i, entry))
            }
            InsertAt::HelpLive(i, entry) => {
                if let Entry::Pending(key, value) = entry {
                    self.swap(leaf, i, entry, Entry::Live(key, value));
                }
                go(InsertAt::Entry(i))
            }
            InsertAt::Revive(i, tombstone) => {
                if !self.swap(leaf, i, tombstone, Entry::Live(self.key, self.value())) {
                    return go(InsertAt::Entry(i));
                }
                if self.lacks(Mutant::ReusesTombstone) {
                    leaf.fingerprints[self.position(i)] = fingerprint(self.key);
                }
                self.inserted(i)
            }
        }
    }

    /// Acts on the entry at an index of the probe order.
    fn inserts_at(&self, leaf: &Leaf, i: u8) -> Next {
        let go = |at| Next::Go(At::Insert(at));
        let entry = leaf.entries[self.position(i)];
        match entry {
            Entry::Empty => {
                let is_home = usize::from(i) < self.shape.chunk;
                let silent =
                    self.lacks(Mutant::NoOverflowBit) || self.lacks(Mutant::OverflowBitAfterClaim);
                go(if is_home || silent { InsertAt::Claim(i) } else { InsertAt::Overflow(i) })
            }
            Entry::Tombstone(_) if self.lacks(Mutant::ReusesTombstone) => {
                go(InsertAt::Revive(i, entry))
            }
            Entry::FrozenEmpty => Next::Go(At::Replace(ReplaceAt::first())),
            // A zero fingerprint says nothing of whose it is: only the entry does.
            _ if self.lacks(Mutant::PassesUnread)
                && leaf.fingerprints[self.position(i)] != fingerprint(self.key) =>
            {
                go(InsertAt::Fingerprint(i + 1))
            }
            _ if entry.key() != Some(self.key) => go(InsertAt::Fingerprint(i + 1)),
            Entry::Frozen(..) | Entry::FrozenTombstone(_) => {
                Next::Go(At::Replace(ReplaceAt::first()))
            }
            Entry::Pending(..) if self.lacks(Mutant::HelperSkipsFingerprint) => {
                go(InsertAt::HelpLive(i, entry))
            }
            Entry::Pending(..) => go(InsertAt::HelpFingerprint(i)),
            Entry::Live(..) => Next::Go(self.flush(self.position(i), Answer::Done(false))),
            Entry::Tombstone(_) => go(InsertAt::Revive(i, entry)),
        }
    }

    fn inserted(&self, i: u8) -> Next {
        Next::Go(self.flush(self.position(i), Answer::Done(true)))
    }

    fn value(&self) -> u8 {
        match self.operation {
            Operation::Insert(_, value) => value,
            _ => unreachable!("only insertions come here"),
        }
    }

    /// A compare-and-exchange of the entry at an index of the probe order.
    fn swap(&self, leaf: &mut Leaf, i: u8, old: Entry, new: Entry) -> bool {
        let position = self.position(i);
        let is_old = leaf.entries[position] == old;
        if is_old {
            leaf.store(self.shape, position, new);
        }
        is_old
    }
}
