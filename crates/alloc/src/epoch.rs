//! Epoch-based reclamation: when may an unlinked node, block or record be used again?
//!
//! A thread that reads shared structures *pins* the current epoch; what is unlinked is *retired*
//! under the epoch of that moment and reclaimed when the global epoch has advanced twice since, for
//! by then no thread that could still hold it is pinned. The epoch advances only when every pinned
//! thread has announced the current one. A stalled reader therefore stops reclamation, never
//! progress.
//!
//! Source: K. Fraser, "Practical lock-freedom", 2004, section 5.2.3. Departure: the announcement is
//! ordered by an asymmetric fence, so that pinning costs two plain stores.
//!
//! Invariants:
//! - E1 an item retired under epoch `e` is reclaimed only when the global epoch is at least `e + 2`;
//! - E2 the global epoch never moves past a pinned participant's announcement by more than one.

use everleaf_machine::{Atomic, Machine, Ordering};

/// Participants an [`EpochClock`] can have at once: one per session.
pub const PARTICIPANT_COUNT_MAX: usize = 512;

/// What a participant announces when it is not pinned.
const IDLE: u64 = 0;
/// The first epoch.
const FIRST: u64 = 2;

/// One participant's announcement, on a line of its own.
#[repr(align(128))]
struct Participant<M: Machine> {
    /// Epoch the participant is pinned in, or [`IDLE`].
    announced: Atomic<u64, M>,
    /// 1 while some session owns this entry.
    owned: Atomic<u32, M>,
    /// Bytes of nodes that its owner has handed out and not taken back, a signed number. A statistic.
    node_bytes: Atomic<u64, M>,
}

/// The global epoch and everybody's announcements.
pub struct EpochClock<M: Machine> {
    global: Atomic<u64, M>,
    /// Entries at and above this index were never owned.
    high_water: Atomic<usize, M>,
    participants: Box<[Participant<M>]>,
}

impl<M: Machine> Default for EpochClock<M> {
    fn default() -> Self {
        Self::new(PARTICIPANT_COUNT_MAX)
    }
}

impl<M: Machine> EpochClock<M> {
    /// A clock for at most `count` participants.
    pub fn new(count: usize) -> Self {
        let participant = |_| Participant {
            announced: Atomic::new(IDLE),
            owned: Atomic::new(0),
            node_bytes: Atomic::new(0),
        };
        EpochClock {
            global: Atomic::new(FIRST),
            high_water: Atomic::new(0),
            participants: (0..count).map(participant).collect(),
        }
    }

