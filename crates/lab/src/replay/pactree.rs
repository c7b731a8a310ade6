//! PACTree as published: data nodes of 1224 bytes in a list, above them a radix tree of bytes with nodes of
//! four sizes, and a ring of records of structure changes, all in persistent memory and from the allocator
//! of PMDK.
//!
//! ```text
//!   data node   | low | high | self | next | prev | deleted | bitmap | 64 fingerprints | lock |
//!               | 64 pairs | version that was sorted | 64 slot numbers |
//!   radix node  | heading 32 | 4 or 16 bytes | 4 or 16 children |
//!               | heading 32 | 256 numbers | 48 children |  | heading 32 | 256 children |
//! ```
//!
//! Objects of a class are in runs of their own, so all data nodes lie alike in their blocks: the heading,
//! the fingerprints and the lock in one block, the pairs in it and four others.

use std::collections::BTreeMap;

use everleaf_bench::random::mix;

use super::machine::Machine;
use super::parts::{HEADER, Play};

/// Slots of a data node.
const SLOTS: usize = 64;
/// Where things are in a data node.
const NEXT: u64 = 24;
const PREV: u64 = 32;
const BITMAP: u64 = 48;
const FINGERPRINTS: u64 = 56;
const LOCK: u64 = 120;
const PAIRS: u64 = 128;
const SORTED: u64 = PAIRS + 16 * SLOTS as u64;
const SIZE: u64 = SORTED + 8 + SLOTS as u64;
/// Records of the ring, and bytes of one.
const RING: u64 = 1000;
const RECORD: u64 = 128;
/// Bytes of a radix node before what tells its children apart.
const HEADING: u64 = 32;
/// Bytes of a chunk of the allocator, and of its heading.
const CHUNK: u64 = 256 << 10;
const CHUNK_HEADING: u64 = 64;
/// The allocator's own log, of two lines.
const LANE: u64 = 1 << 47;
const LANE_SIZE: u64 = 128;

/// What is behind a link of the radix tree.
#[derive(Clone, Copy)]
enum Link {
    Data(u32),
    Radix(u32),
}

/// A node of the radix tree.
struct Radix {
    place: u64,
    /// The byte of the key that it branches on.
    at: u32,
    /// A key below.
    sample: u64,
    /// Children that it has room for: 4, 16, 48 or 256.
    room: usize,
    /// In the order of their bytes.
    children: Vec<(u8, Link)>,
}

fn radix_size(room: usize) -> u64 {
    let room = room as u64;
    let told_apart = match room {
        48 => 256,
        256 => 0,
        _ => room,
    };
    HEADING + told_apart + 8 * room
}

impl Radix {
    /// The place of the link of this rank.
    fn link(&self, rank: usize) -> u64 {
        let slot = if self.room == 256 { usize::from(self.children[rank].0) } else { rank };
        self.place + radix_size(self.room) - 8 * (self.room - slot) as u64
    }

    /// Where the byte that tells a child apart is, if it has a place of its own.
    fn mark(&self, rank: usize) -> Option<u64> {
        let start = self.place + HEADING;
        match self.room {
            256 => None,
            48 => Some(start + u64::from(self.children[rank].0)),
            _ => Some(start + rank as u64),
        }
    }

    /// Reads what says where the link for a byte is.
    fn look(&self, machine: &mut Machine, byte: u8) {
        machine.read(self.place, HEADING);
        match self.room {
            48 => machine.read(self.place + HEADING + u64::from(byte), 1),
            256 => {}
            room => machine.read(self.place + HEADING, room as u64),
        }
    }
}

/// The byte of this number, from the top.
fn byte_at(bits: u64, at: u32) -> u8 {
    (bits >> (56 - 8 * at)) as u8
}

/// The first byte in which two keys differ; 8 if they are the same.
fn parting(one: u64, other: u64) -> u32 {
    (one ^ other).leading_zeros() / 8
}

/// Stores, and makes it durable.
fn store(machine: &mut Machine, address: u64, size: u64) {
    machine.write(address, size);
    machine.flush(address, size);
}

struct Data {
    place: u64,
    low: u64,
    /// The key in each slot; 0 if there is none.
    slots: [u64; SLOTS],
    is_sorted: bool,
}

/// Objects of one size, in chunks.
struct Class {
    stride: u64,
    next: u64,
}

pub(super) struct PacTree {
    /// In the order of their keys.
    order: BTreeMap<u64, u32>,
    data: Vec<Data>,
    radix: Vec<Radix>,
    classes: BTreeMap<u64, Class>,
    /// Structure changes so far.
    changes: u64,
    /// By what keys are divided, so that fewer make as many children of a node.
    thinning: u64,
}

