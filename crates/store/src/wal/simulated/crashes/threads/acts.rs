//! What the writers do: they read each other, and write what comes of it.

use std::time::Duration;

use super::super::clocks::{Found, KEYS, Keys};
use super::{ACTS, EXPIRY_MS, Holds, Maps, Run, WRITERS, World, Writes, both_of, number_in};
use crate::{Action, Expiry, Store, WriteBatch};

impl Run {
    /// The life of one thread.
    pub(super) fn live(&self, writer: usize, store: &Store, maps: &Maps) {
        let _part = self.turns.enter(writer);
        for _ in 0..ACTS {
            if self.lock().failure.is_some() {
                return;
            }
            self.act(writer, store, maps);
            {
                let mut world = self.lock();
                world.holds[writer] = Holds::Nothing;
                world.in_between[writer] = false;
                world.writes[writer] = Writes::Whatever;
            }
            self.turns.pass();
        }
    }

    pub(super) fn act(&self, writer: usize, store: &Store, maps: &Maps) {
        let what = self.lock().random.below(24);
        match what {
            0..9 => self.read(writer, store, maps),
            9..15 => self.write_key(writer, maps),
            15..18 => self.write_batch(writer, store, maps),
            18 => self.clear(writer, maps),
            19 | 20 => {
                let seen = self.lock().clocks.seen_by(writer);
                store.sync().expect("the disk works");
                self.lock().clocks.tell_all(&seen);
            }
            21 => self.snapshot(store),
            _ => self.pass_time(store),
        }
    }

    /// Looks at a key of another writer, in one of several ways.
    fn read(&self, writer: usize, store: &Store, maps: &Maps) {
        let (other, key, way) = {
            let mut world = self.lock();
            let other = (writer + 1 + world.random.below(WRITERS - 1)) % WRITERS;
            let key = world.random.below(KEYS);
            let is_free = !matches!(world.holds[other], Holds::Batch)
                && !world.holds.contains(&Holds::Everything);
            let all_free = world.holds.iter().all(|holds| *holds == Holds::Nothing);
            let way = match (all_free, is_free) {
                (true, _) => world.random.below(9),
                (false, true) => [1, 7, 8][world.random.below(3)],
                // A scan of the others waits for nobody.
                (false, false) => 0,
            };
            if matches!(way, 3 | 4) {
                // These take the lock of the key, which is another's.
                world.holds[writer] = Holds::Everything;
            }
            (other, key, way)
        };
        let (map, name) = (maps.of_key(other, key), &self.keys[other][key]);
        let found = match way {
            0 => {
                let from = map.range(name.as_slice()..).next_entry().map(Result::unwrap);
                let it = from.filter(|((found, _), _)| found == name);
                Found::Both(it.and_then(|((_, value), at)| Some((number_in(&value)?, at))))
            }
            1 => Found::Value(map.get_with(name, number_in).expect("get").flatten()),
            2 => {
                let mut found = None;
                let see = |index, value: Option<&[u8]>| {
                    if index == 0 {
                        found = value.and_then(number_in);
                    }
                };
                // Beside another one, so that both are looked up together.
                map.get_many(&[name.as_slice(), b"never written"], see).expect("get");
                Found::Value(found)
            }
            // Writes that change nothing tell what is there.
            3 => {
                let mut found = None;
                let keep = |value: Option<&[u8]>| {
                    found = value.and_then(number_in);
                    Action::Keep
                };
                let _ = map.update_with(name, keep).expect("readable");
                Found::Value(found)
            }
            4 => {
                match map.compare_exchange(name, Some(b"no such value"), None).expect("readable") {
                    crate::Exchange::Mismatch(value) => {
                        Found::Value(value.as_deref().and_then(number_in))
                    }
                    crate::Exchange::Done => panic!("nobody wrote it"),
                }
            }
            5 => {
                let back = map.range(..=name.as_slice()).next_back().map(Result::unwrap);
                let it = back.filter(|(found, _)| found == name);
                Found::Value(it.and_then(|(_, value)| number_in(&value)))
            }
            6 => {
                let value = store.view().and_then(|view| view.map(map).get(name)).expect("get");
                Found::Value(value.as_deref().and_then(number_in))
            }
            7 => Found::Expiry(map.expiry(name).expect("get").map(Expiry::as_unix_ms)),
            _ => Found::Both(both_of(map, name)),
        };
        let mut world = self.lock();
        world.holds[writer] = Holds::Nothing;
        if let Err(text) = world.clocks.see(writer, other, key, found) {
            world.fail(text);
        }
    }

    /// Notes that a writer begins a write, unless somebody has all locks. `change` gets its keys, and may say more of
    /// what it writes.
    fn begin(
        &self,
        writer: usize,
        holds: Holds,
        change: impl FnOnce(&mut World, &mut Keys),
    ) -> Option<usize> {
        let mut world = self.lock();
        if world.holds.contains(&Holds::Everything) {
            return None;
        }
        let mut keys = world.clocks.keys(writer);
        world.holds[writer] = holds;
        world.writes[writer] = Writes::Whatever;
        change(&mut world, &mut keys);
        Some(world.clocks.begin(writer, keys))
    }

