//! CCEH as published: segments of 256 buckets of a line, probed line after line; the word that counts
//! readers and writers in the segment's header, the directory beside them. With buffers:
//! 32 nodes of 12 pairs for each segment.

use everleaf_bench::random::mix;

use super::machine::{DRAM, Machine};
use super::parts::{Heap, Log, Play, Techniques};

const BUCKETS: usize = 256;
/// Pairs of a segment.
const SLOTS: usize = 4 * BUCKETS;
/// Lines that are probed.
const PROBES: usize = 8;
const HEADER: u64 = 64;
const SIZE: u64 = HEADER + 16 * SLOTS as u64;
/// The buffer of a segment has so many nodes, by hash, and is emptied when one is full.
const BUFFER_NODES: usize = 32;
/// Pairs of such a node.
const BUFFER_NODE: usize = 12;

struct Segment {
    place: u64,
    depth: u32,
    prefix: u64,
    /// The hash in each slot; 0 if there is none.
    slots: Vec<u64>,
    buffer: Vec<u64>,
}

pub(super) struct Cceh {
    segments: Vec<Segment>,
    directory: Vec<u32>,
    depth: u32,
    /// Where the directory is.
    place: u64,
    heap: Heap,
    free: Vec<u64>,
    techniques: Techniques,
    log: Log,
}

impl Cceh {
    pub fn new(techniques: Techniques) -> Self {
        let place = if techniques.caching { DRAM } else { 1 << 20 };
        let mut made = Cceh {
            segments: Vec::new(),
            directory: Vec::new(),
            depth: 1,
            place,
            heap: Heap::new(1 << 32),
            free: Vec::new(),
            techniques,
            log: Log::new(techniques.log),
        };
        for prefix in 0..2 {
            let place = made.heap.take(SIZE);
            made.add(place, 1, prefix);
            made.directory.push(prefix as u32);
        }
        made
    }

    fn add(&mut self, place: u64, depth: u32, prefix: u64) -> u32 {
        let (slots, buffer) = (vec![0; SLOTS], Vec::new());
        self.segments.push(Segment { place, depth, prefix, slots, buffer });
        self.segments.len() as u32 - 1
    }

    fn segment(&self, machine: &mut Machine, hash: u64) -> usize {
        let entry = hash >> (64 - self.depth);
        machine.read(self.place + 8 * entry, 8);
        self.directory[entry as usize] as usize
    }

    /// The slots of a hash in the order in which they are tried.
    fn probes(hash: u64) -> impl Iterator<Item = usize> {
        let second = mix(hash ^ 0x5bd1_e995);
        [hash, second].into_iter().flat_map(|hash| {
            let first = (hash as usize % BUCKETS) * 4;
            (0..PROBES * 4).map(move |step| (first + step) % SLOTS)
        })
    }

    /// Puts a hash into its segment; false if there is no room.
    fn put(segment: &mut Segment, machine: &mut Machine, hash: u64, flush: bool) -> bool {
        for slot in Self::probes(hash) {
            let place = segment.place + HEADER + 16 * slot as u64;
            machine.read(place, 8);
            let held = segment.slots[slot];
            // What a split left behind does not count.
            if held == 0 || held >> (64 - segment.depth) != segment.prefix {
                machine.write(place, 16);
                if flush {
                    machine.flush(place, 16);
                }
                segment.slots[slot] = hash;
                return true;
            }
        }
        false
    }

    fn insert_hash(&mut self, machine: &mut Machine, hash: u64) {
        loop {
            let index = self.segment(machine, hash);
            let segment = &mut self.segments[index];
            // The segment's lock.
            machine.write(segment.place, 16);
            if Self::put(segment, machine, hash, true) {
                return;
            }
            self.split(machine, index);
        }
    }

