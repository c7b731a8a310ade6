//! How many keys a database has to a transaction: those of the store, and a difference.
//!
//! For each key that is to be written this takes a look at the store, which `DBSIZE` takes once: then the difference
//! is kept up to date by each write. While nobody else writes, what the store has stays as it is; but a key that is
//! written here, and whose time in the store comes between two `DBSIZE`, may be swept: the second has one too few then.
//!
//! Invariant: the difference has one for each key that is to be written and will be there, less one for each that the
//! store has, but for those that are new: at these nobody has looked yet.

use everleaf::Expiry;

use super::key_difference::KeyCount;
use super::{Stage, Staged};
use crate::command::staged_value::Value;
use crate::databases::MapNumber;
use crate::failure::Result;

impl Stage {
    fn is_there(&self, value: &Option<Value>) -> bool {
        value.as_ref().is_some_and(|value| self.moment.is_live(value))
    }

    /// Notes that a key is about to be written, if keys are counted.
    pub(super) fn note_count(&mut self, place: MapNumber, key: &[u8], value: &Option<Value>) {
        if self.part(place).is_some_and(|part| part.key_count.is_some()) {
            self.change_count_of(place, key, self.is_there(value));
        }
    }

    /// Notes that a key that is to be written is about to get another time, if keys are counted.
    pub(super) fn note_count_at(&mut self, place: MapNumber, key: &[u8], expiry: Expiry) {
        if self.part(place).is_some_and(|part| part.key_count.is_some()) {
            self.change_count_of(place, key, self.moment.is_before(expiry));
        }
    }

    #[cold]
    #[inline(never)]
    fn change_count_of(&mut self, place: MapNumber, key: &[u8], will_be: bool) {
        let was = self.written(place, key).map(|value| self.is_there(value));
        let mark = self.mark_count;
        let Some(count) = &mut self.part_mut(place).key_count else { return };
        count.begin(mark);
        count.difference += i64::from(will_be) - i64::from(was == Some(true));
        if was.is_none() {
            count.new.push(key.to_vec());
        }
    }

    /// Rolls the number of keys of a database back to the mark.
    pub(super) fn roll_back_count(&mut self, place: MapNumber) {
        let mark = self.mark_count;
        let count = &mut self.part_mut(place).key_count;
        if count.as_mut().is_some_and(|count| !count.roll_back(mark)) {
            *count = None;
        }
    }
}

impl Staged<'_> {
    /// The number of keys of the database.
    pub fn len(&mut self) -> Result<u64> {
        let map = self.databases.map(self.place);
        self.stage.write_current();
        let Some(part) = self.stage.part(self.place) else { return Ok(self.source.len(map)?) };
        if part.key_count.is_none() {
            // What has expired counts until it is removed.
            let there = part.written.values().filter(|value| self.stage.is_there(value)).count();
            let new = part.written.keys().cloned().collect();
            let count = KeyCount { difference: there as i64, new, before: None };
            self.stage.part_mut(self.place).key_count = Some(count);
        }
        let mark = self.stage.mark_count;
        let Some(count) = &mut self.stage.part_mut(self.place).key_count else {
            return Ok(self.source.len(map)?);
        };
        if !count.new.is_empty() {
            count.begin(mark).is_counted = true;
        }
        while let Some(key) = count.new.last() {
            // What has expired would be swept at any time, and count no more.
            self.source.purge(map, key)?;
            count.difference -= i64::from(self.source.read(map, key, &mut |_, _| {})?);
            count.new.pop();
        }
        Ok(self.source.len(map)?.saturating_add_signed(count.difference))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use everleaf::{Action, Expiry, Options};

    use crate::command::source::counting::Counting;
    use crate::command::stage::{Stage, Staged};
    use crate::databases::{Databases, MapNumber};
    use crate::failure::Failure;
    use crate::types::Types;

    fn staged<'a>(
        stage: &'a mut Stage,
        source: &'a mut Counting<'_>,
        types: &'a Types,
        databases: &'a Databases,
    ) -> Staged<'a> {
        Staged { stage, source, types, databases, place: MapNumber::default() }
    }

    /// What was quadratic: each `DBSIZE` of a transaction looked at every key that it had written, while all writers
    /// waited.
    #[test]
    fn each_key_is_looked_at_once_however_often_keys_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(true).open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        let (mut stage, mut reads) = (Stage::new(1 << 24), 0);
        let done = store.write_alone(|alone, _| {
            let mut source = Counting::of(alone);
            for number in 0..1000_u64 {
                stage.mark();
                let mut staged = staged(&mut stage, &mut source, &types, &databases);
                staged.put(&number.to_be_bytes(), b"v")?;
                assert_eq!(staged.len()?, number + 1);
            }
            reads = source.reads;
            Ok::<(), Failure>(())
        });
        assert!(done.is_ok());
        assert_eq!(reads, 1000);
    }

    /// Whatever is written, given a time and rolled back, the number is that of the keys that are there.
    #[test]
    fn the_number_is_that_of_the_keys_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(true).sweep(false).open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        let (map, mut there) = (store.default_map(), BTreeSet::new());
        for number in 0..300_u64 {
            map.put(number.to_be_bytes(), "v").unwrap();
            there.insert(number);
        }
        let (mut stage, mut state) = (Stage::new(1 << 24), 7);
        let mut random = move |below: u64| everleaf::random::next(&mut state) % below;
        let done = store.write_alone(|alone, _| {
            let mut source = Counting::of(alone);
            for round in 0..3000 {
                let (mark, before) = (stage.mark(), there.clone());
                let mut now = staged(&mut stage, &mut source, &types, &databases);
                for _ in 0..=random(3) {
                    let number = random(600);
                    let key = number.to_be_bytes();
                    let time = Expiry::from_unix_ms(if random(2) == 0 { 1 } else { 1 << 42 });
                    match random(4) {
                        0 => drop(now.remove(&key)?),
                        1 => now.update_with(&key, &mut |_| Action::Expire(time))?,
                        2 => now.stage.write(now.place, &key, Some((vec![1], time)))?,
                        _ => now.put(&key, b"v")?,
                    }
                    match now.contains(&key)? {
                        true => there.insert(number),
                        false => there.remove(&number),
                    };
                    if random(20) == 0 {
                        assert_eq!(now.len()?, there.len() as u64, "round {round}");
                    }
                }
                if random(4) == 0 {
                    stage.roll_back(&mark);
                    there = before;
                }
                if random(3) == 0 {
                    let mut now = staged(&mut stage, &mut source, &types, &databases);
                    assert_eq!(now.len()?, there.len() as u64, "round {round}");
                }
            }
            Ok::<(), Failure>(())
        });
        assert!(done.is_ok());
    }
}
