//! The persistence model: for each 64-byte line what is durable, and which later stores may be.
//!
//! ```text
//!   live memory   = durable words + all of the line's log       what threads see
//!   durable words (the shadow)                                  what a crash certainly keeps
//!   log of a line = (word, value) in coherence order            a crash keeps any prefix of it
//! ```
//!
//! The hash of the durable words is kept up to date (a sum over words of a mix of index and value),
//! so that the hash of a crash image costs only its differences.

use super::config::Domain;
use super::random::mix;
use super::region::Region;
use super::shadow::Shadow;

/// A store that is visible and not yet certainly durable.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The word within its line, 0..8.
    pub word: u8,
    /// Its new value.
    pub value: u64,
    /// Whether a crash keeps it only with the next one.
    pub glued: bool,
}

/// One line's stores since it was last durable.
#[derive(Default)]
pub struct Line {
    /// The stores, oldest first.
    pub log: Vec<Entry>,
    /// The number of stores of this schedule that left the log.
    drained: u32,
    /// The highest log position any thread's flush has captured.
    captured: u32,
}

/// The contribution of one word to a memory hash.
#[inline]
pub fn word_hash(word: usize, value: u64) -> u64 {
    // A zero word contributes nothing, so that fresh memory needs no scan.
    if value == 0 { 0 } else { mix(value ^ (word as u64).wrapping_mul(0xA24B_AED4_963E_E407)) }
}

/// The persistence state of a pool.
pub struct Persistence {
    domain: Domain,
    /// All lines of the pool.
    pub lines: Vec<Line>,
    /// The lines whose log is not empty, in no particular order.
    pub dirty: Vec<u32>,
    /// The durable words.
    pub shadow: Shadow,
    /// The hash of the durable words.
    pub hash: u64,
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    template: Vec<[u64; 8]>,
    template_hash: u64,
}

impl Persistence {
    pub fn new(domain: Domain, size: usize) -> Self {
        let lines = size / 64;
        Persistence {
            domain,
            lines: (0..lines).map(|_| Line::default()).collect(),
            dirty: Vec::new(),
            shadow: Shadow::new(size),
            hash: 0,
            touched: Vec::new(),
            is_touched: vec![false; lines],
            template: vec![[0; 8]; lines],
            template_hash: 0,
        }
    }

    /// Notes that a line of the live memory may differ from the template.
    #[inline]
    pub fn touch(&mut self, line: usize) {
        if !self.is_touched[line] {
            self.is_touched[line] = true;
            self.touched.push(line as u32);
        }
    }

    /// Makes `live` the state every later schedule starts from.
    pub fn set_template(&mut self, live: &Region) {
        self.template_hash = 0;
        for line in 0..self.template.len() {
            let words = live.read_line(line);
            self.template[line] = words;
            self.shadow.region().write_line(line, words);
            for (index, value) in words.into_iter().enumerate() {
                self.template_hash =
                    self.template_hash.wrapping_add(word_hash(line * 8 + index, value));
            }
        }
        self.hash = self.template_hash;
    }

    /// Takes live memory and durable words back to the template, and forgets all logs.
    pub fn restore(&mut self, live: &Region) {
        for index in 0..self.touched.len() {
            let line = self.touched[index] as usize;
            live.write_line(line, self.template[line]);
            self.shadow.region().write_line(line, self.template[line]);
            self.is_touched[line] = false;
            self.lines[line] =
                Line { log: std::mem::take(&mut self.lines[line].log), ..Line::default() };
            self.lines[line].log.clear();
        }
        self.touched.clear();
        self.dirty.clear();
        self.hash = self.template_hash;
    }

    /// Starts over from a crash image: live memory and durable words become `image`.
    pub fn load(&mut self, image: &Region, live: &Region) {
        self.restore(live);
        for line in 0..self.lines.len() {
            live.write_line(line, image.read_line(line));
        }
        self.set_template(live);
    }

    /// Behind [`Self::load`] of the durable words of another pool: stores once more what of it is not durable yet.
    pub fn follow(&mut self, other: &Persistence, live: &Region) {
        for &line in &other.dirty {
            for entry in &other.lines[line as usize].log {
                let word = line as usize * 8 + entry.word as usize;
                live.write(word, entry.value);
                self.record(word, entry.value);
                if entry.glued {
                    self.glue_last(line as usize);
                }
            }
        }
    }

    /// Declares everything in `live` durable: the state in which a schedule begins.
    pub fn make_all_durable(&mut self, live: &Region) {
        for index in 0..self.touched.len() {
            let line = self.touched[index] as usize;
            let words = live.read_line(line);
            for (word, value) in words.into_iter().enumerate() {
                self.set_durable(line * 8 + word, value);
            }
        }
    }

    #[inline]
    fn set_durable(&mut self, word: usize, value: u64) {
        let old = self.shadow.region().read(word);
        if old != value {
            self.shadow.region().write(word, value);
            self.hash =
                self.hash.wrapping_sub(word_hash(word, old)).wrapping_add(word_hash(word, value));
        }
    }

    /// Records that `word` (index in the pool) became visible as `value`.
    #[inline]
    pub fn record(&mut self, word: usize, value: u64) {
        let line = word / 8;
        self.touch(line);
        if self.domain != Domain::Adr {
            return self.set_durable(word, value);
        }
        if self.lines[line].log.is_empty() {
            self.dirty.push(line as u32);
        }
        self.lines[line].log.push(Entry { word: (word % 8) as u8, value, glued: false });
    }

    /// Lets a crash keep the last record of a line only with the next one.
    pub fn glue_last(&mut self, line: usize) {
        if let Some(last) = self.lines[line].log.last_mut() {
            last.glued = true;
        }
    }

    /// Exchanges the order of the last two records of a line, if no flush has told them apart.
    pub fn swap_last_two(&mut self, line: usize) {
        let line = &mut self.lines[line];
        let count = line.log.len();
        if count >= 2 && line.captured <= line.drained + count as u32 - 2 {
            line.log.swap(count - 1, count - 2);
        }
    }

    /// The log position a flush of `line` captures now.
    #[inline]
    pub fn capture(&mut self, line: usize) -> u32 {
        let line = &mut self.lines[line];
        line.captured = line.drained + line.log.len() as u32;
        line.captured
    }

    /// Whether a drain of `line` up to `position` would make anything durable.
    #[inline]
    pub fn is_pending(&self, line: usize, position: u32) -> bool {
        position > self.lines[line].drained
    }

    /// Makes the stores of `line` before `position` durable.
    pub fn make_durable(&mut self, line: usize, position: u32) {
        let state = &mut self.lines[line];
        let count = position.saturating_sub(state.drained) as usize;
        if count == 0 {
            return;
        }
        state.drained = position;
        for index in 0..count {
            let Entry { word, value, .. } = self.lines[line].log[index];
            self.set_durable(line * 8 + word as usize, value);
        }
        self.lines[line].log.drain(..count);
        if self.lines[line].log.is_empty()
            && let Some(index) = self.dirty.iter().position(|&dirty| dirty as usize == line)
        {
            self.dirty.swap_remove(index);
        }
    }

    /// The first line whose live contents are not the durable words plus its log: somebody wrote
    /// past the machine. Costs a pass over the pool.
    pub fn find_bypass(&self, live: &Region) -> Option<usize> {
        (0..self.lines.len()).find(|&line| {
            let mut words = self.shadow.region().read_line(line);
            for entry in &self.lines[line].log {
                words[entry.word as usize] = entry.value;
            }
            words != live.read_line(line)
                || (!self.is_touched[line] && words != self.template[line])
        })
    }
}
