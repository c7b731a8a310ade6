//! What is known about crash images: recovery is a pure function of the image, so the outcome of
//! each distinct image is computed once and kept, and each distinct outcome is judged once per
//! moment of a history.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Key-value pairs, sorted by key.
pub type Contents = Vec<(u64, u64)>;

/// Image hashes are already well mixed.
#[derive(Default)]
pub struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only 64-bit keys are hashed")
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// The result of recovering an image.
pub struct RecoveredImage {
    /// The contents, or what is broken.
    pub result: Result<Contents, String>,
    /// The last moment at which it was found good.
    pub judged: u64,
}

/// Above so many images all is forgotten, to bound memory.
const IMAGES_MAX: usize = 1 << 20;

/// The known images and outcomes of one program.
#[derive(Default)]
pub struct Memo {
    images: HashMap<u64, u32, BuildHasherDefault<Identity>>,
    outcomes: Vec<RecoveredImage>,
    by_contents: HashMap<Contents, u32>,
    moment: u64,
    moment_of: (u64, u64),
}

impl Memo {
    /// The number of this moment: changes whenever `run` or `epoch` does.
    pub fn set_moment(&mut self, run: u64, epoch: u64) {
        if self.moment_of != (run, epoch) {
            self.moment_of = (run, epoch);
            self.moment += 1;
        }
    }

    pub fn moment(&self) -> u64 {
        self.moment
    }

    /// The outcome of an image, if known.
    #[inline]
    pub fn find(&self, hash: u64) -> Option<u32> {
        self.images.get(&hash).copied()
    }

    /// Adds an image; gives the number of its outcome.
    pub fn learn(&mut self, hash: u64, result: Result<Contents, String>) -> u32 {
        if self.images.len() >= IMAGES_MAX {
            self.images.clear();
            self.outcomes.clear();
            self.by_contents.clear();
        }
        let next = self.outcomes.len() as u32;
        let outcome = match &result {
            Ok(contents) => match self.by_contents.get(contents) {
                Some(&known) => known,
                None => {
                    self.by_contents.insert(contents.clone(), next);
                    next
                }
            },
            Err(_) => next,
        };
        if outcome == next {
            self.outcomes.push(RecoveredImage { result, judged: 0 });
        }
        self.images.insert(hash, outcome);
        outcome
    }

    pub fn outcome(&mut self, number: u32) -> &mut RecoveredImage {
        &mut self.outcomes[number as usize]
    }
}
