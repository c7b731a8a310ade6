//! Operations, and how others are helped.
//!
//! A thread that has seen a descriptor undecided is its *runner*: its owner, and helpers. A runner does everything that
//! is left to do, and leaves all its words durably free of it (W5).

use everleaf_alloc::Session;
use everleaf_machine::{Machine, Ordering};

use super::Pmwcas;
use super::descriptor::{Entry, Reference, State, Status, VALUE_MAX, marker, pointer, reference};
use super::pool::Claim;

impl<M: Machine> Pmwcas<M> {
    /// The value of a word. Helps the thread that is at work there, so it is durable, or will be whatever happens (W2).
    ///
    /// *Linearizes at* the last load.
    #[inline(always)]
    pub(crate) fn read(&self, stripe: usize, address: u64) -> u64 {
        // Acquire: what the value stands for; pairs with the release of the exchanges in `finish`.
        let word = self.word(address).load(Ordering::Acquire);
        if word <= VALUE_MAX { word } else { self.read_helping(stripe, address, word) }
    }

    #[cold]
    fn read_helping(&self, stripe: usize, address: u64, mut word: u64) -> u64 {
        while word > VALUE_MAX {
            if !self.is_writable {
                // Nobody is at work, and opening has read the same.
                return self.resolved(address, word).unwrap_or(word & VALUE_MAX);
            }
            if M::mutant("pmwcas.no_help")
                && let Some(old) = self.old_value(address, word)
            {
                return old;
            }
            M::mark("pmwcas.help");
            self.help(stripe, address, word);
            // Acquire: as in `read`.
            word = self.word(address).load(Ordering::Acquire);
        }
        word
    }

    /// What a word had before an operation came.
    fn old_value(&self, address: u64, word: u64) -> Option<u64> {
        let Some(Reference::Pointer { index, .. }) = reference(word) else { return None };
        self.entry_of(index, address).map(|entry| entry.old)
    }

    fn entry_of(&self, index: usize, address: u64) -> Option<Entry> {
        let entries = (0..self.entry_count(index)).map(|entry| self.entry(index, entry));
        entries.into_iter().find(|entry| entry.address == address)
    }

    /// Exchanges all words of `entries`, durably, if all have their old values; all are in one node (W6).
    ///
    /// *Linearizes at* the exchange of the descriptor's status. *Durable* when it returns.
    pub(crate) fn exchange(
        &self,
        session: &Session<M>,
        claim: Claim,
        entries: &mut [Entry],
    ) -> bool {
        // One order for all, or two operations could wait for each other's end for ever.
        entries.sort_unstable_by_key(|entry| entry.address);
        debug_assert!(entries.windows(2).all(|two| two[0].address < two[1].address));
        let Claim(index) = claim;
        let life = self.fill(index, entries);
        let state = self.run(session.stripe(), index, life);
        self.give_back(index);
        state == State::Succeeded
    }

    /// Does what is left of an operation that the caller has seen undecided.
    fn run(&self, stripe: usize, index: usize, life: u64) -> State {
        let count = self.entry_count(index);
        let are_all = (0..count).all(|entry| self.install(stripe, index, life, entry));
        let state = self.decide(index, life, are_all);
        self.finish(index, life, state);
        state
    }

    /// Puts a pointer into a word; false if the word has another value, or the operation was decided.
    fn install(&self, stripe: usize, index: usize, life: u64, number: usize) -> bool {
        let entry = self.entry(index, number);
        let (word, pointer) = (self.word(entry.address), pointer(index, life));
        loop {
            // Acquire: as in `read`.
            let seen = word.load(Ordering::Acquire);
            if seen == pointer {
                return true;
            }
            if seen > VALUE_MAX {
                M::mark("pmwcas.help_in_the_way");
                self.help(stripe, entry.address, seen);
                continue;
            }
            if seen != entry.old {
                return false;
            }
            if M::mutant("pmwcas.no_marker") {
                // AcqRel, Relaxed: as the exchange for a marker, which is left out.
                if word.compare_exchange(seen, pointer, Ordering::AcqRel, Ordering::Relaxed).is_ok()
                {
                    return true;
                }
                continue;
            }
            let marker = marker(index, number, self.marker_number(stripe));
            // AcqRel: the descriptor, for a thread that meets the marker; pairs with the acquire in `read`. Relaxed on
            // failure: the loop looks again.
            if word.compare_exchange(seen, marker, Ordering::AcqRel, Ordering::Relaxed).is_ok()
                && !self.resolve_own(index, life, entry, marker)
            {
                return false;
            }
        }
    }

