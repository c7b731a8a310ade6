//! LMDB through heed: a B+-tree in a mapped file, copied on write; one writer at a time.
//!
//! Each write is a transaction of its own, each read, too. A put cannot tell whether the key was
//! there, so updates always count as done.

use std::ops::Bound;
use std::path::Path;

use everleaf_bench::measure::Settings;
use everleaf_bench::target::{BytesKeys, Target, Values, Worker};
use everleaf_bench::{Footprint, BenchError};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, MdbError, PutFlags};

use super::{Rival, enter_in_folders, refused, space_for};

/// What is known of it.
pub const RIVAL: Rival = Rival {
    name: "lmdb",
    what: "LMDB by heed 0.23",
    durability: "NOSYNC + WRITEMAP: survives kill -9; a transaction for each operation",
    is_durable: true,
    is_integers_only: false,
    enter: |name, settings, parent| enter_in_folders(name, settings, parent, Lmdb::open),
};

type Pairs<'e> = Database<'e, Bytes, Bytes>;

struct Lmdb {
    env: Env,
    key_size: usize,
    value_size: usize,
}

impl Lmdb {
    fn open(folder: &Path, settings: &Settings) -> Result<Self, BenchError> {
        let mut options = EnvOpenOptions::new();
        options.map_size(space_for(settings) as usize).max_readers(300);
        // SAFETY: nobody else writes to the map or the file: the folder is new and ours, and this
        // process opens it once. What a crash of the system would leave is not read again.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
        // SAFETY: the folder is ours, and this process opens it once; the flags are not among those that need more.
        let env = unsafe { options.open(folder) }.map_err(refused)?;
        let lmdb = Lmdb { env, key_size: settings.key_size, value_size: settings.value_size };
        lmdb.pairs()?;
        Ok(lmdb)
    }

    /// The one database of the environment.
    fn pairs(&self) -> Result<Pairs<'_>, BenchError> {
        let transaction = self.env.write_txn().map_err(refused)?;
        let made = self.env.create_databases_and_commit(transaction, |databases, transaction| {
            databases.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        });
        Ok(made.map_err(refused)?.unwrap_commit())
    }
}

impl Target for Lmdb {
    type Keys = BytesKeys;
    type Worker<'t> = LmdbWorker<'t>;

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.key_size, capacity)
    }

    fn worker(&self) -> Result<LmdbWorker<'_>, BenchError> {
        let values = Values::new(self.value_size);
        Ok(LmdbWorker { env: &self.env, pairs: self.pairs()?, values })
    }

    fn domain(&self) -> String {
        RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        let pairs = self.pairs()?;
        let transaction = self.env.read_txn().map_err(refused)?;
        let statistics = pairs.stat(&transaction).map_err(refused)?;
        Ok(Footprint {
            keys: statistics.entries as u64,
            pool_used_bytes: statistics.non_free_page_size() as u64,
            pool_size_bytes: self.env.real_disk_size().map_err(refused)?,
            dram_bytes: 0,
            leaves: statistics.leaf_pages as u64,
            height: u64::from(statistics.depth),
        })
    }
}

struct LmdbWorker<'t> {
    env: &'t Env,
    pairs: Pairs<'t>,
    values: Values,
}

impl Worker for LmdbWorker<'_> {
    type Keys = BytesKeys;

    fn get(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        let transaction = self.env.read_txn().map_err(refused)?;
        match self.pairs.get(&transaction, key).map_err(refused)? {
            Some(value) => Values::verdict(self.values.is_right(key, value), key, true),
            None => Ok(false),
        }
    }

    fn insert(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        let mut transaction = self.env.write_txn().map_err(refused)?;
        let value = self.values.fill(key, version);
        let flags = PutFlags::NO_OVERWRITE;
        match self.pairs.put_with_flags(&mut transaction, flags, key, value) {
            Ok(()) => transaction.commit().map_err(refused).map(|()| true),
            Err(heed::Error::Mdb(MdbError::KeyExist)) => Ok(false),
            Err(error) => Err(refused(error)),
        }
    }

    fn update(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        self.put(key, version).map(|()| true)
    }

    fn put(&mut self, key: &[u8], version: u64) -> Result<(), BenchError> {
        let mut transaction = self.env.write_txn().map_err(refused)?;
        let value = self.values.fill(key, version);
        self.pairs.put(&mut transaction, key, value).map_err(refused)?;
        transaction.commit().map_err(refused)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        let mut transaction = self.env.write_txn().map_err(refused)?;
        let was_there = self.pairs.delete(&mut transaction, key).map_err(refused)?;
        transaction.commit().map_err(refused)?;
        Ok(was_there)
    }

    fn scan(&mut self, from: &[u8], length: u32) -> Result<u64, BenchError> {
        let transaction = self.env.read_txn().map_err(refused)?;
        let range = (Bound::Included(from), Bound::Unbounded);
        let (mut count, mut is_right) = (0, true);
        for pair in self.pairs.range(&transaction, &range).map_err(refused)?.take(length as usize) {
            let (key, value) = pair.map_err(refused)?;
            is_right &= key >= from && self.values.is_right(key, value);
            count += 1;
        }
        Values::verdict(is_right, from, count)
    }

    fn set_value_size(&mut self, size: usize) {
        self.values.set_size(size);
    }
}
