//! The persistence verbs of an opened pool.

use std::marker::PhantomData;

use everleaf_machine::{LINE_SIZE, Machine, Ordering};

use crate::Domain;

/// How stores to a pool are made durable: its [`Domain`] and the verbs that follow from it.
///
/// A `Medium` is a byte-sized copy that a tree carries along; every verb is inlined.
///
/// *`Adr`*: [`Medium::flush`] writes lines back, [`Medium::drain`] waits for them. *`Eadr`*: a
/// store is durable when it is globally visible, so nothing is flushed, and `drain` is the fence
/// behind which no later store becomes visible before those; it orders no later read. *`Process`*:
/// only the process can die, and what its CPU has buffered becomes visible all the same; `drain` only keeps compiler
/// and weakly ordered CPUs from moving earlier stores behind later ones.
///
/// # Example
/// ```
/// use everleaf_machine::Hardware;
/// use everleaf_pool::{Domain, Medium};
/// let medium: Medium<Hardware> = Medium::new(Domain::Adr);
/// let word = 7_u64;
/// medium.persist((&raw const word).cast(), 8);
/// assert!(medium.needs_flush());
/// ```
#[derive(Debug)]
pub struct Medium<M: Machine> {
    domain: Domain,
    machine: PhantomData<M>,
}

const _: () = assert!(size_of::<Medium<everleaf_machine::Hardware>>() <= 8);

impl<M: Machine> Clone for Medium<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Medium<M> {}

impl<M: Machine> Medium<M> {
    /// The verbs of `domain`.
    #[inline(always)]
    pub fn new(domain: Domain) -> Self {
        Medium { domain, machine: PhantomData }
    }

    /// The domain.
    #[inline(always)]
    pub fn domain(self) -> Domain {
        self.domain
    }

    /// Whether lines have to be flushed at all: only in [`Domain::Adr`].
    #[inline(always)]
    pub fn needs_flush(self) -> bool {
        matches!(self.domain, Domain::Adr)
    }

    /// Starts the write-back of every line that `start .. start + len` touches; orders nothing.
    ///
    /// `len` is in bytes; 0 flushes nothing. The range must be memory that is mapped.
    #[inline(always)]
    #[track_caller]
    pub fn flush(self, start: *const u8, len: usize) {
        if self.needs_flush() && len > 0 {
            let first = start.addr() & !(LINE_SIZE - 1);
            let last = start.addr().wrapping_add(len - 1);
            let mut line = first;
            while line <= last {
                M::flush(start.with_addr(line));
                line += LINE_SIZE;
            }
        }
    }

    /// Waits until every line this thread flushed is durable.
    #[inline(always)]
    #[track_caller]
    pub fn drain(self) {
        match self.domain {
            // `Eadr`: nothing was flushed, but a store still in the store buffer would be lost.
            Domain::Adr | Domain::Eadr => M::drain(),
            // Release: earlier stores stay before whatever this thread makes visible later; pairs
            // with the acquire load of the thread that sees that. Buffered stores survive the process.
            Domain::Process => M::fence(Ordering::Release),
        }
    }

    /// Makes the range durable: flush, then drain.
    #[inline(always)]
    #[track_caller]
    pub fn persist(self, start: *const u8, len: usize) {
        self.flush(start, len);
        self.drain();
    }
}
