//! A run: a store, what it must be, and what is done to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use everleaf_index::lock_rank::as_another_thread;
use everleaf_log::simulated::{Faults, SimulatedDisk};
use tempfile::TempDir;

use super::changes::write;
use super::looking::Looks;
use super::model::{Contents, Counts, Model, Shared, lock};
use crate::{DEFAULT_MAP, Durability, Options, Store};

/// Lives that come out of another one.
const DEPTH_MAX: u32 = 2;
/// What is done in a life that is brief.
const BRIEF: usize = 12;
const NAMES: [&str; 3] = [DEFAULT_MAP, "second", "third"];

/// A folder for pools, in memory if there is one.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

/// How a store is opened in the mode `Interval` of so many milliseconds, or in the mode `Power`.
fn options_of(disk: &SimulatedDisk, interval: Option<u64>) -> Options {
    let interval = interval.map(|ms| Durability::Interval(Duration::from_millis(ms)));
    options(disk).durability(interval.unwrap_or(Durability::Power))
}

/// Of a pool that is small and has small chunks: most of the time of a life is what the system takes to give it its
/// space, to copy it and to take it back.
pub fn options(disk: &SimulatedDisk) -> Options {
    let mut options = Options::new().create(true).max_size_bytes(1 << 26).recovery_threads(2);
    options = options.initial_size_bytes(512 << 10);
    options.chunk_shift = 15;
    options.log_disk = Some(disk.clone());
    options.segment_size_bytes = 64 << 10;
    options.durability(Durability::Power)
}

/// Everything in a store.
pub fn contents(store: &Store) -> Contents {
    let mut contents = Contents::new();
    for name in store.map_names() {
        let map = store.existing_map(&name).expect("a map of strings").expect("there");
        let mut range = map.iter();
        let pairs = std::iter::from_fn(|| range.next_entry());
        let pairs =
            pairs.map(Result::unwrap).map(|((key, value), expiry_ms)| (key, (value, expiry_ms)));
        contents.insert(name, pairs.collect());
    }
    contents
}

/// A life of a store.
pub struct Run {
    folder: Arc<TempDir>,
    pool: PathBuf,
    disk: SimulatedDisk,
    model: Shared,
    depth: u32,
    /// Whether syncs are deferred and waited for, and others come in between.
    is_held: bool,
}

/// The interval of a run, in milliseconds of its clock; one run in three is in the mode `Interval`.
fn interval_of(number: u64) -> Option<u64> {
    (number % 3 == 1).then_some(2 + number % 11)
}

impl Run {
    pub fn new(number: u64, faults: Faults) -> Run {
        let folder = Arc::new(folder());
        let first = Contents::from([(DEFAULT_MAP.to_string(), BTreeMap::new())]);
        let model = Model::new(vec![first], interval_of(number), number, 0);
        Run {
            pool: folder.path().join("pool"),
            folder,
            disk: SimulatedDisk::new(faults, number),
            model: Arc::new(Mutex::new(model)),
            depth: 0,
            is_held: !number.is_multiple_of(4),
        }
    }

    /// Lives once or twice.
    pub fn go(self) -> Counts {
        let lives = 1 + lock(&self.model).random.below(2);
        for _ in 0..lives {
            self.live(40);
        }
        lock(&self.model).counts
    }

    /// Lives once, and not for long.
    pub fn go_briefly(self) -> Counts {
        self.live(BRIEF);
        lock(&self.model).counts
    }

    /// Cuts the power or kills the process, now and then.
    fn watch(&self, store: Weak<Store>) {
        let (model, folder, depth) = (self.model.clone(), self.folder.clone(), self.depth);
        let (pool, is_held) = (self.pool.clone(), self.is_held);
        self.disk.set_hook(move |disk| {
            if is_held && let Some(store) = store.upgrade() {
                while lock(&model).random.one_in(3) {
                    // By somebody else, whatever we are about to do.
                    as_another_thread(|| write(&store, &model));
                }
            }
            let rare = 6 + 12 * depth;
            let (crash, kill) = {
                let random = &mut lock(&model).random;
                (random.one_in(rare), random.one_in(2 * rare))
            };
            if let Some(store) = store.upgrade() {
                lock(&model).is_owing = owes(&store);
            }
            let image = Image { folder: &folder, model: &model, depth, is_held };
            if crash {
                image.crash(disk);
            }
            if kill {
                image.kill(disk, &pool);
            }
        });
    }