    /// Takes a free participant entry; `None` if all are owned.
    pub fn join(&self) -> Option<usize> {
        for (index, participant) in self.participants.iter().enumerate() {
            // Acquire: the entry is as its last owner left it; pairs with the release in `leave`.
            // Relaxed on failure: nothing is read.
            let taken =
                participant.owned.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                // Relaxed: a guess; the exchange below checks it.
                let mut seen = self.high_water.load(Ordering::Relaxed);
                while seen < index + 1 && !M::mutant("epoch.unseen_join") {
                    // SeqCst: an advance that misses the new entry must come before its first pin;
                    // pairs with the load in `try_advance`. Relaxed on failure: the loop re-reads.
                    match self.high_water.compare_exchange(
                        seen,
                        index + 1,
                        Ordering::SeqCst,
                        Ordering::Relaxed,
                    ) {
                        Ok(_) => break,
                        Err(now) => seen = now,
                    }
                }
                return Some(index);
            }
        }
        None
    }

    /// How many participant entries are owned now.
    pub fn participant_count(&self) -> usize {
        // SeqCst: pairs with the exchange in `join`.
        let count = self.high_water.load(Ordering::SeqCst);
        // Acquire: what a participant did before it left; pairs with the release in `leave`.
        let is_owned = |entry: &&Participant<M>| entry.owned.load(Ordering::Acquire) != 0;
        self.participants[..count].iter().filter(is_owned).count()
    }

    /// Gives a participant entry back; the participant must not be pinned.
    pub fn leave(&self, index: usize) {
        // Release: pairs with the acquire in `join`.
        self.participants[index].owned.store(0, Ordering::Release);
    }

    /// Notes how many bytes of nodes a participant has handed out: for [`Self::node_bytes`].
    #[inline]
    pub fn note_node_bytes(&self, index: usize, bytes: i64) {
        // On a simulated machine it would be a step that nothing depends on.
        if !M::SIMULATED {
            // Relaxed: a statistic.
            self.participants[index].node_bytes.store(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Bytes of nodes that all participants have handed out and not taken back.
    pub fn node_bytes(&self) -> i64 {
        // SeqCst: pairs with the exchange in `join`.
        let count = self.high_water.load(Ordering::SeqCst);
        let entries = self.participants[..count].iter();
        // Relaxed: a statistic.
        entries.map(|entry| entry.node_bytes.load(Ordering::Relaxed) as i64).sum()
    }

    /// Announces the current epoch: until [`Self::unpin`] nothing reachable now is reclaimed.
    #[inline(always)]
    pub fn pin(&self, index: usize) {
        // Acquire: no later load of ours happens before this one, or what we hold could have been
        // retired under an epoch older than the one we announce; pairs with the advance. A stale
        // epoch only holds back reclamation (E2).
        // Relaxed: a planted bug.
        let relaxed = M::mutant("epoch.pin_relaxed");
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Acquire };
        let mut epoch = self.global.load(order);
        if M::mutant("epoch.late_announcement") {
            epoch += 1;
        }
        // Ordered before every later load by the light barrier, which pairs with the heavy barrier
        // in `try_advance`. If the advance misses this announcement, our later loads see everything
        // unlinked before it; if it sees it, it waits for us. Release: an advance that sees this pin
        // and not the end of the one before must have what we read then behind it all the same;
        // pairs with the acquire fence in `try_advance`.
        self.participants[index].announced.store(epoch, Ordering::Release);
        if !M::mutant("epoch.no_light_barrier") {
            M::light_barrier();
        }
    }

    /// Ends the announcement.
    #[inline(always)]
    pub fn unpin(&self, index: usize) {
        // Release: our reads of shared structures are over; pairs with the acquire fence in
        // `try_advance`. Relaxed: a planted bug.
        let relaxed = M::mutant("epoch.unpin_relaxed");
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        self.participants[index].announced.store(IDLE, order);
    }

    /// The epoch under which something unlinked before this call may be retired.
    pub fn retire_epoch(&self) -> u64 {
        // SeqCst: the caller's unlinking stores come before the load of `global` below, or an item could be
        // tagged with an epoch older than the moment it was unlinked; pairs with the heavy barrier in
        // `try_advance`.
        if !M::mutant("epoch.retire_unfenced") {
            M::fence(Ordering::SeqCst);
        }
        // Relaxed: ordered by the fence.
        self.global.load(Ordering::Relaxed)
    }

    /// Whether items retired under `epoch` may be reclaimed (E1).
    pub fn is_expired(&self, epoch: u64) -> bool {
        if M::mutant("epoch.no_grace") {
            return true;
        }
        // Acquire: reclaiming comes after the advance; pairs with the release
        // exchange in `try_advance`.
        let grace = if M::mutant("epoch.short_grace") { 1 } else { 2 };
        self.global.load(Ordering::Acquire) >= epoch + grace
    }

    /// Advances the epoch if every pinned participant has announced it. Returns the epoch now.
    pub fn try_advance(&self) -> u64 {
        // Relaxed: ordered by the barrier; the exchange below checks the value again.
        let epoch = self.global.load(Ordering::Relaxed);
        if !M::mutant("epoch.no_heavy_barrier") {
            M::heavy_barrier();
        }
        // SeqCst: pairs with the exchange in `join`.
        let count = self.high_water.load(Ordering::SeqCst);
        let count = count - usize::from(M::mutant("epoch.skips_last") && count > 0);
        for participant in &self.participants[..count] {
            // Relaxed: ordered by the heavy barrier before and the acquire fence after.
            let announced = participant.announced.load(Ordering::Relaxed);
            let older = announced + u64::from(M::mutant("epoch.one_late_is_fine"));
            if announced != IDLE
                && announced != epoch
                && older != epoch
                && !M::mutant("epoch.ignores_pins")
            {
                return epoch;
            }
        }
        // Acquire: what unpinned participants did is over; pairs with the release in `unpin`.
        if !M::mutant("epoch.no_acquire_fence") {
            M::fence(Ordering::Acquire);
        }
        // Release: pairs with the acquire in `is_expired`. Two threads that advance from the same
        // epoch do it once; relaxed on failure: the winner's value is only reported.
        match self.global.compare_exchange(epoch, epoch + 1, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => epoch + 1,
            Err(now) => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;

    #[test]
    fn a_pinned_participant_holds_the_epoch_back_by_one() {
        let clock: EpochClock<Hardware> = EpochClock::default();
        let reader = clock.join().expect("a free entry");
        clock.pin(reader);
        let retired = clock.retire_epoch();
        for _ in 0..5 {
            clock.try_advance();
        }
        assert!(!clock.is_expired(retired));
        clock.unpin(reader);
        for _ in 0..2 {
            clock.try_advance();
        }
        assert!(clock.is_expired(retired));
        clock.leave(reader);
    }

    #[test]
    fn entries_are_reused_and_run_out() {
        let clock: EpochClock<Hardware> = EpochClock::new(2);
        let first = clock.join().expect("first entry");
        clock.join().expect("second entry");
        assert_eq!(clock.join(), None);
        clock.leave(first);
        assert_eq!(clock.join(), Some(first));
    }
}
