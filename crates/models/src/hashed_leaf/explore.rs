//! Every state that a program can reach, and in each of them the power cut.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use super::judge::outcomes;
use super::leaf::{Entry, Key, Leaf, Value};
use super::program::{Answer, Event, Mutant, Operation, Program, State};

/// What was explored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Different contents of the medium that were recovered.
    pub crashes: usize,
}

/// What is wrong, and the calls and answers that led to it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// A sentence.
    pub what: String,
    /// Until then.
    pub history: Vec<Event>,
}

type Pairs = Vec<(Key, Value)>;

struct Search<'a> {
    program: &'a Program,
    explored: Explored,
    /// What each history may leave.
    outcomes: HashMap<Vec<Event>, BTreeSet<Pairs>>,
    judged: HashSet<u128>,
}

/// Explores all schedules of a program. States are told apart by 128-bit hashes.
///
/// # Errors
/// The first violation.
pub fn explore(program: &Program) -> Result<Explored, Violation> {
    let explored = Explored::default();
    let mut search = Search { program, explored, outcomes: HashMap::new(), judged: HashSet::new() };
    let mut seen = HashSet::new();
    let first = program.first();
    seen.insert(digest(&first));
    let mut stack = vec![first];
    while let Some(state) = stack.pop() {
        search.explored.states += 1;
        search.judge(&state)?;
        for thread in 0..program.threads.len() {
            if !program.can_step(&state, thread) {
                continue;
            }
            if let Some(next) = program.step(&state, thread)
                && seen.insert(digest(&next))
            {
                stack.push(next);
            }
        }
    }
    Ok(search.explored)
}

fn digest(value: &impl Hash) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

impl Search<'_> {
    fn judge(&mut self, state: &State) -> Result<(), Violation> {
        let broken = |what: String| Violation { what, history: state.history.clone() };
        let current = &state.leaves[usize::from(state.current)];
        let threads = 0..self.program.threads.len();
        let is_over = !threads.into_iter().any(|t| self.program.can_step(state, t));
        let allowed = self
            .outcomes
            .entry(state.history.clone())
            .or_insert_with(|| outcomes(&self.program.before, &state.history));
        if allowed.is_empty() {
            return Err(broken("the answers fit no order of the calls".to_string()));
        }
        if is_over {
            let left = current.pairs();
            if left.as_ref().is_none_or(|left| !allowed.contains(left)) {
                return Err(broken(format!("the leaf holds {left:?}, which no order leaves")));
            }
        }
        for (image, may_be) in surviving(state) {
            if !self.judged.insert(digest(&(&image, &state.history, may_be))) {
                continue;
            }
            self.explored.crashes += 1;
            recovers(self.program, &image, &self.outcomes[&state.history]).map_err(&broken)?;
        }
        Ok(())
    }
}

/// The contents of the leaf that a recovery takes for the current one.
fn surviving(state: &State) -> Vec<(Vec<Entry>, usize)> {
    let mut found = Vec::new();
    let mut number = 0;
    loop {
        let leaf = &state.leaves[number];
        if !leaf.is_successor_durable {
            found.extend(leaf.images().into_iter().map(|image| (image, number)));
        }
        match leaf.successor {
            Some(successor) => number = usize::from(successor),
            None => return found,
        }
    }
}

/// Recovers a leaf, compares it with what may be there, and uses it.
fn recovers(program: &Program, image: &[Entry], allowed: &BTreeSet<Pairs>) -> Result<(), String> {
    let closes_gaps = program.mutant != Some(Mutant::GapsStayFree);
    let leaf = Leaf::recover(program.shape, image, closes_gaps);
    let found = leaf.pairs();
    if found.as_ref().is_none_or(|found| !allowed.contains(found)) {
        return Err(format!("recovery finds {found:?} in {image:?}, which no order leaves"));
    }
    let keys: BTreeSet<Key> = image.iter().filter_map(|entry| entry.key()).collect();
    for key in keys {
        let is_there = leaf.pairs().expect("looked at above").iter().any(|pair| pair.0 == key);
        uses(program, &leaf, key, is_there)
            .map_err(|what| format!("{what} after a recovery of {image:?}"))?;
    }
    Ok(())
}

/// One thread looks for a key, inserts it and looks again.
fn uses(program: &Program, leaf: &Leaf, key: Key, is_there: bool) -> Result<(), String> {
    let operations = vec![Operation::Get(key), Operation::Insert(key, 9), Operation::Get(key)];
    let program =
        Program { threads: vec![operations], before: Vec::new(), mutant: None, ..program.clone() };
    let mut state = program.first();
    state.leaves[0] = leaf.clone();
    while program.can_step(&state, 0) {
        match program.step(&state, 0) {
            Some(next) => state = next,
            None => return Ok(()),
        }
    }
    let current = &state.leaves[usize::from(state.current)];
    if current.pairs().is_none() {
        return Err(format!("key {key} is there twice"));
    }
    let told = |answer: Answer| state.history.contains(&Event::End(0, answer));
    if told(Answer::Value(None)) == is_there || told(Answer::Done(true)) == is_there {
        return Err(format!("key {key} is answered wrongly"));
    }
    Ok(())
}
