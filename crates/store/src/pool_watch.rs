//! A pool whose file loses its name while it is open: what is written to it from then on would be found by nobody.
//!
//! It is looked for once a second (`maintenance/upkeep.rs`), by `sync` and at the end; not where a log has what is
//! written. Then the gate is raised for good, so that every write comes to [`Shared::check_writes`] or to
//! `InOrder::check`.

use std::sync::atomic::Ordering;

use everleaf_index::{Domain, FileName};

use crate::shared::Shared;
use crate::{Result, Store};

impl Store {
    /// Whether the file of the pool was removed or replaced while it is open
    /// ([`Error::PoolGone`](crate::Error::PoolGone)).
    pub fn is_pool_gone(&self) -> bool {
        self.shared().name.check().is_err()
    }

    /// Whether a crash of the machine can be told from the death of a process. Where the system does not tell its
    /// boots apart (no `/proc/sys/kernel/random/boot_id`), a pool on an ordinary disk that was not closed is taken for
    /// one whose machine has crashed.
    pub fn can_tell_crashes(&self) -> bool {
        let pool = self.shared().trees.heap().pool();
        pool.is_boot_known() || pool.medium().domain() != Domain::Process
    }
}

impl Shared {
    /// Looks whether the file of the pool still has its name, and refuses all writes from now on if not. Not by a
    /// thread that has a stripe.
    pub fn look_for_pool(&self) -> Result<()> {
        let pool = self.trees.heap().pool();
        if self.log.is_some() || pool.is_read_only() {
            return Ok(());
        }
        let Some(path) = pool.path() else { return Ok(()) };
        if self.name.loss.get().is_none() {
            let happened = match pool.file_name() {
                FileName::Kept => return Ok(()),
                FileName::Removed => "removed the file",
                FileName::Replaced => "put another file in its place",
            };
            let text = format!(
                "no more is written to {}: somebody has {happened} while it is open, and what is written would be \
                 lost when this process ends. Reads go on: before that, save what there is (`SAVE` of a server, a \
                 backup by any other program), and open the copy from then on",
                path.display()
            );
            // If another thread was faster, it says the same.
            let _ = self.name.loss.set(text);
        }
        self.raise_for_good();
        self.name.check()
    }

    /// Has every write look from now on.
    fn raise_for_good(&self) {
        // Relaxed: only one thread is to raise it. Who comes meanwhile may return before writes that look at nothing
        // are over, as those may come before its look.
        if !self.name.is_gate_raised.swap(true, Ordering::Relaxed) && self.raise(0).is_err() {
            // The caller is inside of an operation: the next look does it.
            self.name.is_gate_raised.store(false, Ordering::Relaxed);
        }
    }
}
