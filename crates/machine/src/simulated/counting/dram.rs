//! Lines of memory other than the pool, numbered alike in every run: not by where the host's heap put them.
//!
//! What the machine allocates gets a run of numbers: that of the node of its size which was freed last, or a new
//! one. Of all other memory, a tree's own fields for instance, pieces of 16 bytes are laid out in the order in which
//! they are first met: two objects of the host's heap share none.

use std::collections::{BTreeMap, HashMap};

use super::super::raw::AddressRange;

/// Lines of the largest node whose numbers are used again.
const NODE_LINES_MAX: u64 = 128;
/// Bytes of a piece: what the host's heap aligns to.
pub const PIECE_BYTES: usize = 16;
/// Pieces of a line.
const PIECES: u64 = 64 / PIECE_BYTES as u64;

/// Lines of the host that were allocated as one.
#[derive(Clone, Copy)]
struct Run {
    lines: u64,
    /// The number of the first.
    number: u64,
}

/// The numbers that are given out.
#[derive(Default)]
pub struct Dram {
    /// Of nodes, by line of the host.
    nodes: HashMap<u64, u64>,
    /// What is larger than a node, by its first line of the host.
    large: BTreeMap<u64, Run>,
    /// The first numbers of nodes that were freed, by their lines.
    free: HashMap<u64, Vec<u64>>,
    /// Of other memory, by piece of the host: the number of the piece.
    pieces: HashMap<u64, u64>,
    /// Pieces that the line in use for them has room for, and the next of them.
    piece_room: u64,
    next_piece: u64,
    /// The next line.
    next: u64,
}

/// The first line and the lines of a range.
fn lines(place: AddressRange) -> (u64, u64) {
    let (first, end) = (place.address as u64 / 64, (place.address + place.size) as u64);
    (first, end.div_ceil(64) - first)
}

impl Dram {
    /// The number of the line that `address` is on, and whether all 64 bytes of the host's line are on it, else only
    /// its piece.
    pub fn number(&mut self, address: usize) -> (u64, bool) {
        let line = address as u64 / 64;
        if let Some(number) = self.nodes.get(&line) {
            return (*number, true);
        }
        if let Some((first, run)) = self.large.range(..=line).next_back()
            && line - first < run.lines
        {
            return (run.number + line - first, true);
        }
        let piece = (address / PIECE_BYTES) as u64;
        if let Some(number) = self.pieces.get(&piece) {
            return (number / PIECES, false);
        }
        if self.piece_room == 0 {
            (self.piece_room, self.next_piece) = (PIECES, self.take(1) * PIECES);
        }
        let number = self.next_piece;
        self.piece_room -= 1;
        self.next_piece += 1;
        self.pieces.insert(piece, number);
        (number / PIECES, false)
    }

    /// The first of so many numbers that nothing has.
    fn take(&mut self, count: u64) -> u64 {
        self.next += count;
        self.next - count
    }

    /// Memory is allocated.
    pub fn allocate(&mut self, place: AddressRange) {
        let (first, lines) = lines(place);
        if lines > NODE_LINES_MAX {
            let number = self.take(lines);
            self.large.insert(first, Run { lines, number });
            return;
        }
        let freed = self.free.get_mut(&lines).and_then(Vec::pop);
        let number = freed.unwrap_or_else(|| self.take(lines));
        self.nodes.extend((0..lines).map(|line| (first + line, number + line)));
        // What is left of another object of the heap.
        let pieces = first * PIECES..(first + lines) * PIECES;
        pieces.for_each(|piece| _ = self.pieces.remove(&piece));
    }

    /// Memory is freed.
    pub fn free(&mut self, place: AddressRange) {
        let (first, lines) = lines(place);
        if lines > NODE_LINES_MAX {
            self.large.remove(&first);
            return;
        }
        // One that was allocated when the machine did not look has none.
        if let Some(number) = self.nodes.get(&first) {
            self.free.entry(lines).or_default().push(*number);
        }
        (first..first + lines).for_each(|line| _ = self.nodes.remove(&line));
    }

    /// All of it is lost, as in a crash.
    pub fn lose(&mut self) {
        *self = Dram { next: self.next, ..Dram::default() };
    }
}
