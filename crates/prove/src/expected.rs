//! What one thread alone must see: what was done to a tree before the threads come is held against a
//! map, answer by answer, and the tree against it when all is done.

use std::collections::BTreeMap;
use std::fmt::Debug;

use everleaf_machine::simulated::history::{Call, Reply};

/// What the tree must hold by now.
pub(crate) struct Expected {
    /// None when nobody can know any more.
    map: Option<BTreeMap<u64, u64>>,
}

impl Expected {
    /// An empty tree.
    pub fn new() -> Self {
        Expected { map: Some(BTreeMap::new()) }
    }

    /// An operation that did these calls and answered so.
    ///
    /// # Panics
    /// If it may not answer so.
    pub fn hold(&mut self, operation: &impl Debug, calls: &[(u64, Call)], replies: &[Reply]) {
        let Some(map) = &mut self.map else { return };
        assert_eq!(calls.len(), replies.len(), "answers of {operation:?}");
        for ((key, call), reply) in calls.iter().zip(replies) {
            let state = map.get(key).copied();
            if !reply.fits(*call, state) {
                panic!("{operation:?} alone: {call:?} of key {key}, {state:?}, answered {reply:?}");
            }
            match call.apply(state) {
                Some(value) => drop(map.insert(*key, value)),
                None => drop(map.remove(key)),
            }
        }
    }

    /// An operation of these calls found no space: one of several may have done a part.
    pub fn refuse(&mut self, calls: &[(u64, Call)]) {
        if calls.len() > 1 && calls.iter().any(|(_, call)| !call.is_read()) {
            self.map = None;
        }
    }

    /// What must be there.
    pub fn pairs(self) -> Option<Vec<(u64, u64)>> {
        Some(self.map?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_held_against_a_map() {
        let mut expected = Expected::new();
        let answer = |value| [Reply::Previous(value)];
        expected.hold(&"insert", &[(1, Call::Insert(7))], &answer(None));
        expected.hold(&"insert", &[(1, Call::Insert(8))], &answer(Some(7)));
        expected.hold(
            &"both",
            &[(1, Call::Get), (2, Call::Get)],
            &[Reply::Previous(Some(7)), Reply::Unknown],
        );
        expected.refuse(&[(1, Call::Remove)]);
        assert_eq!(expected.pairs(), Some(vec![(1, 7)]));
    }

    #[test]
    #[should_panic(expected = "answered Previous(None)")]
    fn a_wrong_answer_is_told() {
        let mut expected = Expected::new();
        expected.hold(&"upsert", &[(1, Call::Upsert(7))], &[Reply::Unknown]);
        expected.hold(&"get", &[(1, Call::Get)], &[Reply::Previous(None)]);
    }

    #[test]
    fn a_part_of_several_changes_leaves_nothing_to_know() {
        let mut expected = Expected::new();
        expected.refuse(&[(1, Call::Remove), (2, Call::Remove)]);
        assert_eq!(expected.pairs(), None);
    }
}
