//! Programs, threads and states: a thread makes one access to shared memory a step.

use super::insert::InsertAt;
use super::leaf::{Key, Leaf, Shape, Value};
use super::lookup::LookupAt;
use super::replace::ReplaceAt;

/// What a thread is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Adds a pair if the key is absent.
    Insert(Key, Value),
    /// Changes the value if the key is present.
    Update(Key, Value),
    /// Removes the key.
    Remove(Key),
    /// Reads the value.
    Get(Key),
    /// Replaces the leaf by a copy without tombstones.
    Replace,
}

impl Operation {
    fn key(self) -> Key {
        match self {
            Operation::Insert(key, _) | Operation::Update(key, _) => key,
            Operation::Remove(key) | Operation::Get(key) => key,
            Operation::Replace => 0,
        }
    }
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Of an insertion, update or removal: whether it changed anything.
    Done(bool),
    /// Of a get.
    Value(Option<Value>),
    /// Of a replacement.
    Replaced,
}

/// A safeguard that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Insertion: the entry is made live before its fingerprint is there.
    LiveBeforeFingerprint,
    /// Insertion: whoever helps a pending entry leaves the fingerprint to its owner.
    HelperSkipsFingerprint,
    /// Insertion: a chunk does not tell that keys went on to the next.
    NoOverflowBit,
    /// Insertion: it tells only when the key is there.
    OverflowBitAfterClaim,
    /// Lookup: the overflow bit is read before the fingerprints.
    OverflowBitReadFirst,
    /// Insertion: a position that is claimed but has no fingerprint yet is passed unread.
    PassesUnread,
    /// Insertion: the position of another key's tombstone is used again.
    ReusesTombstone,
    /// Removal: the tombstone's fingerprint is cleared.
    RemovalClearsFingerprint,
    /// Replacement: tombstones are not frozen.
    FreezeSkipsTombstones,
    /// Replacement: frozen empty positions keep a fingerprint of zero.
    FreezeLeavesZeroes,
    /// Replacement: a pending entry is frozen before its fingerprint is there.
    FreezeSkipsFingerprint,
    /// Get: a value is answered that may not be durable.
    ReadIsNotFlushed,
    /// Get: absence is answered from a tombstone that may not be durable.
    AbsenceIsNotFlushed,
    /// Writes: acknowledged before they are durable.
    WriteIsNotFlushed,
    /// Replacement: the new leaf is in use before it is durable that it replaces the old one.
    SwitchBeforeCommit,
    /// Replacement: the copy is not durable when it is committed.
    CopyIsNotFlushed,
    /// Get: a frozen entry is answered though its leaf may have been replaced.
    TrustsFrozen,
    /// Lookup: a leaf without a free position is believed though it may have been replaced.
    TrustsFullLeaf,
    /// Recovery: empty positions before a key in its probe order stay free.
    GapsStayFree,
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// Its next operation has not begun.
    Idle,
    /// Before it learns which leaf is the current one.
    Descend,
    /// In an insertion.
    Insert(InsertAt),
    /// In a lookup, by a get, an update or a removal.
    Lookup(LookupAt),
    /// In a replacement, its own or one that it helps.
    Replace(ReplaceAt),
    /// Before the flush of a line, behind which the operation ends.
    Flush(u8, Answer),
}

/// What follows a step.
pub enum Next {
    /// The operation goes on.
    Go(At),
    /// It ends.
    End(Answer),
    /// The leaf would have to be split, which is not in the model.
    OutOfModel,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Operations begun.
    begun: u8,
    at: At,
    /// The leaf it works on.
    leaf: u8,
}

/// What is seen of operations from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A thread calls.
    Begin(u8, Operation),
    /// It is answered.
    End(u8, Answer),
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// All leaves so far. None is reclaimed.
    pub leaves: Vec<Leaf>,
    /// The leaf that the inner node names.
    pub current: u8,
    threads: Vec<Thread>,
    /// Calls and answers so far.
    pub history: Vec<Event>,
}

