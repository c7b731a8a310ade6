//! Keys of which a transaction changes the expiry alone.
//!
//! Their values may be long, and are not copied: neither to the stage nor to the batch. Of short ones a copy is on the
//! stage, as if they were written.
//!
//! Invariant: a key is here only while nothing is to be written of it. A command that writes it ends that its expiry
//! alone changes.

use everleaf::Expiry;

use super::Stage;
use crate::command::staged_value::{ENTRY_OVERHEAD, NewExpiry};
use crate::databases::MapNumber;
use crate::failure::Result;

impl Stage {
    /// The expiry that a key is to have, if it is what changes of it.
    pub(super) fn new_expiry(&self, place: MapNumber, key: &[u8]) -> Option<NewExpiry> {
        self.part(place)?.expiries.get(key).copied()
    }

    /// Changes the expiry of a key of which nothing is to be written. `seen` is what it has to the transaction.
    pub(super) fn write_expiry(
        &mut self,
        place: MapNumber,
        key: &[u8],
        seen: Expiry,
        new: Expiry,
    ) -> Result<()> {
        self.change_count += 1;
        let before = self.new_expiry(place, key);
        if before.is_none() {
            self.size += key.len() + ENTRY_OVERHEAD;
        }
        let seen = before.map_or(seen, |before| before.seen);
        self.set_expiry(place, key, Some(NewExpiry { seen, new }));
        self.check()
    }

    /// Says that something is to be written of a key.
    pub(super) fn forget_expiry(&mut self, place: MapNumber, key: &[u8]) {
        if self.new_expiry(place, key).is_some() {
            self.size -= key.len() + ENTRY_OVERHEAD;
            self.set_expiry(place, key, None);
        }
    }

    /// Sets what is to become of the expiry alone, and notes what was.
    fn set_expiry(&mut self, place: MapNumber, key: &[u8], new: Option<NewExpiry>) {
        let before = self.restore_expiry(place, key.to_vec(), new);
        if let Some(undo) = &mut self.undo {
            undo.note_expiry(place, key, before);
        }
    }

    /// Sets what is to become of the expiry alone. Returns what was.
    pub(super) fn restore_expiry(
        &mut self,
        place: MapNumber,
        key: Vec<u8>,
        new: Option<NewExpiry>,
    ) -> Option<NewExpiry> {
        let expiries = &mut self.part_mut(place).expiries;
        match new {
            Some(new) => expiries.insert(key, new),
            None => expiries.remove(&key),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use everleaf::{Action, Options};

    use super::*;
    use crate::command::stage::Staged;
    use crate::command::walk::Bounds;
    use crate::databases::Databases;
    use crate::failure::Failure;
    use crate::types::Types;

    /// What came back: a key that a transaction had removed, which was alone and did not find it any more, because the
    /// time that it had in the store came meanwhile.
    #[test]
    fn a_command_alone_keeps_a_long_value_whose_old_time_comes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(true).open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        let (map, value, place) = (store.default_map(), vec![1; 5000], MapNumber::default());
        // A busy machine may be late for the first look.
        let is_in_time = [10, 100, 1000, 10_000].into_iter().any(|length_ms| {
            let time = Expiry::after(std::time::Duration::from_millis(length_ms));
            map.put_with_expiry(b"timed", &value, time).unwrap();
            let (mut stage, mut is_in_time) = (Stage::new(1 << 20), false);
            let done = store.write_alone(|alone, batch| {
                let mut staged = Staged {
                    stage: &mut stage,
                    source: alone,
                    types: &types,
                    databases: &databases,
                    place,
                };
                staged.update_with(b"timed", &mut |found| {
                    is_in_time = found.is_some();
                    Action::Expire(Expiry::Never)
                })?;
                while time.time_to_live().is_some_and(|rest| !rest.is_zero()) {
                    std::thread::yield_now();
                }
                assert_eq!(staged.contains(b"timed")?, is_in_time);
                assert_eq!(stage.new_expiry(place, b"timed").is_some(), is_in_time);
                assert!(stage.written(place, b"timed").is_none(), "it is not copied");
                stage.fill(batch, &databases, &types);
                Ok::<(), Failure>(())
            });
            assert!(done.is_ok_and(|written| written.is_done()));
            assert_eq!(map.expiry(b"timed").unwrap(), is_in_time.then_some(Expiry::Never));
            is_in_time
        });
        assert!(is_in_time);
    }

    /// What was wrong: a key was absent by its name within the transaction that had given it a time, which had come,
    /// and `KEYS`, `SCAN` and `RANDOMKEY` still found it, if its value was long.
    #[test]
    fn a_walk_finds_what_is_there_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(true).open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        let (map, place) = (store.default_map(), MapNumber::default());
        for length in [10, 5000] {
            for key in ["a", "b", "c"] {
                map.put(key, vec![1; length]).unwrap();
            }
            let mut stage = Stage::new(1 << 20);
            let done = store.write_alone(|alone, _| {
                let mut staged = Staged {
                    stage: &mut stage,
                    source: alone,
                    types: &types,
                    databases: &databases,
                    place,
                };
                let past = Expiry::from_unix_ms(1);
                let later = Expiry::from_unix_ms(4_000_000_000_000);
                staged.update_with(b"a", &mut |_| Action::Expire(later))?;
                staged.update_with(b"b", &mut |_| Action::Expire(past))?;
                assert!(!staged.contains(b"b")?);
                for reverse in [false, true] {
                    let mut found = vec![];
                    staged.walk(&Bounds::of_prefix(b""), reverse, &mut |key, value| {
                        assert_eq!(value.len(), length);
                        found.push(key[0]);
                        ControlFlow::Continue(())
                    })?;
                    assert_eq!(found, if reverse { *b"ca" } else { *b"ac" }, "{length} bytes");
                }
                Ok::<(), Failure>(())
            });
            assert!(done.is_ok());
        }
    }
}
