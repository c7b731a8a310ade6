//! Whether calls and answers, and what a crash left, fit a map in which each call happens at one
//! moment between its beginning and its end.

use std::collections::{BTreeMap, BTreeSet};

use super::leaf::{Key, Value};
use super::program::{Answer, Event, Operation};

type Map = BTreeMap<Key, Value>;

struct Call {
    operation: Operation,
    answer: Option<Answer>,
    begin: usize,
    end: usize,
}

/// All maps that the history may have left, as sorted pairs: every call that was answered has
/// happened with its answer, any other may have. Empty if the answers themselves do not fit.
pub fn outcomes(before: &[(Key, Value)], history: &[Event]) -> BTreeSet<Vec<(Key, Value)>> {
    let calls = calls(history);
    let mut outcomes = BTreeSet::new();
    let mut seen = BTreeSet::new();
    extend(&calls, 0, before.iter().copied().collect(), &mut outcomes, &mut seen);
    outcomes
}

fn calls(history: &[Event]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open: BTreeMap<u8, usize> = BTreeMap::new();
    for (time, event) in history.iter().enumerate() {
        match *event {
            Event::Begin(thread, operation) => {
                open.insert(thread, calls.len());
                calls.push(Call { operation, answer: None, begin: time, end: usize::MAX });
            }
            Event::End(thread, answer) => {
                let call = &mut calls[open[&thread]];
                call.answer = Some(answer);
                call.end = time;
            }
        }
    }
    calls
}

fn extend(
    calls: &[Call],
    done: u32,
    map: Map,
    outcomes: &mut BTreeSet<Vec<(Key, Value)>>,
    seen: &mut BTreeSet<(u32, Vec<(Key, Value)>)>,
) {
    let pairs: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
    if !seen.insert((done, pairs.clone())) {
        return;
    }
    let is_open = |i: usize| done & (1 << i) == 0;
    let first_end = (0..calls.len()).filter(|i| is_open(*i)).map(|i| calls[i].end).min();
    if (0..calls.len()).all(|i| !is_open(i) || calls[i].answer.is_none()) {
        outcomes.insert(pairs);
    }
    for (i, call) in calls.iter().enumerate().filter(|(i, _)| is_open(*i)) {
        // Whatever has ended before this one begins comes before it.
        if first_end.is_some_and(|end| end < call.begin) {
            continue;
        }
        let mut map = map.clone();
        let answer = apply(&mut map, call.operation);
        if call.answer.is_none_or(|told| told == answer) {
            extend(calls, done | 1 << i, map, outcomes, seen);
        }
    }
}

/// What a map answers.
pub fn apply(map: &mut Map, operation: Operation) -> Answer {
    match operation {
        Operation::Get(key) => Answer::Value(map.get(&key).copied()),
        Operation::Remove(key) => Answer::Done(map.remove(&key).is_some()),
        Operation::Replace => Answer::Replaced,
        Operation::Insert(key, value) => {
            let is_absent = !map.contains_key(&key);
            if is_absent {
                map.insert(key, value);
            }
            Answer::Done(is_absent)
        }
        Operation::Update(key, value) => {
            let old = map.get_mut(&key).map(|old| *old = value);
            Answer::Done(old.is_some())
        }
    }
}
