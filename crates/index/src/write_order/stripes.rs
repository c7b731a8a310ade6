//! Stripes: locks that share all keys among them by hash.
//!
//! A stripe is free, taken by one write, by a batch, or by a call that reads several keys. A single reader passes one
//! taken by a write, whose change is one step, and waits for one taken by a batch.
//!
//! ```text
//!   63                                     2 1    0
//!  | holders that could change keys         | holder |
//! ```
//!
//! So a thread that reads keys and finds the words of their stripes before and behind that alike, and no stripe with
//! one that changes, has read what all of them were at any moment in between (`look.rs`).

use everleaf_machine::lock_rank::{Held, Rank};
use everleaf_machine::{Atomic, Machine, Ordering};

const FREE: u64 = 0;
const WRITE: u64 = 1;
const BATCH: u64 = 2;
/// By a call that changes nothing: single readers pass, and looks.
const READ: u64 = 3;
/// The bits of a word that say which kind of call has the stripe.
const HOLDER: u64 = 3;
/// What a word grows by when a holder lets go that could change keys.
const ONE_CHANGE: u64 = 4;
/// Bits of a word of a set of stripes.
const WORD_BITS: usize = u64::BITS as usize;

/// One lock, on a line of its own.
#[repr(align(128))]
struct Stripe<M: Machine> {
    word: Atomic<u64, M>,
    /// Writes since it last told. Only the holder touches it.
    writes: Atomic<u32, M>,
}

/// The locks.
pub struct Stripes<M: Machine> {
    stripes: Box<[Stripe<M>]>,
}

/// One stripe, taken until dropped.
pub struct StripeGuard<'a, M: Machine> {
    stripe: &'a Stripe<M>,
    _rank: Held,
}

/// Several stripes, taken until dropped.
pub struct StripesGuard<'a, M: Machine> {
    stripes: &'a Stripes<M>,
    /// A bit for each stripe.
    taken: Vec<u64>,
    /// Whether keys may be changed meanwhile.
    changes: bool,
    _rank: Held,
}

impl<M: Machine> Stripes<M> {
    /// So many locks; a power of two.
    pub fn new(count: usize) -> Self {
        assert!(count.is_power_of_two(), "{count} stripes");
        let stripe = |_| Stripe { word: Atomic::new(FREE), writes: Atomic::new(0) };
        Stripes { stripes: (0..count).map(stripe).collect() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.stripes.len()
    }

    /// The stripe of a key with this hash.
    #[inline]
    pub fn number(&self, hash: u64) -> u32 {
        // The upper half: the lower bits choose fingerprints.
        (hash >> 32) as u32 & (self.stripes.len() as u32 - 1)
    }

    fn take(&self, number: u32, holder: u64) -> &Stripe<M> {
        let stripe = &self.stripes[number as usize];
        let mut attempt = 0;
        // Relaxed: the exchange checks it.
        let mut word = stripe.word.load(Ordering::Relaxed);
        loop {
            let free = word & !HOLDER;
            // Acquire: what the last holder did; pairs with the release in `free`. Relaxed on failure:
            // nothing is read.
            let taken = stripe.word.compare_exchange(
                free,
                free | holder,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return stripe,
                // It is free, and was counted meanwhile: a thread that waited here would wait for a store that need not
                // come.
                Err(now) if now & HOLDER == FREE => word = now,
                Err(now) => {
                    word = now;
                    M::spin(attempt);
                    attempt += 1;
                }
            }
        }
    }

    /// Takes one stripe for one write.
    pub fn lock(&self, number: u32) -> StripeGuard<'_, M> {
        let rank = Held::wait_on::<M>(Rank::Stripe);
        StripeGuard { stripe: self.take(number, WRITE), _rank: rank }
    }

    /// Takes stripes for a batch; one that is named twice is taken once. In ascending order, so that
    /// two batches cannot wait for each other.
    pub fn lock_many(&self, numbers: impl IntoIterator<Item = u32>) -> StripesGuard<'_, M> {
        self.lock_as(numbers, BATCH)
    }

    /// As [`Self::lock_many`], for a call that only reads: single readers of these stripes wait for nobody, and
    /// writes wait.
    pub fn lock_to_read(&self, numbers: impl IntoIterator<Item = u32>) -> StripesGuard<'_, M> {
        self.lock_as(numbers, READ)
    }

    fn lock_as(&self, numbers: impl IntoIterator<Item = u32>, holder: u64) -> StripesGuard<'_, M> {
        let words = self.stripes.len().div_ceil(WORD_BITS);
        let mut wanted = vec![0_u64; words];
        for number in numbers {
            M::prefetch((&raw const self.stripes[number as usize]).cast());
            wanted[number as usize / WORD_BITS] |= 1 << (number as usize % WORD_BITS);
        }
        let rank = Held::wait_on::<M>(Rank::Stripe);
        let changes = holder != READ;
        let mut guard = StripesGuard { stripes: self, taken: vec![0; words], changes, _rank: rank };
        for (index, word) in wanted.into_iter().enumerate() {
            for bit in ones(word) {
                self.take((index * WORD_BITS) as u32 + bit, holder);
                guard.taken[index] |= 1 << bit;
            }
        }
        guard
    }

    /// Takes all stripes: nobody writes until the guard goes.
    pub fn lock_all(&self) -> StripesGuard<'_, M> {
        self.lock_many(0..self.stripes.len() as u32)
    }

    /// Whether a batch is changing keys of this stripe.
    #[inline]
    pub fn is_in_batch(&self, number: u32) -> bool {
        self.changes_outside_batches(number).is_none()
    }

    /// How often keys of this stripe may have changed, unless a batch is changing some.
    #[inline]
    pub(super) fn changes_outside_batches(&self, number: u32) -> Option<u64> {
        // Acquire: what a batch that has ended did; pairs with the release in `free`.
        let word = self.stripes[number as usize].word.load(Ordering::Acquire);
        let is_in_batch = word & HOLDER == BATCH && !M::mutant("stripes.readers_pass");
        (!is_in_batch).then_some(word & !HOLDER)
    }

    /// How often keys of this stripe may have changed, unless a call has it that may be changing one.
    #[inline]
    pub(super) fn changes_of(&self, number: u32) -> Option<u64> {
        // Acquire: what the calls have done that were counted; pairs with the release in `free`.
        let word = self.stripes[number as usize].word.load(Ordering::Acquire);
        matches!(word & HOLDER, FREE | READ).then_some(word & !HOLDER)
    }
}

