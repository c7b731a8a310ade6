//! Programs that came to places where no other had been: a search goes back to the states they made,
//! with other threads on another machine, or a phase further.
//!
//! What is new is told by the marks of rare branches: one that was never met, or met an order of
//! magnitude more often than ever in one program. The corpus of a search follows from its seed, and a
//! program of it is repeated by its name alone, like every other.

use std::collections::HashMap;

use everleaf_machine::simulated::{Random, Report};

use crate::programs::made::{Made, draw_operations};

/// The most programs that are kept: then the oldest goes.
pub const PROGRAMS_MAX: usize = 64;
/// The most phases before the threads come.
const PHASES_MAX: usize = 8;

/// Made programs that were somewhere new.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    programs: Vec<Made>,
    /// How often each mark was met in one program, as a power of four.
    seen: HashMap<&'static str, u32>,
    /// Programs that were kept so far.
    kept: u64,
}

impl Corpus {
    /// Keeps a program if what it did is new.
    pub fn note(&mut self, program: &str, report: &Report) {
        let mut is_new = false;
        for (mark, count) in &report.marks {
            let height = 1 + count.ilog2() / 2;
            let seen = self.seen.entry(mark).or_default();
            is_new |= height > *seen;
            *seen = (*seen).max(height);
        }
        let Some(made) = Made::from_name(program).filter(|_| is_new) else { return };
        if self.programs.len() == PROGRAMS_MAX {
            self.programs.remove(0);
        }
        self.programs.push(made);
        self.kept += 1;
    }

    /// How many programs were kept.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// How many of them are still there to go back to.
    pub fn at_hand(&self) -> usize {
        self.programs.len()
    }

    /// The state of one that was kept instead of that of a program that was drawn: what its threads
    /// do, or one more phase, is drawn anew. The program itself if there is none to go back to.
    pub fn vary(&self, program: String, random: &mut Random) -> String {
        let Some(drawn) = Made::from_name(&program) else { return program };
        if self.programs.is_empty() {
            return program;
        }
        let known = &self.programs[random.below(self.programs.len() as u64) as usize];
        let mut made = Made { threads: drawn.threads, room: drawn.room, ..known.clone() };
        made.operations = draw_operations(random) & drawn.operations | drawn.operations & 0b111;
        let phases = if random.one_in(2) { &mut made.walk } else { &mut made.warm };
        if random.one_in(2) && phases.len() < PHASES_MAX {
            phases.push(random.next() as u16);
        }
        // Where threads stop for ever, nothing may come before them that takes locks.
        if drawn.warm.is_empty() {
            made.warm.clear();
        }
        made.name()
    }
}
