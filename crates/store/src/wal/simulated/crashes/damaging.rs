//! A store of which something is damaged, lost, or put back from an older copy while it was closed: it is opened as it
//! was, or refused; and a salvage says what it could not keep, and is an ordinary log from then on. Likewise a store
//! that loses its power, and beside which is another log than it was opened with last.

use std::path::{Path, PathBuf};

use everleaf_log::Disk;
use everleaf_log::simulated::{Faults, Random, SimulatedDisk};
use tempfile::TempDir;

use super::calling::{SetClock, kept};
use super::calls::draw::{BEGIN_MS, Draw, Kind};
use super::calls::make::Hands;
use super::calls::told::shown;
use super::calls::{Call, KEYS, NAMES, State, What};
use super::model::Counts;
use super::world::{folder, options};
use crate::{Result, Store};

/// Calls of a life.
const CALLS: usize = 16;
/// A value that takes more than a block of the log.
const LONG: usize = 6000;

struct Run {
    folder: TempDir,
    pool: PathBuf,
    disk: SimulatedDisk,
    /// After each call, and what may be left of one that was cut short.
    states: Vec<State>,
    counts: Counts,
}

/// A pool and its log, as they were at the end of a life.
struct Copy {
    pool: PathBuf,
    disk: SimulatedDisk,
}

/// Runs lives of a store with these planted bugs, behind which it is damaged: what was seen.
///
/// # Panics
/// The store did what it must not.
pub fn run(number: u64, faults: Faults) -> Counts {
    let folder = folder();
    let mut run = Run {
        pool: folder.path().join("pool"),
        folder,
        disk: SimulatedDisk::new(faults, number),
        states: vec![State::new()],
        counts: Counts::default(),
    };
    let _clock = SetClock::at(BEGIN_MS);
    let mut draw = Draw::new(number, Kind::All, KEYS.len() - 1, LONG);
    let first = run.live(&mut draw, true, "first");
    let closes = draw.random.one_in(2);
    let second = run.live(&mut draw, closes, "second");
    let random = &mut draw.random;
    match random.below(11) {
        0 => run.judge_mixed(&first, &second, "an older pool"),
        1 => run.judge_mixed(&second, &first, "an older log"),
        2 => {
            let disk = SimulatedDisk::new(run.disk.faults(), number);
            run.judge_mixed(&second, &Copy { disk, pool: PathBuf::new() }, "no log");
        }
        3 => run.judge_returned(&second, &first.disk, "an older copy of its log"),
        4 | 5 => run.judge_away(&mut draw, &second),
        6 => run.judge_damaged(Some(&second), &second.disk, random),
        _ => {
            let crashed = second.disk.crashed(random.bits());
            run.judge_damaged(None, &crashed, random);
        }
    }
    run.counts
}

