//! The pairs of a map on their way into a snapshot, page by page.

use std::ops::ControlFlow;
use std::time::Instant;

use everleaf_index::{BytesTree, Change, Hardware, Machine, Session, Verify};
use everleaf_log::{Disk, Log, SnapshotWriter};

use super::log_effect::log_record;
use super::log_folder::LogDisk;
use crate::map::pages::{PageLimit, Pages, Reader};
use crate::{Error, Result};

/// After a page during which others wrote, the snapshot rests this many times as long as the page
/// took, so that it takes writers no more than a quarter of a processor.
const REST: u32 = 3;

/// How many of the pairs that were written expire, by the hour: those that have expired may have been removed
/// since, which is not logged.
struct Expiring {
    began_ms: u64,
    per_hour: [u64; HOURS],
}

/// Hours that are told apart; the last one has all that expires later, too.
const HOURS: usize = 48;
const HOUR_MS: u64 = 3_600_000;

impl Expiring {
    fn new() -> Self {
        Expiring { began_ms: Hardware::wall_clock_ms(), per_hour: [0; HOURS] }
    }

    fn add(&mut self, expiry_ms: u64) {
        if expiry_ms != 0 {
            let hour = expiry_ms.saturating_sub(self.began_ms) / HOUR_MS;
            self.per_hour[usize::try_from(hour).map_or(HOURS - 1, |hour| hour.min(HOURS - 1))] += 1;
        }
    }

    /// At most so many have expired by now.
    fn until_now(&self) -> u64 {
        let hours = Hardware::wall_clock_ms().saturating_sub(self.began_ms) / HOUR_MS;
        let count = usize::try_from(hours).map_or(HOURS, |hours| (hours + 1).min(HOURS));
        self.per_hour[..count].iter().sum()
    }
}

/// A map, and what it is called here and in the log.
pub struct Numbered<'m> {
    pub number: u32,
    pub name: &'m str,
    pub tree: &'m BytesTree,
}

/// Writes all pairs of a map. If nobody wrote meanwhile, they have to be as many as the tree counts, but for
/// what has expired: what the log still has is let go behind the snapshot.
///
/// # Errors
/// [`Error::Corrupt`] if a record is damaged or keys are missing, and those of the disk.
pub fn write_map(
    log: &Log<LogDisk>,
    writer: &mut SnapshotWriter<LogDisk>,
    map: &Numbered<'_>,
    session: &mut Session<Hardware>,
) -> Result<()> {
    let before = writer.pair_count();
    let mut expiring = Expiring::new();
    write_pairs(log, writer, map, session, &mut expiring)?;
    let written = writer.pair_count() - before;
    log.disk().reached("store.snapshot_map_read");
    match map.tree.len(session) {
        // Asked behind the count: what is written from here on does not count.
        Ok(counted) if counted != written && writer.is_alone() => {
            let is_expired = counted < written && written - counted <= expiring.until_now();
            if is_expired { Ok(()) } else { Err(too_few_or_many(map.name, written, counted)) }
        }
        _ => Ok(()),
    }
}

fn too_few_or_many(name: &str, written: u64, counted: u64) -> Error {
    Error::Corrupt(format!(
        "{written} keys of the map '{name}' were read for the snapshot, and the pool says that it has \
         {counted}: check it with `everleaf check`, and keep what can be proven with `everleaf repair`"
    ))
}

fn write_pairs(
    log: &Log<LogDisk>,
    writer: &mut SnapshotWriter<LogDisk>,
    map: &Numbered<'_>,
    session: &mut Session<Hardware>,
    expiring: &mut Expiring,
) -> Result<()> {
    let Numbered { number, tree, .. } = *map;
    let mut pages = Pages::new(..);
    // What has expired is written, too: the log says nothing of its removal.
    let mut reader = Reader { tree, session, verify: Verify::Sum, shows_expired: true };
    while pages.has_more() {
        let (began, last_lsn) = (Instant::now(), log.last_lsn());
        let mut pairs = vec![];
        let read = pages.read(&mut reader, false, PageLimit::SNAPSHOT, &mut |record| {
            pairs.push((record.key.to_vec(), record.value.to_vec(), record.expiry_ms));
            ControlFlow::Continue(())
        });
        match read {
            // Dropped meanwhile: the log says so.
            Err(Error::MapDropped) => return Ok(()),
            done => done?,
        }
        if log.disk().mutant("store.snapshot_skips") && !pages.has_more() {
            // As if the last record of the tree had not been met.
            pairs.pop();
        }
        for (key, value, expiry_ms) in &pairs {
            let change = Change::upsert(key, value).expiring(*expiry_ms);
            writer.add(&log_record(number, &change))?;
            expiring.add(*expiry_ms);
        }
        // Nothing is durable before one that is owed is there.
        if pages.has_more() && log.last_lsn() != last_lsn && !log.owes_snapshot() {
            std::thread::sleep(began.elapsed() * REST);
        }
    }
    Ok(())
}