    /// Empties a buffer: pair by pair, or into a copy of the segment that goes to a new place.
    fn empty_buffer(&mut self, machine: &mut Machine, index: usize) {
        let hashes = std::mem::take(&mut self.segments[index].buffer);
        if !self.techniques.out_of_place {
            return hashes.into_iter().for_each(|hash| self.insert_hash(machine, hash));
        }
        let old = self.segments[index].place;
        machine.read(old, SIZE);
        let copy = &mut self.segments[index];
        copy.place = DRAM + (1 << 40);
        let kept = |hash: &u64| !Self::put(copy, machine, *hash, false);
        let left: Vec<u64> = hashes.into_iter().filter(kept).collect();
        let place = self.free.pop().unwrap_or_else(|| self.heap.take(SIZE));
        self.segments[index].place = place;
        self.free.push(old);
        machine.write_past(place, SIZE);
        let Segment { depth, prefix, .. } = self.segments[index];
        self.point(machine, index as u32, depth, prefix);
        left.into_iter().for_each(|hash| self.insert_hash(machine, hash));
    }

    /// Splits a segment into two new ones.
    fn split(&mut self, machine: &mut Machine, index: usize) {
        let Segment { place, depth, prefix, .. } = self.segments[index];
        let slots = std::mem::take(&mut self.segments[index].slots);
        let buffer = std::mem::take(&mut self.segments[index].buffer);
        if depth == self.depth {
            self.double(machine);
        }
        for half in [2 * prefix, 2 * prefix + 1] {
            // Only the program without buffers takes zeroed segments.
            let at = match self.techniques.buffering {
                true => self.heap.take(SIZE),
                false => self.heap.take_zeroed(machine, SIZE),
            };
            let new = self.add(at, depth + 1, half);
            let belongs = |hash: &u64| *hash != 0 && hash >> (63 - depth) == half;
            for (slot, hash) in slots.iter().enumerate() {
                machine.read(place + HEADER + 16 * slot as u64, 16);
                if belongs(hash) {
                    Self::put(&mut self.segments[new as usize], machine, *hash, false);
                }
            }
            let buffered = buffer.iter().copied().filter(belongs);
            self.segments[new as usize].buffer.extend(buffered);
            machine.write(at, 64);
            machine.flush(at, SIZE);
            self.point(machine, new, depth + 1, half);
        }
    }

    fn double(&mut self, machine: &mut Machine) {
        let bytes = 8 * self.directory.len() as u64;
        machine.read(self.place, bytes);
        self.directory = self.directory.iter().flat_map(|entry| [*entry, *entry]).collect();
        self.depth += 1;
        self.place += bytes;
        machine.write(self.place, 2 * bytes);
        machine.flush(self.place, 2 * bytes);
    }

    /// Makes the directory's entries name a segment.
    fn point(&mut self, machine: &mut Machine, segment: u32, depth: u32, prefix: u64) {
        let shift = self.depth - depth;
        let first = (prefix << shift) as usize;
        self.directory[first..first + (1 << shift)].fill(segment);
        let place = self.place + 8 * first as u64;
        machine.write(place, 8 << shift);
        machine.flush(place, 8 << shift);
    }
}

impl Play for Cceh {
    fn insert(&mut self, machine: &mut Machine, key: u64) {
        let hash = mix(key).max(1);
        if !self.techniques.buffering {
            return self.insert_hash(machine, hash);
        }
        self.log.append(machine);
        let index = self.segment(machine, hash);
        // The segment's depth, to know that the directory's entry is not an old one.
        machine.read(self.segments[index].place, 8);
        let buffer = &mut self.segments[index].buffer;
        buffer.push(hash);
        let node = |hash: &u64| *hash as usize / BUCKETS % BUFFER_NODES;
        let in_node = buffer.iter().filter(|other| node(other) == node(&hash)).count();
        if in_node >= BUFFER_NODE {
            self.empty_buffer(machine, index);
        }
    }

    fn get(&mut self, machine: &mut Machine, key: u64) {
        let hash = mix(key).max(1);
        let index = self.segment(machine, hash);
        let segment = &self.segments[index];
        if segment.buffer.contains(&hash) {
            return;
        }
        machine.read(segment.place, 16);
        for slot in Self::probes(hash) {
            machine.read(segment.place + HEADER + 16 * slot as u64, 8);
            if segment.slots[slot] == hash {
                return;
            }
        }
    }

    /// A hash table cannot.
    fn scan(&mut self, _: &mut Machine, _: u64, _: usize) {}
}
