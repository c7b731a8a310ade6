//! A store that is written to, with the power cut before every operation of the disk.
//!
//! One thread does everything. While the log or a snapshot is in the middle of an operation of the
//! disk, or waits for the places of writers to be filled, a hook lets the other writers go on, and
//! before operations it examines what a crash at this moment leaves. A writer stops between any two of
//! its steps: it takes its place, changes the store, and fills the place; sometimes it changes nothing.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::simulated::{Faults, KeptPlace, Random, SimulatedDisk};
use crate::{Log, Lsn, SnapshotWriter};

use super::images::{crashes_in_recovery, next_disk, rot_newest_snapshot, rot_segment, short_life};
use super::tails::{cut_off, note_unlogged};
use super::truth::{
    Examined, Group, ModelChange, Pairs, Truth, apply, calmed, records, some_group,
};

const WRITERS: usize = 3;

/// A write that is under way. Its writer has the locks of its keys.
struct Begun {
    id: u64,
    group: Vec<ModelChange>,
    place: Option<KeptPlace>,
    lsn: Lsn,
    /// Whether the store has it.
    is_made: bool,
}

/// What the run and the hook share.
pub struct World {
    pub random: Random,
    pub truth: Truth,
    /// The store as its readers see it.
    tree: Pairs,
    /// For each writer, what it has begun.
    begun: [Option<Begun>; WRITERS],
    next_id: u64,
    log: Option<Arc<Log<SimulatedDisk>>>,
    /// Whether the thread that looks at the clock has looked since the last step, and when it looks.
    has_ticked: bool,
    looks: Random,
    /// Crashes that were examined.
    pub crashes: u64,
    /// One in so many operations is a crash point that is examined.
    examine_one_in: u32,
    /// The planted bugs; those that are the caller's begin with `caller`.
    mutants: Vec<&'static str>,
    pub failure: Option<String>,
}

pub type SharedWorld = Arc<Mutex<World>>;

pub fn lock(world: &SharedWorld) -> MutexGuard<'_, World> {
    world.lock().expect("checks return what they find and do not panic")
}

impl World {
    pub fn new(
        seed: u64,
        faults: &Faults,
        interval: Option<u64>,
        examine_one_in: u32,
    ) -> SharedWorld {
        Arc::new(Mutex::new(World {
            random: Random::new(seed),
            truth: Truth { is_lied_to: faults.lies, interval, ..Truth::default() },
            tree: Pairs::new(),
            begun: [const { None }; WRITERS],
            next_id: 0,
            log: None,
            has_ticked: false,
            looks: Random::new(seed ^ 0x10_0C),
            crashes: 0,
            examine_one_in,
            mutants: faults.mutants.clone(),
            failure: None,
        }))
    }

    fn fail(&mut self, text: String) {
        self.failure.get_or_insert(text);
    }

    /// A planted bug of the caller's.
    fn shows(&self, mutant: &'static str) -> bool {
        self.mutants.contains(&mutant)
    }

    /// The writes that are in the store, for all to see, and have no place in the log yet.
    fn seen(&self) -> Vec<u64> {
        let begun = self.begun.iter().flatten();
        begun.filter(|begun| begun.is_made && begun.place.is_none()).map(|begun| begun.id).collect()
    }

    fn take_place(&mut self, log: &Log<SimulatedDisk>, begun: &mut Begun) {
        let (place, seen) = (log.place(), self.seen());
        begun.lsn = place.lsn();
        begun.place = Some(KeptPlace::keep(place));
        let group = Group { id: begun.id, changes: begun.group.clone(), seen };
        self.truth.note_place(begun.lsn, group);
    }

    fn make(&mut self, begun: &mut Begun) {
        records(&begun.group).iter().for_each(|record| apply(&mut self.tree, record));
        begun.is_made = true;
    }

    fn fill(log: &Log<SimulatedDisk>, writer: usize, begun: &mut Begun) {
        let place = begun.place.take().expect("it was taken").back(log);
        // A log that has failed takes nothing; the write was never acknowledged.
        drop(place.fill_from(writer, &records(&begun.group)));
    }

