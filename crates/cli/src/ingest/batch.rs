//! Batches of pairs and who gets them.

use crate::format::Pair;
use std::hash::{DefaultHasher, Hasher};
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};

/// A batch is sent when its pairs have this many bytes,
const BATCH_SIZE: usize = 128 << 10;
/// or when it has this many pairs.
const BATCH_COUNT: usize = 2048;

/// Where a pair came from: the index of the input, and the line in it.
pub type Origin = (usize, u64);

/// Pairs in the order they were read, their bytes one after another.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

struct Entry {
    key_size: usize,
    value_size: usize,
    place: Origin,
}

impl Batch {
    fn push(&mut self, pair: &Pair, place: Origin) {
        self.bytes.extend_from_slice(&pair.key);
        self.bytes.extend_from_slice(&pair.value);
        let (key_size, value_size) = (pair.key.len(), pair.value.len());
        self.entries.push(Entry { key_size, value_size, place });
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_SIZE || self.entries.len() >= BATCH_COUNT
    }

    /// The pairs as key, value and place.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], Origin)> {
        let mut rest = &self.bytes[..];
        self.entries.iter().map(move |entry| {
            let (key, after) = rest.split_at(entry.key_size);
            let (value, after) = after.split_at(entry.value_size);
            rest = after;
            (key, value, entry.place)
        })
    }
}

/// Hands each pair to the writer that its key belongs to.
pub struct Dispatcher {
    lanes: Vec<Lane>,
}

struct Lane {
    filling: Batch,
    batches: SyncSender<Batch>,
}

impl Dispatcher {
    /// A dispatcher for `count` writers, and what each of them receives.
    pub fn new(count: usize, waiting: usize) -> (Self, Vec<Receiver<Batch>>) {
        let channels = (0..count.max(1)).map(|_| sync_channel(waiting));
        let (lanes, receivers) = channels
            .map(|(batches, receiver)| (Lane { filling: Batch::default(), batches }, receiver))
            .unzip();
        (Self { lanes }, receivers)
    }

    /// Adds a pair; true if that sent a batch. Fails when a writer has stopped.
    pub fn push(&mut self, pair: &Pair, input: usize) -> Result<bool, SendError<Batch>> {
        let index = match self.lanes.len() {
            1 => 0,
            count => (hash(&pair.key) % count as u64) as usize,
        };
        let lane = &mut self.lanes[index];
        lane.filling.push(pair, (input, pair.line));
        let is_full = lane.filling.is_full();
        if is_full {
            lane.batches.send(std::mem::take(&mut lane.filling))?;
        }
        Ok(is_full)
    }

    /// Sends what is left and lets the writers end. A writer that stopped tells why by itself.
    pub fn finish(self) {
        for lane in self.lanes {
            let _ = lane.batches.send(lane.filling);
        }
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}
