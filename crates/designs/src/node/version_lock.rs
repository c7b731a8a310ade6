//! A lock and a version in one word, which a crash opens by itself.
//!
//! ```text
//!   63            32 31            2 1    0
//!  | generation     | version       |dead|held|
//! ```
//!
//! Readers take a *stable* version, read, and validate that the version is still the same; writers
//! hold the lock and leave a new version behind. The word may lie in the pool: the *generation* is a
//! number that no earlier opening of the pool had, and a word of another generation counts as open,
//! at version 0. So a lock that a crash left held needs no repair. A word in DRAM uses generation 0.
//!
//! Invariants:
//! - V1 while the lock is held only its holder changes what it guards;
//! - V2 the version of an open lock differs before and after every change (2^30 changes during one
//!   read would hide one);
//! - V3 a dead lock is never held again: what it guards has left the structure.

use everleaf_machine::{Atomic, Machine, Ordering};

const HELD: u64 = 1;
const DEAD: u64 = 2;
const STEP: u64 = 4;
const GENERATION_SHIFT: u32 = 32;
const LOW_MASK: u64 = (1 << GENERATION_SHIFT) - 1;

/// A version of an open lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

/// Why something read or written without a lock has to be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It changed meanwhile: at once.
    Now,
    /// Somebody holds the lock: when that may have changed.
    Wait,
}

impl Retry {
    /// Waits if there is something to wait for.
    #[inline(always)]
    pub fn pause<M: Machine>(self, attempt: &mut u32) {
        if self == Retry::Wait {
            M::spin(*attempt);
        }
        *attempt += 1;
    }
}

/// See the module.
#[repr(transparent)]
pub struct VersionLock<M: Machine> {
    word: Atomic<u64, M>,
}

impl<M: Machine> VersionLock<M> {
    /// An open lock of `generation`.
    pub fn new(generation: u32) -> Self {
        VersionLock { word: Atomic::new(open_word(generation)) }
    }

    /// A lock of `generation` that its maker holds.
    pub fn new_held(generation: u32) -> Self {
        VersionLock { word: Atomic::new(open_word(generation) | HELD) }
    }

    /// Makes a word that nobody else can reach a lock of `generation` that the caller holds.
    pub fn reset_held(&self, generation: u32) {
        self.word.write_private(open_word(generation) | HELD);
    }

    /// The version, unless the lock is held or dead.
    #[inline(always)]
    #[track_caller]
    pub fn stable(&self, generation: u32) -> Option<Version> {
        // Acquire: what the last holder wrote is seen; pairs with the release in `unlock`.
        let word = normal::<M>(self.word.load(Ordering::Acquire), generation);
        (word & (HELD | DEAD) == 0).then_some(Version(word))
    }

    /// The version; the way to go on if the lock is held (wait) or dead (look elsewhere).
    #[inline(always)]
    #[track_caller]
    pub fn stable_or_wait(&self, generation: u32) -> Result<Version, Retry> {
        // Acquire: as in `stable`.
        let word = normal::<M>(self.word.load(Ordering::Acquire), generation);
        match word & (HELD | DEAD) {
            0 => Ok(Version(word)),
            DEAD => Err(Retry::Now),
            _ => Err(Retry::Wait),
        }
    }

    /// Whether nothing has changed since `version` was stable: all reads in between are good.
    #[inline(always)]
    #[track_caller]
    pub fn validate(&self, generation: u32, version: Version) -> bool {
        // Acquire: the reads before stay before the load; pairs with the release fence in
        // `try_lock`: a thread that read what a holder wrote sees at least the held word.
        M::fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        normal::<M>(self.word.load(Ordering::Relaxed), generation) == version.0
    }

    /// Whether what it guards has left the structure.
    #[inline(always)]
    pub fn is_dead(&self, generation: u32) -> bool {
        // Relaxed: the bit stays, and nothing else is concluded from it.
        normal::<M>(self.word.load(Ordering::Relaxed), generation) & DEAD != 0
    }

    /// Takes the lock unless it is held or dead.
    #[inline(always)]
    #[track_caller]
    pub fn try_lock(&self, generation: u32) -> bool {
        // Relaxed: the exchange checks the word again.
        let word = self.word.load(Ordering::Relaxed);
        let open = normal::<M>(word, generation);
        open & (HELD | DEAD) == 0 && self.take(word, open)
    }

    /// Whether the lock, which the caller holds, was taken at this version: nothing has changed since.
    #[inline(always)]
    #[track_caller]
    pub fn is_held_from(&self, version: Version) -> bool {
        self.holders_word() == version.0 | HELD
    }

