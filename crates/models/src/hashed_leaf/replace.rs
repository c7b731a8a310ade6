//! Replacement: freeze every position, copy, commit, switch. A thread that meets a frozen position does all
//! of it, too; only the commit decides whose copy it is.

use super::leaf::{Entry, Leaf, UNUSED, fingerprint};
use super::place::{Answer, At, Next, ReplaceAt};
use super::step::{Mutant, Operation, Step};

impl Step<'_> {
    /// One step of a replacement of the leaf of this number.
    pub fn replace(
        &self,
        leaves: &mut Vec<Leaf>,
        current: &mut u8,
        number: u8,
        at: ReplaceAt,
    ) -> Next {
        let go = |at| Next::Go(At::Replace(at));
        let leaf = &mut leaves[usize::from(number)];
        match at {
            ReplaceAt::Freeze(p) if usize::from(p) == self.shape.positions => go(ReplaceAt::Copy),
            ReplaceAt::Freeze(p) => go(self.freeze(leaf, p)),
            ReplaceAt::Fingerprint(p, entry) => {
                leaf.fingerprints[usize::from(p)] = entry.key().map_or(UNUSED, fingerprint);
                go(ReplaceAt::FreezePending(p, entry))
            }
            ReplaceAt::FreezePending(p, entry) => go(self.freeze_pending(leaf, p, entry)),
            ReplaceAt::Unused(p) => {
                leaf.fingerprints[usize::from(p)] = UNUSED;
                go(ReplaceAt::Freeze(p + 1))
            }
            ReplaceAt::Copy => self.copy(leaves, usize::from(number)),
            ReplaceAt::Commit(copy) => {
                leaf.successor.get_or_insert(copy);
                if self.lacks(Mutant::SwitchBeforeCommit) {
                    return go(ReplaceAt::Switch);
                }
                go(ReplaceAt::PersistCommit)
            }
            ReplaceAt::PersistCommit => {
                leaf.is_successor_durable = true;
                go(ReplaceAt::Switch)
            }
            ReplaceAt::Switch => {
                if *current == number {
                    *current = leaf.successor.expect("a replacement commits before it switches");
                }
                match self.operation {
                    Operation::Replace => Next::End(Answer::Replaced),
                    _ => Next::Go(At::Descend),
                }
            }
        }
    }

    fn freeze(&self, leaf: &mut Leaf, p: u8) -> ReplaceAt {
        let entry = leaf.entries[usize::from(p)];
        let frozen = match entry {
            Entry::Pending(..) if self.lacks(Mutant::FreezeSkipsFingerprint) => {
                return self.freeze_pending(leaf, p, entry);
            }
            Entry::Pending(..) => return ReplaceAt::Fingerprint(p, entry),
            Entry::FrozenEmpty => return self.unused(p),
            Entry::Empty => Entry::FrozenEmpty,
            Entry::Live(key, value) => Entry::Frozen(key, value),
            Entry::Tombstone(_) if self.lacks(Mutant::FreezeSkipsTombstones) => entry,
            Entry::Tombstone(key) => Entry::FrozenTombstone(key),
            Entry::Frozen(..) | Entry::FrozenTombstone(_) => entry,
        };
        if frozen != entry {
            leaf.store(self.shape, usize::from(p), frozen);
        }
        if frozen == Entry::FrozenEmpty { self.unused(p) } else { ReplaceAt::Freeze(p + 1) }
    }

    fn unused(&self, p: u8) -> ReplaceAt {
        let leaves_zero = self.lacks(Mutant::FreezeLeavesZeroes);
        if leaves_zero { ReplaceAt::Freeze(p + 1) } else { ReplaceAt::Unused(p) }
    }

    fn freeze_pending(&self, leaf: &mut Leaf, p: u8, entry: Entry) -> ReplaceAt {
        match entry {
            Entry::Pending(key, value) if leaf.entries[usize::from(p)] == entry => {
                leaf.store(self.shape, usize::from(p), Entry::Frozen(key, value));
                ReplaceAt::Freeze(p + 1)
            }
            _ => ReplaceAt::Freeze(p),
        }
    }

    fn copy(&self, leaves: &mut Vec<Leaf>, number: usize) -> Next {
        let pairs: Vec<_> = leaves[number].entries.iter().filter_map(|e| e.pair()).collect();
        let is_split = pairs.len() == self.shape.positions;
        let Some(mut copy) = Leaf::with(self.shape, &pairs).filter(|_| !is_split) else {
            return Next::OutOfModel;
        };
        if self.lacks(Mutant::CopyIsNotFlushed) {
            copy.forget_flush(self.shape);
        }
        leaves.push(copy);
        Next::Go(At::Replace(ReplaceAt::Commit(leaves.len() as u8 - 1)))
    }
}
