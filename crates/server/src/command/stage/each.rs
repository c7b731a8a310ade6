//! Writing what a stage has change by change, where it need not be one step.

use std::ops::Bound;

use everleaf::{Store, WriteBatch, Written};

use crate::databases::Databases;
use crate::types::Types;

use super::Stage;
use crate::command::staged_value::NewExpiry;

impl Stage {
    /// Writes what is to be written, members first, as changes of their own: for a command that is alone, of what no
    /// batch takes. The notes of collections come before all members, as their keys do: what is cut short is freed by
    /// them. Last are expiries that change alone, as one; they are refused if another has changed one of their keys.
    ///
    /// # Errors
    /// What the store answers; some of it may be written.
    pub fn write_each(
        &mut self,
        store: &Store,
        databases: &Databases,
        types: &Types,
    ) -> everleaf::Result<Written> {
        self.write_current();
        self.write_ends();
        self.write_counts();
        if let Some(ready) = types.ready() {
            let mut members = std::mem::take(&mut self.members);
            members.sort();
            for (key, value) in members.range((Bound::Unbounded, Bound::Unbounded)) {
                match value {
                    Some(value) => ready.members.put(key, value),
                    None => ready.members.remove(key),
                }?;
            }
        }
        let mut expiries = WriteBatch::new();
        for part in &mut self.parts {
            let map = databases.map(part.place);
            for (key, value) in std::mem::take(&mut part.written) {
                match value {
                    Some((value, expiry)) => map.put_with_expiry(&key, &value, expiry),
                    None => map.remove(&key),
                }?;
            }
            for (key, NewExpiry { seen, new }) in std::mem::take(&mut part.expiries) {
                // The time that it had may have come since.
                expiries.expire_seen(map, &key, seen, new);
            }
        }
        store.write(&expiries)
    }
}

#[cfg(test)]
mod tests {
    use everleaf::{Action, Expiry};

    use super::*;
    use crate::command::stage::Staged;
    use crate::databases::MapNumber;
    use crate::types::notes::MEMBERS;

    /// What was lost: a large import that was cut short, here by a full pool, left members that no note leads to, and
    /// that nothing ever freed, because the notes were written behind them.
    #[test]
    fn what_is_cut_short_has_its_notes() {
        let folder = tempfile::tempdir().unwrap();
        let options = everleaf::Options::new().create(true).max_size_bytes(4 << 20);
        let store = options.open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        types.begin(&store).unwrap();
        let (mut stage, id) = (Stage::new(usize::MAX), types.ready().unwrap().new_id());
        for number in 0..10_000_u64 {
            let key = [id.to_be_bytes(), number.to_be_bytes()].concat();
            stage.write_member(&key, Some(&[7; 1000])).unwrap();
        }
        let note = [1_u64.to_be_bytes(), id.to_be_bytes()].concat();
        stage.write_member(&note, Some(b"key")).unwrap();
        let written = stage.write_each(&store, &databases, &types);
        assert!(matches!(written, Err(everleaf::Error::PoolFull(_))), "{written:?}");
        let members = store.existing_map(MEMBERS).unwrap().unwrap();
        assert!(members.len() > 100, "some were written");
        assert_eq!(members.get(&note).unwrap(), Some(b"key".to_vec()));
    }

    /// What was lost: a long value whose old time came before it was given another one. That it was not given was
    /// answered, and nobody looked at the answer.
    #[test]
    fn a_time_that_comes_meanwhile_takes_no_key_along() {
        let folder = tempfile::tempdir().unwrap();
        let options = everleaf::Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
        let store = options.open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        let map = store.default_map();
        for is_replaced in [false, true] {
            let soon = Expiry::after(std::time::Duration::from_millis(200));
            map.put_with_expiry("key", [7; 5000], soon).unwrap();
            let mut stage = Stage::beside_others(usize::MAX, &store);
            let mut source = &store;
            let mut staged = Staged {
                stage: &mut stage,
                source: &mut source,
                types: &types,
                databases: &databases,
                place: MapNumber::default(),
            };
            staged.update_with(b"key", &mut |_| Action::Expire(Expiry::Never)).ok().unwrap();
            assert!(stage.new_expiry(MapNumber::default(), b"key").is_some(), "it changes alone");
            while map.get("key").unwrap().is_some() {
                std::thread::yield_now();
            }
            if is_replaced {
                map.put_with_expiry("key", "another", Expiry::from_unix_ms(1 << 42)).unwrap();
            }
            let written = stage.write_each(&store, &databases, &types).unwrap();
            assert_eq!(written.is_done(), !is_replaced);
            let never = Some(Expiry::Never);
            assert_eq!(map.expiry("key").unwrap() == never, !is_replaced);
        }
    }
}
