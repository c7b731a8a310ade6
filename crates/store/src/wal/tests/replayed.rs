//! What replay makes of a log with several threads and in groups, compared with what its records say
//! one by one.

use std::collections::BTreeMap;

use everleaf_index::{Hardware, Machine, journal};
use everleaf_log::simulated::{Faults, Random, SimulatedDisk};
use everleaf_log::{Log, LogOptions, Record, RecordEffect};

use super::crashes::world::{contents, folder, options};
use crate::wal::simulated::crashes::model::Contents;
use crate::wal::{NAMES, simulated};
use crate::{Map, Store, WriteBatch};

/// Long past, far away, or never.
const EXPIRIES_MS: [u64; 4] = [1, 1 << 45, 0, 0];

/// Keys with their values, and when they expire.
type Pairs = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

/// The maps of a log as its records say, in their order.
#[derive(Default)]
struct OneByOne {
    numbers: BTreeMap<String, u32>,
    maps: BTreeMap<u32, Pairs>,
}

impl OneByOne {
    fn apply(&mut self, record: &Record<'_>) {
        let key = record.key.to_vec();
        if record.map == NAMES {
            let name = String::from_utf8(key).expect("names are text");
            match record.value() {
                Some(number) => {
                    let number = u32::from_le_bytes(number.try_into().expect("four bytes"));
                    self.numbers.insert(name, number)
                }
                None => self.numbers.remove(&name),
            };
            return;
        }
        let map = self.maps.entry(record.map).or_default();
        let expiry_ms = record.expiry.unwrap_or(0);
        match record.effect {
            RecordEffect::Put(value) => drop(map.insert(key, (value.to_vec(), expiry_ms))),
            RecordEffect::Delete => drop(map.remove(&key)),
            RecordEffect::Expire => {
                map.get_mut(&key).into_iter().for_each(|pair| pair.1 = expiry_ms);
            }
        }
    }

    /// What a reader sees.
    fn contents(mut self) -> Contents {
        let now = Hardware::wall_clock_ms();
        let maps = self.numbers.into_iter().map(|(name, number)| {
            let mut map = self.maps.remove(&number).unwrap_or_default();
            map.retain(|_, (_, expiry_ms)| *expiry_ms == 0 || *expiry_ms > now);
            (name, map)
        });
        maps.collect()
    }
}

/// What the log on a disk says, from its newest snapshot on.
fn read_one_by_one(disk: &SimulatedDisk) -> Contents {
    let identity = simulated::read_start(disk, "identity", 32).expect("it has a log");
    let identity = String::from_utf8(identity).expect("digits");
    let identity = u128::from_str_radix(&identity, 16).expect("digits");
    let log_options = LogOptions::new(identity.to_be_bytes()).starts_empty(false);
    let (_log, recovered) = Log::open(disk.copied(1), &log_options).expect("it opens");
    let start = recovered.replay_start().expect("it is whole");
    let mut read = OneByOne::default();
    if let Some(snapshot) = &start.snapshot {
        for block in 0..snapshot.block_count() {
            let block = snapshot.block(block).expect("it is whole");
            block.pairs().for_each(|pair| read.apply(&pair));
        }
    }
    let replayed = recovered.replay(start.from_lsn(), |_, records| {
        records.iter().for_each(|record| read.apply(record));
        Ok::<(), everleaf_log::Error>(())
    });
    replayed.expect("it is whole");
    read.contents()
}

/// Few keys, so that most are written often; many share their first eight bytes, and one is empty.
fn some_key(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => vec![b'k'; random.below(12)],
        1..4 => format!("a long prefix {:03}", random.below(90)).into_bytes(),
        _ => (random.below(60) as u32).to_be_bytes().to_vec(),
    }
}

fn some_value(random: &mut Random) -> Vec<u8> {
    let size = if random.one_in(40) { 5000 } else { random.below(60) };
    let mut value = random.bits().to_be_bytes().to_vec();
    value.resize(8 + size, 7);
    value
}

fn add(batch: &mut WriteBatch, map: &Map, random: &mut Random) {
    let key = some_key(random);
    if random.one_in(4) {
        batch.remove(map, &key);
    } else if random.one_in(4) {
        batch.expire(map, &key, crate::Expiry::from_unix_ms(EXPIRIES_MS[random.below(4)]));
    } else {
        let expiry_ms = EXPIRIES_MS[random.below(4)];
        batch.put_with_expiry(
            map,
            &key,
            some_value(random),
            crate::Expiry::from_unix_ms(expiry_ms),
        );
    }
}

fn act(store: &Store, random: &mut Random) {
    let name = ["default", "second", "third"][random.below(3)];
    let map = if name == "default" {
        Map::clone(store.default_map())
    } else {
        store.map(name).expect("room")
    };
    let mut batch = WriteBatch::new();
    match random.below(400) {
        0 => map.clear().expect("room"),
        1 => drop(store.drop_map(name).expect("writable")),
        2 => drop(store.snapshot().expect("the disk works")),
        3..60 => (0..20).for_each(|_| add(&mut batch, &map, random)),
        60..130 => {
            let expiry = crate::Expiry::from_unix_ms(EXPIRIES_MS[random.below(4)]);
            let _ = map.expire(some_key(random), expiry).expect("room");
        }
        _ => add(&mut batch, &map, random),
    }
    if !batch.is_empty() {
        assert!(store.write(&batch).expect("room").is_done());
    }
}

/// Writes by a seed, loses the pool, and compares.
fn compare(seed: u64) {
    let (folder, mut random) = (folder(), Random::new(seed));
    let disk = SimulatedDisk::new(Faults::default(), seed);
    let path = folder.path().join("pool");
    let store = options(&disk).open(&path).expect("it opens");
    store.defer_sync();
    (0..1500).for_each(|_| act(&store, &mut random));
    let last = contents(&store);
    store.close().expect("the disk works");
    let expected = read_one_by_one(&disk);
    assert_eq!(expected, last, "seed {seed}: the log does not say what the store was");
    std::fs::remove_file(&path).expect("it was there");
    let store = options(&disk).open(&path).expect("it opens");
    assert!(store.rebuilt().is_some());
    assert_eq!(contents(&store), expected, "seed {seed}: replay did something else");
    let check = store.check().expect("it can be checked");
    assert!(check.is_clean(), "seed {seed}: {:?}", check.problems);
    let names = store.shared().trees.names();
    assert!(!names.iter().any(|name| name == journal::NAME), "it takes more than what was lost");
}

#[test]
fn replay_in_groups_gives_what_the_records_say_one_by_one() {
    (0..8).for_each(compare);
}