    /// A write has returned.
    fn end(&self, writer: usize, step: usize) {
        let mut world = self.lock();
        world.holds[writer] = Holds::Nothing;
        if self.interval.is_none() {
            world.clocks.tell(writer, step);
        }
    }

    fn write_key(&self, writer: usize, maps: &Maps) {
        let (mut key, mut value, mut way, mut old) = (0, vec![], 0, None);
        let mut expiry_ms = 0;
        let step = self.begin(writer, Holds::Keys, |world, keys| {
            key = world.random.below(KEYS);
            // One in three changes an expiry, where there is any: in place, where there is a long value.
            way = world.random.below(9);
            if way >= 6 {
                let is_long =
                    |key: &usize| keys[*key].is_some_and(|(it, _)| world.long.contains(&it));
                key = (0..KEYS).find(is_long).unwrap_or(key);
            }
            old = keys[key];
            if way >= 6 && old.is_none() {
                way -= 6;
            }
            value = world.value();
            let number = number_in(&value).expect("it has one");
            let kept_ms = old.map_or(0, |(_, expiry_ms)| expiry_ms);
            expiry_ms = match way {
                0 | 1 => 0,
                2 => EXPIRY_MS,
                3 | 4 => kept_ms,
                _ => world.expiry_ms(kept_ms),
            };
            keys[key] = match (way, old) {
                (5, _) => None,
                (6.., Some((number, _))) => {
                    if world.long.contains(&number) {
                        // As a batch: a get of it waits.
                        world.holds[writer] = Holds::Batch;
                        world.writes[writer] = Writes::Expiry;
                    }
                    Some((number, expiry_ms))
                }
                _ => Some((number, expiry_ms)),
            };
        });
        let Some(step) = step else { return };
        let (map, name) = (maps.of_key(writer, key), &self.keys[writer][key]);
        match way {
            0 | 1 => drop(map.replace(name, &value).expect("room")),
            2 => assert_eq!(
                map.put_with_expiry(name, &value, Expiry::from_unix_ms(expiry_ms)).expect("room"),
                old.is_some()
            ),
            3 => drop(map.update_with(name, |_| Action::Put(value.clone())).expect("room")),
            4 => {
                let before = map.get(name).expect("get");
                let done = map.compare_exchange(name, before.as_deref(), Some(&value));
                assert_eq!(done.expect("room"), crate::Exchange::Done);
            }
            6.. => {
                assert!(
                    map.expire(name, Expiry::from_unix_ms(expiry_ms)).expect("room"),
                    "it is there"
                );
            }
            _ => {
                assert_eq!(map.remove(name).expect("writable"), old.is_some());
                if old.is_none() {
                    // Nothing was changed: that says nothing of what is durable.
                    return;
                }
            }
        }
        self.end(writer, step);
    }

    fn write_batch(&self, writer: usize, store: &Store, maps: &Maps) {
        let mut batch = WriteBatch::new();
        let step = self.begin(writer, Holds::Batch, |world, keys| {
            // One in three has one change.
            let lone = world.random.one_in(3).then(|| world.random.below(KEYS));
            if lone.is_some() {
                world.writes[writer] = Writes::Lone;
            }
            for (key, has) in keys.iter_mut().enumerate() {
                if lone.is_some_and(|lone| lone != key) {
                    continue;
                }
                let (map, name) = (maps.of_key(writer, key), &self.keys[writer][key]);
                let value = world.value();
                *has = match (world.random.below(4), *has) {
                    // Alone, the removal of what is absent would change nothing.
                    (0, old) if old.is_some() || lone.is_none() => {
                        batch.remove(map, name);
                        None
                    }
                    (1, Some((number, old_ms))) => {
                        let expiry_ms = world.expiry_ms(old_ms);
                        batch.expire(map, name, Expiry::from_unix_ms(expiry_ms));
                        Some((number, expiry_ms))
                    }
                    _ => {
                        batch.put(map, name, &value);
                        number_in(&value).map(|number| (number, 0))
                    }
                };
            }
        });
        let Some(step) = step else { return };
        assert!(store.write(&batch).expect("room").is_done());
        self.end(writer, step);
    }

    /// Empties the map of its own, when nobody else has a lock.
    fn clear(&self, writer: usize, maps: &Maps) {
        if self.lock().holds.iter().any(|holds| *holds != Holds::Nothing) {
            return;
        }
        let step = self.begin(writer, Holds::Everything, |_, keys| keys[KEYS - 1] = None);
        let Some(step) = step else { return };
        maps.own[writer].clear().expect("room");
        self.end(writer, step);
    }

    fn snapshot(&self, store: &Store) {
        if std::mem::replace(&mut self.lock().has_snapshot, true) {
            return;
        }
        let _ = store.snapshot().expect("the disk works");
        let mut world = self.lock();
        world.has_snapshot = false;
        world.seen.snapshots += 1;
    }

    /// In the mode `Interval` a millisecond goes by; in both, what waits is written now and then.
    fn pass_time(&self, store: &Store) {
        let now = {
            let mut world = self.lock();
            world.now_ms += 1;
            Duration::from_millis(world.now_ms)
        };
        let log = &store.shared().log.as_ref().expect("it has a log").log;
        let done = if self.interval.is_some() { log.tick(now) } else { log.write_out() };
        done.expect("the disk works");
    }
}
