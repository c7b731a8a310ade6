//! Views that are open while a run goes on: each must show its moment, whatever came after it.

use everleaf_log::simulated::Random;

use super::world::Contents;
use crate::{MapView, Store, View};

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
}

impl Looks {
    pub fn new(seed: u64) -> Looks {
        Looks { random: Random::new(seed ^ 0x10_0c), open: vec![] }
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
