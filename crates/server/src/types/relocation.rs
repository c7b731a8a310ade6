//! Giving what a key holds to another key, or to another database: moving it, and copying it.
//!
//! A collection moves with its header, however large it is: its members lie under its number, and know
//! nothing of the key. Its note must follow in the same batch (`collector.rs`). A copy has a number and
//! members of its own.

use everleaf::Expiry;

use super::header::Header;
use super::notes::{live_key, trimmed_key};
use super::ready::Ready;
use crate::command::source::Visit;
use crate::command::stage::Staged;
use crate::command::walk::{Bounds, PageSize, page};
use crate::databases::MapNumber;
use crate::failure::Result;

/// What is copied at once.
const PAGE: PageSize = PageSize { pairs: 1024, bytes: 1 << 20, value_bytes: usize::MAX };

/// What a key holds, and when it expires.
struct Held {
    value: Vec<u8>,
    expiry: Expiry,
    header: Option<Header>,
}

impl Staged<'_> {
    fn held(&mut self, key: &[u8]) -> Result<Option<Held>> {
        let types = self.types;
        self.see(key, |value, expiry| Held {
            value: value.to_vec(),
            expiry,
            header: types.header(value),
        })
    }

    fn write_note(&mut self, note: &[u8], key: Option<&[u8]>) -> Result<()> {
        self.stage.write_member(note, key)
    }

    /// Moves what a key holds to another one, in place of what that held. Returns whether there was
    /// something. Costs the same for a collection of any size.
    pub fn rename(&mut self, source: &[u8], destination: &[u8]) -> Result<bool> {
        let Some(held) = self.held(source)? else { return Ok(false) };
        if source == destination {
            return Ok(true);
        }
        if let Some(header) = held.header {
            self.write_note(&live_key(self.place, header.id), Some(destination))?;
        }
        self.stage.write(self.place, destination, Some((held.value, held.expiry)))?;
        self.stage.write(self.place, source, None)?;
        Ok(true)
    }

    /// Moves what a key holds to the same key of another database, which must be absent there. Returns whether there
    /// was something. Costs the same for a collection of any size.
    pub fn relocate(&mut self, key: &[u8], place: MapNumber) -> Result<bool> {
        let Some(held) = self.held(key)? else { return Ok(false) };
        if let Some(header) = held.header {
            self.write_note(&live_key(self.place, header.id), None)?;
            self.write_note(&live_key(place, header.id), Some(key))?;
        }
        self.stage.write(place, key, Some((held.value, held.expiry)))?;
        self.stage.write(self.place, key, None)?;
        Ok(true)
    }

    /// Copies what a key holds to one of a database, in place of what that held. Returns whether there was
    /// something. A collection costs its size; with [`crate::failure::Failure::Text`] (`OOM`) one that
    /// is larger than a transaction may be stays as it is.
    pub fn duplicate(
        &mut self,
        source: &[u8],
        place: MapNumber,
        destination: &[u8],
    ) -> Result<bool> {
        let Some(mut held) = self.held(source)? else { return Ok(false) };
        if let (Some(header), Some(ready)) = (held.header, self.types.ready()) {
            let copy = Header { id: ready.new_id(), ..header };
            // Elements outside of its bounds are copied, too, and freed there as well (`collector.rs`). The note is
            // read before them: the thread that frees the last of them removes it and leaves the header as it is;
            // one too many harms nobody.
            let note = self.see_member(ready, &trimmed_key(header.id), <[u8]>::to_vec)?;
            self.copy_members(ready, header.id, copy.id)?;
            if let Some(note) = note {
                self.write_note(&trimmed_key(copy.id), Some(&note))?;
            }
            self.write_note(&live_key(place, copy.id), Some(destination))?;
            held.value = ready.encode(&copy).to_vec();
        }
        self.stage.write(place, destination, Some((held.value, held.expiry)))?;
        Ok(true)
    }

    /// Visits all entries of a collection, with their keys.
    pub fn walk_collection(&mut self, id: u64, visit: &mut Visit<'_>) -> Result<()> {
        let Some(ready) = self.types.ready() else { return Ok(()) };
        self.walk_members(ready, &Bounds::of_prefix(&id.to_be_bytes()), false, visit)
    }

    /// Copies all that lies under a number to another one, a page at a time.
    fn copy_members(&mut self, ready: &Ready, from: u64, to: u64) -> Result<()> {
        let mut bounds = Bounds::of_prefix(&from.to_be_bytes());
        loop {
            let (pairs, walked) = page(&mut bounds, PAGE, |bounds, visit| {
                self.walk_members(ready, bounds, false, visit)
            });
            walked?;
            if pairs.is_empty() {
                return Ok(());
            }
            for (mut key, value) in pairs {
                key[..8].copy_from_slice(&to.to_be_bytes());
                self.stage.write_member(&key, Some(&value))?;
            }
        }
    }
}
