//! SPTree as published: leaves of 1208 bytes with a header, 64 tags, 64 pairs and the order of the slots;
//! index, middle nodes, filters and buffers in DRAM, which are left out here, and a FAST & FAIR tree of the
//! leaves in persistent memory.

use everleaf_bench::random::mix;

use super::fast_fair::FastFair;
use super::machine::Machine;
use super::parts::{Heap, Log, LogWrites, Play, Techniques};

/// Slots of a leaf.
const SLOTS: usize = 64;
/// Low and high key, neighbour, bitmap, version.
const HEADING: u64 = 40;
const TAGS: u64 = HEADING;
const PAIRS: u64 = TAGS + SLOTS as u64;
const ORDER: u64 = PAIRS + 16 * SLOTS as u64;
const SIZE: u64 = 1208;
/// Writes that a buffer takes before it is emptied: the last needs no record.
const BUFFER: usize = 15;
/// Bits and probes of a filter.
const FILTER_BITS: u64 = 512;
const FILTER_PROBES: u64 = 4;

struct Leaf {
    place: u64,
    low: u64,
    /// The key in each slot; 0 if there is none.
    slots: [u64; SLOTS],
    buffer: Vec<u64>,
    filter: [u64; 8],
    is_sorted: bool,
}

pub(super) struct SpTree {
    /// In the order of their keys, as the index finds them.
    order: std::collections::BTreeMap<u64, u32>,
    leaves: Vec<Leaf>,
    /// The tree of the leaves.
    top: FastFair,
    heap: Heap,
    log: Log,
    buffered: bool,
    filtered: bool,
    flushes_bitmap: bool,
}

impl SpTree {
    pub fn new(buffered: Option<LogWrites>, filtered: bool, flushes_bitmap: bool) -> Self {
        let mut made = SpTree {
            order: std::collections::BTreeMap::new(),
            leaves: Vec::new(),
            top: FastFair::new(Techniques::default()),
            heap: Heap::new(1 << 40),
            log: Log::new(buffered.unwrap_or_default()),
            buffered: buffered.is_some(),
            filtered,
            flushes_bitmap,
        };
        let place = made.heap.take(SIZE);
        made.add(place, 0, [0; SLOTS], Vec::new());
        made
    }

    fn add(&mut self, place: u64, low: u64, slots: [u64; SLOTS], buffer: Vec<u64>) {
        let filter = filter(slots.iter().chain(&buffer));
        self.order.insert(low, self.leaves.len() as u32);
        self.leaves.push(Leaf { place, low, slots, buffer, filter, is_sorted: false });
    }

    fn leaf(&self, key: u64) -> usize {
        self.order.range(..=key).next_back().map_or(0, |(_, leaf)| *leaf as usize)
    }

    /// Heading, tags, and the pair of the key if it is there.
    fn search(&self, machine: &mut Machine, leaf: usize, key: u64) {
        let Leaf { place, slots, .. } = &self.leaves[leaf];
        machine.read(*place, HEADING);
        machine.read(place + TAGS, SLOTS as u64);
        let tag = |key: u64| mix(key) as u8;
        for (slot, held) in slots.iter().enumerate() {
            if *held != 0 && tag(*held) == tag(key) {
                machine.read(place + PAIRS + 16 * slot as u64, 16);
            }
        }
    }

    fn may_have(&self, leaf: usize, key: u64) -> bool {
        let filter = &self.leaves[leaf].filter;
        !self.filtered || probes(key).all(|bit| filter[bit / 64] >> (bit % 64) & 1 == 1)
    }

    /// Puts keys into the first free slots of a leaf, in two steps.
    fn put(&mut self, machine: &mut Machine, leaf: usize, keys: &[u64]) {
        let held = &mut self.leaves[leaf];
        let place = held.place;
        machine.read(place, HEADING);
        let mut filled = Vec::new();
        for key in keys {
            let Some(slot) = held.slots.iter().position(|held| *held == 0) else { return };
            held.slots[slot] = *key;
            machine.write(place + PAIRS + 16 * slot as u64, 16);
            machine.write(place + TAGS + slot as u64, 1);
            filled.push(slot as u64);
        }
        filled.iter().for_each(|slot| machine.flush(place + PAIRS + 16 * slot, 16));
        filled.iter().for_each(|slot| machine.flush(place + TAGS + slot, 1));
        machine.write(place, HEADING);
        if self.flushes_bitmap || self.buffered {
            machine.flush(place, HEADING);
        }
        held.is_sorted = false;
    }

