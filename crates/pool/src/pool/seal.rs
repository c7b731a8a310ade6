//! The seal: what a pool held when it was closed cleanly, so that the next opening can tell whether
//! anything of it is missing. Two copies, each with its check sum.
//!
//! It is in force only while its generation is that of the session record: an opening of the pool for
//! writing gives the session another generation before anything is changed, so that a seal never
//! speaks of contents that were written since. Programs that know no seals do the same.

use everleaf_machine::Machine;

use crate::checksum::crc32c_of_words;
use crate::layout::{SEAL_MARK, SEAL_OFFSETS, SEAL_WORDS};
use crate::view::View;
use crate::{Pool, PoolError};

/// What a pool holds, as the one that closes it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// Leaves of all trees.
    pub leaves: u64,
    /// Keys in them.
    pub keys: u64,
    /// A sum over the contents of the leaves.
    pub sum: u64,
    /// A sum over the names of the trees.
    pub roots: u32,
}

impl Seal {
    fn encode(&self, generation: u64) -> [u64; SEAL_WORDS] {
        let roots = u64::from(self.roots);
        let mut words = [generation, self.leaves, self.keys, self.sum, roots, 0, 0, 0];
        let mark = u64::from(u32::from_le_bytes(SEAL_MARK));
        words[7] = mark << 32 | u64::from(crc32c_of_words(&words[..7]));
        words
    }

    /// The seal that these words are of a pool whose session has this generation.
    pub fn decode(words: &[u64; SEAL_WORDS], generation: u64) -> Option<Seal> {
        let roots = words[4] as u32;
        let seal = Seal { leaves: words[1], keys: words[2], sum: words[3], roots };
        (seal.encode(generation) == *words).then_some(seal)
    }
}

/// The seal in force at an opening that finds this generation in the session.
pub(crate) fn at_opening<M: Machine>(view: View<M>, generation: u64) -> Option<Seal> {
    if M::mutant("pool.old_seal") {
        return read(view, view.word(SEAL_OFFSETS[0]).read_private());
    }
    read(view, generation)
}

/// The seal in force where the session has this generation.
fn read<M: Machine>(view: View<M>, generation: u64) -> Option<Seal> {
    SEAL_OFFSETS.iter().find_map(|offset| Seal::decode(&view.read(*offset), generation))
}

impl<M: Machine> Pool<M> {
    /// What the pool held when it was closed, if nobody has had it open for writing since.
    pub fn seal(&self) -> Option<Seal> {
        self.seal
    }

    /// Writes what the pool holds; in force from the next [`Pool::set_clean`] on. What it speaks of
    /// is durable before.
    ///
    /// # Errors
    /// `ReadOnly`.
    pub fn set_seal(&self, seal: Seal) -> Result<(), PoolError> {
        self.writable("seal it")?;
        let next = self.session.lock().generation + 1;
        self.write_seal(&seal.encode(next));
        Ok(())
    }

    /// Keeps the seal in force that the pool was opened with, although it was opened for writing:
    /// nothing was changed, because it does not fit what is there.
    pub fn keep_seal(&self) {
        if let (Some(seal), Ok(())) = (self.seal, self.writable("keep its seal")) {
            self.write_seal(&seal.encode(self.session.lock().generation));
        }
    }

    /// Ends the seal, if it is still in force or could come to be: the pool is about to be changed. A close that was
    /// cut short has left one of the session's next generation, which the session gets when the pool grows.
    pub fn end_seal(&self) {
        if self.writable("end its seal").is_err() {
            return;
        }
        let generation = self.session.lock().generation;
        let of = |offset: &u64| self.view().word(*offset).read_private();
        if SEAL_OFFSETS.iter().map(of).any(|of| of >= generation) {
            self.write_seal(&[0; SEAL_WORDS]);
        }
    }

    fn write_seal(&self, words: &[u64; SEAL_WORDS]) {
        for offset in SEAL_OFFSETS {
            self.view().write(offset, words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_of_one_generation_and_every_flipped_bit_ends_it() {
        let seal = Seal { leaves: 3, keys: 99, sum: 77, roots: 5 };
        let words = seal.encode(8);
        assert_eq!(Seal::decode(&words, 8), Some(seal));
        assert_eq!(Seal::decode(&words, 9), None);
        assert_eq!(Seal::decode(&[0; SEAL_WORDS], 0), None);
        for bit in 0..SEAL_WORDS * 64 {
            let mut other = words;
            other[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(Seal::decode(&other, 8), None, "bit {bit}");
        }
    }
}