impl PacTree {
    /// With `scale` times fewer keys than the paper's. A radix tree of fewer keys would have another
    /// shape: its last nodes would have fewer children. So only a part of its upper nodes is there.
    pub fn new(scale: f64) -> Self {
        let mut made = PacTree {
            order: BTreeMap::from([(0, 0)]),
            data: Vec::new(),
            radix: Vec::new(),
            classes: BTreeMap::new(),
            changes: 0,
            thinning: (scale.round() as u64).max(1),
        };
        let place = made.place(SIZE);
        made.data.push(Data { place, low: 0, slots: [0; SLOTS], is_sorted: false });
        let place = made.place(radix_size(256));
        let children = vec![(0, Link::Data(0))];
        made.radix.push(Radix { place, at: 0, sample: 0, room: 256, children });
        made
    }

    /// A place for an object, behind its header.
    fn place(&mut self, size: u64) -> u64 {
        let stride = (size + HEADER).next_multiple_of(64).max(128);
        let area = (self.classes.len() as u64 + 1) << 40;
        let class = self.classes.entry(stride).or_insert(Class { stride, next: area });
        if class.next.is_multiple_of(CHUNK) {
            class.next += CHUNK_HEADING;
        }
        let place = class.next + HEADER;
        class.next += class.stride;
        if class.next % CHUNK + class.stride > CHUNK {
            class.next = class.next.next_multiple_of(CHUNK);
        }
        place
    }

    /// The allocator: a log of what is to be done, the header of the object, the bit that says that it is
    /// taken, and the word `to` that refers to it.
    fn allocate(&mut self, machine: &mut Machine, size: u64, to: u64) -> u64 {
        let place = self.place(size);
        for (address, size) in [
            (place - HEADER, HEADER),
            (LANE, LANE_SIZE),
            (place / CHUNK * CHUNK + 16, 8),
            (to, 16),
            (LANE, 16),
        ] {
            store(machine, address, size);
        }
        place
    }

    /// The bits that the radix tree branches on.
    fn bits(&self, key: u64) -> u64 {
        key / self.thinning
    }

    /// The data node that the radix tree leads to: that of the key or a neighbour.
    fn descend(&self, machine: &mut Machine, key: u64) -> usize {
        let found = self.below(machine, 0, Some(self.bits(key)));
        found.unwrap_or(0) as usize
    }

    /// The last data node below a radix node whose fence may be at most `bits`, or the last of all.
    fn below(&self, machine: &mut Machine, node: u32, bits: Option<u64>) -> Option<u32> {
        let node = &self.radix[node as usize];
        let mut bits = bits;
        if let Some(wanted) = bits {
            let parting = parting(node.sample, wanted);
            if parting < node.at {
                if byte_at(node.sample, parting) > byte_at(wanted, parting) {
                    machine.read(node.place, HEADING);
                    return None;
                }
                bits = None;
            }
        }
        let byte = bits.map_or(u8::MAX, |bits| byte_at(bits, node.at));
        node.look(machine, byte);
        let end = node.children.partition_point(|child| child.0 <= byte);
        for (rank, (found, link)) in node.children[..end].iter().enumerate().rev() {
            if node.room == 48 {
                // The numbers of the bytes in between are looked at, too.
                let start = node.place + HEADING + u64::from(*found);
                machine.read(start, u64::from(byte - found) + 1);
            }
            machine.read(node.link(rank), 8);
            let bits = bits.filter(|_| *found == byte);
            match link {
                Link::Data(data) => return Some(*data),
                Link::Radix(radix) => {
                    if let Some(data) = self.below(machine, *radix, bits) {
                        return Some(data);
                    }
                }
            }
        }
        None
    }

    /// The data node for a key: fences are read on the way.
    fn find(&self, machine: &mut Machine, key: u64) -> usize {
        let (mut led, right) = (self.descend(machine, key), self.owner(key));
        machine.read(self.data[led].place, 16);
        while self.data[led].low != self.data[right].low {
            // To the left or to the right along the list.
            let low = self.data[led].low;
            let (link, next) = if low > key {
                (PREV, self.order.range(..low).next_back())
            } else {
                (NEXT, self.order.range(low + 1..).next())
            };
            machine.read(self.data[led].place + link, 8);
            led = next.map_or(right, |(_, data)| *data as usize);
            machine.read(self.data[led].place, 16);
        }
        led
    }

    fn owner(&self, key: u64) -> usize {
        self.order.range(..=key).next_back().map_or(0, |(_, data)| *data as usize)
    }

