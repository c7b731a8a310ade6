//! Whether a pool is as old as its log: an older copy of it, put back while the log went on, must not be taken
//! for what the log is about, because the next snapshot would take its place over everything that came later.
//!
//! Two notes are kept in the pool and beside the log. Of either, the pool's is written first, so that it is never
//! behind, whatever a process dies of; after the loss of power nobody looks at the trees of the pool.
//! - `reached`: an LSN that was durable when the store was closed;
//! - `generation`: a number that grows with every opening and every closing.
//!
//! The header of the pool, which is whole when the rest is torn, says of each opening which log it was with, and the
//! generation, which is on the disk beside the log before: after the loss of power a pool is not rebuilt from another
//! log, nor from an older copy of its own.
//!
//! A copy that was made while the store was open, and put back before it was closed or opened again, has the
//! numbers of the pool itself: nothing can tell it.

use std::path::Path;

use everleaf_index::{
    BytesTree, Change, Hardware, IndexError, LogNote, Session, Trees, log_note_of,
};
use everleaf_log::{Disk, Lsn};

use super::log_directory::LogState;
use super::log_directory::{GENERATION, Identity, LogDirectory, numbered};
use super::log_folder::LogDisk;
use super::log_metadata::{identity_in, older_than_its_log, reached_in};
use super::metadata_keys::NAME;
use super::small_file::write_unsynced;
use crate::conversion::io;
use crate::{Error, Result};

/// Key of the number in the pool.
pub(super) const KEY: &[u8] = b"generation";

/// Refuses a pool that is older than its log. Returns the LSN that it was closed at, 0 if that is not known.
///
/// Also of a pool that was closed the LSN alone does not say it: what a killed process had in memory only is in the
/// snapshot of the next opening, which takes no LSN. So a copy of a closed pool that was opened since is refused, even
/// if it happens to lack nothing.
pub(super) fn refuse_older(
    metadata: &BytesTree,
    session: &mut Session<Hardware>,
    (trees, place): (&Trees, &LogDirectory),
    identity: Identity,
) -> Result<Lsn> {
    let closed_at = reached_in(metadata, session, identity)?;
    let generation = generation_in(metadata, session, identity)?;
    // A pool that notes nothing is one of an older version, or was made from the log.
    let is_older = |noted: u64, beside: u64| noted != 0 && noted < beside;
    let (reached, beside) = (place.reached(identity)?, place.number_in(GENERATION, identity)?);
    // Older versions wrote the folder's note first, and were killed in between.
    let has_order = trees.heap().pool().was_clean() || generation != 0;
    if has_order && is_older(closed_at, reached) || is_older(generation, beside) {
        return Err(older_than_its_log(trees, place));
    }
    Ok(closed_at)
}

/// Refuses a pool for reading whose log is another's, or went on without it. What is in the folder of the log is
/// looked at without holding it: nobody writes to a pool that is being read.
pub(crate) fn refuse_stale(trees: &Trees, place: &LogDirectory) -> Result<()> {
    let (metadata, known) = (trees.find_bytes_tree(NAME)?, identity_in(trees)?);
    let identity = match place.state() {
        Ok(LogState::Whole(identity)) => identity,
        Ok(LogState::Unexplained(owners)) => match known.filter(|known| owners.are(*known)) {
            Some(known) => known,
            None => return Ok(()),
        },
        // Read by nobody now, it may be what says that the pool is an older copy (LD3).
        Err(error @ Error::Io(..)) if known.is_some() => return Err(error),
        // What is damaged, or beside a pool without a log, says nothing about the pool.
        _ => return Ok(()),
    };
    let Some(metadata) = metadata.filter(|_| known == Some(identity)) else {
        return Err(not_its_log(place));
    };
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    refuse_older(&metadata, &mut session, (trees, place), identity).map(drop)
}

/// The error for a pool beside a log that is not its own.
pub(super) fn not_its_log(place: &LogDirectory) -> Error {
    Error::Corrupt(format!(
        "the log in {} is not the one of this pool: move it away to go on without it, or move the pool away to \
         rebuild it from that log",
        place.display()
    ))
}

