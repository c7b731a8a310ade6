//! A run: a store, what it must be, and what is done to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use everleaf_log::simulated::{Faults, Random, SimulatedDisk};
use tempfile::TempDir;

use crate::{DEFAULT_MAP, Durability, Map, Options, Store, WriteBatch};

/// Far away.
const EXPIRY_MS: u64 = 1 << 45;
/// Lives that come out of another one.
const DEPTH_MAX: u32 = 2;
const NAMES: [&str; 3] = [DEFAULT_MAP, "second", "third"];

/// Maps, and of each key the value and when it expires.
pub type Contents = BTreeMap<String, BTreeMap<Vec<u8>, (Vec<u8>, u64)>>;

/// What runs have seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Crashes of the machine that were recovered from.
    pub crashes: u64,
    /// Of these, with a snapshot.
    pub from_snapshots: u64,
    /// Deaths of the process.
    pub kills: u64,
    /// What was left of a crash or a death and lived on.
    pub lived_on: u64,
    pub maps_made: u64,
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        self.crashes += other.crashes;
        self.from_snapshots += other.from_snapshots;
        self.kills += other.kills;
        self.lived_on += other.lived_on;
        self.maps_made += other.maps_made;
    }
}

/// The store after each change, and up to which change it was told to be durable.
pub struct Model {
    states: Vec<Contents>,
    acknowledged: usize,
    random: Random,
    counts: Counts,
    next_value: u64,
}

impl Model {
    fn now(&self) -> &Contents {
        self.states.last().expect("there is one from the start")
    }

    fn change(&mut self, change: impl FnOnce(&mut Contents)) {
        let mut state = self.now().clone();
        change(&mut state);
        self.states.push(state);
    }

    fn value(&mut self) -> Vec<u8> {
        self.next_value += 1;
        let size = if self.random.one_in(12) { 6000 } else { 12 };
        let mut value = self.next_value.to_be_bytes().to_vec();
        value.resize(size, self.next_value as u8);
        value
    }

    fn key(&mut self) -> Vec<u8> {
        vec![b'a' + self.random.below(8) as u8]
    }

    /// A map that there is.
    fn name(&mut self) -> String {
        let names: Vec<&String> = self.states.last().expect("as above").keys().collect();
        names[self.random.below(names.len())].clone()
    }
}

type Shared = Arc<Mutex<Model>>;

fn lock(model: &Shared) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder for pools, in memory if there is one.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder")
}

pub fn options(disk: &SimulatedDisk) -> Options {
    let mut options = Options::new().create(true).max_size_bytes(1 << 26).recovery_threads(2);
    options.simulated = Some(disk.clone());
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
        let pairs = pairs.map(|((key, value), expiry_ms)| (key, (value, expiry_ms)));
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
    /// Whether writes are held and settled, and others come in between.
    is_held: bool,
}

