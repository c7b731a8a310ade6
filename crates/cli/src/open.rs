//! Opening the pool and choosing the map, for reading and for writing.

use crate::failure::Failure;
use clap::Args;
use everleaf::{Map, Options, Store};
use std::path::Path;

/// Which map, and whether to trust the pool.
#[derive(Args, Clone, Debug)]
pub struct MapArgs {
    /// Use this map of the pool instead of the default one
    #[arg(long, value_name = "NAME")]
    pub map: Option<String>,
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// Whether to open a pool that the machine crashed on.
#[derive(Args, Clone, Copy, Debug)]
pub struct TrustArgs {
    /// Open the pool although the machine crashed while it was open on an ordinary disk; what was
    /// not yet written to the disk may be missing or damaged
    #[arg(long)]
    pub trust_after_machine_crash: bool,
}

impl TrustArgs {
    /// Options with this choice made.
    pub fn options(&self) -> Options {
        Options::new().trust_after_machine_crash(self.trust_after_machine_crash)
    }
}

/// Opens a pool that must exist, to read it only.
pub fn for_reading(pool: &Path, trust: &TrustArgs) -> Result<Store, Failure> {
    Ok(trust.options().read_only(true).open(pool)?)
}

/// Opens a pool that must exist, to change it.
pub fn for_writing(pool: &Path, trust: &TrustArgs) -> Result<Store, Failure> {
    Ok(trust.options().open(pool)?)
}

/// The chosen map, which must exist.
pub fn existing_map(store: &Store, pool: &Path, name: Option<&str>) -> Result<Map, Failure> {
    let Some(name) = name else { return Ok(Map::clone(store)) };
    store.existing_map(name)?.ok_or_else(|| {
        let pool = pool.display();
        Failure::not_found(format!(
            "there is no map named {name:?} in {pool}: `everleaf maps {pool}` lists its maps"
        ))
    })
}

/// The chosen map, created if it is not there yet.
pub fn map_or_new(store: &Store, name: Option<&str>) -> Result<Map, Failure> {
    match name {
        None => Ok(Map::clone(store)),
        Some(name) => Ok(store.map(name)?),
    }
}
