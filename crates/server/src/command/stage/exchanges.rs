//! The databases that a transaction exchanges (`SWAPDB`).

use std::collections::BTreeSet;

use super::Stage;
use crate::databases::{Database, Databases, MapNumber};

impl Stage {
    /// Exchanges two databases.
    pub fn exchange(&mut self, databases: &Databases, first: Database, second: Database) {
        if first != second {
            self.places.get_or_insert_with(|| databases.places()).swap(first, second);
            self.exchanged.extend([first, second]);
        }
    }

    /// Where databases lie once it is done, if it exchanges some.
    pub fn places(&self) -> Option<&[MapNumber]> {
        self.places.as_deref()
    }

    /// The databases that it exchanges.
    pub fn exchanged(&self) -> &BTreeSet<Database> {
        &self.exchanged
    }
}
