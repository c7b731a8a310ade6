//! What is known of a rival, and what several of them need.

use std::fmt::Display;
use std::path::Path;

use everleaf_bench::measure::Settings;
use everleaf_bench::measure::contest::{Entrant, entrant};
use everleaf_bench::target::Target;
use everleaf_bench::{BenchError, Footprint};

use crate::folder::{self, Folder};

/// What is known of a rival before it is measured.
pub struct Rival {
    /// The name on the command line and in tables.
    pub name: &'static str,
    /// Which library, and its version as tested.
    pub what: &'static str,
    /// How it was set up, and what a write that returned survives.
    pub durability: &'static str,
    /// Whether its writes survive the end of the process.
    pub is_durable: bool,
    /// Whether it takes only keys and values of 8 bytes.
    pub is_integers_only: bool,
    /// Makes it an entrant; its files are in new folders within this one.
    pub enter: Enter,
}

/// Makes an entrant of this name.
pub type Enter = fn(&'static str, &Settings, &Path) -> Result<Box<dyn Entrant>, BenchError>;

/// An entrant whose files are in a new folder for each index.
pub fn enter_in_folders<T, Open>(
    name: &'static str,
    settings: &Settings,
    parent: &Path,
    open: Open,
) -> Result<Box<dyn Entrant>, BenchError>
where
    T: Target + 'static,
    Open: Fn(&Path, &Settings) -> Result<T, BenchError> + 'static,
{
    let (parent, own) = (parent.to_path_buf(), settings.clone());
    let make = move || {
        let folder = Folder::new_in(&parent, name)?;
        Ok((open(folder.path(), &own)?, folder))
    };
    entrant(name, settings, make)
}

/// What a rival refused, as an error of the laboratory.
pub fn refused(error: impl Display) -> BenchError {
    BenchError::Target(error.to_string())
}

/// What a rival in a folder takes: its keys, and its files.
pub fn footprint_of_files(keys: u64, folder: &Path) -> Result<Footprint, BenchError> {
    let bytes = folder::bytes_on_disk(folder)?;
    Ok(Footprint { keys, pool_used_bytes: bytes, pool_size_bytes: bytes, ..Footprint::default() })
}

/// Bytes that all pairs of a run can take, with room to spare.
pub fn space_for(settings: &Settings) -> u64 {
    let pair = (settings.key_size + settings.value_size + 64) as u64;
    // A store with free pages and half-full leaves takes two to three times its pairs; inserts of
    // all rounds come on top.
    (settings.keys * pair * 16).clamp(4 << 30, 1 << 40)
}
