//! Threads that nobody holds up, on the same keys: batches that write all of some keys, and a counter that all add to
//! in one way or another. A thread that has read a change of a batch reads no key of it as it was before; a view shows
//! one moment; no addition is lost; and what is left of a crash in between has whole batches.
//!
//! Which of them is faster depends on the machine: a run that finds something need not find it again.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use everleaf_log::simulated::{Faults, Random, SimulatedDisk};

use super::model::Counts;
use super::world::{folder, options};
use crate::{Action, DEFAULT_MAP, Exchange, Expiry, Map, Store, WriteBatch};

/// Batches of a run, and additions of each thread that adds.
const BATCHES: u64 = 120;
const ADDITIONS: u64 = 60;
/// At one in so many points of the store a thread rests for so long.
const RESTS_ONE_IN: u64 = 6;
const REST: Duration = Duration::from_micros(20);
const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
const COUNTER: &[u8] = b"n";
/// A time that does not come.
const LATER: u64 = 1 << 45;

/// What the threads share.
struct Race {
    store: Store,
    maps: [Map; 2],
    is_over: AtomicBool,
    /// The sum of what was added.
    sum: AtomicU64,
    wrong: Mutex<Option<String>>,
}

fn number_in(value: &[u8]) -> u64 {
    value.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The number in the value of a key of the batches, and that of its expiry.
fn read(map: &Map, key: &[u8]) -> (u64, u64) {
    let both = |value: &[u8], expiry: Expiry| (number_in(value), expiry.as_unix_ms() % LATER);
    map.get_with_expiry(key, both).expect("readable").unwrap_or_default()
}

impl Race {
    fn map_of(&self, key: usize) -> &Map {
        &self.maps[key % 2]
    }

    fn fail(&self, text: String) {
        let mut wrong = self.wrong.lock().expect("nobody panics with it");
        wrong.get_or_insert(text);
        // Relaxed: a request.
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        // Relaxed: a request.
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Each batch gives all keys its number; every other one as their expiry alone.
    fn write_batches(&self, random: &mut Random) {
        self.store.defer_sync();
        let size = if random.one_in(3) { 5000 } else { 8 };
        for number in (1..=BATCHES).take_while(|_| self.goes_on()) {
            let (mut batch, first) = (WriteBatch::new(), random.below(4));
            for key in (0..4).map(|key| (key + first) % 4) {
                let (map, at) = (self.map_of(key), Expiry::from_unix_ms(LATER + number));
                let mut value = number.to_be_bytes().to_vec();
                value.resize(size, 0);
                let _ = match number % 3 {
                    0 => batch.expire(map, KEYS[key], at),
                    _ => batch.put_with_expiry(map, KEYS[key], value, at),
                };
            }
            assert!(self.store.write(&batch).expect("room").is_done());
        }
        self.store.wait_deferred().expect("the disk works");
        // Relaxed: a request.
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Reads the keys one after the other: the number of the expiries never falls.
    fn look(&self, random: &mut Random) {
        let mut last = 0;
        while self.goes_on() {
            if random.one_in(8) {
                let view = self.store.view().expect("a view");
                let see = |key: usize| {
                    let value = view.map(self.map_of(key)).get(KEYS[key]).expect("readable");
                    value.as_deref().map(number_in)
                };
                let seen = [0, 1, 2, 3].map(see);
                if seen.iter().any(|it| *it != seen[0]) {
                    self.fail(format!("a view shows {seen:?} of keys that are written as one"));
                }
            }
            if random.one_in(4) {
                self.look_at_once(random);
            }
            let key = random.below(4);
            let (_, now) = read(self.map_of(key), KEYS[key]);
            if now < last {
                self.fail(format!("a key has {now} of a batch, and another had {last} before"));
            }
            last = now;
        }
    }

    /// Reads all keys of a map at one moment: they have the number of one batch.
    fn look_at_once(&self, random: &mut Random) {
        let (map, mut seen) = (random.below(2), vec![]);
        let keys = [KEYS[map], KEYS[map + 2], KEYS[map]];
        let see = &mut |_: usize, found: Option<(&[u8], Expiry)>| {
            seen.push(found.map(|(_, expiry)| expiry.as_unix_ms() % LATER));
            ControlFlow::Continue(())
        };
        self.maps[map].get_many_at_once(&keys, see).expect("readable");
        if seen.iter().any(|it| *it != seen[0]) {
            self.fail(format!("{seen:?} is no moment of keys that are written as one"));
        }
    }

    /// Adds one to the counter, in one of several ways.
    fn add(&self, random: &mut Random) {
        self.store.defer_sync();
        let map = &self.maps[0];
        let number = |digits: &[u8]| -> u64 {
            std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok()).unwrap_or(0)
        };
        for _ in 0..ADDITIONS {
            let done = match random.below(6) {
                0 => map.fetch_add(COUNTER, 1).map(|_| true),
                1 => {
                    let more = |old: Option<&[u8]>| {
                        Action::Put((old.map_or(0, number) + 1).to_string().into_bytes())
                    };
                    map.update_with(COUNTER, more).map(|_| true)
                }
                2 => map.get(COUNTER).and_then(|old| {
                    let new = (old.as_deref().map_or(0, number) + 1).to_string().into_bytes();
                    let done = map.compare_exchange(COUNTER, old.as_deref(), Some(&new))?;
                    Ok(done == Exchange::Done)
                }),
                3 => map.watch(COUNTER).and_then(|watch| {
                    let old = map.get(COUNTER)?;
                    let new = (old.as_deref().map_or(0, number) + 1).to_string();
                    let mut batch = WriteBatch::new();
                    batch.expect_unwritten(&watch).put(map, COUNTER, new);
                    Ok(self.store.write(&batch)?.is_done())
                }),
                4 => map.get(COUNTER).and_then(|old| {
                    let new = (old.as_deref().map_or(0, number) + 1).to_string();
                    let mut batch = WriteBatch::new();
                    batch.expect(map, COUNTER, old.as_deref()).put(map, COUNTER, new);
                    Ok(self.store.write(&batch)?.is_done())
                }),
                _ => {
                    // Not a write of the value: nothing is lost by it.
                    let at = Expiry::from_unix_ms(LATER + random.bits() % LATER);
                    map.expire(COUNTER, at).map(|_| false)
                }
            };
            // Relaxed: read when all have ended.
            self.sum.fetch_add(u64::from(done.expect("room")), Ordering::Relaxed);
        }
        self.store.wait_deferred().expect("the disk works");
    }

    /// What a store has: the numbers of the batches in its keys, which must be one, and the counter.
    fn found(store: &Store) -> Result<(u64, u64), String> {
        let second = store.existing_map("second").expect("of strings");
        let Some(second) = second else { return Ok((0, 0)) };
        let maps = [store.default_map(), &second];
        let all = [0, 1, 2, 3].map(|key| read(maps[key % 2], KEYS[key]));
        if all.iter().any(|it| *it != all[0]) {
            return Err(format!("half a batch is left: {all:?}"));
        }
        let counter = maps[0].get(COUNTER).expect("readable");
        let counter = counter.map_or(0, |it| String::from_utf8_lossy(&it).parse().unwrap_or(0));
        Ok((all[0].1, counter))
    }
}

/// Runs a race with these planted bugs: what was seen.
///
/// # Panics
/// The store did what it must not.
pub fn run(number: u64, faults: Faults) -> Counts {
    let (folder, disk) = (folder(), SimulatedDisk::new(faults, number));
    let pool = folder.path().join("pool");
    let store = options(&disk).open(&pool).expect("it opens");
    let maps = [DEFAULT_MAP, "second"].map(|name| store.map(name).expect("room"));
    let race = Race { store, maps, is_over: false.into(), sum: 0.into(), wrong: Mutex::default() };
    let mut random = Random::new(number ^ 0x7ACE);
    // Between the steps of a call others come in, also where there are fewer processors than threads.
    let passed = AtomicU64::new(random.bits());
    disk.set_point_hook(move |_| {
        // Relaxed: only a number.
        let bits = passed.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        if (bits >> 40).is_multiple_of(RESTS_ONE_IN) {
            std::thread::sleep(REST);
        }
    });
    let mut seeds = || Random::new(random.bits());
    let (mut writes, mut looks, mut adds) = (seeds(), seeds(), [seeds(), seeds()]);
    let crashed = std::thread::scope(|scope| {
        let (race, disk) = (&race, &disk);
        scope.spawn(move || race.write_batches(&mut writes));
        scope.spawn(move || race.look(&mut looks));
        for random in &mut adds {
            scope.spawn(move || race.add(random));
        }
        if number.is_multiple_of(2) {
            let _ = race.store.snapshot().expect("the disk works");
        }
        // Wherever they are.
        disk.crashed(number)
    });
    disk.clear_hook();
    let wrong = race.wrong.lock().expect("all have ended").take();
    assert!(wrong.is_none(), "{wrong:?}");
    let (batches, counter) = Race::found(&race.store).unwrap_or_else(|text| panic!("{text}"));
    // Relaxed: all have ended.
    let sum = race.sum.load(Ordering::Relaxed);
    assert_eq!((batches, counter), (BATCHES, sum), "the last batch, and all that was added");
    for (index, left) in [crashed, disk.crashed(number + 1)].into_iter().enumerate() {
        let left = options(&left).open(folder.path().join(format!("left {index}")));
        let left = Race::found(&left.expect("what is left can be opened"));
        let left = left.unwrap_or_else(|text| panic!("{text}"));
        assert!(left.0 <= batches && left.1 <= counter, "{left:?} was never");
        assert!(index == 0 || left == (batches, counter), "all of it was waited for");
    }
    Counts { crashes: 2, ..Counts::default() }
}
