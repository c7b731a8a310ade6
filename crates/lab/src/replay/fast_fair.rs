//! FAST & FAIR as published: nodes of 512 bytes with 29 usable records, the sibling's first key looked at
//! on the way, and the header written but not flushed. With buffers: 12 pairs for each leaf.

use super::machine::{DRAM, Machine};
use super::parts::{Heap, Log, Play, Techniques};

const SIZE: u64 = 512;
/// Usable records.
const CAPACITY: usize = 29;
/// Pairs in the buffer of a leaf.
const BUFFER: usize = 12;
const NONE: u32 = u32::MAX;

struct Node {
    place: u64,
    level: u8,
    /// Key and child, in the order of the keys.
    records: Vec<(u64, u32)>,
    leftmost: u32,
    sibling: u32,
    buffer: Vec<u64>,
}

pub(super) struct FastFair {
    nodes: Vec<Node>,
    root: u32,
    heap: Heap,
    /// Leaves that were replaced.
    free: Vec<u64>,
    techniques: Techniques,
    log: Log,
}

impl FastFair {
    pub fn new(techniques: Techniques) -> Self {
        let heap = Heap::new(1 << 20);
        let log = Log::new(techniques.log);
        let mut made =
            FastFair { nodes: Vec::new(), root: 0, heap, free: Vec::new(), techniques, log };
        made.root = made.node(0, 1 << 19, NONE, NONE);
        made
    }

    fn node(&mut self, level: u8, place: u64, leftmost: u32, sibling: u32) -> u32 {
        let (records, buffer) = (Vec::with_capacity(CAPACITY + 1), Vec::new());
        self.nodes.push(Node { place, level, records, leftmost, sibling, buffer });
        self.nodes.len() as u32 - 1
    }

    /// A place for a node, zeroed.
    fn place(&mut self, machine: &mut Machine, level: u8) -> u64 {
        match level {
            0 => self.heap.take_zeroed(machine, SIZE),
            _ if self.techniques.caching => DRAM + self.heap.take(SIZE),
            _ => self.heap.take_zeroed(machine, SIZE),
        }
    }

