//! Several threads that write, read each other and write what comes of it, and that stand still
//! between place, change and record (`turns.rs`); the power fails before operations of the disk.
//!
//! What is left must be a state of every writer, with everything that it came of (`clocks.rs`). Threads
//! take care not to ask for a lock of one that stands still: it could not go on.

mod acts;

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everleaf_log::simulated::{Faults, Random, SimulatedDisk};

use super::clocks::{Clocks, KEYS, Keys};
use super::turns::{Turns, me};
use super::world::{folder, options};
use crate::{Durability, Expiry, Map, Store};

const WRITERS: usize = 4;
const EXPIRY_MS: u64 = 1 << 45;
/// What each writer does in a run, and before that, in one that begins with a kill.
const ACTS: usize = 24;
const ACTS_BEFORE: usize = 3;

/// Which locks of the store a thread may have.
#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Nothing,
    /// Those of its keys; a get of them passes.
    Keys,
    /// Those of its keys, and a get of them waits.
    Batch,
    Everything,
}

/// What runs have seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Crashes of the machine.
    pub crashes: u64,
    /// Deaths of the process.
    pub kills: u64,
    /// Crashes while a snapshot was owed.
    pub owing: u64,
    /// Crashes at which a thread stood between its place and its record.
    pub stopped: u64,
    /// Those of them at which one was to change an expiry alone, in place.
    pub expiring: u64,
    /// Those of them at which one had a batch of one change.
    pub lone: u64,
    /// Reads that saw something new of another thread.
    pub sights: u64,
    /// Times a leader waited for a thread that stood still.
    pub awaited: u64,
    /// Snapshots that were written.
    pub snapshots: u64,
}

impl Seen {
    /// Adds what other runs have seen.
    pub fn add(&mut self, other: Seen) {
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.owing += other.owing;
        self.stopped += other.stopped;
        self.expiring += other.expiring;
        self.lone += other.lone;
        self.sights += other.sights;
        self.awaited += other.awaited;
        self.snapshots += other.snapshots;
    }
}

/// What a thread writes.
#[derive(Clone, Copy, PartialEq)]
enum Writes {
    Whatever,
    /// An expiry, in place.
    Expiry,
    /// A batch of one change.
    Lone,
}

/// What the threads of a run share, besides the store.
struct World {
    random: Random,
    clocks: Clocks,
    holds: [Holds; WRITERS],
    /// Whether each stands between its place and its record.
    in_between: [bool; WRITERS],
    writes: [Writes; WRITERS],
    has_snapshot: bool,
    now_ms: u64,
    next_value: u64,
    /// The numbers of the values whose expiry changes in place.
    long: BTreeSet<u64>,
    seen: Seen,
    failure: Option<String>,
}

/// One run.
struct Run {
    number: u64,
    interval: Option<u64>,
    disk: SimulatedDisk,
    store: Store,
    folder: tempfile::TempDir,
    world: Mutex<World>,
    turns: Turns,
    /// Of each writer.
    keys: Vec<[Vec<u8>; KEYS]>,
}

/// The maps of a store: the first two keys of a writer are in the first, the third in the second, the
/// last in one of its own.
struct Maps {
    first: Map,
    second: Map,
    own: Vec<Map>,
}

impl Maps {
    fn of(store: &Store) -> Maps {
        let map = |name: &str| store.map(name).expect("room");
        let own = (0..WRITERS).map(|writer| map(&format!("own {writer}"))).collect();
        Maps { first: map("first"), second: map("second"), own }
    }

    fn of_key(&self, writer: usize, key: usize) -> &Map {
        match key {
            0 | 1 => &self.first,
            2 => &self.second,
            _ => &self.own[writer],
        }
    }
}

/// Keys of which no two have one stripe.
fn keys_of(store: &Store) -> Vec<[Vec<u8>; KEYS]> {
    let mut taken = Vec::new();
    let mut key = |writer: usize, key: usize| {
        let name = |salt: u8| vec![b'a' + writer as u8, b'0' + key as u8, salt];
        let stripe = |salt: &u8| store.shared().order.stripe_of(&name(*salt));
        let salt = (0..=u8::MAX).find(|salt| !taken.contains(&stripe(salt)));
        let salt = salt.expect("there are many stripes");
        taken.push(stripe(&salt));
        name(salt)
    };
    (0..WRITERS).map(|writer| std::array::from_fn(|index| key(writer, index))).collect()
}