    /// Lock, bitmap, fingerprints, and the pairs whose fingerprints are the key's.
    fn search(&self, machine: &mut Machine, data: usize, key: u64) {
        let Data { place, slots, .. } = &self.data[data];
        machine.read(place + LOCK, 8);
        machine.read(place + BITMAP, 8);
        machine.read(place + FINGERPRINTS, SLOTS as u64);
        let fingerprint = |key: u64| mix(key) as u8;
        for (slot, held) in slots.iter().enumerate() {
            if *held != 0 && fingerprint(*held) == fingerprint(key) {
                machine.read(place + PAIRS + 16 * slot as u64, 16);
                if *held == key {
                    break;
                }
            }
        }
        machine.read(place + LOCK, 8);
    }

    /// Puts a key into the first free slot. The node is locked.
    fn put(&mut self, machine: &mut Machine, data: usize, key: u64) {
        let held = &mut self.data[data];
        let Some(slot) = held.slots.iter().position(|held| *held == 0) else { return };
        held.slots[slot] = key;
        held.is_sorted = false;
        store(machine, held.place + PAIRS + 16 * slot as u64, 16);
        store(machine, held.place + FINGERPRINTS + slot as u64, 1);
        store(machine, held.place + BITMAP, 8);
    }

    /// Moves the upper half of a data node to a new one; then the radix tree learns of it.
    fn split(&mut self, machine: &mut Machine, data: usize) {
        let record = (1 << 46) + self.changes % RING * RECORD;
        self.changes += 1;
        let old = self.data[data].place;
        machine.read(old + PAIRS, 16 * SLOTS as u64);
        let mut sorted: Vec<u64> =
            self.data[data].slots.into_iter().filter(|key| *key != 0).collect();
        sorted.sort_unstable();
        let upper = sorted.split_off(sorted.len() / 2);
        let low = upper[0];
        store(machine, record, RECORD);
        let place = self.allocate(machine, SIZE, record + 64);
        // Its constructor clears all of it in the caches.
        machine.write(place, SIZE);
        machine.flush(place, SIZE);
        let held = &mut self.data[data];
        held.slots.iter_mut().filter(|key| **key >= low).for_each(|key| *key = 0);
        held.is_sorted = false;
        machine.write(old + BITMAP, 8);
        store(machine, old, BITMAP);
        machine.flush(old + BITMAP, 8);
        if let Some((_, next)) = self.order.range(low..).next() {
            store(machine, self.data[*next as usize].place + PREV, 8);
        }
        let mut slots = [0; SLOTS];
        slots[..upper.len()].copy_from_slice(&upper);
        let new = self.data.len() as u32;
        self.order.insert(low, new);
        self.data.push(Data { place, low, slots, is_sorted: false });
        store(machine, record, 64);
        machine.write(place + LOCK, 8);
        self.enter(machine, low, new);
        // The record is done.
        store(machine, record, 8);
    }

    /// Enters a data node in the radix tree.
    fn enter(&mut self, machine: &mut Machine, low: u64, data: u32) {
        let bits = self.bits(low);
        // The node that is looked at, and the one above it with the rank of the link between.
        let (mut node, mut above) = (0, None);
        loop {
            let held = &self.radix[node];
            if parting(held.sample, bits) < held.at {
                let (sample, link) = (held.sample, Link::Radix(node as u32));
                return self.part(machine, above, (sample, link), (bits, data));
            }
            let byte = byte_at(bits, held.at);
            held.look(machine, byte);
            let Ok(rank) = held.children.binary_search_by_key(&byte, |child| child.0) else {
                return self.add(machine, node, above, (byte, data));
            };
            machine.read(held.link(rank), 8);
            above = Some((node, rank));
            match held.children[rank].1 {
                Link::Radix(next) => node = next as usize,
                Link::Data(other) => {
                    machine.read(self.data[other as usize].place, 8);
                    let sample = self.bits(self.data[other as usize].low);
                    return self.part(machine, above, (sample, Link::Data(other)), (bits, data));
                }
            }
        }
    }

    /// Makes a node of two children, a link that is there and a data node, in the place of the link.
    fn part(
        &mut self,
        machine: &mut Machine,
        above: Option<(usize, usize)>,
        (sample, link): (u64, Link),
        (bits, data): (u64, u32),
    ) {
        let at = parting(sample, bits);
        // Keys that differ in what was left out only: there are next to none.
        let (Some((node, rank)), true) = (above, at < 8) else { return };
        let to = self.radix[node].link(rank);
        let mut children = vec![(byte_at(sample, at), link), (byte_at(bits, at), Link::Data(data))];
        children.sort_unstable_by_key(|child| child.0);
        let place = self.made(machine, 4);
        self.radix[node].children[rank].1 = Link::Radix(self.radix.len() as u32);
        self.radix.push(Radix { place, at, sample: bits, room: 4, children });
        store(machine, to, 8);
        machine.write(self.radix[node].place, HEADING);
    }

