//! Rolling back what a command of a transaction has written, when it fails (`undo.rs`).

use super::Stage;
use crate::command::staged_value::set;
use crate::command::undo::{Before, Mark, UndoLog};

impl Stage {
    /// Begins a command that can be rolled back; those before it cannot any more.
    pub fn mark(&mut self) -> Mark {
        self.write_current();
        self.mark_orders();
        self.mark_count += 1;
        self.undo = Some(UndoLog::default());
        self.mark_ends();
        Mark {
            size: self.size,
            read_size: self.read_size,
            made_count: self.made.len(),
            change_count: self.change_count,
        }
    }

    /// Rolls back what was written since the last mark, which this is. What was read stays a condition. Exchanges
    /// of databases stay: nothing fails behind one.
    pub fn roll_back(&mut self, mark: &Mark) {
        let Some(undo) = self.undo.take() else { return };
        // What is on the stage once this is done has all counts: those of before were written at the mark. What the
        // command did not touch is as it was.
        self.roll_back_orders();
        self.roll_back_ends();
        self.was_rolled_back = true;
        self.ahead.forget_drawn();
        for (key, before) in &undo.members {
            let before = before.as_ref().map(Option::as_deref);
            self.members.set(key, before);
            self.member_gaps.open(key);
        }
        // Also of a database of which nothing was removed before the failure.
        for part in &mut self.parts {
            part.cleared.take_if(|cleared| cleared.mark == self.mark_count);
        }
        for ((place, key), before) in undo.keys {
            self.roll_back_count(place);
            let part = self.part_mut(place);
            part.gaps.open(&key);
            // A value that was replaced was appended to before that, if it was.
            for before in before.into_iter().rev() {
                let written = &mut self.part_mut(place).written;
                match before {
                    Before::Written(before) => set(written, key.clone(), before),
                    Before::Size(size) => {
                        if let Some(Some((value, _))) = written.get_mut(&key) {
                            value.truncate(size);
                        }
                    }
                    Before::Time(time) => {
                        if let Some(Some((_, expiry))) = written.get_mut(&key) {
                            *expiry = time;
                        }
                    }
                }
            }
        }
        for ((place, key), before) in undo.expiries {
            self.part_mut(place).gaps.open(&key);
            self.restore_expiry(place, key, before);
        }
        self.size = mark.size + (self.read_size - mark.read_size);
        self.made.truncate(mark.made_count);
        self.change_count = mark.change_count;
    }

    /// Says that nothing is rolled back any more.
    pub fn forget_mark(&mut self) {
        self.undo = None;
        self.ends_before.clear();
    }
}