/// The number in a value.
fn number_in(value: &[u8]) -> Option<u64> {
    value.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// What a key has, by a get of it.
fn both_of(map: &Map, key: &[u8]) -> Option<(u64, u64)> {
    let both = |value: &[u8], expiry: Expiry| Some((number_in(value)?, expiry.as_unix_ms()));
    map.get_with_expiry(key, both).expect("get").flatten()
}

/// Runs it: what it has seen.
///
/// # Errors
/// What was found that must not be.
pub fn run(number: u64, mutants: &[&'static str]) -> Result<Seen, String> {
    let mut random = Random::new(number ^ 0x7EAD);
    let faults = Faults {
        block_size: if random.one_in(2) { 512 } else { 4096 },
        tears: random.one_in(3),
        mutants: mutants.to_vec(),
        ..Faults::default()
    };
    let interval = (number % 3 == 1).then_some(2 + number % 7);
    let (folder, disk) = (folder(), SimulatedDisk::new(faults, number));
    let store = open(&disk, interval, &folder.path().join("pool"))?;
    let maps = Maps::of(&store);
    store.sync().expect("the disk works");
    let world = World {
        random,
        clocks: Clocks::new(WRITERS),
        holds: [Holds::Nothing; WRITERS],
        in_between: [false; WRITERS],
        writes: [Writes::Whatever; WRITERS],
        has_snapshot: false,
        now_ms: 0,
        next_value: 0,
        long: BTreeSet::new(),
        seen: Seen::default(),
        failure: None,
    };
    let keys = keys_of(&store);
    let turns = Turns::new(WRITERS, number);
    drop(maps);
    let mut run =
        Run { number, interval, disk, folder, store, world: Mutex::new(world), turns, keys };
    if interval.is_some() && number.is_multiple_of(2) {
        run = run.killed()?;
    }
    let run = Arc::new(run);
    let maps = Maps::of(&run.store);
    run.set_hooks();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (run, maps) = (&run, &maps);
            scope.spawn(move || {
                let live = AssertUnwindSafe(|| run.live(writer, &run.store, maps));
                if let Err(panic) = catch_unwind(live) {
                    run.lock().fail(format!("run {number}: {}", text_of(&*panic)));
                }
            });
        }
    });
    drop(maps);
    run.disk.clear_hook();
    let mut world = run.lock();
    world.seen.sights = world.clocks.sights;
    world.failure.take().map_or(Ok(world.seen), Err)
}

/// What a panic said.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_string())
}

/// Whether nothing that is logged counts until there is a snapshot.
fn owes(store: &Store) -> bool {
    store.shared().log.as_ref().is_some_and(|log| log.owes_snapshot())
}

fn open(
    disk: &SimulatedDisk,
    interval: Option<u64>,
    pool: &std::path::Path,
) -> Result<Store, String> {
    let durability = match interval {
        Some(ms) => Durability::Interval(Duration::from_millis(ms)),
        None => Durability::Power,
    };
    options(disk).durability(durability).open(pool).map_err(|error| error.to_string())
}

impl Run {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same after a few acts and the death of the process: what the threads see of the store is more than
    /// its log has, and a snapshot is owed.
    fn killed(self) -> Result<Run, String> {
        let maps = Maps::of(&self.store);
        for act in 0..WRITERS * ACTS_BEFORE {
            self.act(act % WRITERS, &self.store, &maps);
            self.lock().holds[act % WRITERS] = Holds::Nothing;
        }
        drop(maps);
        let pool = self.folder.path().join("killed");
        std::fs::copy(self.folder.path().join("pool"), &pool).expect("room");
        let Run { number, interval, disk, folder, store, world, turns, keys } = self;
        let left = disk.copied(number);
        drop(store);
        std::fs::rename(&pool, folder.path().join("pool")).expect("it is closed");
        let store = open(&left, interval, &folder.path().join("pool"))?;
        assert!(owes(&store), "its process died");
        // The clock of a log begins when it is opened.
        Ok(Run { number, interval, disk: left, folder, store, world, turns, keys })
    }

