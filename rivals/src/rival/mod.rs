//! The rivals, one file each, and what a user has to know of each: its durability and its limits.
//!
//! Every rival is a [`Target`](everleaf_bench::target::Target) of the laboratory, so that the same
//! driver asks it the same questions and checks the same answers: stores in a folder are it by
//! [`Engine`], maps in memory by themselves, for the form of their keys differs. Settings are those
//! that come nearest to what Everleaf promises: a write that returned survives the end of the
//! process (`kill -9`), not of the machine.

mod btreemap;
mod common;
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

pub use common::Rival;
use engine::Engine;

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

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_bench::measure::{Case, Length, Settings, contest};
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
