//! What a search asks for before it knows what it will read.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

/// What a search is for, so that it asks for what it will read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    /// The entry.
    Find,
    /// To see that the key is absent, which the fingerprints tell.
    Miss,
    /// The entry, which will be written.
    Write,
}

impl Aim {
    /// Of a lookup, by what those before it came to.
    #[inline(always)]
    pub(super) fn of_lookup<M: Machine>(session: &Session<M>) -> Self {
        if session.expects_absent() { Aim::Miss } else { Aim::Find }
    }
}
