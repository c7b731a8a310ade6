//! A site: one place in the source, and what is written there instead.

use std::fmt;

/// What stands for the number of the site in a text that is put in.
pub const NUMBER: char = '\u{1}';

/// How a site is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A flush, drain, persist or fence is left out.
    NoPersist,
    /// It comes behind the next statement.
    LatePersist,
    /// An ordering is weaker.
    WeakOrder,
    /// A check that leads out of the way passes.
    NoCheck,
    /// A step that is taken on a condition never is.
    NoStep,
    /// It always is.
    AlwaysStep,
    /// Nobody waits.
    NoWait,
    /// What is equal is on the other side of a bound.
    Boundary,
    /// Two stores that follow each other are exchanged.
    SwappedStores,
}

/// All kinds.
pub const KINDS: [Kind; 9] = [
    Kind::NoPersist,
    Kind::LatePersist,
    Kind::WeakOrder,
    Kind::NoCheck,
    Kind::NoStep,
    Kind::AlwaysStep,
    Kind::NoWait,
    Kind::Boundary,
    Kind::SwappedStores,
];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::NoPersist => "no-persist",
            Kind::LatePersist => "late-persist",
            Kind::WeakOrder => "weak-order",
            Kind::NoCheck => "no-check",
            Kind::NoStep => "no-step",
            Kind::AlwaysStep => "always-step",
            Kind::NoWait => "no-wait",
            Kind::Boundary => "boundary",
            Kind::SwappedStores => "swapped-stores",
        })
    }
}

/// A change of the text at byte positions of the file as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Put in before what begins here: what is outside first.
    Before(usize, String),
    /// Put in behind what ends here: what is outside last.
    Behind(usize, String),
    /// Put in instead of this range.
    Instead(usize, usize, String),
}

/// What names a site although lines come and go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The file, from the folder of the workspace.
    pub file: String,
    /// The function.
    pub function: String,
    pub kind: Kind,
    /// The how manieth of its kind in functions of this name in the file, from 1.
    pub ordinal: usize,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { file, function, kind, ordinal } = self;
        write!(f, "{file} | {function} | {kind} | {ordinal}")
    }
}

/// One place in the source.
#[derive(Clone, Debug)]
pub struct Site {
    pub key: Key,
    /// The line it is on now, from 1.
    pub line: usize,
    /// The text of that line.
    pub text: String,
    /// What switches it.
    pub edits: Vec<Edit>,
}
