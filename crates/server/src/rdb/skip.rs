//! Passing over what there is not here: streams and values of modules.
//!
//! Nothing of them is kept, not even in the buffer, so they may be of any size.

use std::io::Read;

use super::file::{Rdb, RdbError};
use super::read::{Length, Reader};
use super::unsupported::{MODULE, STREAM, STREAM_2, STREAM_3};

/// A number of an entry of a stream.
const STREAM_ID_SIZE: u64 = 16;

impl<R: Read> Rdb<R> {
    /// Passes over a value of such a type.
    ///
    /// # Errors
    /// It is damaged, or nobody can tell where it ends.
    pub(super) fn skip_unsupported(&mut self, kind: u8) -> Result<(), RdbError> {
        match kind {
            MODULE => {
                self.skip_length()?;
                self.skip_module()
            }
            STREAM | STREAM_2 | STREAM_3 => self.skip_stream(kind),
            _ => Err(self.error(&format!("nobody can tell where a value of type {kind} ends"))),
        }
    }

    /// Passes over what a module wrote, up to its end.
    fn skip_module(&mut self) -> Result<(), RdbError> {
        loop {
            match self.skip_length()? {
                0 => return Ok(()),
                1 | 2 => drop(self.skip_length()?),
                3 => self.pass(4)?,
                4 => self.pass(8)?,
                5 => self.skip_string()?,
                _ => return Err(self.strange()),
            }
        }
    }

    fn skip_stream(&mut self, kind: u8) -> Result<(), RdbError> {
        for _ in 0..self.skip_length()? {
            self.skip_string()?;
            self.skip_string()?;
        }
        let numbers = if kind >= STREAM_2 { 8 } else { 3 };
        self.skip_lengths(numbers)?;
        for _ in 0..self.skip_length()? {
            self.skip_string()?;
            self.skip_lengths(if kind >= STREAM_2 { 3 } else { 2 })?;
            for _ in 0..self.skip_length()? {
                self.pass(STREAM_ID_SIZE + 8)?;
                self.skip_length()?;
            }
            for _ in 0..self.skip_length()? {
                self.skip_string()?;
                self.pass(if kind >= STREAM_3 { 16 } else { 8 })?;
                for _ in 0..self.skip_length()? {
                    self.pass(STREAM_ID_SIZE)?;
                }
            }
        }
        Ok(())
    }

    fn skip_lengths(&mut self, count: usize) -> Result<(), RdbError> {
        (0..count).try_for_each(|_| self.skip_length().map(drop))
    }

    /// Passes over a length; returns it.
    fn skip_length(&mut self) -> Result<u64, RdbError> {
        match self.skip_any_length()? {
            Length::Of(length) => Ok(length),
            Length::Special(_) => Err(self.strange()),
        }
    }

    fn skip_string(&mut self) -> Result<(), RdbError> {
        match self.skip_any_length()? {
            Length::Of(length) => self.pass(length),
            Length::Special(0) => self.pass(1),
            Length::Special(1) => self.pass(2),
            Length::Special(2) => self.pass(4),
            Length::Special(3) => {
                let compressed_size = self.skip_length()?;
                self.skip_length()?;
                self.pass(compressed_size)
            }
            Length::Special(_) => Err(self.strange()),
        }
    }

    fn skip_any_length(&mut self) -> Result<Length, RdbError> {
        let mut bytes = [0; 9];
        self.pass_into(&mut bytes[..1])?;
        let size = match bytes[0] {
            0x40..0x80 => 2,
            0x80 => 5,
            0x81 => 9,
            _ => 1,
        };
        self.pass_into(&mut bytes[1..size])?;
        Reader::new(&bytes[..size]).any_length().ok_or_else(|| self.strange())
    }

    fn strange(&self) -> RdbError {
        self.error("a stream or a value of a module is not as it must be")
    }
}