    fn at(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    fn at_mut(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    fn record(&self, node: u32, index: usize) -> u64 {
        self.at(node).place + 32 + 16 * index as u64
    }

    /// The header and the records up to the one of this number.
    fn read_to(&self, machine: &mut Machine, node: u32, index: usize) {
        machine.read(self.at(node).place, 32);
        for index in 0..=index.min(CAPACITY) {
            machine.read(self.record(node, index), 16);
        }
    }

    fn read_sibling(&self, machine: &mut Machine, node: u32) {
        let sibling = self.at(node).sibling;
        if sibling != NONE {
            machine.read(self.record(sibling, 0), 8);
        }
    }

    /// The node of a level.
    fn find(&self, machine: &mut Machine, key: u64, level: u8) -> u32 {
        let mut node = self.root;
        while self.at(node).level > level {
            let records = &self.at(node).records;
            let index = records.partition_point(|record| record.0 <= key);
            self.read_to(machine, node, index);
            self.read_sibling(machine, node);
            let left = self.at(node).leftmost;
            node = index.checked_sub(1).map_or(left, |index| records[index].1);
        }
        node
    }

    /// Adds a record to a node, splitting it if it is full.
    fn store(&mut self, machine: &mut Machine, node: u32, record: (u64, u32)) {
        // Reading the program, a leaf's sibling is looked at too; what was measured has no room for it.
        if self.at(node).level > 0 {
            self.read_sibling(machine, node);
        }
        machine.read(self.record(node, self.at(node).records.len()), 16);
        if self.at(node).records.len() < CAPACITY {
            return self.shift_in(machine, node, record);
        }
        let (separator, right) = self.split(machine, node);
        let target = if record.0 < separator { node } else { right };
        self.shift_in(machine, target, record);
        self.add_separator(machine, node, (separator, right));
    }

    /// Moves the upper half to a new node.
    fn split(&mut self, machine: &mut Machine, node: u32) -> (u64, u32) {
        let level = self.at(node).level;
        let place = self.place(machine, level);
        let middle = self.at(node).records.len() / 2;
        let sibling = self.at(node).sibling;
        let mut moved = self.at_mut(node).records.split_off(middle);
        let (separator, child) = moved[0];
        if level > 0 {
            moved.remove(0);
        }
        let right = self.node(level, place, child, sibling);
        machine.read(self.record(node, middle), 16 * moved.len() as u64);
        machine.write(place, 32 + 16 * moved.len() as u64);
        machine.flush(place, SIZE);
        self.at_mut(right).records.extend(moved);
        let buffer = std::mem::take(&mut self.at_mut(node).buffer);
        let (upper, lower) = buffer.into_iter().partition(|key| *key >= separator);
        self.at_mut(right).buffer = upper;
        self.at_mut(node).buffer = lower;
        self.at_mut(node).sibling = right;
        for place in [self.at(node).place, self.record(node, middle), self.at(node).place] {
            machine.write(place, 16);
            machine.flush(place, 16);
        }
        (separator, right)
    }

    fn add_separator(&mut self, machine: &mut Machine, left: u32, separator: (u64, u32)) {
        let level = self.at(left).level;
        if left != self.root {
            let parent = self.find(machine, separator.0, level + 1);
            return self.store(machine, parent, separator);
        }
        let place = self.place(machine, level + 1);
        self.root = self.node(level + 1, place, left, NONE);
        let root = self.root;
        self.at_mut(root).records.push(separator);
        machine.write(place, 48);
        machine.flush(place, 48);
    }

    /// FAST: shifts from the end, and flushes a line when the shift leaves it. What a buffer had gathered
    /// is flushed by [`Self::empty_buffer`].
    fn shift_in(&mut self, machine: &mut Machine, node: u32, record: (u64, u32)) {
        let is_gathered = self.techniques.buffering && self.at(node).level == 0;
        let count = self.at(node).records.len();
        let at = self.at(node).records.partition_point(|other| other.0 <= record.0);
        machine.write(self.at(node).place, 32);
        for index in (at + 1..=count + 1).rev() {
            let place = self.record(node, index);
            machine.read(place - 16, 16);
            machine.write(place, 16);
            if !is_gathered && (place / 64) != (place - 16) / 64 {
                machine.flush(place, 16);
            }
        }
        machine.write(self.record(node, at), 16);
        if !is_gathered {
            machine.flush(self.record(node, at), 16);
        }
        machine.write(self.at(node).place, 32);
        self.at_mut(node).records.insert(at, record);
    }

    /// Empties the buffer of a leaf into it.
    fn empty_buffer(&mut self, machine: &mut Machine, mut leaf: u32) {
        let mut keys = std::mem::take(&mut self.at_mut(leaf).buffer);
        keys.sort_unstable();
        if self.techniques.out_of_place {
            return self.replace(machine, leaf, &keys);
        }
        for key in keys {
            while self.at(leaf).sibling != NONE
                && self.at(self.at(leaf).sibling).records[0].0 <= key
            {
                machine.flush(self.at(leaf).place, SIZE);
                leaf = self.at(leaf).sibling;
            }
            self.store(machine, leaf, (key, NONE));
        }
        // Each line once: the lines that were measured have no room for a flush of each insert. After a
        // split the key may have gone to the new leaf.
        machine.flush(self.at(leaf).place, SIZE);
        if let Some(sibling) = self.nodes.get(self.at(leaf).sibling as usize) {
            machine.flush(sibling.place, SIZE);
        }
    }

    /// Writes leaf and keys to one or two new leaves.
    fn replace(&mut self, machine: &mut Machine, leaf: u32, keys: &[u64]) {
        let count = self.at(leaf).records.len();
        machine.read(self.at(leaf).place, 32 + 16 * count as u64);
        let mut records = std::mem::take(&mut self.at_mut(leaf).records);
        records.extend(keys.iter().map(|key| (*key, NONE)));
        records.sort_unstable();
        let old = self.at(leaf).place;
        self.at_mut(leaf).place = self.new_leaf(machine, records.len().min(CAPACITY));
        let right = (records.len() > CAPACITY).then(|| {
            let upper = records.split_off(records.len() / 2);
            let place = self.new_leaf(machine, upper.len());
            let right = self.node(0, place, NONE, self.at(leaf).sibling);
            self.at_mut(leaf).sibling = right;
            let separator = upper[0].0;
            self.at_mut(right).records = upper;
            (separator, right)
        });
        let low = records[0].0;
        self.at_mut(leaf).records = records;
        // The header of the old leaf, that of the left neighbour, which is somewhere else, and the
        // parent's word, which with caching is also in persistent memory.
        let before = self.at(leaf.saturating_sub(1)).place;
        let parent = if leaf == self.root { leaf } else { self.find(machine, low, 1) };
        let word = self.record(parent, 0);
        let copied = if word < DRAM { word } else { word - DRAM + (1 << 46) };
        for place in [old, before, copied] {
            machine.write(place, 16);
            machine.flush(place, 16);
        }
        self.free.push(old);
        if let Some(separator) = right {
            self.add_separator(machine, leaf, separator);
        }
    }

    fn new_leaf(&mut self, machine: &mut Machine, count: usize) -> u64 {
        let place = match self.free.pop() {
            Some(place) => {
                machine.write_past(place, SIZE);
                place
            }
            None => self.heap.take_zeroed(machine, SIZE),
        };
        machine.write(place, 32 + 16 * count as u64);
        machine.flush(place, SIZE);
        place
    }
}

impl Play for FastFair {
    fn insert(&mut self, machine: &mut Machine, key: u64) {
        let leaf = self.find(machine, key, 0);
        if !self.techniques.buffering {
            return self.store(machine, leaf, (key, NONE));
        }
        self.log.append(machine);
        self.at_mut(leaf).buffer.push(key);
        if self.at(leaf).buffer.len() >= BUFFER {
            self.empty_buffer(machine, leaf);
        }
    }

    fn get(&mut self, machine: &mut Machine, key: u64) {
        let leaf = self.find(machine, key, 0);
        if self.at(leaf).buffer.contains(&key) {
            return;
        }
        let records = &self.at(leaf).records;
        if let Ok(index) = records.binary_search_by_key(&key, |record| record.0) {
            return self.read_to(machine, leaf, index);
        }
        self.read_to(machine, leaf, records.len());
        self.read_sibling(machine, leaf);
    }

    fn scan(&mut self, machine: &mut Machine, from: u64, count: usize) {
        let (mut leaf, mut got) = (self.find(machine, from, 0), 0);
        while leaf != NONE && got < count {
            let node = self.at(leaf);
            let first = node.records.partition_point(|record| record.0 < from);
            let last = node.records.len().min(first + count - got);
            self.read_to(machine, leaf, last);
            got += last - first;
            leaf = node.sibling;
        }
    }
}