    /// Takes the lock if its version is still `version`.
    #[inline(always)]
    #[track_caller]
    pub fn upgrade(&self, version: Version) -> bool {
        self.take(version.0, version.0)
    }

    #[inline(always)]
    #[track_caller]
    fn take(&self, seen: u64, open: u64) -> bool {
        // Acquire: sees what the last holder wrote; pairs with the release in `unlock`. Relaxed on
        // failure: nothing is read.
        let taken = self
            .word
            .compare_exchange(seen, open | HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if taken {
            // Release: the held word before every store of the holder; pairs with the fence in
            // `validate`.
            M::fence(Ordering::Release);
            M::holds_lock(true);
        }
        taken
    }

    /// Opens the lock after a change: a new version.
    #[inline(always)]
    #[track_caller]
    pub fn unlock(&self) {
        M::holds_lock(false);
        let word = self.holders_word();
        let low = (word & LOW_MASK).wrapping_add(STEP) & LOW_MASK & !HELD;
        // Release: the holder's stores before the new version; pairs with the acquire in `stable`
        // and `take`.
        self.word.store(word & !LOW_MASK | low, Ordering::Release);
    }

    /// Opens the lock when nothing was changed: the old version, so that readers need not repeat.
    #[inline(always)]
    #[track_caller]
    pub fn unlock_unchanged(&self) {
        M::holds_lock(false);
        // Release: as in `unlock`; a reader that began before the lock was taken goes on.
        self.word.store(self.holders_word() & !HELD, Ordering::Release);
    }

    /// Ends the lock: what it guards has left the structure (V3).
    pub fn unlock_dead(&self) {
        M::holds_lock(false);
        let word = self.holders_word();
        // Release: as in `unlock`.
        self.word.store((word | DEAD) & !HELD, Ordering::Release);
    }

    /// The word while the caller holds the lock.
    #[inline(always)]
    fn holders_word(&self) -> u64 {
        // Relaxed: only the holder writes it.
        let word = self.word.load(Ordering::Relaxed);
        debug_assert!(word & HELD != 0, "unlock without lock");
        word
    }

    /// The address of the word.
    pub fn as_ptr(&self) -> *const u8 {
        self.word.as_ptr()
    }
}

fn open_word(generation: u32) -> u64 {
    u64::from(generation) << GENERATION_SHIFT
}

/// The word as `generation` sees it.
#[inline(always)]
fn normal<M: Machine>(word: u64, generation: u32) -> u64 {
    let is_stale = word >> GENERATION_SHIFT != u64::from(generation);
    if is_stale && !M::mutant("lock.no_generation") { open_word(generation) } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;

    type Lock = VersionLock<Hardware>;

    #[test]
    fn a_change_makes_a_new_version_and_none_does_not() {
        let lock = Lock::new(7);
        let first = lock.stable(7).expect("open");
        assert!(lock.try_lock(7) && !lock.try_lock(7));
        assert!(lock.stable(7).is_none() && !lock.validate(7, first));
        lock.unlock_unchanged();
        assert!(lock.validate(7, first));
        assert!(lock.upgrade(first));
        lock.unlock();
        assert!(!lock.validate(7, first) && !lock.upgrade(first));
        assert!(lock.stable(7).is_some());
    }

    #[test]
    fn a_lock_held_at_a_crash_is_open_to_the_next_generation() {
        let lock = Lock::new_held(1);
        assert!(lock.stable(1).is_none());
        let version = lock.stable(2).expect("stale words are open");
        assert!(lock.validate(2, version) && lock.try_lock(2));
        assert!(!lock.validate(2, version) && !lock.try_lock(2));
        lock.unlock();
        assert!(lock.stable(2).is_some());
    }

    #[test]
    fn a_dead_lock_stays_dead_until_its_place_is_made_anew() {
        let lock = Lock::new_held(3);
        lock.unlock_dead();
        assert!(lock.is_dead(3) && lock.stable(3).is_none() && !lock.try_lock(3));
        lock.reset_held(3);
        lock.unlock();
        assert!(!lock.is_dead(3) && lock.try_lock(3));
    }

    #[test]
    fn the_version_wraps_without_touching_the_generation() {
        let lock = Lock { word: Atomic::new(u64::MAX >> 32 & !0b11 | 9 << 32) };
        assert!(lock.try_lock(9));
        lock.unlock();
        assert_eq!(lock.stable(9), Some(Version(9 << 32)));
    }
}
