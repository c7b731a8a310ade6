//! What a transaction that is made while others write depends on.

use everleaf::WriteBatch;

use super::{Seen, Stage};
use crate::databases::Databases;

impl Stage {
    /// Makes a batch depend on what was read.
    pub fn expect_read(&self, batch: &mut WriteBatch, databases: &Databases) {
        for part in &self.parts {
            let map = databases.map(part.place);
            for (key, seen) in &part.read {
                match seen {
                    Seen::Same(Some((value, expiry))) => {
                        batch.expect_with_expiry(map, key, value, *expiry)
                    }
                    Seen::Same(None) => batch.expect(map, key, None),
                    Seen::Unwritten(watch) => batch.expect_unwritten(watch),
                };
            }
        }
    }

    /// Whether all that was read is as it was.
    pub fn still_holds(&self, databases: &Databases) -> everleaf::Result<bool> {
        for part in &self.parts {
            let map = databases.map(part.place);
            for (key, seen) in &part.read {
                let holds = match seen {
                    Seen::Unwritten(watch) => !watch.is_broken(),
                    Seen::Same(expected) => {
                        let same = |value: &[u8], expiry| {
                            expected.as_ref().is_some_and(|(v, e)| v == value && *e == expiry)
                        };
                        map.get_with_expiry(key, same)?.unwrap_or(expected.is_none())
                    }
                };
                if !holds {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