/// A leaf, what threads do to it, and what safeguard is missing.
#[derive(Clone, Debug)]
pub struct Program {
    /// How large leaves are.
    pub shape: Shape,
    /// What is in the leaf before, durably, in the order in which it was inserted.
    pub before: Vec<(Key, Value)>,
    /// Of each thread.
    pub threads: Vec<Vec<Operation>>,
    /// What is missing.
    pub mutant: Option<Mutant>,
}

/// One operation at one step.
pub struct Step<'a> {
    pub program: &'a Program,
    pub shape: Shape,
    pub operation: Operation,
    pub key: Key,
    /// The probe order of the key.
    pub order: Vec<usize>,
}

impl Step<'_> {
    /// Whether a safeguard is missing.
    pub fn lacks(&self, mutant: Mutant) -> bool {
        self.program.mutant == Some(mutant)
    }

    /// The position at an index of the probe order.
    pub fn position(&self, index: u8) -> usize {
        self.order[usize::from(index)]
    }

    /// To end with this answer when the line of a position is durable.
    pub fn flush(&self, position: usize, answer: Answer) -> At {
        At::Flush((position / self.shape.line) as u8, answer)
    }

    /// Says in every chunk before that of an index that keys went on.
    pub fn mark_overflow(&self, leaf: &mut Leaf, index: u8) {
        for chunk in 0..usize::from(index) / self.shape.chunk {
            leaf.overflowed[self.order[chunk * self.shape.chunk] / self.shape.chunk] = true;
        }
    }
}

impl Program {
    /// The state before the first step.
    pub fn first(&self) -> State {
        let idle = Thread { begun: 0, at: At::Idle, leaf: 0 };
        State {
            leaves: vec![Leaf::with(self.shape, &self.before).expect("the pairs fit")],
            current: 0,
            threads: vec![idle; self.threads.len()],
            history: Vec::new(),
        }
    }

    /// Whether a thread has something left to do.
    pub fn can_step(&self, state: &State, thread: usize) -> bool {
        let Thread { begun, at, .. } = state.threads[thread];
        at != At::Idle || usize::from(begun) < self.threads[thread].len()
    }

    /// The state after one step of a thread; `None` if that is not in the model.
    pub fn step(&self, state: &State, thread: usize) -> Option<State> {
        let mut state = state.clone();
        let Thread { begun, at, leaf } = state.threads[thread];
        if at == At::Idle {
            let operation = self.threads[thread][usize::from(begun)];
            state.history.push(Event::Begin(thread as u8, operation));
            state.threads[thread] = Thread { begun: begun + 1, at: At::Descend, leaf };
            return Some(state);
        }
        let operation = self.threads[thread][usize::from(begun) - 1];
        let key = operation.key();
        let order = self.shape.probe_order(key);
        let step = Step { program: self, shape: self.shape, operation, key, order };
        let next = match at {
            At::Idle => unreachable!("looked at above"),
            At::Descend => {
                state.threads[thread].leaf = state.current;
                Next::Go(match operation {
                    Operation::Insert(..) => At::Insert(InsertAt::first()),
                    Operation::Replace => At::Replace(ReplaceAt::first()),
                    _ => At::Lookup(LookupAt::first()),
                })
            }
            At::Insert(at) => step.insert(&mut state.leaves[usize::from(leaf)], at),
            At::Lookup(at) => step.lookup(&mut state.leaves[usize::from(leaf)], at),
            At::Replace(at) => step.replace(&mut state.leaves, &mut state.current, leaf, at),
            At::Flush(line, answer) => {
                if !step.skips_flush(answer) {
                    state.leaves[usize::from(leaf)].flush(usize::from(line));
                }
                Next::End(answer)
            }
        };
        state.threads[thread].at = match next {
            Next::Go(at) => at,
            Next::End(answer) => {
                state.history.push(Event::End(thread as u8, answer));
                At::Idle
            }
            Next::OutOfModel => return None,
        };
        Some(state)
    }
}

impl Step<'_> {
    fn skips_flush(&self, answer: Answer) -> bool {
        self.lacks(match answer {
            Answer::Value(None) => Mutant::AbsenceIsNotFlushed,
            Answer::Value(Some(_)) => Mutant::ReadIsNotFlushed,
            _ => Mutant::WriteIsNotFlushed,
        })
    }
}