    /// A new radix node, durable.
    fn made(&mut self, machine: &mut Machine, room: usize) -> u64 {
        let place = self.allocate(machine, radix_size(room), LANE + LANE_SIZE);
        store(machine, place, radix_size(room));
        place
    }

    /// Adds a child to a node, which grows if it is full.
    fn add(
        &mut self,
        machine: &mut Machine,
        node: usize,
        above: Option<(usize, usize)>,
        (byte, data): (u8, u32),
    ) {
        let room = self.radix[node].room;
        if self.radix[node].children.len() == room {
            machine.read(self.radix[node].place, radix_size(room));
            let room = if room == 4 {
                16
            } else if room == 16 {
                48
            } else {
                256
            };
            let place = self.made(machine, room);
            if let Some((parent, rank)) = above {
                store(machine, self.radix[parent].link(rank), 8);
                machine.write(self.radix[parent].place, HEADING);
            }
            (self.radix[node].place, self.radix[node].room) = (place, room);
        }
        let held = &mut self.radix[node];
        let rank = held.children.partition_point(|child| child.0 < byte);
        held.children.insert(rank, (byte, Link::Data(data)));
        store(machine, held.link(rank), 8);
        if let Some(mark) = held.mark(rank) {
            store(machine, mark, 1);
        }
        machine.write(held.place, HEADING);
    }

    fn count(&self, data: usize) -> usize {
        self.data[data].slots.iter().filter(|key| **key != 0).count()
    }
}

impl Play for PacTree {
    fn insert(&mut self, machine: &mut Machine, key: u64) {
        let mut data = self.find(machine, key);
        machine.write(self.data[data].place + LOCK, 8);
        self.search(machine, data, key);
        if self.count(data) == SLOTS {
            let old = data;
            self.split(machine, old);
            data = self.owner(key);
            self.put(machine, data, key);
            machine.write(self.data[old].place + LOCK, 8);
        } else {
            self.put(machine, data, key);
        }
        machine.write(self.data[data].place + LOCK, 8);
    }

    fn get(&mut self, machine: &mut Machine, key: u64) {
        let data = self.find(machine, key);
        self.search(machine, data, key);
    }

    fn scan(&mut self, machine: &mut Machine, from: u64, count: usize) {
        let first = self.find(machine, from);
        let nodes = self.order.range(self.data[first].low..).map(|(_, data)| *data as usize);
        let mut got = 0;
        // Fewer keys are in no node than a quarter of the slots.
        for data in nodes.take(count / (SLOTS / 4) + 2).collect::<Vec<_>>() {
            if got >= count {
                return;
            }
            let place = self.data[data].place;
            machine.read(place, BITMAP + 8);
            machine.read(place + LOCK, 8);
            machine.read(place + SORTED, 8);
            let mut sorted: Vec<(u64, u64)> =
                self.data[data].slots.iter().copied().zip(0..).filter(|pair| pair.0 != 0).collect();
            if !self.data[data].is_sorted {
                for (_, slot) in &sorted {
                    machine.read(place + PAIRS + 16 * slot, 16);
                }
                machine.write(place + SORTED, 8 + sorted.len() as u64);
                self.data[data].is_sorted = true;
            }
            sorted.sort_unstable();
            machine.read(place + SORTED + 8, sorted.len() as u64);
            // From the first in the order on: those before `from` are looked at and passed over.
            for (key, slot) in sorted {
                if got < count {
                    machine.read(place + PAIRS + 16 * slot, 16);
                    got += usize::from(key >= from);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_data_nodes_lie_alike_in_their_blocks() {
        let mut tree = PacTree::new(100.0);
        for _ in 0..1000 {
            assert_eq!(tree.place(SIZE) % 256, 80);
        }
        assert_eq!([4, 16, 48, 256].map(radix_size), [68, 176, 672, 2080]);
    }

    #[test]
    fn a_search_comes_to_the_node_of_its_key_and_radix_nodes_grow() {
        let mut machine = Machine::xeon_6230(1000.0);
        let mut tree = PacTree::new(1.0);
        for number in 0..20_000u64 {
            tree.insert(&mut machine, mix(number).max(1));
        }
        for number in 0..20_000u64 {
            let key = mix(number).max(1);
            let data = tree.find(&mut machine, key);
            assert!(tree.data[data].slots.contains(&key), "{number}");
        }
        let rooms: std::collections::BTreeSet<usize> =
            tree.radix.iter().map(|node| node.room).collect();
        assert!(rooms.contains(&4) && rooms.contains(&256), "{rooms:?}");
        // What the radix tree leads to is the node itself, or one beside it.
        let mut beside = 0;
        for number in 0..1000 {
            let key = mix(number).max(1);
            beside += usize::from(tree.descend(&mut machine, key) != tree.owner(key));
        }
        assert!((1..400).contains(&beside), "{beside}");
    }
}