    /// The next step of a write; whether it is the last.
    fn go_on(&mut self, log: &Log<SimulatedDisk>, writer: usize, begun: &mut Begun) -> bool {
        if self.shows("caller.takes_place_late") {
            if !begun.is_made {
                self.make(begun);
                return false;
            }
            self.take_place(log, begun);
            Self::fill(log, writer, begun);
            return true;
        }
        if begun.lsn == 0 {
            self.take_place(log, begun);
            return false;
        }
        if self.shows("caller.fills_first") && begun.place.is_some() {
            Self::fill(log, writer, begun);
            return false;
        }
        if !begun.is_made && begun.place.is_some() && self.random.one_in(8) {
            begun.place.take().expect("just seen").back(log).give_up();
            self.truth.note_given_up(begun.lsn, log.last_lsn() < begun.lsn);
            return true;
        }
        if !begun.is_made {
            self.make(begun);
            return begun.place.is_none();
        }
        Self::fill(log, writer, begun);
        true
    }

    /// One step of a writer, which may begin a write.
    fn step(&mut self, writer: usize) {
        let Some(log) = self.log.clone() else { return };
        if let Some(mut begun) = self.begun[writer].take() {
            if !self.go_on(&log, writer, &mut begun) {
                self.begun[writer] = Some(begun);
            }
            return;
        }
        let number = self.truth.history.len() as u64;
        let group = some_group(&mut self.random, number);
        let is_free = |change: &ModelChange| {
            let held = self.begun.iter().flatten().flat_map(|begun| &begun.group);
            held.into_iter().all(|other| (other.map, &other.key) != (change.map, &change.key))
        };
        if log.failed().is_none() && group.iter().all(is_free) {
            self.next_id += 1;
            let id = self.next_id;
            let mut begun = Begun { id, group, place: None, lsn: 0, is_made: false };
            let is_over = self.go_on(&log, writer, &mut begun);
            assert!(!is_over, "a write has several steps");
            self.begun[writer] = Some(begun);
        }
    }

    /// One step of a random writer.
    fn step_writer(&mut self) {
        let writer = self.random.below(WRITERS);
        self.step(writer);
    }

    /// Lets one of the writers go on for whose places the log waits.
    fn step_awaited(&mut self) {
        let is_awaited =
            |begun: &Option<Begun>| begun.as_ref().is_some_and(|begun| begun.place.is_some());
        let awaited: Vec<usize> =
            (0..WRITERS).filter(|writer| is_awaited(&self.begun[*writer])).collect();
        assert!(!awaited.is_empty(), "the log waits for nobody");
        let writer = awaited[self.random.below(awaited.len())];
        self.step(writer);
    }

    /// Lets every writer end what it has begun.
    fn finish_writers(&mut self) {
        for writer in 0..WRITERS {
            while self.begun[writer].is_some() {
                self.step(writer);
            }
        }
    }

    /// The writers die with the log.
    fn break_off(&mut self) {
        let Some(log) = self.log.take() else { return };
        for begun in self.begun.iter_mut().filter_map(Option::take) {
            drop(begun.place.map(|place| place.back(&log)));
        }
    }

    /// What is in the store when a sync begins must be durable when it ends.
    fn check_sync(&mut self, seen: &[u64]) {
        let Some(log) = self.log.clone() else { return };
        let durable = self.truth.history.iter().take(log.durable_lsn() as usize);
        let ids: Vec<u64> = durable.map(|group| group.id).collect();
        if let Some(id) = seen.iter().find(|id| !ids.contains(id)) {
            self.fail(format!("group {id} was in the store before a sync and is not durable"));
        }
    }

    fn note_durable(&mut self) {
        if let Some(log) = &self.log {
            self.truth.floor = self.truth.floor.max(log.durable_lsn());
            if log.failed().is_none() && !log.owes_snapshot() {
                self.truth.note_time();
            }
        }
    }

    /// A millisecond goes by.
    fn pass_time(&mut self) -> Duration {
        self.truth.now += 1;
        Duration::from_millis(self.truth.now)
    }

