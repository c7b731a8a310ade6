//! LMDB through heed: a B+-tree in a mapped file, copied on write; one writer at a time.
//!
//! Each write is a transaction of its own, each read, too. A put cannot tell whether the key was there.

use std::ops::Bound;
use std::path::Path;

use everleaf_bench::measure::Settings;
use everleaf_bench::{BenchError, Footprint};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, MdbError, PutFlags};

use super::common::{Rival, refused, space_for};
use super::engine::{Engine, enter};

type Pairs<'e> = Database<'e, Bytes, Bytes>;

/// The store.
pub struct Lmdb(Env);

/// One thread's access to it.
pub struct Handle<'e> {
    env: &'e Env,
    pairs: Pairs<'e>,
}

impl Lmdb {
    /// The one database of the environment.
    fn pairs(&self) -> Result<Pairs<'_>, BenchError> {
        let transaction = self.0.write_txn().map_err(refused)?;
        let made = self.0.create_databases_and_commit(transaction, |databases, transaction| {
            databases.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        });
        Ok(made.map_err(refused)?.unwrap_commit())
    }
}

impl Engine for Lmdb {
    const RIVAL: Rival = Rival {
        name: "lmdb",
        what: "LMDB by heed 0.23",
        durability: "NOSYNC + WRITEMAP: survives kill -9; a transaction for each operation",
        is_durable: true,
        is_integers_only: false,
        enter: enter::<Self>,
    };

    type Handle<'e> = Handle<'e>;

    fn open(folder: &Path, settings: &Settings) -> Result<Self, BenchError> {
        let mut options = EnvOpenOptions::new();
        options.map_size(space_for(settings) as usize).max_readers(300);
        // SAFETY: nobody else writes to the map or the file: the folder is new and ours, and this
        // process opens it once. What a crash of the system would leave is not read again.
        unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
        // SAFETY: the file is ours, as for the flags, and they are not among those that need more.
        let lmdb = Lmdb(unsafe { options.open(folder) }.map_err(refused)?);
        lmdb.pairs()?;
        Ok(lmdb)
    }

    fn handle(&self) -> Result<Handle<'_>, BenchError> {
        Ok(Handle { env: &self.0, pairs: self.pairs()? })
    }

    fn get(
        handle: &mut Handle<'_>,
        key: &[u8],
        check: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<bool>, BenchError> {
        let transaction = handle.env.read_txn().map_err(refused)?;
        Ok(handle.pairs.get(&transaction, key).map_err(refused)?.map(check))
    }

    fn set(handle: &mut Handle<'_>, key: &[u8], value: &[u8]) -> Result<Option<bool>, BenchError> {
        let mut transaction = handle.env.write_txn().map_err(refused)?;
        handle.pairs.put(&mut transaction, key, value).map_err(refused)?;
        transaction.commit().map_err(refused)?;
        Ok(None)
    }

    fn insert(
        handle: &mut Handle<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<bool>, BenchError> {
        let mut transaction = handle.env.write_txn().map_err(refused)?;
        let flags = PutFlags::NO_OVERWRITE;
        match handle.pairs.put_with_flags(&mut transaction, flags, key, value) {
            Ok(()) => transaction.commit().map_err(refused).map(|()| Some(false)),
            Err(heed::Error::Mdb(MdbError::KeyExist)) => Ok(Some(true)),
            Err(error) => Err(refused(error)),
        }
    }

    fn remove(handle: &mut Handle<'_>, key: &[u8]) -> Result<Option<bool>, BenchError> {
        let mut transaction = handle.env.write_txn().map_err(refused)?;
        let was_there = handle.pairs.delete(&mut transaction, key).map_err(refused)?;
        transaction.commit().map_err(refused)?;
        Ok(Some(was_there))
    }

    fn scan(
        handle: &mut Handle<'_>,
        from: &[u8],
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BenchError> {
        let transaction = handle.env.read_txn().map_err(refused)?;
        let range = (Bound::Included(from), Bound::Unbounded);
        for pair in handle.pairs.range(&transaction, &range).map_err(refused)?.take(limit) {
            let (key, value) = pair.map_err(refused)?;
            visit(key, value);
        }
        Ok(())
    }

    fn footprint(&self, _: &Path) -> Result<Footprint, BenchError> {
        let pairs = self.pairs()?;
        let transaction = self.0.read_txn().map_err(refused)?;
        let statistics = pairs.stat(&transaction).map_err(refused)?;
        Ok(Footprint {
            keys: statistics.entries as u64,
            pool_used_bytes: statistics.non_free_page_size() as u64,
            pool_size_bytes: self.0.real_disk_size().map_err(refused)?,
            dram_bytes: 0,
            leaves: statistics.leaf_pages as u64,
            height: u64::from(statistics.depth),
        })
    }

    fn count(&self) -> Result<Option<u64>, BenchError> {
        Ok(Some(self.footprint(Path::new(""))?.keys))
    }
}
