//! What the programs have in common: their techniques, their allocator, their log.

use super::machine::Machine;

/// Which of the three techniques a program has, and whether it writes a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Techniques {
    /// Writes are gathered in DRAM.
    pub buffering: bool,
    /// What was gathered goes to a new place.
    pub out_of_place: bool,
    /// What leads to the data is read in DRAM.
    pub caching: bool,
    /// What is gathered is also in a log.
    pub log: LogWrites,
}

/// How a program writes what it gathers to a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogWrites {
    /// It has no log.
    #[default]
    None,
    /// The caches write it back when they need room, as reading the public programs of the techniques
    /// suggests.
    Stored,
    /// Each record is flushed, as the lines say that were measured of these programs.
    Flushed,
}

impl Techniques {
    /// From letters: `b`, `o`, `c`, and `l` for a log that is stored, `f` for one that is flushed.
    pub const fn of(letters: &str) -> Self {
        let letters = letters.as_bytes();
        let mut made = Techniques {
            buffering: false,
            out_of_place: false,
            caching: false,
            log: LogWrites::None,
        };
        let mut at = 0;
        while at < letters.len() {
            match letters[at] {
                b'b' => made.buffering = true,
                b'o' => made.out_of_place = true,
                b'c' => made.caching = true,
                b'f' => made.log = LogWrites::Flushed,
                _ => made.log = LogWrites::Stored,
            }
            at += 1;
        }
        made
    }
}

/// What a program does to memory.
pub(crate) trait Play {
    fn insert(&mut self, machine: &mut Machine, key: u64);
    fn get(&mut self, machine: &mut Machine, key: u64);
    /// Reads so many pairs; nothing if it cannot.
    fn scan(&mut self, machine: &mut Machine, from: u64, count: usize);
}

/// Places of objects as an allocator with a header of 16 bytes and classes of 64 gives them out: every
/// object begins 16 bytes behind a line's beginning. New memory is zeroed and flushed.
pub(super) struct Heap {
    next: u64,
}

pub(super) const HEADER: u64 = 16;

impl Heap {
    pub(super) fn new(start: u64) -> Self {
        Heap { next: start }
    }

    pub(super) fn take(&mut self, size: u64) -> u64 {
        let place = self.next + HEADER;
        self.next += (size + HEADER).next_multiple_of(64).max(128);
        place
    }

    pub(super) fn take_zeroed(&mut self, machine: &mut Machine, size: u64) -> u64 {
        let place = self.take(size);
        machine.write_past(place, size);
        place
    }
}

/// A log of one thread.
pub(super) struct Log {
    next: u64,
    writes: LogWrites,
}

/// Bytes of a record, with what links and checks it.
pub(super) const RECORD: u64 = 32;

impl Log {
    pub(super) fn new(writes: LogWrites) -> Self {
        Log { next: 1 << 45, writes }
    }

    /// Nothing if there is no log.
    pub(super) fn append(&mut self, machine: &mut Machine) {
        if self.writes == LogWrites::None {
            return;
        }
        machine.write(self.next, RECORD);
        if self.writes == LogWrites::Flushed {
            machine.flush(self.next, RECORD);
        }
        self.next += RECORD;
    }
}