    /// Examines what is left if the power fails now, or the process dies, and perhaps what is left
    /// after a short life that follows.
    fn crash(&mut self, disk: &SimulatedDisk) {
        self.note_durable();
        let seed = self.random.bits();
        let is_killed = self.random.one_in(4);
        let image = if is_killed { disk.copied(seed) } else { disk.crashed(seed) };
        image.set_faults(calmed(disk));
        self.crashes += 1;
        let outcome = match seed % 8 {
            _ if self.truth.is_lied_to => self.truth.examine(&image).map(drop),
            0 | 1 => {
                short_life(&image, &self.truth, &mut self.random).map(|more| self.crashes += more)
            }
            2 => crashes_in_recovery(&image, &self.truth, seed).map(|more| self.crashes += more),
            3 => {
                rot_newest_snapshot(&image, &mut self.random);
                // By the seed, so that the runs are those from before. What comes of it is whole, or told.
                let rots_segment = (seed / 8).is_multiple_of(2);
                if rots_segment {
                    rot_segment(&image, &mut Random::new(seed));
                }
                let may_be_refused = rots_segment || self.truth.has_gap;
                let truth = Truth { may_be_refused, ..self.truth.clone() };
                truth.examine(&image).map(drop)
            }
            4 => cut_off(&image, &self.truth, seed).map(|more| self.crashes += more),
            _ => self.truth.examine(&image).map(drop),
        };
        if let Err(text) = outcome {
            self.fail(text);
        }
    }
}

/// The hook of a run.
pub fn on_operation(world: &SharedWorld, disk: &SimulatedDisk) {
    look_at_the_clock(world);
    let mut world = lock(world);
    if world.failure.is_some() {
        return;
    }
    while world.random.one_in(3) {
        world.step_writer();
    }
    let one_in = world.examine_one_in;
    if world.random.one_in(one_in) {
        world.crash(disk);
    }
}

/// What the thread does that looks at the clock, while another is in the middle of an operation of the disk: once at
/// most between two steps, so that no operation lasts long. Not where it would wait for that other one, which goes on
/// only behind it.
fn look_at_the_clock(shared: &SharedWorld) {
    let mut world = lock(shared);
    let is_wanted = world.truth.interval.is_some() && !world.has_ticked;
    let Some(log) = world.log.clone().filter(|_| is_wanted) else { return };
    if world.failure.is_some() || !world.looks.one_in(8) || !log.shared.ticks_at_once() {
        return;
    }
    world.has_ticked = true;
    let now = world.pass_time();
    // It may write itself, and wait for the writers.
    drop(world);
    drop(log.tick(now));
}

/// A snapshot under way: the writer, and the last pair it got.
type Scan = (SnapshotWriter<SimulatedDisk>, Option<(u32, Vec<u8>)>);

/// One life of the store: from its opening to its death. Returns the disk it leaves.
pub fn live(
    world: &SharedWorld,
    disk: SimulatedDisk,
    steps: usize,
) -> Result<SimulatedDisk, String> {
    assert!(!lock(world).mutants.contains(&"caller.panics"), "a panic was asked for");
    let hook_world = Arc::clone(world);
    disk.set_hook(move |disk| on_operation(&hook_world, disk));
    let (truth, owes) = {
        let mut world = lock(world);
        let owes = world.truth.owes && world.random.one_in(2);
        (world.truth.clone(), owes)
    };
    let options = truth.options(&disk).owes_snapshot(owes);
    let opened = Log::open(disk.clone(), &options);
    disk.clear_hook();
    // The first attempt was for the crashes in it, and for accidents; this one must succeed.
    drop(opened);
    let faults = disk.faults();
    disk.set_faults(calmed(&disk));
    let truth = lock(world).truth.clone();
    let examined = truth.examine_as(&disk, &options)?;
    disk.set_faults(faults);
    let Some(Examined { log, end }) = examined else { return Ok(disk) };
    let log = Arc::new(log);
    {
        let mut world = lock(world);
        world.truth = truth.recovered(end);
        if owes {
            let World { truth, random, .. } = &mut *world;
            note_unlogged(&log, truth, random)?;
        }
        world.tree = world.truth.pairs(Lsn::MAX);
        world.begun = [const { None }; WRITERS];
        world.log = Some(Arc::clone(&log));
    }
    let hook_world = Arc::clone(world);
    disk.set_hook(move |disk| on_operation(&hook_world, disk));
    let hook_world = Arc::clone(world);
    disk.set_wait_hook(move |_| {
        lock(&hook_world).step_awaited();
        true
    });
    let mut scan: Option<Scan> = None;
    for _ in 0..steps {
        step(world, &log, &mut scan);
        if log.failed().is_some() || lock(world).failure.is_some() {
            break;
        }
    }
    Ok(die(world, log, scan, &disk))
}

