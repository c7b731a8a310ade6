//! What `CLIENT LIST` tells of a connection's socket, buffers and transaction.
//!
//! Thread-safe. The event loop of the connection writes when it has served it, anybody may read.
//!
//! Relaxed throughout: statistics, each of its own; they guard no other data.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// What a connection holds. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Received, and not run yet.
    pub input: usize,
    /// Free beside that.
    pub input_free: usize,
    /// What is known of an unfinished request.
    pub arguments: usize,
    /// Commands kept for `EXEC`, and watched keys.
    pub transaction: usize,
    /// Replies that the socket has not taken.
    pub unsent: usize,
    /// What was allocated for them.
    pub output: usize,
    /// It is closed once they are sent.
    pub is_closing: bool,
}

/// [`Held`], and what does not change with it.
#[derive(Debug)]
pub struct ConnectionGauges {
    descriptor: AtomicI32,
    is_unix: AtomicBool,
    /// Commands kept for `EXEC`, plus one; 0 outside of a transaction.
    queued: AtomicUsize,
    input: AtomicUsize,
    input_free: AtomicUsize,
    arguments: AtomicUsize,
    transaction: AtomicUsize,
    unsent: AtomicUsize,
    output: AtomicUsize,
    is_closing: AtomicBool,
}

impl Default for ConnectionGauges {
    fn default() -> Self {
        ConnectionGauges {
            descriptor: AtomicI32::new(-1),
            is_unix: AtomicBool::default(),
            queued: AtomicUsize::default(),
            input: AtomicUsize::default(),
            input_free: AtomicUsize::default(),
            arguments: AtomicUsize::default(),
            transaction: AtomicUsize::default(),
            unsent: AtomicUsize::default(),
            output: AtomicUsize::default(),
            is_closing: AtomicBool::default(),
        }
    }
}

impl ConnectionGauges {
    /// Notes its socket.
    pub fn set_socket(&self, descriptor: i32, is_unix: bool) {
        self.descriptor.store(descriptor, Ordering::Relaxed);
        self.is_unix.store(is_unix, Ordering::Relaxed);
    }

    /// The number of its socket; -1 before an event loop has it.
    pub fn descriptor(&self) -> i32 {
        self.descriptor.load(Ordering::Relaxed)
    }

    /// Whether it came by a path.
    pub fn is_unix(&self) -> bool {
        self.is_unix.load(Ordering::Relaxed)
    }

    /// Notes how many commands are kept for `EXEC`; `None` outside of a transaction.
    pub fn set_queued(&self, count: Option<usize>) {
        self.queued.store(count.map_or(0, |count| count + 1), Ordering::Relaxed);
    }

    /// How many commands are kept for `EXEC`; `None` outside of a transaction.
    pub fn queued(&self) -> Option<usize> {
        self.queued.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Notes what it holds.
    pub fn set(&self, held: Held) {
        self.input.store(held.input, Ordering::Relaxed);
        self.input_free.store(held.input_free, Ordering::Relaxed);
        self.arguments.store(held.arguments, Ordering::Relaxed);
        self.transaction.store(held.transaction, Ordering::Relaxed);
        self.unsent.store(held.unsent, Ordering::Relaxed);
        self.output.store(held.output, Ordering::Relaxed);
        self.is_closing.store(held.is_closing, Ordering::Relaxed);
    }

    /// What it holds.
    pub fn get(&self) -> Held {
        Held {
            input: self.input.load(Ordering::Relaxed),
            input_free: self.input_free.load(Ordering::Relaxed),
            arguments: self.arguments.load(Ordering::Relaxed),
            transaction: self.transaction.load(Ordering::Relaxed),
            unsent: self.unsent.load(Ordering::Relaxed),
            output: self.output.load(Ordering::Relaxed),
            is_closing: self.is_closing.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_told() {
        let gauges = ConnectionGauges::default();
        assert_eq!((gauges.descriptor(), gauges.queued()), (-1, None));
        assert_eq!(gauges.get(), Held::default());
        let held = Held {
            input: 1,
            input_free: 2,
            arguments: 3,
            transaction: 4,
            unsent: 5,
            output: 6,
            is_closing: true,
        };
        gauges.set(held);
        gauges.set_socket(7, true);
        gauges.set_queued(Some(0));
        assert_eq!(gauges.get(), held);
        assert_eq!((gauges.descriptor(), gauges.is_unix()), (7, true));
        assert_eq!(gauges.queued(), Some(0), "begun, and empty");
    }
}
