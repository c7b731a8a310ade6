//! Views that are open while a run goes on: each must show its moment, whatever came after it. And watches: each
//! must tell of a write.

use everleaf_log::simulated::Random;

use super::model::Contents;
use crate::{MapView, Store, View, Watch, WriteBatch, Written};

/// Views that may be open at once.
const OPEN_MAX: usize = 4;

/// One view, its maps, and what they were.
struct Look {
    /// Before the maps, as a user may do it: the maps keep it open.
    _view: View,
    maps: Vec<(String, MapView)>,
    then: Contents,
}

/// The open views of one life of a store. They have a random number of their own, so that runs are as
/// they were without them.
pub struct Looks {
    random: Random,
    open: Vec<Look>,
    watched: Vec<Watched>,
}

/// A watch of a key, and what the key was.
struct Watched {
    name: String,
    watch: Watch,
    then: Option<(Vec<u8>, u64)>,
}

impl Looks {
    pub fn new(seed: u64) -> Looks {
        Looks { random: Random::new(seed ^ 0x10_0c), open: vec![], watched: vec![] }
    }

    /// Opens, closes and compares views, while nobody writes. `now`: what the store has.
    pub fn step(&mut self, store: &Store, now: &Contents) {
        if self.open.len() < OPEN_MAX && self.random.one_in(4) {
            let view = store.view().expect("a view");
            let map = |name: &String| {
                let map = store.existing_map(name).expect("of strings").expect("there");
                (name.clone(), view.map(&map))
            };
            let maps = now.keys().map(map).collect();
            self.open.push(Look { _view: view, maps, then: now.clone() });
        }
        if !self.open.is_empty() && self.random.one_in(5) {
            drop(self.open.swap_remove(self.random.below(self.open.len())));
        }
        for look in &self.open {
            look.compare(self.random.one_in(2));
        }
        self.watch(store, now);
    }

    /// Begins and ends watches, and compares them, while nobody writes.
    fn watch(&mut self, store: &Store, now: &Contents) {
        self.watched.retain(|watched| {
            let key = watched.watch.key();
            // Of a map that went meanwhile nothing is promised.
            let Some(pairs) = now.get(&watched.name) else { return false };
            if pairs.get(key) != watched.then.as_ref() {
                let text = format!("a watch of {} does not tell of a write", key.escape_ascii());
                assert!(watched.watch.is_broken(), "{text}");
                let mut batch = WriteBatch::new();
                batch.expect_unwritten(&watched.watch).remove(store.default_map(), key);
                let done = store.write(&batch).expect("room");
                assert_eq!(done, Written::Refused(0), "{text}");
                return false;
            }
            true
        });
        if self.watched.len() < OPEN_MAX && self.random.one_in(4) {
            let (name, pairs) = now.iter().nth(self.random.below(now.len())).expect("as counted");
            let map = store.existing_map(name).expect("of strings").expect("there");
            let key = vec![b'a' + self.random.below(8) as u8];
            let watch = map.watch(&key).expect("readable");
            let then = pairs.get(&key).cloned();
            self.watched.push(Watched { name: name.clone(), watch, then });
        }
        if !self.watched.is_empty() && self.random.one_in(5) {
            drop(self.watched.swap_remove(self.random.below(self.watched.len())));
        }
    }
}

impl Look {
    fn compare(&self, backward: bool) {
        for (name, view) in &self.maps {
            let range = view.iter();
            let mut seen = std::collections::BTreeMap::new();
            if backward {
                seen.extend(range.rev().map(Result::unwrap));
            } else {
                seen.extend(range.map(Result::unwrap));
            }
            let then = self.then[name].iter().map(|(key, (value, _))| (key, value));
            assert!(seen.iter().eq(then), "a view of the map {name} does not show its moment");
        }
    }
}