fn step(world: &SharedWorld, log: &Log<SimulatedDisk>, scan: &mut Option<Scan>) {
    let (choice, is_interval) = {
        let mut world = lock(world);
        (world.random.below(24), world.truth.interval.is_some())
    };
    // What the disk refuses is an accident; the next examination tells whether it was handled.
    match choice {
        0..12 => lock(world).step_writer(),
        12..16 if !is_interval && !log.owes_snapshot() => sync(world, log),
        12..18 => drop(log.write_out()),
        18 if scan.is_none() => {
            *scan = SnapshotWriter::begin(log).ok().map(|writer| (writer, None))
        }
        _ => step_scan(world, scan),
    }
    let now = lock(world).pass_time();
    drop(log.tick(now));
    lock(world).has_ticked = false;
    lock(world).note_durable();
}

/// Syncs, as a thread does that has read something and tells of it.
fn sync(world: &SharedWorld, log: &Log<SimulatedDisk>) {
    let seen = {
        let world = lock(world);
        let begun = world.begun.iter().flatten().filter(|begun| begun.is_made);
        begun.map(|begun| begun.id).collect::<Vec<_>>()
    };
    if log.sync().is_ok() {
        lock(world).check_sync(&seen);
    }
}

/// Gives the snapshot some more pairs of the tree as it is now, or ends it.
fn step_scan(world: &SharedWorld, scan: &mut Option<Scan>) {
    let Some((mut writer, mut last)) = scan.take() else { return };
    let count = 1 + lock(world).random.below(6);
    for _ in 0..count {
        let next = lock(world).tree.iter().find(|(key, _)| Some(*key) > last.as_ref()).map(
            |((map, key), (value, expiry))| ModelChange {
                map: *map,
                key: key.clone(),
                value: Some(value.clone()),
                keeps_value: false,
                expiry: *expiry,
            },
        );
        let Some(pair) = next else {
            let is_made = writer.finish().is_ok();
            let log = lock(world).log.clone();
            if is_made && log.is_some_and(|log| log.owes_snapshot()) {
                lock(world).fail("a snapshot is there and is still owed".into());
            }
            if !is_made {
                give_up_scan(world);
            }
            return;
        };
        if writer.add(&pair.record()).is_err() {
            drop(writer);
            return give_up_scan(world);
        }
        last = Some((pair.map, pair.key));
    }
    *scan = Some((writer, last));
}

/// Ends the log if the snapshot that could not be written is owed, as the store does: threads that wait for it learn
/// so. Another one the log does not depend on.
fn give_up_scan(world: &SharedWorld) {
    let Some(log) = lock(world).log.clone() else { return };
    let (owes, had_failed) = (log.owes_snapshot(), log.failed().is_some());
    log.fail_owed("the disk has refused it");
    if log.failed().is_some() != (owes || had_failed) {
        let whose = if owes { "an owed" } else { "any other" };
        lock(world).fail(format!("whether the log ends with {whose} snapshot that fails"));
    }
}

/// Ends the life: cleanly, by the death of the process, or by a power failure.
fn die(
    world: &SharedWorld,
    log: Arc<Log<SimulatedDisk>>,
    scan: Option<Scan>,
    disk: &SimulatedDisk,
) -> SimulatedDisk {
    let is_clean = lock(world).random.one_in(4);
    if is_clean {
        drop(scan);
        lock(world).finish_writers();
        lock(world).log = None;
        let (end, owes) = (log.last_lsn(), log.owes_snapshot());
        let log = Arc::into_inner(log).expect("the world has let go of it");
        if log.close().is_ok() && !owes {
            lock(world).truth.floor = end;
        }
        disk.clear_hook();
        return disk.clone();
    }
    let mut shared = lock(world);
    shared.note_durable();
    let next = next_disk(disk, &mut shared.random);
    shared.break_off();
    drop(shared);
    disk.clear_hook();
    next
}