impl Run {
    fn open(&self, disk: &SimulatedDisk, pool: &Path, salvages: bool) -> Result<Store> {
        options(disk).salvage_log(salvages).open(pool)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes calls. What the store is like behind them, closed or killed.
    fn live(&mut self, draw: &mut Draw, closes: bool, name: &str) -> Copy {
        let store = self.open(&self.disk, &self.pool, false).expect("it opens");
        let again = self.last().again(&kept(&store, BEGIN_MS));
        self.states.push(again);
        let mut hands = Hands::default();
        for _ in 0..CALLS {
            let mut state = self.states.last().expect("there is one").clone();
            let call = draw.call(&state, BEGIN_MS);
            self.states.extend(state.middle(&call));
            let expected = state.apply(&call, BEGIN_MS);
            self.states.push(state);
            let answer = call.make(&store, &mut hands).expect("nothing is in the way");
            assert_eq!(answer, expected, "{call:?}");
        }
        drop(hands);
        let copy = Copy { pool: self.path(name), disk: self.disk.copied(1) };
        if !closes {
            std::fs::copy(&self.pool, &copy.pool).expect("room");
        }
        store.close().expect("it can be closed");
        if closes {
            std::fs::copy(&self.pool, &copy.pool).expect("room");
            return Copy { disk: self.disk.copied(1), ..copy };
        }
        copy
    }

    fn last(&self) -> &State {
        self.states.last().expect("there is one")
    }

    /// A pool and a log that were not left together: refused, or opened as the newer of both.
    fn judge_mixed(&mut self, pool: &Copy, log: &Copy, what: &str) {
        self.counts.kills += 1;
        let disk = log.disk.copied(2);
        let Ok(store) = self.open(&disk, &pool.pool, false) else { return };
        let found = kept(&store, BEGIN_MS);
        assert!(self.last().fits(&found, BEGIN_MS), "{what}, and it opens with\n{}", shown(&found));
        let crashed = disk.crashed(3);
        drop(store);
        let left = self.open(&crashed, &self.path("left"), false).expect("it opens again");
        let left = kept(&left, BEGIN_MS);
        let is_kept = self.last().again(&found).fits(&left, BEGIN_MS);
        assert!(is_kept, "{what}: of\n{}\nis durable\n{}", shown(&found), shown(&left));
    }

    /// The log is away at one start, and the store goes on with a new one, which is open when the power fails.
    fn judge_away(&mut self, draw: &mut Draw, away: &Copy) {
        self.disk = SimulatedDisk::new(self.disk.faults(), 7);
        let third = self.live(draw, false, "third");
        self.judge_returned(&third, &away.disk, "a log that was away");
    }

    /// The power has failed, the pool is torn, and another log is beside it: it is refused, or lacks nothing. From its
    /// own log the pool is rebuilt.
    fn judge_returned(&mut self, pool: &Copy, other: &SimulatedDisk, what: &str) {
        self.counts.crashes += 1;
        let torn = |path: PathBuf| {
            let size = std::fs::copy(&pool.pool, &path).expect("room");
            let file = std::fs::File::options().write(true).open(&path).expect("there");
            file.set_len(size - 4096).expect("room");
            path
        };
        if let Ok(store) = self.open(&other.copied(2), &torn(self.path("returned")), false) {
            let found = kept(&store, BEGIN_MS);
            let is_last = self.last().fits(&found, BEGIN_MS);
            assert!(is_last, "{what}, and the pool is made of it with\n{}", shown(&found));
        }
        let own = self.open(&pool.disk.copied(3), &torn(self.path("own")), false);
        let found = kept(&own.expect("it is its own log"), BEGIN_MS);
        let is_last = self.last().fits(&found, BEGIN_MS);
        assert!(is_last, "of its own log\n{}", shown(&found));
    }

    /// One file of the log is damaged, or lost. Without a pool it is lost with the machine.
    fn judge_damaged(&mut self, pool: Option<&Copy>, disk: &SimulatedDisk, random: &mut Random) {
        self.counts.crashes += 1;
        let damaged = disk.copied(4);
        let names = damaged.names();
        let segments: Vec<&String> = names.iter().filter(|name| name.starts_with("log-")).collect();
        let what = match segments.split_last() {
            // That the last is missing need not be noticed.
            Some((_, older)) if !older.is_empty() && random.one_in(4) => {
                let name = older[random.below(older.len())];
                Disk::remove(&damaged, name).expect("it is there");
                Disk::sync_folder(&damaged).expect("the disk works");
                format!("without {name}")
            }
            _ => {
                // Most of them are segments, which have most.
                let name = match segments.is_empty() || random.one_in(2) {
                    true => &names[random.below(names.len())],
                    false => segments[random.below(segments.len())],
                };
                damaged.rot(name, random);
                format!("with a bit of {name} changed")
            }
        };
        for salvages in [false, true] {
            let disk = damaged.copied(5);
            let place = self.path(if salvages { "salvaged" } else { "opened" });
            if let Some(pool) = pool {
                std::fs::copy(&pool.pool, &place).expect("room");
            }
            // It says so if it cannot.
            let Ok(store) = self.open(&disk, &place, salvages) else { continue };
            let found = kept(&store, BEGIN_MS);
            let is_told = store.rebuilt().is_some_and(|rebuilt| !rebuilt.damages.is_empty());
            let mut distinct: Vec<&State> = self.states.iter().rev().collect();
            distinct.dedup_by(|one, other| one.bare() == other.bare());
            // Whether the last that was written was ever durable nobody can tell; of a pool that is there all is.
            let count = match (pool, salvages && is_told) {
                (Some(_), _) => 1,
                (None, true) => distinct.len(),
                (None, false) => 2,
            };
            let fits = |state: &&&State| state.fits(&found, BEGIN_MS);
            let state = distinct.iter().take(count).find(fits).map(|state| state.again(&found));
            let mut state = state.unwrap_or_else(|| {
                panic!(
                    "{what}, salvages: {salvages}, told: {is_told}: it opens with\n{}\nand not\n{}",
                    shown(&found),
                    shown(&self.last().maps),
                )
            });
            let added = Call::Key {
                name: NAMES[0].to_string(),
                key: vec![KEYS[0]],
                what: What::Put(b"behind it".to_vec(), 0),
            };
            let _ = state.apply(&added, BEGIN_MS);
            let _ = added.make(&store, &mut Hands::default()).expect("it is an ordinary store");
            let crashed = disk.crashed(6);
            drop(store);
            let left = self.path(if salvages { "salvaged later" } else { "opened later" });
            let left = match self.open(&crashed, &left, false) {
                Ok(left) => kept(&left, BEGIN_MS),
                // Of a pool that is there nothing was read that only its rebuilding needs.
                Err(error) => {
                    assert!(pool.is_some(), "{what}, salvages: {salvages}, and then {error}");
                    continue;
                }
            };
            let is_kept = state.fits(&left, BEGIN_MS);
            assert!(is_kept, "{what}, salvages: {salvages}, and then\n{}", shown(&left));
        }
    }
}