    /// Before operations of the disk the machine crashes; at the points of the store threads stand
    /// still.
    fn set_hooks(self: &Arc<Run>) {
        let run = Arc::downgrade(self);
        self.disk.set_hook(move |disk| {
            if let Some(run) = run.upgrade() {
                run.perhaps_crash(disk);
            }
        });
        let run = Arc::downgrade(self);
        self.disk.set_point_hook(move |point| {
            let (Some(run), Some(me)) = (run.upgrade(), me()) else { return };
            match point {
                "store.place_taken" => run.lock().in_between[me] = true,
                "store.place_filled" => run.lock().in_between[me] = false,
                _ => {}
            }
            run.turns.pass();
        });
        let run = Arc::downgrade(self);
        self.disk.set_wait_hook(move |point| {
            let Some(run) = run.upgrade() else { return false };
            if let Some(me) = me() {
                let mut world = run.lock();
                world.seen.awaited += u64::from(point == "log.awaits_places");
                // It has let go of them before it waits.
                world.holds[me] = Holds::Nothing;
            }
            run.turns.wait()
        });
    }

    fn perhaps_crash(&self, disk: &SimulatedDisk) {
        let (crash, kill, seed) = {
            let mut world = self.lock();
            if world.failure.is_some() || me().is_none() {
                return;
            }
            (world.random.one_in(5), world.random.one_in(30), world.random.bits())
        };
        if crash {
            {
                let mut world = self.lock();
                world.seen.crashes += 1;
                world.seen.owing += u64::from(owes(&self.store));
                world.seen.stopped += u64::from(world.in_between.contains(&true));
                let stands_in = |writes| {
                    let mut all = world.in_between.iter().zip(&world.writes);
                    u64::from(all.any(|one| one == (&true, &writes)))
                };
                let (expiring, lone) = (stands_in(Writes::Expiry), stands_in(Writes::Lone));
                world.seen.expiring += expiring;
                world.seen.lone += lone;
            }
            self.check(disk.crashed(seed), seed, None);
        }
        if kill {
            self.lock().seen.kills += 1;
            let pool = self.folder.path().join(format!("killed-{seed:x}"));
            std::fs::copy(self.folder.path().join("pool"), &pool).expect("room");
            self.check(disk.copied(seed), seed, Some(pool));
        }
    }

    /// Opens what was left, in a thread that does not take part. What a killed process left must stay
    /// what it is when the power fails next.
    fn check(&self, disk: SimulatedDisk, seed: u64, killed: Option<std::path::PathBuf>) {
        disk.set_faults(Faults { block_size: disk.faults().block_size, ..Faults::default() });
        let is_killed = killed.is_some();
        let pool = killed.unwrap_or_else(|| self.folder.path().join(format!("crashed-{seed:x}")));
        let look = || -> Result<(), String> {
            let found = self.found(&disk, &pool)?;
            self.lock().clocks.judge(&found)?;
            if is_killed {
                let second = self.folder.path().join(format!("second-{seed:x}"));
                let left = self.found(&disk.crashed(seed), &second)?;
                if left != found {
                    return Err("what a killed process left is lost when the power fails".into());
                }
            }
            Ok(())
        };
        let looked = std::thread::scope(|scope| scope.spawn(look).join());
        let _ = std::fs::remove_file(&pool);
        match looked {
            Ok(Ok(())) => {}
            Ok(Err(text)) => self.lock().fail(format!("run {}: {text}", self.number)),
            Err(panic) => {
                self.lock().fail(format!("run {}: {}", self.number, text_of(&*panic)));
            }
        }
    }

    /// What the keys of all writers are in a store.
    fn found(&self, disk: &SimulatedDisk, pool: &std::path::Path) -> Result<Vec<Keys>, String> {
        let store = open(disk, self.interval, pool)?;
        let maps = Maps::of(&store);
        let found =
            |writer: usize, key: usize| both_of(maps.of_key(writer, key), &self.keys[writer][key]);
        let keys = |writer: usize| std::array::from_fn(|key| found(writer, key));
        Ok((0..WRITERS).map(keys).collect())
    }
}

impl World {
    fn value(&mut self) -> Vec<u8> {
        self.next_value += 1;
        let size = if self.random.one_in(4) { 6000 } else { 8 + self.random.below(40) };
        if size == 6000 {
            let _ = self.long.insert(self.next_value);
        }
        let mut value = self.next_value.to_be_bytes().to_vec();
        value.resize(size, self.next_value as u8);
        value
    }

    /// Another expiry for a key that has this one.
    fn expiry_ms(&mut self, old_ms: u64) -> u64 {
        self.next_value += 1;
        if old_ms > 0 && self.random.one_in(3) { 0 } else { EXPIRY_MS + self.next_value }
    }

    fn fail(&mut self, text: String) {
        self.failure.get_or_insert(text);
    }
}
