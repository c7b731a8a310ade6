//! Batches of pairs, and the threads that get them.

use crate::format::Pair;
use std::hash::{DefaultHasher, Hasher};
use std::io;
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
    /// A dispatcher for `count` writers, each of which is started with what it receives; or for as many as can be
    /// started.
    ///
    /// # Errors
    /// Why not even one can.
    pub fn start<W>(
        count: usize,
        waiting: usize,
        mut start: impl FnMut(Receiver<Batch>) -> io::Result<W>,
    ) -> io::Result<(Self, Vec<W>)> {
        let (mut lanes, mut writers) = (vec![], vec![]);
        for _ in 0..count.max(1) {
            let (batches, receiver) = sync_channel(waiting);
            match start(receiver) {
                Ok(writer) => writers.push(writer),
                Err(error) if writers.is_empty() => return Err(error),
                Err(_) => break,
            }
            lanes.push(Lane { filling: Batch::default(), batches });
        }
        Ok((Self { lanes }, writers))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What was lost: the whole load, where not all of its threads could be started.
    #[test]
    fn what_is_loaded_is_dealt_to_the_writers_that_there_are() {
        for possible in 0..4 {
            let mut started = 0;
            let dealt = Dispatcher::start(3, 100, |receiver| {
                started += 1;
                if started > possible {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    Ok(receiver)
                }
            });
            let Ok((mut dispatcher, receivers)) = dealt else {
                assert_eq!(possible, 0, "no writer at all");
                continue;
            };
            assert_eq!(receivers.len(), possible.min(3));
            for line in 0..1000 {
                let pair = Pair { key: line.to_string().into(), line, ..Pair::default() };
                dispatcher.push(&pair, 0).expect("each of them is there");
            }
            dispatcher.finish();
            let batches: Vec<Batch> = receivers.iter().flat_map(Receiver::iter).collect();
            let mut lines: Vec<u64> = vec![];
            for batch in &batches {
                lines.extend(batch.iter().map(|(_, _, (_, line))| line));
            }
            lines.sort_unstable();
            assert_eq!(lines, (0..1000).collect::<Vec<u64>>());
        }
    }
}
