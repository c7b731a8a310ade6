//! What can be proven, an entry of a list: what can be run of it, by name.

use everleaf_machine::simulated::{MemoryModel, Random, mix};

use crate::case::Case;
use crate::case::step::{Programs, Step};
use crate::machine::configure::{Fixed, memory_name};
use crate::machine::dimensions::Dimension;

/// Those of which some steps have weak memory.
const WEAK: [&str; 12] = [
    "alloc",
    "batch",
    "epoch",
    "expiry",
    "hashed-leaf",
    "hashed-leaf-at-once",
    "hashed-leaf-bytes",
    "hashed-leaf-bytes-at-once",
    "maps",
    "nbtree",
    "nbtree-bytes",
    "pool",
];

/// Something that can be proven.
#[derive(Clone, Copy)]
pub struct Structure {
    /// Its name.
    pub name: &'static str,
    /// What it is, in half a line.
    pub about: &'static str,
    programs: &'static dyn Programs,
}

impl Structure {
    /// The case of a program's name; none if there is no such program.
    pub fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        self.programs.case(name)
    }

    /// What a random search that begins at `seed` does at its step of this number.
    pub fn step(&self, seed: u64, number: u64, fixed: Fixed) -> Step {
        let random = &mut Random::new(mix(mix(seed) ^ number));
        let step = self.programs.step(number, random, fixed).as_it_runs();
        if self.is_tried_weak() { step.maybe_weak(fixed) } else { step }
    }

    /// As [`Self::step`], with a brief program.
    pub fn brief(&self, seed: u64, number: u64, fixed: Fixed) -> Option<Step> {
        let random = &mut Random::new(mix(mix(seed) ^ mix(number)));
        let step = self.programs.brief(number, random, fixed).map(Step::as_it_runs);
        if self.is_tried_weak() { step.map(|step| step.maybe_weak(fixed)) } else { step }
    }

    /// Whether steps may have weak memory: what products stand on. Published designs are held to what they were made
    /// for, total store order, unless weak memory is asked for.
    pub(crate) fn is_tried_weak(&self) -> bool {
        WEAK.contains(&self.name)
    }

    /// What steps are drawn of.
    pub fn dimensions(&self) -> Vec<Dimension> {
        let mut all = self.programs.dimensions();
        for (_, values) in all.iter_mut().filter(|(name, _)| *name == "memory") {
            values.retain(|value| self.is_tried_weak() || *value != memory_name(MemoryModel::Weak));
        }
        all
    }

    /// The programs that are small enough for an exhaustive search.
    pub fn small(&self) -> Vec<String> {
        self.programs.small()
    }

    /// What a structure has for searches that end by time.
    pub fn programs(&self) -> &'static dyn Programs {
        self.programs
    }
}

/// An entry of a list of structures.
pub const fn one(
    name: &'static str,
    about: &'static str,
    programs: &'static dyn Programs,
) -> Structure {
    Structure { name, about, programs }
}

/// The structure of this name in a list.
pub fn find_in(structures: &'static [Structure], name: &str) -> Option<&'static Structure> {
    structures.iter().find(|structure| structure.name == name)
}
