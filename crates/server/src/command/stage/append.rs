//! Appending to a string.

use everleaf::Expiry;

use super::Staged;
use crate::command::undo::Before;
use crate::failure::Result;

impl Staged<'_> {
    /// Appends to a value, unless it would have more than `size_max` bytes. Returns its size.
    pub fn append(&mut self, key: &[u8], suffix: &[u8], size_max: usize) -> Result<Option<usize>> {
        let size = self.see(key, |value, _| value.len())?.unwrap_or(0) + suffix.len();
        if size > size_max {
            return Ok(None);
        }
        let written = self.stage.written(self.place, key).and_then(Option::as_ref);
        let is_live = written.is_some_and(|value| self.stage.moment.is_live(value));
        match self.stage.written_mut(self.place, key) {
            // What was written already grows where it is: many appends take as long as one.
            Some(Some(value)) if is_live => {
                let size = value.0.len();
                value.0.extend_from_slice(suffix);
                if let Err(failure) = self.types.check_string(&value.0) {
                    value.0.truncate(size);
                    return Err(failure);
                }
                self.stage.size += suffix.len();
                self.stage.change_count += 1;
                if let Some(undo) = &mut self.stage.undo {
                    undo.note_key(self.place, key, Before::Size(size));
                }
                self.stage.check()?;
            }
            _ => {
                let (mut value, expiry) = self.copy(key)?.unwrap_or((Vec::new(), Expiry::Never));
                value.extend_from_slice(suffix);
                self.types.check_string(&value)?;
                self.stage.write(self.place, key, Some((value, expiry)))?;
            }
        }
        Ok(Some(size))
    }
}
