//! Loading a snapshot into a new pool: its blocks are sorted by map and key, so a map is loaded in
//! partitions of its key range, by several threads.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_log::SnapshotReader;

use super::filling::{Filling, Names, name_of};
use super::log_folder::LogDisk;
use super::metadata_keys::NAMES;
use crate::{Error, Result};

/// Partitions for each thread, so that all end at about the same time.
const PARTITIONS_PER_THREAD: usize = 8;
/// A partition has this many blocks at least.
const PARTITION_BLOCKS: usize = 4;

/// Loads all maps of a snapshot. Returns the number of their keys.
///
/// # Errors
/// [`Error::Corrupt`] also if a pair belongs to no map in the list of names, or comes twice: then
/// not as many were loaded as the snapshot says it has.
pub(super) fn load(
    filling: Filling<'_>,
    snapshot: &SnapshotReader<LogDisk>,
    names: &mut Names,
) -> Result<u64> {
    let listed = listed(snapshot)?;
    let name_count = listed.len() as u64;
    let loaded = AtomicU64::new(0);
    let mut starts = Starts { snapshot, known: HashMap::new() };
    for (number, name) in listed {
        let partitions = starts.partitions(number, filling.threads)?;
        let tree = filling.trees.load_partitions(
            &name,
            &partitions.lows,
            filling.threads,
            |partition, sink| {
                for block in partitions.bounds[partition]..partitions.bounds[partition + 1] {
                    let block = snapshot.block(block)?;
                    let mut count = 0;
                    for pair in block.pairs().filter(|pair| pair.map == number) {
                        // A snapshot has pairs only: its reader has looked.
                        let value = pair.value().unwrap_or_default();
                        sink(pair.key, value, pair.expiry.unwrap_or(0))?;
                        count += 1;
                    }
                    filling.progress.add(count);
                    // Relaxed: read when the threads that load have ended.
                    loaded.fetch_add(count, Ordering::Relaxed);
                }
                Ok::<(), Error>(())
            },
        )?;
        names.enter(name, number, tree);
    }
    let (loaded, pair_count) = (loaded.into_inner(), snapshot.pair_count());
    if name_count + loaded != pair_count {
        return Err(Error::Corrupt(format!(
            "the snapshot has {pair_count} pairs, and {name_count} of them are names of maps to which \
             {loaded} belong: a faulty program wrote it; restore a backup"
        )));
    }
    Ok(loaded)
}

/// The maps in the list of names, which comes first, by number.
fn listed(snapshot: &SnapshotReader<LogDisk>) -> Result<BTreeMap<u32, String>> {
    let mut listed = BTreeMap::new();
    for index in 0..snapshot.block_count() {
        for pair in snapshot.block(index)?.pairs() {
            if pair.map != NAMES {
                return Ok(listed);
            }
            if let (name, Some(number)) = name_of(&pair) {
                listed.insert(number, name);
            }
        }
    }
    Ok(listed)
}

/// The partitions of a map: partition `i` has the blocks `bounds[i] .. bounds[i + 1]`, of which the first may
/// begin with other maps and the last end with others.
struct Partitions {
    bounds: Vec<usize>,
    /// The first keys of all partitions but the first.
    lows: Vec<Vec<u8>>,
}

/// Where blocks begin.
struct Starts<'a> {
    snapshot: &'a SnapshotReader<LogDisk>,
    known: HashMap<usize, (u32, Vec<u8>)>,
}

impl Starts<'_> {
    /// Map and key of the first pair of a block.
    fn first(&mut self, index: usize) -> Result<(u32, Vec<u8>)> {
        if let Some(known) = self.known.get(&index) {
            return Ok(known.clone());
        }
        let block = self.snapshot.block(index)?;
        let first = block.pairs().next().map(|pair| (pair.map, pair.key.to_vec()));
        let first = first.unwrap_or_default();
        self.known.insert(index, first.clone());
        Ok(first)
    }

    /// The first block that begins with a map of which `is_behind`.
    fn search(&mut self, is_behind: impl Fn(u32) -> bool) -> Result<usize> {
        let (mut low, mut high) = (0, self.snapshot.block_count());
        while low < high {
            let middle = low + (high - low) / 2;
            match is_behind(self.first(middle)?.0) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Ok(low)
    }

    fn partitions(&mut self, number: u32, threads: usize) -> Result<Partitions> {
        // The map may begin within the block before the first that begins with it.
        let start = self.search(|map| map >= number)?.saturating_sub(1);
        let end = self.search(|map| map > number)?.max(start);
        let count = ((end - start) / PARTITION_BLOCKS).clamp(1, threads * PARTITIONS_PER_THREAD);
        let mut partitions = Partitions { bounds: vec![start], lows: vec![] };
        for partition in 1..count {
            let bound = start + (end - start) * partition / count;
            partitions.bounds.push(bound);
            partitions.lows.push(self.first(bound)?.1);
        }
        partitions.bounds.push(end);
        Ok(partitions)
    }
}
