//! Whether the file of the pool still has its name (`pool_watch.rs` looks).

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use crate::{Error, Result};

/// Whether the file of the pool can be found.
#[derive(Default)]
pub(crate) struct PoolName {
    /// Why no more is written: set once, and for good.
    pub loss: OnceLock<String>,
    pub is_gate_raised: AtomicBool,
}

impl PoolName {
    /// Refuses a write that nobody would find.
    #[inline]
    pub fn check(&self) -> Result<()> {
        self.loss.get().map_or(Ok(()), |text| Err(Error::PoolGone(text.clone())))
    }
}
