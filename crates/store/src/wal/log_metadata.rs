//! What the pool knows of its log: whose it is, and how it is kept.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everleaf_index::{BytesTree, Change, Hardware, IndexError, Session, Trees};
use everleaf_log::Lsn;

use super::age::{self, not_its_log};
use super::live_maps;
use super::log_directory::{Identity, LogDirectory, LogState};
use super::metadata_keys::{IDENTITY, LAST, LOGGED, MODE, NAME, REACHED};
use crate::map::reserved::is_reserved;
use crate::{Durability, Error, Result};

/// Above every LSN.
const LSN_END: Lsn = 1 << 62;

/// How a pool was opened last.
pub fn last_durability(trees: &Trees) -> Result<Durability> {
    let Some(metadata) = trees.find_bytes_tree(NAME)? else { return Ok(Durability::Process) };
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    let mode = metadata.get_with(&mut session, MODE, |mode| {
        <[u8; 8]>::try_from(mode).map_or(0, u64::from_le_bytes)
    })?;
    Ok(match mode.unwrap_or(0) {
        0 => Durability::Power,
        interval_ms => Durability::Interval(Duration::from_millis(interval_ms)),
    })
}

/// Bytes of keys and values that were in the log since the last snapshot when the pool was closed.
pub fn logged_at_close(trees: &Trees) -> Result<u64> {
    let Some(metadata) = trees.find_bytes_tree(NAME)? else { return Ok(0) };
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    let logged = metadata.get_with(&mut session, LOGGED, |logged| {
        logged.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    })?;
    Ok(logged.unwrap_or(0))
}

/// Notes in a new pool how it is to be opened.
pub fn note_durability(trees: &Trees, durability: Durability) -> Result<()> {
    if durability == Durability::Process {
        return Ok(());
    }
    let metadata = trees.bytes_tree(NAME)?;
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    let mode = durability.interval_ms().to_le_bytes();
    metadata.change(&mut session, &Change::upsert(MODE, &mode))?;
    Ok(())
}

/// The log of a pool that can be trusted; `None` if it has none, and what there may be in the folder is
/// of no use (LD1).
///
/// # Errors
/// The log is another's, or nobody knows whose: one of the two is not what is wanted.
pub fn log_identity(trees: &Trees, place: &LogDirectory) -> Result<Option<Identity>> {
    let known = identity_in(trees)?;
    match place.state()? {
        LogState::Absent | LogState::Incomplete => Ok(None),
        LogState::Whole(identity) if known == Some(identity) => Ok(Some(identity)),
        LogState::Whole(_) => Err(not_its_log(place)),
        // Its own: the file that says it is whole was lost, or an older version was removing it.
        LogState::Unexplained(owners) if known.is_some_and(|known| owners.are(known)) => Ok(known),
        LogState::Unexplained(owners) => Err(place.unexplained(&owners)),
    }
}

/// Which log the pool says is its own.
pub(super) fn identity_in(trees: &Trees) -> Result<Option<Identity>> {
    let Some(metadata) = trees.find_bytes_tree(NAME)? else { return Ok(None) };
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    let identity =
        metadata.get_with(&mut session, IDENTITY, |bytes| Identity::try_from(bytes).ok())?;
    Ok(identity.flatten())
}

/// Marks a pool clean again of which the opening was refused, if it was clean and its log lacks nothing: a
/// number that was given to a map meanwhile could be missing there, or what was cut off (`lacks`). `last` is
/// what [`last_number`] was before.
pub fn leave_refused(trees: &Trees, last: Option<u32>, lacks: bool) {
    let pool = trees.heap().pool();
    if !lacks && pool.was_clean() && !pool.is_read_only() && last_number(trees) == last {
        // If that fails, it counts as not closed, which costs a recovery.
        let _ = trees.close();
    }
}

/// The largest number that the pool has given to a map, for its log.
pub fn last_number(trees: &Trees) -> Option<u32> {
    let metadata = trees.find_bytes_tree(NAME).ok()??;
    let mut session = trees.heap().session().ok()?;
    let last = metadata.get_with(&mut session, LAST, |last| <[u8; 4]>::try_from(last).ok());
    last.ok()??.map(u32::from_le_bytes)
}

/// Refuses a pool that has what the log cannot have, and that would be gone when it is rebuilt.
pub fn refuse_integers(trees: &Trees) -> Result<()> {
    let names = trees.names();
    match names.iter().find(|name| trees.find_bytes_tree(name).is_err()) {
        None => Ok(()),
        Some(name) => Err(Error::Unsupported(format!(
            "the map '{name}' is one of integers, which the log cannot have, so that it would be lost \
             with the pool: keep such maps in a pool of their own, or open the store with durability \
             process"
        ))),
    }
}

/// What a pool that takes the place of this one has to know of its log, which lies in `place`.
pub fn copy_log_metadata(from: &Trees, to: &Trees, place: &LogDirectory) -> Result<()> {
    let Some(metadata) = from.find_bytes_tree(NAME)? else { return Ok(()) };
    let identity = identity_in(from)?;
    let mut session = from.heap().session().map_err(IndexError::from)?;
    let (low, high) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let mut pairs = vec![];
    metadata.scan(&mut session, low, high, false, |key, value| {
        // The log may go on before the store is closed. And of the store's own maps there is none yet.
        let is_of_own = live_maps::noted_name(key).is_some_and(is_reserved);
        if key != REACHED && key != age::KEY && !is_of_own {
            pairs.push((key.to_vec(), value.to_vec()));
        }
        true
    })?;
    if let Some(identity) = identity {
        let note = age::note_of_successor(&metadata, &mut session, place, identity)?;
        pairs.push((age::KEY.to_vec(), note));
        pairs.sort();
    }
    to.load_bytes_tree(NAME, pairs)?;
    Ok(())
}

/// What a pool notes of its log: that it was durable up to this LSN.
pub fn reached_note(identity: Identity, lsn: Lsn) -> Vec<u8> {
    [&identity[..], &lsn.to_le_bytes()].concat()
}

/// An LSN of this log that was durable, as the pool says: of one that was closed, the last. 0 if it says
/// nothing.
pub fn reached_in(
    metadata: &BytesTree,
    session: &mut Session<Hardware>,
    identity: Identity,
) -> Result<Lsn> {
    let lsn = metadata.get_with(session, REACHED, |note| {
        let (log, lsn) = note.split_first_chunk::<16>()?;
        let lsn = <[u8; 8]>::try_from(lsn).ok().filter(|_| *log == identity)?;
        Some(u64::from_le_bytes(lsn)).filter(|lsn| *lsn < LSN_END)
    })?;
    Ok(lsn.flatten().unwrap_or(0))
}

/// The error for a pool that was closed before the last changes that its log has.
pub fn older_than_its_log(trees: &Trees, place: &LogDirectory) -> Error {
    let pool = trees.heap().pool().path().unwrap_or(Path::new("the pool")).display().to_string();
    Error::Corrupt(format!(
        "{pool} is older than its log in {}, which went on after this copy of the pool was made, or was opened \
         since: move {pool} away and open it again, which rebuilds the pool from the log, or move the log away to \
         go on with the older state",
        place.display()
    ))
}

/// Sixteen bytes that no other log has: not even an older one of the same pool, which must not be
/// taken for it if it turns up again. The first eight are those of the pool's own number.
pub fn new_identity(trees: &Trees) -> [u8; 16] {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_or(0, |since| since.as_nanos());
    (u128::from_be_bytes(trees.heap().pool().uuid()) ^ now).to_be_bytes()
}
