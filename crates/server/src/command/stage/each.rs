//! Writing what a stage has change by change, where it need not be one step.

use crate::databases::Databases;
use crate::types::Types;

use super::Stage;

impl Stage {
    /// Writes what is to be written, members first, as changes of their own: for one who is alone, of what no batch takes.
    ///
    /// # Errors
    /// What the store answers; some of it may be written.
    pub fn write_each(&mut self, databases: &Databases, types: &Types) -> everleaf::Result<()> {
        self.write_current();
        self.write_counts();
        if let Some(ready) = types.ready() {
            let members = std::mem::take(&mut self.members);
            for (key, value) in members.iter() {
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
