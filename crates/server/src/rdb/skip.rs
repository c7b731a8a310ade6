//! Passing over what there is not here: streams and values of modules.

use super::read::Reader;

const MODULE_OF_OLD: u8 = 6;
const MODULE: u8 = 7;
const STREAM: u8 = 15;
const STREAM_2: u8 = 19;
const STREAM_3: u8 = 21;
/// A number of an entry of a stream.
const STREAM_ID_SIZE: usize = 16;

/// What a type of values is called that there is not here.
pub fn unsupported_name(kind: u8) -> Option<&'static str> {
    match kind {
        MODULE_OF_OLD | MODULE => Some("a value of a module"),
        STREAM | STREAM_2 | STREAM_3 => Some("a stream"),
        _ => None,
    }
}

impl Reader<'_> {
    /// Passes over a value of such a type; `None` if it is damaged, or nobody can tell where it ends.
    pub fn skip_unsupported(&mut self, kind: u8) -> Option<()> {
        match kind {
            MODULE => {
                self.length()?;
                self.skip_module()
            }
            STREAM | STREAM_2 | STREAM_3 => self.skip_stream(kind),
            _ => None,
        }
    }

    /// Passes over what a module wrote, up to its end.
    pub fn skip_module(&mut self) -> Option<()> {
        loop {
            match self.length()? {
                0 => return Some(()),
                1 | 2 => drop(self.length()?),
                3 => drop(self.take(4)?),
                4 => drop(self.take(8)?),
                5 => drop(self.string()?),
                _ => return None,
            }
        }
    }

    fn skip_stream(&mut self, kind: u8) -> Option<()> {
        for _ in 0..self.length()? {
            self.string()?;
            self.string()?;
        }
        let numbers = if kind >= STREAM_2 { 8 } else { 3 };
        self.skip_lengths(numbers)?;
        for _ in 0..self.length()? {
            self.string()?;
            self.skip_lengths(if kind >= STREAM_2 { 3 } else { 2 })?;
            for _ in 0..self.length()? {
                self.take(STREAM_ID_SIZE + 8)?;
                self.length()?;
            }
            for _ in 0..self.length()? {
                self.string()?;
                self.take(if kind >= STREAM_3 { 16 } else { 8 })?;
                for _ in 0..self.length()? {
                    self.take(STREAM_ID_SIZE)?;
                }
            }
        }
        Some(())
    }

    fn skip_lengths(&mut self, count: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.length().map(drop))
    }
}
