//! Helpers of an exchange that come late: what a mark in a word must be like.
//!
//! A descriptor says that a word becomes `New` if it is `Old`. Its owner and two helpers, which have seen it
//! undecided, do the same steps, each of which may be the last one before a thread stands still for as long as
//! it likes. When the owner is done it does what users do: it puts `Old` back, by another operation. Whatever
//! the helpers do afterwards, the word has to stay so.
//!
//! ```text
//!   LOOK     word: pointer -> DECIDE, a value that is not Old -> DECIDE, a mark -> HELP, Old -> MARK
//!   MARK     word: Old -> mark
//!   ASK      is it undecided?
//!   FINALIZE word: own mark -> pointer if it was, and else Old
//!   HELP     is it undecided?  then  word: that mark -> pointer if it was, and else Old
//!   DECIDE   status: undecided -> done
//!   FINISH   word: pointer -> New
//! ```

use std::collections::BTreeSet;

/// Threads: the owner, and two helpers.
const THREADS: usize = 3;
/// A bound on the marks of one thread, so that there are finitely many states: each round of one has a mark.
const ROUNDS: u8 = 2;

/// What marks are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// There are none: a word gets its pointer at once.
    None,
    /// All marks of a descriptor are equal, as published.
    Shared,
    /// No two marks are.
    Numbered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Old,
    New,
    /// Of a thread, in a round.
    Mark(u8, u8),
    Pointer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Look,
    Mark,
    Ask(Word),
    Finalize(Word, bool),
    Help(Word),
    FinalizeOther(Word, bool),
    Decide,
    Finish,
    /// The owner puts the old value back.
    Return,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    word: Word,
    is_decided: bool,
    steps: [Step; THREADS],
    rounds: [u8; THREADS],
}

/// What the model found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Different states.
    pub states: usize,
    /// How many of those where all are done have the new value, which was taken back.
    pub wrong: usize,
}

/// Tries every order of all steps.
///
/// # Example
/// ```
/// use everleaf_models::pmwcas::{Marks, explore};
/// assert_eq!(explore(Marks::Numbered).wrong, 0);
/// assert_ne!(explore(Marks::Shared).wrong, 0);
/// ```
pub fn explore(marks: Marks) -> Found {
    let first = State {
        word: Word::Old,
        is_decided: false,
        steps: [Step::Look; THREADS],
        rounds: [0; THREADS],
    };
    let (mut seen, mut open) = (BTreeSet::from([first]), vec![first]);
    let mut wrong = 0;
    while let Some(state) = open.pop() {
        if state.steps == [Step::Done; THREADS] && state.word != Word::Old {
            wrong += 1;
        }
        for thread in 0..THREADS {
            if let Some(next) = after(state, thread, marks)
                && seen.insert(next)
            {
                open.push(next);
            }
        }
    }
    Found { states: seen.len(), wrong }
}

/// The state when a thread has done its next step; none if it is done.
fn after(mut state: State, thread: usize, marks: Marks) -> Option<State> {
    let word = state.word;
    let next = match state.steps[thread] {
        Step::Done => return None,
        Step::Look => match word {
            Word::Old => Step::Mark,
            Word::Mark(..) => Step::Help(word),
            Word::New | Word::Pointer => Step::Decide,
        },
        Step::Mark => {
            let round = state.rounds[thread];
            if word != Word::Old {
                Step::Look
            } else if marks == Marks::None {
                state.word = Word::Pointer;
                Step::Decide
            } else if round == ROUNDS {
                // As if it never went on.
                Step::Done
            } else {
                let mark = match marks {
                    Marks::Numbered => Word::Mark(thread as u8, round),
                    _ => Word::Mark(0, 0),
                };
                state.rounds[thread] += 1;
                state.word = mark;
                Step::Ask(mark)
            }
        }
        Step::Ask(mark) => Step::Finalize(mark, !state.is_decided),
        Step::Help(mark) => Step::FinalizeOther(mark, !state.is_decided),
        Step::Finalize(mark, is_undecided) | Step::FinalizeOther(mark, is_undecided) => {
            if word == mark {
                state.word = if is_undecided { Word::Pointer } else { Word::Old };
            }
            if is_undecided { Step::Look } else { Step::Decide }
        }
        Step::Decide => {
            state.is_decided = true;
            Step::Finish
        }
        Step::Finish => {
            if word == Word::Pointer {
                state.word = Word::New;
            }
            if thread == 0 { Step::Return } else { Step::Done }
        }
        Step::Return => match word {
            Word::New => {
                state.word = Word::Old;
                Step::Done
            }
            // It helps, as every thread does that comes upon such a word.
            Word::Mark(..) => {
                state.word = if state.is_decided { Word::Old } else { Word::Pointer };
                Step::Return
            }
            Word::Pointer => {
                state.word = Word::New;
                Step::Return
            }
            Word::Old => return None,
        },
    };
    state.steps[thread] = next;
    Some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps in which one thread's mark becomes a pointer by the hand of another that was late.
    #[test]
    fn marks_that_look_alike_let_an_operation_be_done_twice() {
        let shared = explore(Marks::Shared);
        assert!(shared.wrong > 0, "{shared:?}");
    }

    #[test]
    fn without_marks_a_late_helper_does_it_twice() {
        let none = explore(Marks::None);
        assert!(none.wrong > 0, "{none:?}");
    }

    #[test]
    fn with_numbered_marks_it_is_done_once_in_every_order() {
        let numbered = explore(Marks::Numbered);
        assert_eq!(numbered.wrong, 0, "{numbered:?}");
        assert!(numbered.states > 1000, "{numbered:?}");
    }
}
