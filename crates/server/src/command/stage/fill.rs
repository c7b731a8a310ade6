//! Moving what a stage is to write to a batch.

use everleaf::WriteBatch;

use super::Stage;
use super::list_end::ListEnd;
use crate::command::staged_value::NewExpiry;
use crate::databases::Databases;
use crate::types::{Kind, Types};

impl Stage {
    /// Whether there is nothing to write.
    pub fn is_unchanged(&self) -> bool {
        self.parts.iter().all(|part| part.written.is_empty() && part.expiries.is_empty())
            && self.members.is_empty()
            && !self.ends.iter().any(ListEnd::is_changed)
            && self.places.is_none()
    }

    /// Moves what is to be written to a batch.
    pub fn fill(&mut self, batch: &mut WriteBatch, databases: &Databases, types: &Types) {
        self.write_current();
        self.write_ends();
        self.write_counts();
        if let Some(places) = &self.places {
            databases.keep(places, batch);
        }
        if let Some(ready) = types.ready() {
            if let Some((key, mark)) = types.owed_mark().filter(|_| self.changes_lists(types)) {
                batch.put(&ready.members, key, mark);
            }
            let members = std::mem::take(&mut self.members);
            batch.reserve(members.len() + 1, members.size());
            for (key, value) in members.iter() {
                match value {
                    Some(value) => batch.put(&ready.members, key, value),
                    None => batch.remove(&ready.members, key),
                };
            }
            members.keep_spare();
        }
        for part in &mut self.parts {
            let map = databases.map(part.place);
            for (key, value) in std::mem::take(&mut part.written) {
                match value {
                    Some((value, expiry)) => batch.put_with_expiry(map, key, value, expiry),
                    None => batch.remove(map, &key),
                };
            }
            for (key, NewExpiry { seen, new }) in std::mem::take(&mut part.expiries) {
                batch.expire_seen(map, &key, seen, new);
            }
        }
    }

    /// Whether it writes the header of a list.
    fn changes_lists(&self, types: &Types) -> bool {
        let mut values = self.parts.iter().flat_map(|part| part.written.values()).flatten();
        values.any(|(value, _)| types.header(value).is_some_and(|it| it.kind == Kind::List))
    }
}
