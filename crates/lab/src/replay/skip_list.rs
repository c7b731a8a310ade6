//! The skip list as published: RocksDB's, with at most 12 levels and a quarter of the nodes on each next
//! one, its nodes in persistent memory, the link on level 0 flushed. With buffers: 16 pairs at each node of
//! more than 2 levels. With caching: such nodes are read in DRAM.

use everleaf_bench::random::Random;

use super::machine::{DRAM, Machine};
use super::parts::{Heap, Log, Play, Techniques};

const LEVELS: usize = 12;
/// Pairs in the buffer of a node.
const BUFFER: usize = 16;
/// Nodes of more levels have a buffer and a copy in DRAM.
const LOW: usize = 2;
const NONE: u32 = u32::MAX;
/// Height, key, value.
const HEADING: u64 = 24;

struct Node {
    place: u64,
    key: u64,
    next: Vec<u32>,
    buffer: Vec<u64>,
}

pub(super) struct SkipList {
    nodes: Vec<Node>,
    heap: Heap,
    techniques: Techniques,
    log: Log,
    random: Random,
}

impl SkipList {
    pub fn new(techniques: Techniques, seed: u64) -> Self {
        let mut heap = Heap::new(1 << 20);
        let next = vec![NONE; LEVELS];
        let head = Node {
            place: heap.take(HEADING + 8 * LEVELS as u64),
            key: 0,
            next,
            buffer: Vec::new(),
        };
        let log = Log::new(techniques.log);
        SkipList { nodes: vec![head], heap, techniques, log, random: Random::new(seed) }
    }

    fn at(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    /// Where a node is read.
    fn place(&self, node: u32) -> u64 {
        let Node { place, next, .. } = self.at(node);
        let in_dram = self.techniques.caching && next.len() > LOW;
        place + if in_dram { DRAM } else { 0 }
    }

    /// The last nodes before the key on these levels, starting at a node of that height.
    fn before(
        &self,
        machine: &mut Machine,
        key: u64,
        from: u32,
        levels: std::ops::Range<usize>,
    ) -> [u32; LEVELS] {
        let mut before = [from; LEVELS];
        let (mut node, mut larger) = (from, NONE);
        for level in levels.rev() {
            loop {
                machine.read(self.place(node) + HEADING + 8 * level as u64, 8);
                let next = self.at(node).next[level];
                // The node that was too large on the level above is so here.
                if next == NONE || next == larger {
                    break;
                }
                machine.read(self.place(next), 16);
                if self.at(next).key >= key {
                    larger = next;
                    break;
                }
                node = next;
            }
            before[level] = node;
        }
        before
    }

    /// Links a new node of random height behind others.
    fn link(&mut self, machine: &mut Machine, key: u64, before: &[u32; LEVELS]) {
        let mut height = 1;
        while height < LEVELS && self.random.below(4) == 0 {
            height += 1;
        }
        let size = HEADING + 8 * height as u64;
        let place = self.heap.take(size);
        let next = (0..height).map(|level| self.at(before[level]).next[level]).collect();
        let node = self.nodes.len() as u32;
        self.nodes.push(Node { place, key, next, buffer: Vec::new() });
        machine.write(place, size);
        machine.flush(place, size);
        for (level, before) in before.iter().enumerate().take(height) {
            // The word in persistent memory; a copy has it too.
            let word = self.at(*before).place + HEADING + 8 * level as u64;
            machine.write(word, 8);
            if level == 0 {
                machine.flush(word, 8);
            }
            self.nodes[*before as usize].next[level] = node;
        }
    }

    /// Puts what the buffer of a node has behind it.
    fn empty_buffer(&mut self, machine: &mut Machine, node: u32, tops: &[u32; LEVELS]) {
        let mut keys = std::mem::take(&mut self.nodes[node as usize].buffer);
        keys.sort_unstable();
        for key in keys {
            // A key may have become a node with a buffer itself.
            let mut tops = *tops;
            loop {
                let next = self.at(tops[LOW]).next[LOW];
                if next == NONE || self.at(next).key >= key {
                    break;
                }
                tops[..self.at(next).next.len()].fill(next);
            }
            let low = self.before(machine, key, tops[LOW], 0..LOW);
            tops[..LOW].copy_from_slice(&low[..LOW]);
            self.link(machine, key, &tops);
        }
    }
}

impl Play for SkipList {
    fn insert(&mut self, machine: &mut Machine, key: u64) {
        if !self.techniques.buffering {
            let before = self.before(machine, key, 0, 0..LEVELS);
            return self.link(machine, key, &before);
        }
        let before = self.before(machine, key, 0, LOW..LEVELS);
        self.log.append(machine);
        let node = before[LOW];
        self.nodes[node as usize].buffer.push(key);
        if self.at(node).buffer.len() >= BUFFER {
            self.empty_buffer(machine, node, &before);
        }
    }

    fn get(&mut self, machine: &mut Machine, key: u64) {
        let top = self.before(machine, key, 0, LOW..LEVELS)[LOW];
        if self.at(top).buffer.contains(&key) {
            return;
        }
        let before = self.before(machine, key, top, 0..LOW)[0];
        let next = self.at(before).next[0];
        if next != NONE {
            machine.read(self.place(next), HEADING);
        }
    }

    fn scan(&mut self, machine: &mut Machine, from: u64, count: usize) {
        let mut node = self.before(machine, from, 0, 0..LEVELS)[0];
        for _ in 0..count {
            node = self.at(node).next[0];
            if node == NONE {
                return;
            }
            machine.read(self.place(node), HEADING + 8);
        }
    }
}
