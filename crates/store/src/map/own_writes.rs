//! Refuses writes of a key by the function that decides on this key: it would be asked again for each of them, for
//! ever.
//!
//! The first time a function is asked nothing is noted, so that a decision costs no more. When it is asked again, its
//! key is noted while it runs, and a write of that key by the same thread is refused: by put and what is like it,
//! another decision, or a batch. (Once the map was emptied, the key is absent for good.) A single write costs one load
//! while no key is noted.
//!
//! *Thread safety*: each thread has notes of its own; of all of them only the number is shared.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Map;
use crate::{Error, Result};

/// Keys that all threads have noted.
static NOTED_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

/// A key on which a function decides that runs in this thread.
struct Note {
    /// What tells its map from others.
    tree: usize,
    key: Vec<u8>,
    /// Whether a write of it was refused.
    is_refused: bool,
}

/// A function that is asked, and whose key is noted, unless its thread is ending and has no notes any more.
pub(super) struct Asking {
    is_noted: bool,
}

impl Asking {
    pub(super) fn begin(map: &Map, key: &[u8]) -> Self {
        let note = Note { tree: map.tree_address(), key: key.to_vec(), is_refused: false };
        let noted = NOTES.try_with(|notes| notes.borrow_mut().push(note));
        // Relaxed: only a thread that has noted something must see that the number is not 0, and it has counted itself.
        NOTED_COUNT.fetch_add(1, Ordering::Relaxed);
        Asking { is_noted: noted.is_ok() }
    }

    /// Whether the function has tried to write its key.
    pub(super) fn has_written(&self) -> bool {
        let is_refused =
            |notes: &RefCell<Vec<Note>>| notes.borrow().last().is_some_and(|it| it.is_refused);
        self.is_noted && NOTES.try_with(is_refused).unwrap_or(false)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.is_noted {
            let _ = NOTES.try_with(|notes| notes.borrow_mut().pop());
        }
        // Relaxed: as in `begin`.
        NOTED_COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether any thread has noted a key.
#[inline(always)]
fn is_any_noted() -> bool {
    // Relaxed: as in `Asking::begin`.
    NOTED_COUNT.load(Ordering::Relaxed) != 0
}

/// What a function is told that writes the key on which it decides.
pub(super) fn refused() -> Error {
    let text = "a function that decides on a key has written this key itself, and would be asked again for ever: let \
                it return what is to become of the key";
    Error::Nested(text.to_string())
}

/// Refuses a write of `key` by a function that decides on it.
#[cold]
#[inline(never)]
fn check_notes(map: &Map, key: &[u8]) -> Result<()> {
    let tree = map.tree_address();
    let is_meant = |note: &Note| note.tree == tree && note.key == key;
    // A thread that is ending has no notes any more.
    let found = NOTES.try_with(|notes| {
        let mut notes = notes.borrow_mut();
        let note = notes.iter_mut().find(|note| is_meant(note));
        note.map(|note| note.is_refused = true).is_some()
    });
    if found.unwrap_or(false) { Err(refused()) } else { Ok(()) }
}

impl Map {
    fn tree_address(&self) -> usize {
        Arc::as_ptr(&self.tree).addr()
    }

    /// Refuses a write of `key` by a function that decides on it.
    #[inline(always)]
    pub(crate) fn check_own_write(&self, key: &[u8]) -> Result<()> {
        if is_any_noted() { check_notes(self, key) } else { Ok(()) }
    }
}