impl Run {
    pub fn new(number: u64, faults: Faults) -> Run {
        let folder = Arc::new(folder());
        let model = Model {
            states: vec![Contents::from([(DEFAULT_MAP.to_string(), BTreeMap::new())])],
            acknowledged: 0,
            random: Random::new(number),
            counts: Counts::default(),
            next_value: 0,
        };
        Run {
            pool: folder.path().join("pool"),
            folder,
            disk: SimulatedDisk::new(faults, number),
            model: Arc::new(Mutex::new(model)),
            depth: 0,
            is_held: !number.is_multiple_of(3),
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

    /// Cuts the power or kills the process, now and then.
    fn watch(&self, store: Weak<Store>) {
        let (model, folder, depth) = (self.model.clone(), self.folder.clone(), self.depth);
        let (pool, is_held) = (self.pool.clone(), self.is_held);
        self.disk.set_hook(move |disk| {
            if is_held && let Some(store) = store.upgrade() {
                while lock(&model).random.one_in(3) {
                    write(&store, &model);
                }
            }
            let rare = 6 + 12 * depth;
            let (crash, kill) = {
                let random = &mut lock(&model).random;
                (random.one_in(rare), random.one_in(2 * rare))
            };
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
        let store = Arc::new(options(&self.disk).open(&self.pool).expect("it opens"));
        let before = contents(&store);
        {
            let mut model = lock(&self.model);
            assert_eq!(&before, model.now(), "nothing happened meanwhile");
            model.acknowledged = model.states.len() - 1;
        }
        if self.is_held {
            store.hold_writes();
        }
        self.watch(Arc::downgrade(&store));
        for _ in 0..count {
            self.act(&store);
        }
        self.watch(Weak::new());
        if lock(&self.model).random.one_in(2) {
            let store = Arc::into_inner(store).expect("nobody else has it");
            store.close().expect("it can be closed");
        } else {
            drop(store);
        }
        self.disk.clear_hook();
        let mut model = lock(&self.model);
        model.acknowledged = model.states.len() - 1;
    }

    fn act(&self, store: &Store) {
        let what = lock(&self.model).random.below(20);
        match what {
            0..12 => {
                write(store, &self.model);
                if self.is_held && what < 6 {
                    let last = lock(&self.model).states.len() - 1;
                    store.settle().expect("the disk works");
                    self.acknowledge(last);
                } else if !self.is_held {
                    let last = lock(&self.model).states.len() - 1;
                    self.acknowledge(last);
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
                    model.states.len() - 1
                };
                store.map(name).expect("room");
                if !self.is_held {
                    self.acknowledge(last);
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
            _ => {
                let last = lock(&self.model).states.len() - 1;
                let _ = store.snapshot().expect("the disk works");
                // It waits for the log so far.
                self.acknowledge(last);
            }
        }
    }

    fn acknowledge(&self, last: usize) {
        let mut model = lock(&self.model);
        model.acknowledged = model.acknowledged.max(last);
    }
}

/// Writes a key, or several as one.
fn write(store: &Store, model: &Shared) {
    let name = lock(model).name();
    let Some(map) = store.existing_map(&name).expect("of strings") else { return };
    let what = lock(model).random.below(5);
    match what {
        0..3 => {
            let (key, value, expiry) = {
                let mut model = lock(model);
                let expiry_ms = if model.random.one_in(3) { EXPIRY_MS } else { 0 };
                let (key, value) = (model.key(), model.value());
                model.change(|state| {
                    let map = state.get_mut(&name).expect("just seen");
                    map.insert(key.clone(), (value.clone(), expiry_ms));
                });
                (key, value, expiry_ms)
            };
            let mut batch = WriteBatch::new();
            match expiry {
                0 => drop(map.put(&key, &value).expect("room")),
                _ => drop(store.write(batch.put_with_expiry(&map, &key, &value, expiry))),
            }
        }
        3 => {
            let key = lock(model).key();
            lock(model).change(|state| drop(state.get_mut(&name).expect("seen").remove(&key)));
            let _ = map.remove(&key).expect("room");
        }
        _ => write_batch(store, model),
    }
}

fn write_batch(store: &Store, model: &Shared) {
    let mut batch = WriteBatch::new();
    let mut state = lock(model).now().clone();
    let names: Vec<String> = state.keys().cloned().collect();
    let maps: Vec<(String, Map)> = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), store.existing_map(&name).expect("of strings")?)))
        .collect();
    for _ in 0..3 {
        for (name, map) in &maps {
            let (key, value, removes) = {
                let mut model = lock(model);
                (model.key(), model.value(), model.random.one_in(4))
            };
            let pairs = state.get_mut(name).expect("just seen");
            if removes {
                pairs.remove(&key);
                batch.remove(map, &key);
            } else {
                batch.put(map, &key, &value);
                pairs.insert(key, (value, 0));
            }
        }
    }
    lock(model).states.push(state);
    assert!(store.write(&batch).expect("room").is_done());
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
            (model.random.bits(), model.acknowledged)
        };
        let pool = self.folder.path().join(format!("crashed-{seed:x}"));
        self.check_aside(disk.crashed(seed), pool, low);
    }

    /// The process is killed: the pool is as it was, and the log as it was written.
    fn kill(&self, disk: &SimulatedDisk, pool: &Path) {
        if !pool.exists() {
            return;
        }
        let (seed, last) = {
            let mut model = lock(self.model);
            model.counts.kills += 1;
            (model.random.bits(), model.states.len() - 1)
        };
        let copy = self.folder.path().join(format!("killed-{seed:x}"));
        std::fs::copy(pool, &copy).expect("room");
        self.check_aside(disk.copied(seed), copy, last);
    }

    /// [`Self::check`] in a thread of its own: the writes that this one holds are of its own store.
    fn check_aside(&self, disk: SimulatedDisk, pool: PathBuf, low: usize) {
        std::thread::scope(|scope| {
            let checked = scope.spawn(|| self.check(disk, pool, low)).join();
            checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }

    /// Opens what was left: it must be one of the states from `low` on. Some lives on.
    fn check(&self, disk: SimulatedDisk, pool: PathBuf, low: usize) {
        let store = options(&disk).open(&pool).expect("what is left can be opened");
        let found = contents(&store);
        let mut model = lock(self.model);
        if store.rebuilt().is_some_and(|rebuilt| rebuilt.snapshot_pairs > 0) {
            model.counts.from_snapshots += 1;
        }
        let high = model.states.len() - 1;
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
        drop(model);
        let check = store.check().expect("it can be checked");
        assert!(check.is_clean(), "{:?}", check.problems);
        drop(store);
        if lives_on {
            let model = Model {
                states: vec![found],
                acknowledged: 0,
                random: Random::new(seed),
                counts: Counts::default(),
                next_value: seed >> 16,
            };
            let next = Run {
                folder: self.folder.clone(),
                pool: pool.clone(),
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
    }
}