    /// Moves the upper half of a leaf, and of its buffer, to a new one.
    fn split(&mut self, machine: &mut Machine, leaf: usize) {
        let place = self.heap.take_zeroed(machine, SIZE);
        let held = &mut self.leaves[leaf];
        let old = held.place;
        machine.read(old, ORDER);
        let mut sorted: Vec<u64> = held.slots.into_iter().filter(|key| *key != 0).collect();
        sorted.sort_unstable();
        let upper = sorted.split_off(sorted.len() / 2);
        let middle = upper[0];
        held.slots.iter_mut().filter(|key| **key >= middle).for_each(|key| *key = 0);
        let buffer = std::mem::take(&mut held.buffer);
        let (moved, kept) = buffer.into_iter().partition(|key| *key >= middle);
        held.buffer = kept;
        held.is_sorted = false;
        held.filter = filter(held.slots.iter().chain(&held.buffer));
        let mut slots = [0; SLOTS];
        slots[..upper.len()].copy_from_slice(&upper);
        machine.write(place, PAIRS + 16 * upper.len() as u64);
        machine.flush(place, SIZE);
        machine.write(old, HEADING);
        machine.flush(old, HEADING);
        self.add(place, middle, slots, moved);
        self.top.insert(machine, middle);
    }

    fn count(&self, leaf: usize) -> usize {
        self.leaves[leaf].slots.iter().filter(|key| **key != 0).count()
    }

    fn sort(&mut self, machine: &mut Machine, leaf: usize) {
        let place = self.leaves[leaf].place;
        machine.read(place + PAIRS, 16 * SLOTS as u64);
        machine.write(place + ORDER, self.count(leaf) as u64 + 8);
        self.leaves[leaf].is_sorted = true;
    }
}

/// The bits of a key in a filter.
fn probes(key: u64) -> impl Iterator<Item = usize> {
    let hash = mix(key ^ 0x5eed);
    (0..FILTER_PROBES).map(move |probe| (hash >> (16 * probe) & (FILTER_BITS - 1)) as usize)
}

fn set(filter: &mut [u64; 8], key: u64) {
    probes(key).for_each(|bit| filter[bit / 64] |= 1 << (bit % 64));
}

fn filter<'k>(keys: impl Iterator<Item = &'k u64>) -> [u64; 8] {
    let mut filter = [0; 8];
    keys.filter(|key| **key != 0).for_each(|key| set(&mut filter, *key));
    filter
}

impl Play for SpTree {
    fn insert(&mut self, machine: &mut Machine, key: u64) {
        let mut leaf = self.leaf(key);
        if self.may_have(leaf, key) {
            self.search(machine, leaf, key);
        }
        let count = if self.buffered { BUFFER } else { 1 };
        if self.buffered && self.leaves[leaf].buffer.len() + 1 < BUFFER {
            self.log.append(machine);
        } else if self.count(leaf) + count > SLOTS {
            self.split(machine, leaf);
            leaf = self.leaf(key);
        }
        set(&mut self.leaves[leaf].filter, key);
        self.leaves[leaf].buffer.push(key);
        if self.leaves[leaf].buffer.len() >= count {
            let keys = std::mem::take(&mut self.leaves[leaf].buffer);
            self.put(machine, leaf, &keys);
        }
    }

    fn get(&mut self, machine: &mut Machine, key: u64) {
        let leaf = self.leaf(key);
        if self.may_have(leaf, key) && !self.leaves[leaf].buffer.contains(&key) {
            self.search(machine, leaf, key);
        }
    }

    fn scan(&mut self, machine: &mut Machine, from: u64, count: usize) {
        let first = self.leaves[self.leaf(from)].low;
        let leaves = self.order.range(first..).map(|(_, leaf)| *leaf as usize);
        let mut got = 0;
        // Fewer keys are in no leaf than a quarter of the slots.
        for leaf in leaves.take(count / (SLOTS / 4) + 2).collect::<Vec<_>>() {
            if got >= count {
                return;
            }
            let room = SLOTS - self.count(leaf);
            let keys = std::mem::take(&mut self.leaves[leaf].buffer);
            if !keys.is_empty() && keys.len() <= room {
                self.put(machine, leaf, &keys);
            }
            let place = self.leaves[leaf].place;
            machine.read(place, HEADING);
            if !self.leaves[leaf].is_sorted {
                self.sort(machine, leaf);
            }
            machine.read(place + ORDER, self.count(leaf) as u64 + 8);
            let mut sorted: Vec<(u64, usize)> =
                self.leaves[leaf].slots.iter().copied().zip(0..).collect();
            sorted.sort_unstable();
            for (_, slot) in
                sorted.into_iter().filter(|(key, _)| *key >= from.max(1)).take(count - got)
            {
                machine.read(place + PAIRS + 16 * slot as u64, 16);
                got += 1;
            }
        }
    }
}