    /// Replaces the caller's marker by a pointer, if the operation is undecided, and else takes it back: what
    /// follows makes it durable, like all words of the operation (`finish`). False if it was decided.
    fn resolve_own(&self, index: usize, life: u64, entry: Entry, marker: u64) -> bool {
        let undecided = Status::new(life, State::Undecided);
        let is_undecided = self.load_status(index) == undecided;
        let target = if is_undecided { pointer(index, life) } else { entry.old };
        let word = self.word(entry.address);
        // AcqRel, Relaxed: as in `install`.
        let set = word.compare_exchange(marker, target, Ordering::AcqRel, Ordering::Relaxed);
        if !is_undecided || set.is_err() {
            M::mark("pmwcas.marker_rolled_back");
        }
        is_undecided
    }

    /// Decides an operation, unless it is decided; gives the decision, durable.
    fn decide(&self, index: usize, life: u64, are_all: bool) -> State {
        let undecided = Status::new(life, State::Undecided);
        let decision = if are_all {
            if !M::mutant("pmwcas.no_install_flush") {
                for entry in 0..self.entry_count(index) {
                    let address = self.entry(index, entry).address;
                    // Persist: by the drain below, the pointers before the decision (W2).
                    self.medium.flush(self.word(address).as_ptr(), 8);
                }
                self.medium.drain();
            }
            let succeeded = Status::new(life, State::Succeeded);
            if self.medium.needs_flush() { succeeded.dirty() } else { succeeded }
        } else {
            // It need not be durable: recovery takes an undecided one for failed.
            Status::new(life, State::Failed)
        };
        // AcqRel: the pointers before the decision, for a thread that acts on it; pairs with the acquire in
        // `load_status`. Relaxed on failure: it is loaded again.
        let _ = self.status(index).compare_exchange(
            undecided.0,
            decision.0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        let status = self.load_status(index);
        self.make_durable(index, status);
        status.state()
    }

    /// Makes a decision durable that may not be.
    #[inline(always)]
    fn make_durable(&self, index: usize, status: Status) {
        if status.is_dirty() {
            if !M::mutant("pmwcas.no_status_flush") {
                // Persist: the decision before a word has its new value (W2).
                self.medium.persist(self.status(index).as_ptr(), 8);
            }
            let word = self.status(index);
            // AcqRel, Relaxed: as the exchange in `decide`. It fails if others did the same, or the descriptor
            // has another life.
            let _ = word.compare_exchange(
                status.0,
                status.clean().0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// Gives all words their final values, durably.
    fn finish(&self, index: usize, life: u64, state: State) {
        for entry in 0..self.entry_count(index) {
            let entry = self.entry(index, entry);
            let value = if state == State::Succeeded { entry.new } else { entry.old };
            let word = self.word(entry.address);
            // AcqRel: what was done before the decision, for a thread that reads the value; pairs with the acquire in
            // `read`. Relaxed on failure: somebody else has done it (W3).
            let _ = word.compare_exchange(
                pointer(index, life),
                value,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if !M::mutant("pmwcas.no_final_flush") {
                // Persist: by the drain below, the values before the descriptor is another's (W5).
                self.medium.flush(word.as_ptr(), 8);
            }
        }
        self.medium.drain();
    }

    /// Moves the thread on that has put `seen`, which is no value, into a word.
    #[cold]
    fn help(&self, stripe: usize, address: u64, seen: u64) {
        match reference(seen) {
            Some(Reference::Marker { index, entry }) => {
                self.help_marker(stripe, address, seen, (index, entry));
            }
            Some(Reference::Pointer { index, life }) => {
                let status = self.load_status(index);
                if status.life() != life {
                    // The word has changed since (W5).
                } else if status.state() == State::Undecided {
                    self.run(stripe, index, life);
                } else {
                    self.help_decided(index, address, seen, status);
                }
            }
            None => {}
        }
    }

    /// Gives one word its final value. The thread that has decided sees to it that it becomes durable, and to the
    /// others.
    fn help_decided(&self, index: usize, address: u64, seen: u64, status: Status) {
        self.make_durable(index, status);
        let Some(entry) = self.entry_of(index, address) else { return };
        let value = if status.state() == State::Succeeded { entry.new } else { entry.old };
        // AcqRel, Relaxed: as in `finish`. It fails if the descriptor's life has ended (W5), and then the
        // entry may be half of another.
        let _ =
            self.word(address).compare_exchange(seen, value, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Replaces somebody's marker. The exchange fails if it is gone; while it is there, the descriptor is as it
    /// was, because the thread that has put it there is pinned, and has seen it undecided.
    fn help_marker(&self, stripe: usize, address: u64, seen: u64, (index, entry): (usize, usize)) {
        M::mark("pmwcas.help_marker");
        let status = self.load_status(index);
        let is_undecided = status.state() == State::Undecided;
        let old = self.entry(index, entry).old;
        let target = if is_undecided { pointer(index, status.life()) } else { old };
        // AcqRel, Relaxed: as in `install`.
        let set =
            self.word(address).compare_exchange(seen, target, Ordering::AcqRel, Ordering::Relaxed);
        if is_undecided && set.is_ok() {
            // It may be decided and finished meanwhile: the pointer must not outlive this pin (W5).
            self.run(stripe, index, status.life());
        }
    }
}
