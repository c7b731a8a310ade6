//! The states that keys had earlier, for a judge of maps whose writes become durable later than they answer.

use std::collections::BTreeMap;

use super::monitor::THREADS_MAX;

type Value = Option<u64>;
type States = BTreeMap<u64, Vec<Value>>;

/// States that a crash may bring back.
#[derive(Clone, Debug, Default)]
pub(super) struct Earlier {
    /// Since the last operation began that persisted what was deferred, of those that have ended.
    states: States,
    /// When that operation began, counted in such operations.
    of: u64,
    /// How many such operations have begun.
    begun: u64,
    /// Of each thread that is inside of one, when it began and the states since then.
    since: [Option<(u64, States)>; THREADS_MAX],
}

impl Earlier {
    /// Notes states that a key may have now.
    pub fn note(&mut self, key: u64, now: &[Value]) {
        let inside = self.since.iter_mut().flatten().map(|(_, states)| states);
        for states in inside.chain([&mut self.states]) {
            let known = states.entry(key).or_default();
            for value in now {
                if !known.contains(value) {
                    known.push(*value);
                }
            }
        }
    }

    /// Whether a key may have had this state.
    pub fn has(&self, key: u64, value: Value) -> bool {
        self.states.get(&key).is_some_and(|known| known.contains(&value))
    }

    /// A thread begins to persist what is deferred: `now` is what all keys may be.
    pub fn begin(&mut self, thread: usize, now: States) {
        self.begun += 1;
        self.since[thread] = Some((self.begun, now));
    }

    /// It has persisted it: what was before it began does not come back, nor what an earlier end has ruled out
    /// by one that began later.
    pub fn end(&mut self, thread: usize) {
        if let Some((begun, states)) = self.since[thread].take()
            && begun > self.of
        {
            (self.of, self.states) = (begun, states);
        }
    }
}
