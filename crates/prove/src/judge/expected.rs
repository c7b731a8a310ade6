//! What one thread alone must see: what was done to a tree before the threads come is held against a
//! map, answer by answer, and the tree against it when all is done.

use std::collections::BTreeMap;
use std::fmt::Debug;

use everleaf_machine::simulated::history::{Call, Reply};

/// What the tree must hold by now.
#[derive(Debug)]
pub struct Expected {
    /// None when nobody can know any more.
    map: Option<BTreeMap<u64, u64>>,
}

impl Default for Expected {
    fn default() -> Self {
        Self::new()
    }
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
            if *reply == Reply::Refused {
                // It was not done: one of many writes that found no space.
                continue;
            }
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
