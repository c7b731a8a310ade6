//! Letting the sweep rest.

use std::sync::atomic::Ordering;

use crate::Store;

impl Store {
    /// Lets the sweep ([`Options::sweep`](crate::Options::sweep)) rest until [`Self::resume_sweep`]: it removes nothing
    /// from the next slice of a map on. What has expired is absent all the same. Does not wait for the sweep. *Thread
    /// safety*: any thread, at any time; the last of these calls counts.
    pub fn pause_sweep(&self) {
        // Relaxed: a request, which carries nothing.
        self.shared().sweep_paused.store(true, Ordering::Relaxed);
    }

    /// Lets a paused sweep ([`Self::pause_sweep`]) go on with its next round.
    pub fn resume_sweep(&self) {
        // Relaxed: a request, which carries nothing.
        self.shared().sweep_paused.store(false, Ordering::Relaxed);
    }
}