    /// Opens the store, does so many things, and ends it.
    fn live(&self, count: usize) {
        self.watch(Weak::new());
        let interval = lock(&self.model).clock.interval;
        let opened = options_of(&self.disk, interval).open(&self.pool);
        let store = Arc::new(opened.expect("it opens"));
        let before = contents(&store);
        {
            let mut model = lock(&self.model);
            assert_eq!(&before, model.now(), "nothing happened meanwhile");
            model.is_owing = owes(&store);
            if !model.is_owing {
                model.acknowledged = model.last();
            }
        }
        if self.is_held {
            store.defer_sync();
        }
        self.watch(Arc::downgrade(&store));
        let mut looks = Looks::new(lock(&self.model).states.len() as u64);
        for _ in 0..count {
            self.act(&store);
            self.pass_time(&store);
            let now = lock(&self.model).now().clone();
            looks.step(&store, &now);
        }
        drop(looks);
        self.watch(Weak::new());
        if lock(&self.model).random.one_in(2) {
            let store = Arc::into_inner(store).expect("nobody else has it");
            store.close().expect("it can be closed");
        } else {
            drop(store);
        }
        self.disk.clear_hook();
        let mut model = lock(&self.model);
        model.acknowledged = model.last();
    }

    /// In the mode `Interval` a millisecond goes by, in which the log may write what waits without
    /// syncing it, and does the sync that is due.
    fn pass_time(&self, store: &Store) {
        let (now, writes_out) = {
            let mut model = lock(&self.model);
            if model.clock.interval.is_none() {
                return;
            }
            model.clock.now += 1;
            (Duration::from_millis(model.clock.now), model.random.one_in(3))
        };
        let log = &store.shared().log.as_ref().expect("it has a log").log;
        if writes_out {
            log.write_out().expect("the disk works");
        }
        log.tick(now).expect("the disk works");
    }

    fn act(&self, store: &Store) {
        let what = lock(&self.model).random.below(20);
        match what {
            0..12 => {
                write(store, &self.model);
                let last = lock(&self.model).last();
                if !self.is_held {
                    self.waited_for(last);
                } else if what < 6 {
                    store.wait_deferred().expect("the disk works");
                    self.waited_for(last);
                }
            }
            12..15 => {
                let name = NAMES[lock(&self.model).random.below(3)];
                let last = {
                    let mut model = lock(&self.model);
                    if !model.now().contains_key(name) {
                        model.counts.maps_made += 1;
                        model.change(|state| drop(state.insert(name.to_string(), BTreeMap::new())));
                    }
                    model.last()
                };
                store.map(name).expect("room");
                if !self.is_held {
                    self.waited_for(last);
                }
            }
            15 => {
                let name = lock(&self.model).name();
                lock(&self.model).change(|state| drop(state.insert(name.clone(), BTreeMap::new())));
                store
                    .existing_map(&name)
                    .expect("of strings")
                    .expect("there")
                    .clear()
                    .expect("room");
            }
            16 => {
                let name = NAMES[1 + lock(&self.model).random.below(2)];
                if lock(&self.model).now().contains_key(name) {
                    lock(&self.model).change(|state| drop(state.remove(name)));
                }
                let _ = store.drop_map(name).expect("writable");
            }
            17 => {
                let last = lock(&self.model).last();
                store.sync().expect("the disk works");
                lock(&self.model).acknowledge(last);
            }
            _ => {
                let last = lock(&self.model).last();
                let _ = store.snapshot().expect("the disk works");
                // It waits for the log so far.
                lock(&self.model).acknowledge(last);
            }
        }
    }

    /// A write was waited for, which in the mode `Interval` says nothing: there only time does.
    fn waited_for(&self, last: usize) {
        let mut model = lock(&self.model);
        if model.clock.interval.is_none() {
            model.acknowledge(last);
        }
    }
}

/// A moment at which a run may end.
struct Image<'a> {
    folder: &'a Arc<TempDir>,
    model: &'a Shared,
    depth: u32,
    is_held: bool,
}

