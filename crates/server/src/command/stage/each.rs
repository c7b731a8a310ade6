//! Writing what a stage has change by change, where it need not be one step.

use std::ops::Bound;

use crate::databases::Databases;
use crate::types::Types;

use super::Stage;

impl Stage {
    /// Writes what is to be written, members first, as changes of their own: for one who is alone, of what no batch takes.
    /// The notes of collections come before all members, as their keys do: what is cut short is freed by them.
    ///
    /// # Errors
    /// What the store answers; some of it may be written.
    pub fn write_each(&mut self, databases: &Databases, types: &Types) -> everleaf::Result<()> {
        self.write_current();
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
        for part in &mut self.parts {
            let map = databases.map(part.place);
            for (key, value) in std::mem::take(&mut part.written) {
                match value {
                    Some((value, expiry)) => map.put_with_expiry(&key, &value, expiry),
                    None => map.remove(&key),
                }?;
            }
        }
        Ok(())
    }
}
