//! The durable words as real memory, on which crash images are built in place and undone.

use super::region::Region;

/// A second copy of the pool. Outside of an image check it holds the durable words.
pub struct Shadow {
    region: Region,
    saved: Vec<(u32, [u64; 8])>,
    stamp: Vec<u32>,
    round: u32,
}

impl Shadow {
    pub fn new(size: usize) -> Self {
        Shadow { region: Region::new(size), saved: Vec::new(), stamp: vec![0; size / 64], round: 1 }
    }

    #[inline]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Keeps the present contents of `line` for [`Shadow::roll_back`]; call before each write.
    #[inline]
    pub fn save(&mut self, line: usize) {
        if self.stamp[line] != self.round {
            self.stamp[line] = self.round;
            self.saved.push((line as u32, self.region.read_line(line)));
        }
    }

    /// Writes a word of an image.
    pub fn patch(&mut self, word: usize, value: u64) {
        self.save(word / 8);
        self.region.write(word, value);
    }

    /// Undoes everything since the last call.
    pub fn roll_back(&mut self) {
        for &(line, words) in &self.saved {
            self.region.write_line(line as usize, words);
        }
        self.saved.clear();
        if self.round == u32::MAX {
            self.stamp.fill(0);
            self.round = 0;
        }
        self.round += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roll_back_undoes_every_patch() {
        let mut shadow = Shadow::new(256);
        shadow.region().write(3, 7);
        for round in 0..3 {
            shadow.patch(3, 100 + round);
            shadow.patch(3, 200 + round);
            shadow.patch(31, 1);
            assert_eq!(shadow.region().read(3), 200 + round);
            shadow.roll_back();
            assert_eq!((shadow.region().read(3), shadow.region().read(31)), (7, 0));
        }
    }
}
