//! The images a crash may leave at one point, as differences from the durable words.

use super::config::Domain;
use super::persistence::word_hash;
use super::random::{Random, mix};
use super::raw::AddressRange;
use super::state::{Buffered, State};

/// A prefix of a line's log that leaves contents no shorter prefix leaves.
#[derive(Clone, Copy)]
struct Prefix {
    /// What the prefix adds to the hash of the durable words.
    delta: u64,
    /// Its length.
    length: u32,
}

/// A line with pending stores; its prefixes are a range of the common list.
struct Choice {
    line: u32,
    first: u32,
    count: u32,
}

/// The set of images at one crash point.
#[derive(Default)]
pub struct Images {
    base: u64,
    prefixes: Vec<Prefix>,
    choices: Vec<Choice>,
    /// Words that belong to every image: stores still in buffers, where the domain keeps them.
    always: Vec<(usize, u64)>,
}

/// One image: the index of the chosen prefix for each line with pending stores.
pub type Cut = [u32];

impl Images {
    /// Collects the images of a crash now.
    pub fn collect(&mut self, state: &State) {
        self.prefixes.clear();
        self.choices.clear();
        self.always.clear();
        self.base = state.persistence.hash;
        if state.config.domain == Domain::Process && state.is_tso() {
            self.collect_buffers(state);
        }
        for &line in &state.persistence.dirty {
            let first = self.prefixes.len();
            let mut words = state.persistence.shadow.region().read_line(line as usize);
            let mut delta = 0u64;
            self.prefixes.push(Prefix { delta, length: 0 });
            for (index, entry) in state.persistence.lines[line as usize].log.iter().enumerate() {
                let word = line as usize * 8 + entry.word as usize;
                let old = std::mem::replace(&mut words[entry.word as usize], entry.value);
                delta = delta
                    .wrapping_sub(word_hash(word, old))
                    .wrapping_add(word_hash(word, entry.value));
                let is_new = self.prefixes[first..].iter().all(|known| known.delta != delta);
                if is_new && !entry.glued {
                    self.prefixes.push(Prefix { delta, length: index as u32 + 1 });
                }
            }
            let count = self.prefixes.len() - first;
            if count == 1 {
                // All its stores left it as it was.
                self.prefixes.truncate(first);
                continue;
            }
            self.choices.push(Choice { line, first: first as u32, count: count as u32 });
        }
    }

    /// The process's death lets every store buffer drain.
    fn collect_buffers(&mut self, state: &State) {
        for thread in &state.threads {
            for buffered in &thread.buffer {
                if let Buffered::Store(place, bits) = *buffered
                    && let Some(offset) = state.space.offset(place.address)
                    && offset < state.space.pool_bytes
                {
                    self.overlay(state, offset, place, bits);
                }
            }
        }
    }

    fn overlay(&mut self, state: &State, offset: usize, place: AddressRange, bits: u64) {
        let word = offset / 8;
        let known = self.always.iter().rposition(|&(known, _)| known == word);
        let old = known.map_or_else(
            || state.persistence.shadow.region().read(word),
            |index| self.always[index].1,
        );
        let shift = 8 * (offset % 8);
        let mask = if place.size == 8 { u64::MAX } else { ((1 << (8 * place.size)) - 1) << shift };
        let new = old & !mask | bits << shift & mask;
        self.base = self.base.wrapping_sub(word_hash(word, old)).wrapping_add(word_hash(word, new));
        match known {
            Some(index) => self.always[index].1 = new,
            None => self.always.push((word, new)),
        }
    }

    /// Whether all that is visible is durable.
    pub fn is_single(&self) -> bool {
        self.choices.is_empty()
    }

