//! Which index is measured, and the designs that can be.

use std::fmt;

use super::entrant::Entrant;
use super::settings::Settings;

/// A design of trees of 64-bit integers that can be measured.
pub struct MeasuredDesign {
    /// Its name.
    pub name: &'static str,
    /// What goes wrong when several threads use a tree, in a sentence; `None` if nothing does.
    pub caveat: Option<&'static str>,
    /// Whether it has its keys in order; if not, nothing that scans is measured.
    pub is_ordered: bool,
    pub(crate) enter: fn(&Settings) -> Box<dyn Entrant>,
}

impl fmt::Debug for MeasuredDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Designs are told apart by their names.
impl PartialEq for MeasuredDesign {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for MeasuredDesign {}

/// Which index is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// The tree of 64-bit integers itself: keys and values of 8 bytes.
    U64,
    /// The store: keys and values are byte strings.
    Bytes,
    /// A tree of 64-bit integers of some design.
    Design(&'static MeasuredDesign),
}

impl IndexKind {
    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::U64 => "u64",
            IndexKind::Bytes => "bytes",
            IndexKind::Design(design) => design.name,
        }
    }

    /// The index of this name: `u64`, `bytes`, or one of these designs.
    pub fn of_name(name: &str, designs: &[&'static MeasuredDesign]) -> Option<Self> {
        match name {
            "u64" => Some(IndexKind::U64),
            "bytes" => Some(IndexKind::Bytes),
            _ => designs.iter().find(|design| design.name == name).copied().map(IndexKind::Design),
        }
    }

    /// What goes wrong when several threads use the index, in a sentence; `None` if nothing does.
    pub fn caveat(self) -> Option<&'static str> {
        match self {
            IndexKind::U64 | IndexKind::Bytes => None,
            IndexKind::Design(design) => design.caveat,
        }
    }

    /// Whether it has its keys in order; a hash index has not.
    pub fn is_ordered(self) -> bool {
        match self {
            IndexKind::U64 | IndexKind::Bytes => true,
            IndexKind::Design(design) => design.is_ordered,
        }
    }

    /// Whether keys and values are integers.
    pub fn is_integers(self) -> bool {
        self != IndexKind::Bytes
    }
}