impl Image<'_> {
    /// The machine crashes: the pool is lost, and of the log what was not synced.
    fn crash(&self, disk: &SimulatedDisk) {
        let (seed, low) = {
            let mut model = lock(self.model);
            model.counts.crashes += 1;
            model.counts.owing += u64::from(model.is_owing);
            let low = model.lowest();
            model.acknowledge(low);
            (model.random.bits(), low)
        };
        let pool = self.folder.path().join(format!("crashed-{seed:x}"));
        self.check_aside(disk.crashed(seed), pool, low, false);
    }

    /// The process is killed: the pool is as it was, and the log as it was written.
    fn kill(&self, disk: &SimulatedDisk, pool: &Path) {
        if !pool.exists() {
            return;
        }
        let (seed, last) = {
            let mut model = lock(self.model);
            model.counts.kills += 1;
            (model.random.bits(), model.last())
        };
        let copy = self.folder.path().join(format!("killed-{seed:x}"));
        std::fs::copy(pool, &copy).expect("room");
        self.check_aside(disk.copied(seed), copy, last, true);
    }

    /// [`Self::check`] in a thread of its own: the writes that this one holds are of its own store.
    fn check_aside(&self, disk: SimulatedDisk, pool: PathBuf, low: usize, is_killed: bool) {
        // A store that is closed while its thread unwinds comes here, too: what that found is enough, and to unwind
        // once more would end the process.
        if std::thread::panicking() {
            return;
        }
        std::thread::scope(|scope| {
            let checked = scope.spawn(|| self.check(disk, pool, low, is_killed)).join();
            checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// Opens what was left: it must be one of the states from `low` on. Some lives on.
    fn check(&self, disk: SimulatedDisk, pool: PathBuf, low: usize, is_killed: bool) {
        let interval = lock(self.model).clock.interval;
        // What lives on is what was left, and not what the end of looking at it makes of it.
        let left = (is_killed && interval.is_some()).then(|| {
            let copy = pool.with_extension("left");
            std::fs::copy(&pool, &copy).expect("room");
            (copy, disk.copied(1))
        });
        let store = options_of(&disk, interval).open(&pool).expect("what is left can be opened");
        let found = contents(&store);
        let mut model = lock(self.model);
        if store.rebuilt().is_some_and(|rebuilt| rebuilt.snapshot_pairs > 0) {
            model.counts.from_snapshots += 1;
        }
        let high = model.last();
        model.counts.lost_in_interval +=
            u64::from(interval.is_some() && found != model.states[high]);
        assert!(
            model.states[low..].contains(&found),
            "it is none of the states {low} to {high}, but {:?} of all; it has\n{found:?}\nand not\n{:?}",
            model.states.iter().position(|state| *state == found),
            model.states[low],
        );
        let seed = model.random.bits();
        let lives_on = self.depth < DEPTH_MAX && seed.is_multiple_of(6);
        if lives_on {
            model.counts.lived_on += 1;
        }
        // If the machine crashes before the snapshot that is owed, it may still be one from before.
        let low = if left.is_some() { model.lowest() } else { model.last() };
        let states = model.states[low..].to_vec();
        drop(model);
        // It takes longer than all of the rest.
        if seed.is_multiple_of(4) {
            let check = store.check().expect("it can be checked");
            assert!(check.is_clean(), "{:?}", check.problems);
        }
        drop(store);
        if lives_on {
            let states = if left.is_some() { states } else { vec![found] };
            let (pool, disk) = left.clone().unwrap_or((pool.clone(), disk));
            let mut model = Model::new(states, interval, seed, seed >> 16);
            model.is_owing = left.is_some();
            let next = Run {
                folder: self.folder.clone(),
                pool,
                disk,
                model: Arc::new(Mutex::new(model)),
                depth: self.depth + 1,
                is_held: self.is_held,
            };
            next.live(8);
            let counts = lock(&next.model).counts;
            lock(self.model).counts.add(counts);
        }
        let _ = std::fs::remove_file(pool);
        left.into_iter().for_each(|(copy, _)| drop(std::fs::remove_file(copy)));
    }
}

/// Whether nothing that is logged counts until there is a snapshot.
fn owes(store: &Store) -> bool {
    store.shared().log.as_ref().is_some_and(|log| log.owes_snapshot())
}
