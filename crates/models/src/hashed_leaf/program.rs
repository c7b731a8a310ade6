//! Programs, threads and states: a thread makes one access to shared memory a step.

use super::leaf::Leaf;
pub use super::place::{Answer, At, InsertAt, LookupAt, Next, ReplaceAt};
pub use super::step::{Mutant, Operation, Program, Step};

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
