//! Making a pool again from its log: the newest good snapshot, then what was logged behind it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everleaf_index::{
    BytesTree, Change, CreateMode, Hardware, IndexError, Pool, PoolOptions, Session, Trees,
};
use everleaf_log::{Log, RealDisk, Record, Recovered};

use super::{
    Durability, IDENTITY, LAST, LOGGED, NAME, NAMES, folder_of, identity_in, io, log_options,
    own_key,
};
use crate::store::from_pool;
use crate::{Error, Result};

/// What a rebuilding did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebuilt {
    /// Pairs from the snapshot.
    pub snapshot_pairs: u64,
    /// Commits that were replayed from the log.
    pub replayed: u64,
    /// Why newer snapshots were passed over.
    pub skipped: Vec<String>,
}

/// Makes the pool at `path` again from its log, beside it, and puts it in its place.
pub(crate) fn rebuild(
    path: &Path,
    options: &PoolOptions,
    durability: Durability,
) -> Result<Rebuilt> {
    let folder = folder_of(path);
    let identity = identity_in(&folder).ok_or_else(|| {
        Error::Corrupt(format!("there is no whole log in {}: restore a backup", folder.display()))
    })?;
    let log_options = log_options(identity, durability).starts_empty(false);
    let (log, recovered) = Log::open(RealDisk::open(&folder)?, &log_options)?;
    let mut new = path.as_os_str().to_owned();
    new.push(".unfinished");
    let new = PathBuf::from(new);
    let _ = std::fs::remove_file(&new);
    let pool_options = PoolOptions { create: CreateMode::New, read_only: false, ..options.clone() };
    let pool = Pool::open(&new, &pool_options).map_err(|error| from_pool(error, &new))?;
    let trees = Trees::create(pool)?;
    let rebuilt = fill(&trees, &recovered, identity)?;
    trees.close()?;
    drop(trees);
    log.close()?;
    std::fs::rename(&new, path).map_err(io(format!("cannot replace {}", path.display())))?;
    crate::copy::sync_folder_of(path)?;
    Ok(rebuilt)
}

fn fill(trees: &Trees, recovered: &Recovered<RealDisk>, identity: [u8; 16]) -> Result<Rebuilt> {
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    let base = recovered.base()?;
    let mut rebuilt = Rebuilt { skipped: base.skipped.clone(), ..Rebuilt::default() };
    let mut names = Names::default();
    if let Some(snapshot) = &base.snapshot {
        for index in 0..snapshot.block_count() {
            for pair in snapshot.block(index)?.pairs() {
                names.apply(trees, &mut session, &pair)?;
                rebuilt.snapshot_pairs += 1;
            }
        }
    }
    let mut logged = 0;
    recovered.replay(base.from_lsn(), |_, records| -> Result<()> {
        rebuilt.replayed += 1;
        logged += records.iter().map(size_of).sum::<u64>();
        records.iter().try_for_each(|record| names.apply(trees, &mut session, record))
    })?;
    let own = trees.bytes_tree(NAME)?;
    for (name, number) in &names.numbers {
        let bytes = number.to_le_bytes();
        own.change(&mut session, &own_key(name), Change::Upsert(&bytes), |_, _| ())?;
    }
    own.change(&mut session, LAST, Change::Upsert(&names.last.to_le_bytes()), |_, _| ())?;
    own.change(&mut session, LOGGED, Change::Upsert(&logged.to_le_bytes()), |_, _| ())?;
    own.change(&mut session, IDENTITY, Change::Upsert(&identity), |_, _| ())?;
    Ok(rebuilt)
}

/// Bytes of key and value.
fn size_of(record: &Record<'_>) -> u64 {
    (record.key.len() + record.value.map_or(0, <[u8]>::len)) as u64
}

/// The maps of a log while it is replayed.
#[derive(Default)]
struct Names {
    /// The largest number that was seen.
    last: u32,
    numbers: BTreeMap<String, u32>,
    trees: HashMap<u32, Arc<BytesTree>>,
}

impl Names {
    fn apply(
        &mut self,
        trees: &Trees,
        session: &mut Session<Hardware>,
        record: &Record<'_>,
    ) -> Result<()> {
        if record.map == NAMES {
            return self.name(trees, record);
        }
        // Of a map that was emptied or dropped later (W2).
        let Some(tree) = self.trees.get(&record.map) else { return Ok(()) };
        let change = record.value.map_or(Change::Remove, Change::Upsert);
        let expiry_ms = record.expiry.unwrap_or(0);
        Ok(tree.change_expiring(session, record.key, change, expiry_ms, |_, _| ())?)
    }

    fn name(&mut self, trees: &Trees, record: &Record<'_>) -> Result<()> {
        let name = String::from_utf8_lossy(record.key).into_owned();
        let number = record.value.and_then(|value| <[u8; 4]>::try_from(value).ok());
        let number = number.map(u32::from_le_bytes);
        self.last = self.last.max(number.unwrap_or(0));
        if number.is_some() && self.numbers.get(&name) == number.as_ref() {
            return Ok(());
        }
        if let Some(old) = self.numbers.remove(&name) {
            self.trees.remove(&old);
            trees.remove(&name)?;
        }
        if let Some(number) = number {
            self.trees.insert(number, trees.bytes_tree(&name)?);
            self.numbers.insert(name, number);
        }
        Ok(())
    }
}
