//! The rivals, one file each, and what a user has to know of each: its durability and its limits.
//!
//! Every rival is a [`Target`] of the laboratory, so that the same driver asks it the same questions
//! and checks the same answers: stores in a folder are it by [`Engine`], maps in memory by
//! themselves, for the form of their keys differs. Settings are those that come nearest to what Everleaf promises: a
//! write that returned survives the end of the process (`kill -9`), not of the machine.

mod btreemap;
mod congee;
mod engine;
mod fjall;
mod form;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod skiplist;
mod sled;
mod sqlite;

use std::fmt::Display;
use std::path::Path;

use everleaf_bench::measure::Settings;
use everleaf_bench::measure::contest::{Entrant, entrant};
use everleaf_bench::target::Target;
use everleaf_bench::{Footprint, BenchError};

use crate::folder::Folder;
use engine::Engine;

/// What is known of a rival before it is measured.
pub struct Rival {
    /// The name on the command line and in tables.
    pub name: &'static str,
    /// Which library, and its version as tested.
    pub what: &'static str,
    /// How it was set up, and what a write that returned survives.
    pub durability: &'static str,
    /// Whether its writes survive the end of the process.
    pub is_durable: bool,
    /// Whether it takes only keys and values of 8 bytes.
    pub is_integers_only: bool,
    /// Makes it an entrant; its files are in new folders within this one.
    pub enter: Enter,
}

/// Makes an entrant of this name.
pub type Enter = fn(&'static str, &Settings, &Path) -> Result<Box<dyn Entrant>, BenchError>;

/// All rivals that this program was built with.
pub fn all() -> Vec<Rival> {
    vec![
        lmdb::Lmdb::RIVAL,
        redb::Redb::RIVAL,
        fjall::Fjall::RIVAL,
        sled::Sled::RIVAL,
        sqlite::Sqlite::RIVAL,
        #[cfg(feature = "rocksdb")]
        rocksdb::Rocks::RIVAL,
        btreemap::RIVAL,
        skiplist::RIVAL,
        congee::RIVAL,
    ]
}

/// An entrant whose files are in a new folder for each index.
fn enter_in_folders<T, Open>(
    name: &'static str,
    settings: &Settings,
    parent: &Path,
    open: Open,
) -> Result<Box<dyn Entrant>, BenchError>
where
    T: Target + 'static,
    Open: Fn(&Path, &Settings) -> Result<T, BenchError> + 'static,
{
    let (parent, own) = (parent.to_path_buf(), settings.clone());
    let make = move || {
        let folder = Folder::new_in(&parent, name)?;
        Ok((open(folder.path(), &own)?, folder))
    };
    entrant(name, settings, make)
}

/// What a rival refused, as an error of the laboratory.
fn refused(error: impl Display) -> BenchError {
    BenchError::Target(error.to_string())
}

/// What a rival in a folder takes: its keys, and its files.
fn footprint_of_files(keys: u64, folder: &Path) -> Result<Footprint, BenchError> {
    let bytes = crate::folder::bytes_on_disk(folder)?;
    Ok(Footprint { keys, pool_used_bytes: bytes, pool_size_bytes: bytes, ..Footprint::default() })
}

/// Bytes that all pairs of a run can take, with room to spare.
fn space_for(settings: &Settings) -> u64 {
    let pair = (settings.key_size + settings.value_size + 64) as u64;
    // A store with free pages and half-full leaves takes two to three times its pairs; inserts of
    // all rounds come on top.
    (settings.keys * pair * 16).clamp(4 << 30, 1 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_bench::measure::{Case, Length, contest};
    use everleaf_bench::{Distribution, Workload};

    /// Everything that a worker can be asked, with every answer checked by the driver.
    fn settings(key_size: usize, value_size: usize) -> Settings {
        let workloads = [
            Workload::Load,
            Workload::Get,
            Workload::GetAbsent,
            Workload::GetMany,
            Workload::Scan,
            Workload::Update,
            Workload::Put,
            Workload::Insert,
            Workload::Remove,
            Workload::YcsbA,
            Workload::YcsbE,
            Workload::MixQuarters,
        ];
        let case = |threads| {
            move |workload| Case { workload, distribution: Distribution::Uniform, threads }
        };
        let cases = workloads.map(case(1)).into_iter().chain(workloads.map(case(2))).collect();
        Settings {
            keys: 2000,
            key_size,
            value_size,
            cases,
            rounds: 1,
            length: Length::Operations(500),
            miss_region: 1 << 20,
            ..Settings::default()
        }
    }

    #[test]
    fn every_rival_does_every_workload_and_its_answers_are_right() {
        let folder = tempfile::tempdir().unwrap();
        for rival in all() {
            for (key_size, value_size) in [(8, 8), (16, 100)] {
                if rival.is_integers_only && key_size != 8 {
                    continue;
                }
                let settings = settings(key_size, value_size);
                let entrant = (rival.enter)(rival.name, &settings, folder.path()).unwrap();
                let reports = contest::run(vec![entrant], 1, 1, 1 << 20, &mut |_, _| {})
                    .unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(reports[0].rows.len(), 24);
                assert_eq!(reports[0].memory.keys, 2000, "{}", rival.name);
                if rival.is_durable {
                    assert!(reports[0].memory.pool_used_bytes > 0, "{}", rival.name);
                }
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }
}
