//! A writer: puts batches until there are no more, or the store refuses.

use super::batch::{Batch, Origin};
use everleaf::{Error, Map, Store};
use std::sync::mpsc::Receiver;

/// What was put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that were not there before.
    pub inserted: u64,
    /// Keys whose value was replaced.
    pub replaced: u64,
    /// Keys that were there and were left alone.
    pub kept: u64,
    /// Bytes of the keys and values put.
    pub bytes: u64,
}

impl Counts {
    /// Lines that were acted upon.
    pub fn lines(&self) -> u64 {
        self.inserted + self.replaced + self.kept
    }

    /// Adds the counts of another writer.
    pub fn add(&mut self, other: &Self) {
        self.inserted += other.inserted;
        self.replaced += other.replaced;
        self.kept += other.kept;
        self.bytes += other.bytes;
    }
}

/// Why a writer stopped before the end.
pub struct WriterError {
    /// The pair that was refused.
    pub place: Origin,
    /// What the store said.
    pub error: Error,
}

/// How a writer ended.
pub struct WriterEnd {
    /// What it put.
    pub counts: Counts,
    /// Why it stopped early.
    pub error: Option<WriterError>,
}

/// Puts every batch. When the store refuses a pair, the channel is closed, which stops the reader. What
/// is counted is as durable as the store is to be: the pairs of a batch wait for the log together.
pub fn run(store: &Store, map: &Map, if_absent: bool, batches: Receiver<Batch>) -> WriterEnd {
    store.defer_sync();
    let mut counts = Counts::default();
    for batch in batches {
        let mut put_now = Counts::default();
        let (mut refused, mut last) = (None, None);
        for (key, value, place) in batch.iter() {
            last = Some(place);
            if let Err(error) = put(map, if_absent, key, value, &mut put_now) {
                refused = Some(WriterError { place, error });
                break;
            }
        }
        match (store.wait_deferred(), last) {
            (Ok(()), _) => counts.add(&put_now),
            (Err(error), Some(place)) => refused = refused.or(Some(WriterError { place, error })),
            (Err(_), None) => {}
        }
        if refused.is_some() {
            return WriterEnd { counts, error: refused };
        }
    }
    WriterEnd { counts, error: None }
}

fn put(
    map: &Map,
    if_absent: bool,
    key: &[u8],
    value: &[u8],
    counts: &mut Counts,
) -> Result<(), Error> {
    if if_absent {
        if !map.insert(key, value)? {
            counts.kept += 1;
            return Ok(());
        }
        counts.inserted += 1;
    } else if map.put(key, value)? {
        counts.replaced += 1;
    } else {
        counts.inserted += 1;
    }
    counts.bytes += (key.len() + value.len()) as u64;
    Ok(())
}