    /// Calls `visit` with the hash and the cut of each image to be checked, until it fails: all of
    /// them if they are at most `budget`, else a choice.
    pub fn visit<E>(
        &self,
        budget: usize,
        seed: u64,
        mut visit: impl FnMut(u64, &Cut) -> Result<(), E>,
    ) -> Result<(), E> {
        let lines = self.choices.len();
        let all = self
            .choices
            .iter()
            .fold(1usize, |product, choice| product.saturating_mul(choice.count as usize));
        let mut cut = vec![0u32; lines];
        if all <= budget.max(1) {
            return self.visit_all(&mut cut, visit);
        }
        visit(self.hash(&cut), &cut)?;
        let kept: Vec<u32> = self.choices.iter().map(|choice| choice.count - 1).collect();
        visit(self.hash(&kept), &kept)?;
        for index in 0..lines {
            cut[index] = kept[index];
            visit(self.hash(&cut), &cut)?;
            cut.copy_from_slice(&kept);
            cut[index] = 0;
            visit(self.hash(&cut), &cut)?;
            cut.fill(0);
        }
        let mut random = Random::new(mix(seed));
        for _ in 0..budget.saturating_sub(2 + 2 * lines) {
            for (chosen, choice) in cut.iter_mut().zip(&self.choices) {
                *chosen = random.below(u64::from(choice.count)) as u32;
            }
            visit(self.hash(&cut), &cut)?;
        }
        Ok(())
    }

    /// The image of what is visible now, as the caches have it.
    pub fn visible(&self, state: &State) -> (u64, Vec<u32>) {
        let as_seen = |choice: &Choice| {
            let line = choice.line as usize;
            let durable = state.persistence.shadow.region().read_line(line);
            let mut words = durable;
            for entry in &state.persistence.lines[line].log {
                words[entry.word as usize] = entry.value;
            }
            let mut delta = 0u64;
            for (index, (old, new)) in durable.into_iter().zip(words).enumerate() {
                let word = line * 8 + index;
                delta = delta.wrapping_sub(word_hash(word, old)).wrapping_add(word_hash(word, new));
            }
            let found = (0..choice.count).find(|index| self.prefix(choice, *index).delta == delta);
            // Where a store waits for the one that it is kept with, all but that.
            found.unwrap_or(choice.count - 1)
        };
        let cut: Vec<u32> = self.choices.iter().map(as_seen).collect();
        (self.hash(&cut), cut)
    }

    fn visit_all<E>(
        &self,
        cut: &mut [u32],
        mut visit: impl FnMut(u64, &Cut) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut hash = self.hash(cut);
        loop {
            visit(hash, cut)?;
            let mut digit = 0;
            loop {
                let Some(choice) = self.choices.get(digit) else { return Ok(()) };
                hash = hash.wrapping_sub(self.prefix(choice, cut[digit]).delta);
                cut[digit] += 1;
                if cut[digit] < choice.count {
                    hash = hash.wrapping_add(self.prefix(choice, cut[digit]).delta);
                    break;
                }
                cut[digit] = 0;
                digit += 1;
            }
        }
    }

    fn prefix(&self, choice: &Choice, chosen: u32) -> &Prefix {
        &self.prefixes[(choice.first + chosen) as usize]
    }

    fn hash(&self, cut: &Cut) -> u64 {
        self.choices.iter().zip(cut).fold(self.base, |hash, (choice, &chosen)| {
            hash.wrapping_add(self.prefix(choice, chosen).delta)
        })
    }

    /// Builds the image of `cut` in the shadow; [`Shadow::roll_back`] undoes it.
    ///
    /// [`Shadow::roll_back`]: super::shadow::Shadow::roll_back
    pub fn build(&self, state: &mut State, cut: &Cut) {
        let persistence = &mut state.persistence;
        for (choice, &chosen) in self.choices.iter().zip(cut) {
            let length = self.prefix(choice, chosen).length as usize;
            for entry in &persistence.lines[choice.line as usize].log[..length] {
                persistence
                    .shadow
                    .patch(choice.line as usize * 8 + entry.word as usize, entry.value);
            }
        }
        for &(word, value) in &self.always {
            persistence.shadow.patch(word, value);
        }
    }

    /// What an image lost, for people.
    pub fn describe(&self, state: &State, cut: &Cut) -> String {
        if self.choices.is_empty() {
            return "everything visible was kept".to_string();
        }
        let mut text = String::new();
        for (choice, &chosen) in self.choices.iter().zip(cut) {
            let log = &state.persistence.lines[choice.line as usize].log;
            let kept = self.prefix(choice, chosen).length as usize;
            let separator = if text.is_empty() { "" } else { "; " };
            text.push_str(&format!(
                "{separator}line pool+{:#x} keeps {kept} of {} stores",
                choice.line * 64,
                log.len()
            ));
            for (index, entry) in log.iter().enumerate() {
                let fate = if index < kept { "kept" } else { "lost" };
                text.push_str(&format!(" [{fate}: word {} = {:#x}]", entry.word, entry.value));
            }
        }
        text
    }
}