impl<M: Machine> Stripe<M> {
    fn free(&self, changes: bool) {
        // Relaxed: nobody but its holder, which we are, changes it.
        let word = self.word.load(Ordering::Relaxed) & !HOLDER;
        let counted = changes && !M::mutant("stripes.counts_nothing");
        let word = if counted { word + ONE_CHANGE } else { word };
        // Release: pairs with the acquire in `take`, in `changes_outside_batches` and in `changes_of`.
        self.word.store(word, Ordering::Release);
    }
}

impl<M: Machine> StripeGuard<'_, M> {
    /// Counts a write of this stripe; true each time there were `limit` of them.
    pub fn count_to(&self, limit: u32) -> bool {
        // The holder alone touches it.
        let writes = self.stripe.writes.read_private() + 1;
        self.stripe.writes.write_private(if writes == limit { 0 } else { writes });
        writes == limit
    }
}

impl<M: Machine> Drop for StripeGuard<'_, M> {
    fn drop(&mut self) {
        self.stripe.free(true);
    }
}

impl<M: Machine> Drop for StripesGuard<'_, M> {
    fn drop(&mut self) {
        for (index, word) in self.taken.iter().enumerate() {
            for bit in ones(*word) {
                self.stripes.stripes[index * WORD_BITS + bit as usize].free(self.changes);
            }
        }
    }
}

/// The numbers of the bits that are set, ascending.
fn ones(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;

    #[test]
    fn a_batch_is_seen_by_readers_and_a_write_is_not() {
        let stripes = Stripes::<Hardware>::new(8);
        let write = stripes.lock(3);
        assert!(!stripes.is_in_batch(3));
        drop(write);
        let batch = stripes.lock_many([5, 3, 5]);
        let seen: Vec<u32> = (0..8).filter(|number| stripes.is_in_batch(*number)).collect();
        assert_eq!(seen, [3, 5]);
        drop(batch);
        drop(stripes.lock_all());
        assert!((0..8).all(|number| !stripes.is_in_batch(number)));
    }

    #[test]
    fn a_reader_of_stripes_is_passed_and_counted_by_nobody() {
        let stripes = Stripes::<Hardware>::new(8);
        let counts = || (0..8).map(|number| stripes.changes_of(number)).collect::<Vec<_>>();
        assert_eq!(counts(), [Some(0); 8]);
        let reading = stripes.lock_to_read([5, 3, 5]);
        assert_eq!(counts(), [Some(0); 8]);
        assert!((0..8).all(|number| !stripes.is_in_batch(number)));
        drop(reading);
        assert_eq!(counts(), [Some(0); 8]);
        let batch = stripes.lock_many([5, 3]);
        assert_eq!(counts()[3..6], [None, Some(0), None]);
        drop(batch);
        let write = stripes.lock(1);
        assert_eq!(counts()[1], None);
        drop(write);
        let one = Some(ONE_CHANGE);
        let changed = [Some(0), one, Some(0), one, Some(0), one, Some(0), Some(0)];
        assert_eq!(counts(), changed);
    }

    #[test]
    fn a_stripe_tells_when_it_has_counted_to_the_limit() {
        let stripes = Stripes::<Hardware>::new(1);
        let told: Vec<bool> = (0..7).map(|_| stripes.lock(0).count_to(3)).collect();
        assert_eq!(told, [false, false, true, false, false, true, false]);
    }

    #[test]
    fn writers_of_one_stripe_take_turns() {
        let (stripes, sum) = (Stripes::<Hardware>::new(2), Atomic::<u64, Hardware>::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let _turn = stripes.lock(1);
                        // Nobody else is here.
                        sum.write_private(sum.read_private() + 1);
                    }
                });
            }
        });
        assert_eq!(sum.read_private(), 3000);
    }
}
