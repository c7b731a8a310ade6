//! Lookup: the fingerprints of a chunk, the entries that match, and what proves absence.

use super::leaf::{Entry, Leaf, UNUSED, fingerprint};
use super::place::{Answer, At, LookupAt, Next, ReplaceAt, Seen};
use super::step::{Mutant, Operation, Step};

impl Step<'_> {
    /// One step of a get, an update or a removal.
    pub fn lookup(&self, leaf: &mut Leaf, at: LookupAt) -> Next {
        let go = |at| Next::Go(At::Lookup(at));
        match at {
            LookupAt::Fingerprint(i, mut seen) => {
                let position = self.position(seen.first + i);
                if i == 0 {
                    seen.overflowed = leaf.overflowed[position / self.shape.chunk];
                }
                let found = leaf.fingerprints[position];
                seen.zero |= found == 0;
                seen.matches |= u8::from(found == fingerprint(self.key)) << i;
                let is_last = usize::from(i) + 1 == self.shape.chunk;
                if !is_last {
                    return go(LookupAt::Fingerprint(i + 1, seen));
                }
                self.after_match(seen)
            }
            LookupAt::Match(mut seen) => {
                let position = self.position(seen.first + seen.matches.trailing_zeros() as u8);
                let entry = leaf.entries[position];
                if entry.key() == Some(self.key) {
                    return self.found(position, entry);
                }
                seen.matches &= seen.matches - 1;
                self.after_match(seen)
            }
            LookupAt::Overflow(seen) => {
                let position = self.position(seen.first);
                let mut overflowed = leaf.overflowed[position / self.shape.chunk];
                if self.lacks(Mutant::OverflowBitReadFirst) {
                    overflowed = seen.overflowed;
                }
                if overflowed { self.next_chunk(seen) } else { Next::End(self.absent()) }
            }
            LookupAt::Successor(answer, line) => {
                if leaf.successor.is_some() {
                    return Next::Go(At::Replace(ReplaceAt::PersistCommit));
                }
                match line {
                    Some(line) => Next::Go(At::Flush(line, answer)),
                    None => Next::End(answer),
                }
            }
            LookupAt::Exchange(position, old) => self.exchange(leaf, usize::from(position), old),
            LookupAt::Clear(position) => {
                leaf.fingerprints[usize::from(position)] = UNUSED;
                Next::Go(self.flush(usize::from(position), Answer::Done(true)))
            }
        }
    }

    fn after_match(&self, seen: Seen) -> Next {
        let go = |at| Next::Go(At::Lookup(at));
        match seen {
            Seen { matches: 1.., .. } => go(LookupAt::Match(seen)),
            Seen { zero: true, .. } => go(LookupAt::Overflow(seen)),
            _ => self.next_chunk(seen),
        }
    }

    /// The key is not in this chunk, but may be in the next.
    fn next_chunk(&self, seen: Seen) -> Next {
        let first = seen.first + self.shape.chunk as u8;
        if usize::from(first) < self.shape.positions {
            let seen = Seen { first, ..Seen::default() };
            return Next::Go(At::Lookup(LookupAt::Fingerprint(0, seen)));
        }
        if self.lacks(Mutant::TrustsFullLeaf) {
            return Next::End(self.absent());
        }
        Next::Go(At::Lookup(LookupAt::Successor(self.absent(), None)))
    }

    fn absent(&self) -> Answer {
        match self.operation {
            Operation::Get(_) => Answer::Value(None),
            _ => Answer::Done(false),
        }
    }

    /// Acts on the entry of the key.
    fn found(&self, position: usize, entry: Entry) -> Next {
        let line = (position / self.shape.line) as u8;
        let is_get = matches!(self.operation, Operation::Get(_));
        let value = match entry {
            Entry::Live(_, value) | Entry::Frozen(_, value) => Some(value),
            _ => None,
        };
        Next::Go(match entry {
            Entry::Frozen(..) | Entry::FrozenTombstone(_) if !is_get => {
                At::Replace(ReplaceAt::first())
            }
            Entry::Live(..) if !is_get => At::Lookup(LookupAt::Exchange(position as u8, entry)),
            _ if !is_get => At::Flush(line, Answer::Done(false)),
            Entry::Frozen(..) | Entry::FrozenTombstone(_) if !self.lacks(Mutant::TrustsFrozen) => {
                At::Lookup(LookupAt::Successor(Answer::Value(value), Some(line)))
            }
            _ => At::Flush(line, Answer::Value(value)),
        })
    }

    fn exchange(&self, leaf: &mut Leaf, position: usize, old: Entry) -> Next {
        if leaf.entries[position] != old {
            return self.found(position, leaf.entries[position]);
        }
        let new = match self.operation {
            Operation::Update(key, value) => Entry::Live(key, value),
            _ => Entry::Tombstone(self.key),
        };
        leaf.store(self.shape, position, new);
        let clears = self.lacks(Mutant::RemovalClearsFingerprint);
        if clears && matches!(new, Entry::Tombstone(_)) {
            return Next::Go(At::Lookup(LookupAt::Clear(position as u8)));
        }
        Next::Go(self.flush(position, Answer::Done(true)))
    }
}
