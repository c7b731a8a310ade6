//! What is measured: one of our indexes, behind one trait.
//!
//! A [`Target`] is shared by the threads of a measurement; each makes itself a [`Worker`]. Every
//! operation says whether it found what it must, and none returns a value that was never written
//! for the key: values carry a mark of their key.

mod integers;
mod strings;

use everleaf_index::catalogue;

use crate::error::LabError;
use crate::keys::KeyList;

pub(crate) use integers::Integers;
pub(crate) use strings::Strings;

/// Which index is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// The tree of 64-bit integers itself: keys and values of 8 bytes.
    U64,
    /// The store: keys and values are byte strings.
    Bytes,
    /// A tree of 64-bit integers of the catalogue, by its name.
    Design(&'static str),
}

impl IndexKind {
    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::U64 => "u64",
            IndexKind::Bytes => "bytes",
            IndexKind::Design(name) => name,
        }
    }

    /// The index of this name: `u64`, `bytes`, or a design of the catalogue.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "u64" => Some(IndexKind::U64),
            "bytes" => Some(IndexKind::Bytes),
            _ => Self::designs().into_iter().find(|kind| kind.name() == name),
        }
    }

    /// All designs of the catalogue.
    pub fn designs() -> Vec<Self> {
        catalogue::names().into_iter().map(IndexKind::Design).collect()
    }

    /// Whether keys and values are integers.
    pub fn is_integers(self) -> bool {
        self != IndexKind::Bytes
    }
}

/// What an index takes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Keys in the index.
    pub keys: u64,
    /// Bytes of the pool in chunks that are in use.
    pub pool_used_bytes: u64,
    /// Bytes of the pool.
    pub pool_size_bytes: u64,
    /// Bytes of DRAM in leaf metadata and inner nodes.
    pub dram_bytes: u64,
    /// Leaves.
    pub leaves: u64,
    /// Levels, leaves included.
    pub height: u64,
}

/// An index that can be measured.
pub(crate) trait Target: Sync {
    /// Lists of the keys it takes.
    type Keys: KeyList;
    /// One thread's access to it.
    type Worker<'t>: Worker<Keys = Self::Keys>
    where
        Self: 't;

    /// An empty list of keys with room for `capacity`.
    fn new_keys(&self, capacity: usize) -> Self::Keys;

    /// Access for the calling thread.
    fn worker(&self) -> Result<Self::Worker<'_>, LabError>;

    /// The persistence domain in force, by name.
    fn domain(&self) -> String;

    /// What it takes now. No worker exists meanwhile.
    fn footprint(&self) -> Result<Footprint, LabError>;
}

/// A key of a worker's lists.
pub(crate) type KeyOf<'k, W> = <<W as Worker>::Keys as KeyList>::Key<'k>;

/// The operations, as one thread does them. `version` tells the values of a key apart.
pub(crate) trait Worker {
    /// Lists of the keys it takes.
    type Keys: KeyList;

    /// Whether the key is there.
    fn get(&mut self, key: KeyOf<'_, Self>) -> Result<bool, LabError>;

    /// How many of `count` keys from `position` on are there.
    fn get_many(
        &mut self,
        keys: &Self::Keys,
        position: usize,
        count: usize,
    ) -> Result<u64, LabError>;

    /// Adds the key. Returns false if it was there.
    fn insert(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<bool, LabError>;

    /// Replaces the value of the key. Returns false if it was absent.
    fn update(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<bool, LabError>;

    /// Removes the key. Returns false if it was absent.
    fn remove(&mut self, key: KeyOf<'_, Self>) -> Result<bool, LabError>;

    /// How many pairs, up to `length`, there are from the key on.
    fn scan(&mut self, from: KeyOf<'_, Self>, length: u32) -> Result<u64, LabError>;
}
