//! What a run does to keys, and what that makes of the model.

use super::model::{Contents, Model, Shared, lock};
use crate::{Action, Exchange, Expiry, Map, Store, WriteBatch};

/// Far away.
const EXPIRY_MS: u64 = 1 << 45;

/// What a key has: its value, and when it expires (0: never).
type Found = Option<(Vec<u8>, u64)>;

impl Model {
    fn found(&self, name: &str, key: &[u8]) -> Found {
        self.now().get(name)?.get(key).cloned()
    }

    /// A time far away that nothing had before, or none.
    fn expiry_ms(&mut self) -> u64 {
        if self.random.one_in(3) { EXPIRY_MS + self.random.bits() % EXPIRY_MS } else { 0 }
    }

    /// A key of a map becomes this.
    fn set(&mut self, name: &str, key: &[u8], found: Found) {
        self.change(|state| set(state, name, key, found));
    }
}

fn set(state: &mut Contents, name: &str, key: &[u8], found: Found) {
    let map = state.get_mut(name).expect("a map that there is");
    match found {
        Some(found) => drop(map.insert(key.to_vec(), found)),
        None => drop(map.remove(key)),
    }
}

/// Writes a key, or several as one.
pub fn write(store: &Store, model: &Shared) {
    let name = lock(model).name();
    let Some(map) = store.existing_map(&name).expect("of strings") else { return };
    let (what, key, value, expiry_ms) = {
        let mut model = lock(model);
        (model.random.below(10), model.key(), model.value(), model.expiry_ms())
    };
    let before = lock(model).found(&name, &key);
    let expiry = Expiry::from_unix_ms(expiry_ms);
    let will = |found: Found| lock(model).set(&name, &key, found);
    match what {
        0..3 => {
            will(Some((value.clone(), expiry_ms)));
            let done = match expiry_ms {
                0 => map.put(&key, &value),
                _ => map.put_with_expiry(&key, &value, expiry),
            };
            assert_eq!(done.expect("room"), before.is_some());
        }
        3 => {
            will(None);
            assert_eq!(map.remove(&key).expect("room"), before.is_some());
        }
        4 => {
            will(None);
            assert_eq!(map.take(&key).expect("room"), before.map(|(value, _)| value));
        }
        5 => {
            will(before.clone().map(|(value, _)| (value, expiry_ms)));
            assert_eq!(map.expire(&key, expiry).expect("room"), before.is_some());
        }
        6 => write_conditionally(&map, &key, &value, before, &will),
        _ => write_batch(store, model),
    }
}

/// Writes a key in a way that looks at what is there.
fn write_conditionally(map: &Map, key: &[u8], value: &[u8], before: Found, will: &dyn Fn(Found)) {
    let is_there = before.is_some();
    let kept = before.as_ref().map_or(0, |(_, expiry_ms)| *expiry_ms);
    let new = || Some((value.to_vec(), 0));
    match value[7] % 4 {
        0 => {
            if !is_there {
                will(new());
            }
            assert_eq!(map.insert(key, value).expect("room"), !is_there);
        }
        1 => {
            if is_there {
                will(new());
            }
            assert_eq!(map.update(key, value).expect("room"), is_there);
        }
        2 => {
            will(Some((value.to_vec(), kept)));
            let put = |_: Option<&[u8]>| Action::Put(value.to_vec());
            let old = map.update_with(key, put).expect("room");
            assert_eq!(old, before.map(|(value, _)| value));
        }
        _ => {
            will(Some((value.to_vec(), kept)));
            let old = before.as_ref().map(|(value, _)| &value[..]);
            let done = map.compare_exchange(key, old, Some(value)).expect("room");
            assert_eq!(done, Exchange::Done);
        }
    }
}

/// Several changes as one: of a key often more than one.
fn write_batch(store: &Store, model: &Shared) {
    let mut batch = WriteBatch::new();
    let mut state = lock(model).now().clone();
    let names: Vec<String> = state.keys().cloned().collect();
    let maps: Vec<(String, Map)> = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), store.existing_map(&name).expect("of strings")?)))
        .collect();
    for _ in 0..3 {
        for (name, map) in &maps {
            let (key, value, expiry_ms, what) = {
                let mut model = lock(model);
                (model.key(), model.value(), model.expiry_ms(), model.random.below(5))
            };
            let expiry = Expiry::from_unix_ms(expiry_ms);
            let before = state[name].get(&key).cloned();
            let found = match what {
                0 => {
                    batch.remove(map, &key);
                    None
                }
                1 => {
                    batch.expire(map, &key, expiry);
                    before.map(|(value, _)| (value, expiry_ms))
                }
                _ if expiry_ms == 0 => {
                    batch.put(map, &key, &value);
                    Some((value, 0))
                }
                _ => {
                    batch.put_with_expiry(map, &key, &value, expiry);
                    Some((value, expiry_ms))
                }
            };
            set(&mut state, name, &key, found);
        }
    }
    lock(model).push(state);
    assert!(store.write(&batch).expect("room").is_done());
}