fn generation_in(
    metadata: &BytesTree,
    session: &mut Session<Hardware>,
    identity: Identity,
) -> Result<u64> {
    let noted = metadata.get_with(session, KEY, |note| {
        let (log, number) = note.split_first_chunk::<16>()?;
        <[u8; 8]>::try_from(number).ok().filter(|_| *log == identity).map(u64::from_le_bytes)
    })?;
    Ok(noted.flatten().unwrap_or(0))
}

/// The next generation, as a note, and its number.
fn next(
    metadata: &BytesTree,
    session: &mut Session<Hardware>,
    place: &LogDirectory,
    identity: Identity,
) -> Result<(Vec<u8>, u64)> {
    let noted = generation_in(metadata, session, identity)?;
    let beside = match place.number_in(GENERATION, identity) {
        // The pool's is never behind. A lack of descriptors must not be in the way of closing.
        Err(_) if noted != 0 => noted,
        beside => beside?,
    };
    let number = beside.max(noted).saturating_add(1);
    Ok(([&identity[..], &number.to_le_bytes()].concat(), number))
}

/// Begins a new generation of a pool and its log. Returns what the header of the pool is to say, if that is durable
/// beside the log. The note beside the log survives the loss of power if it is that of an opening: without it a copy
/// from before this opening would be as new as the log to a program that only reads, or does without the log.
pub(super) fn begin_generation(
    metadata: &BytesTree,
    session: &mut Session<Hardware>,
    (place, disk): (&LogDirectory, &LogDisk),
    identity: Identity,
    is_opening: bool,
) -> Result<Option<LogNote>> {
    let (note, number) = next(metadata, session, place, identity)?;
    if metadata.change(session, &Change::upsert(KEY, &note)).is_err() {
        // It must not say less than is beside the log; its removal needs no space.
        metadata.change(session, &Change::remove(KEY))?;
        return Ok(None);
    }
    // Only evidence: a disk that is full must not be in the way of opening and closing.
    let note = numbered(identity, number);
    if !is_opening {
        drop(write_unsynced(disk, GENERATION, note.as_bytes()));
        return Ok(None);
    }
    let is_durable = place.write(disk, GENERATION, &note).is_ok();
    let named = if disk.mutant("store.generation_unnamed") { 0 } else { number };
    Ok(is_durable.then(|| header_note(identity, named)))
}

/// What the header of a pool says of its log: of the identity the half that is not the pool's own number.
pub(super) fn header_note(identity: Identity, generation: u64) -> LogNote {
    let half = identity.last_chunk::<8>().copied().map_or(0, u64::from_le_bytes);
    LogNote { log: half.clamp(1, NO_LOG.log - 1), generation }
}

/// What the header of a pool says that goes on without its log, which no log is.
pub(crate) const NO_LOG: LogNote = LogNote { log: u64::MAX, generation: 0 };

/// Refuses to rebuild the pool at `path` from a log that is not the one it was opened with last, or from an older copy
/// of that.
pub(super) fn refuse_other_log(
    path: &Path,
    place: &LogDirectory,
    identity: Identity,
) -> Result<()> {
    let noted = log_note_of(path)
        .map_err(io(format!("cannot read from {} which log it has", path.display())))?;
    let Some(noted) = noted else { return Ok(()) };
    if noted.log != header_note(identity, 0).log {
        return Err(not_its_log(place));
    }
    // 0: the folder has lost its note, and does not say how old it is.
    let beside = place.number_in(GENERATION, identity)?;
    if beside != 0 && beside < noted.generation {
        return Err(Error::Corrupt(format!(
            "the log in {} is an older copy of the one that {} was opened with: put that one back, or move the pool \
             away to rebuild it from the older log, which lacks what was written since",
            place.display(),
            path.display()
        )));
    }
    Ok(())
}

/// The note for a pool that takes the place of this one: the generation that closing this one begins.
pub(super) fn note_of_successor(
    metadata: &BytesTree,
    session: &mut Session<Hardware>,
    place: &LogDirectory,
    identity: Identity,
) -> Result<Vec<u8>> {
    next(metadata, session, place, identity).map(|(note, _)| note)
}
