//! A pool whose file loses its name while it is open: what is written to it from then on would be found by nobody.
//!
//! It is looked for once a second (`maintenance/upkeep.rs`), by `sync` and at the end; not where a log has what is
//! written, unless that has failed, as when it was removed with the pool. Then the gate is raised for good, so that
//! every write comes to [`Shared::check_writes`] or to `InOrder::check`.

use std::sync::atomic::Ordering;

use everleaf_index::{Domain, FileName};

use crate::shared::Shared;
use crate::{Result, Store};

/// What has become of the file of a pool, and what can be done before one saves what there is.
const REMOVED: &str = "removed the file while it is open, and what is written would be lost when this process ends. \
                       Reads go on: before that, ";
const REPLACED: &str = "put another file in its place while it is open, and what is written would be lost when this \
                        process ends. Reads go on: before that, ";
const DISPLACED: &str = "put another file in its place while it is open. What was written is in the file that was \
                         there, which was moved, or has another name: end this process, put that file back and open \
                         it again. Reads go on: or ";

impl Store {
    /// Whether the file of the pool was removed or replaced while it is open
    /// ([`Error::PoolGone`](crate::Error::PoolGone)). Looks for it; writes may be refused a moment later. Always false
    /// of a store with a log that has not failed, from which the pool is rebuilt.
    pub fn is_pool_gone(&self) -> bool {
        self.shared().loss().is_some()
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
        let Some(happened) = self.loss() else { return Ok(()) };
        if let (None, Some(path)) = (self.name.loss.get(), self.trees.heap().pool().path()) {
            let text = format!(
                "no more is written to {}: somebody has {happened}save what there is (`SAVE` on a server; \
                 `Store::save` or `Store::backup` in a program), and open the copy from then on",
                path.display()
            );
            // If another thread was faster, it says the same.
            let _ = self.name.loss.set(text);
        }
        self.raise_for_good();
        self.name.check()
    }

    /// What has become of the file of the pool, if what is written to it is found by nobody.
    fn loss(&self) -> Option<&'static str> {
        let pool = self.trees.heap().pool();
        if pool.is_read_only() {
            return None;
        }
        if self.name.loss.get().is_some() {
            // Once and for good.
            return Some(REMOVED);
        }
        let happened = match pool.file_name() {
            FileName::Kept => return None,
            FileName::Removed => REMOVED,
            FileName::Replaced => REPLACED,
            FileName::Displaced => DISPLACED,
        };
        if let Some(log) = &self.log {
            // It may have been removed as well. Otherwise the pool is rebuilt from there.
            log.check_names();
            log.check().err()?;
        }
        Some(happened)
    }

    /// Has every write look from now on, and waits for those that began before.
    fn raise_for_good(&self) {
        // Acquire: a thread that finds it raised finds those writes over; pairs with the exchange below.
        if self.name.is_gate_raised.load(Ordering::Acquire) {
            return;
        }
        // A thread that comes meanwhile waits as well, or would say that all is refused while such writes are
        // acknowledged.
        if self.raise(0).is_err() {
            // The caller is inside of an operation: the next look does it.
            return;
        }
        // AcqRel: pairs with the load above.
        if self.name.is_gate_raised.swap(true, Ordering::AcqRel) {
            // Another one has raised it, and leaves it so.
            self.order.lower();
        }
    }
}
