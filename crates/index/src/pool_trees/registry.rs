//! The designs that a program knows: what creates a tree of each, and finds it again.
//!
//! A crate that has designs makes a [`Registry`] of them and passes it to
//! [`Trees::open_with`](crate::Trees::open_with). This crate has none but its own tree, which needs
//! no entry; so the store is built without the others.

use std::fmt;
use std::sync::Arc;

use everleaf_alloc::{Recovery, Session};
use everleaf_machine::{Hardware, Machine};

use crate::api::error::IndexError;
use crate::api::ordered::{Design, DesignInfo, OrderedIndex};

/// A new tree of some design, and what the pool's directory keeps of it.
pub(crate) struct NewTree<M: Machine> {
    pub tree: Arc<dyn OrderedIndex<M>>,
    pub root: u32,
}

type Create<M> = fn(&mut Session<M>) -> Result<NewTree<M>, IndexError>;
type Recover<M> =
    fn(&mut Session<M>, &Recovery<M>, u32, usize) -> Result<Arc<dyn OrderedIndex<M>>, IndexError>;

/// One design that a program knows.
pub struct Registered<M: Machine = Hardware> {
    /// Its name, limits and promise.
    pub info: DesignInfo,
    pub(crate) create: Create<M>,
    pub(crate) recover: Recover<M>,
}

impl<M: Machine> fmt::Debug for Registered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registered").field(&self.info.name).finish()
    }
}

impl<M: Machine> Registered<M> {
    /// The design `T`.
    pub const fn of<T: Design<M>>() -> Self {
        Registered { info: T::INFO, create: create::<T, M>, recover: recover::<T, M> }
    }
}

fn create<T: Design<M>, M: Machine>(session: &mut Session<M>) -> Result<NewTree<M>, IndexError> {
    let tree = T::create(session)?;
    let root = tree.root_value();
    Ok(NewTree { tree: Arc::new(tree), root })
}

/// Finds a tree again, and marks what it uses.
fn recover<T: Design<M>, M: Machine>(
    session: &mut Session<M>,
    recovery: &Recovery<M>,
    root: u32,
    threads: usize,
) -> Result<Arc<dyn OrderedIndex<M>>, IndexError> {
    let tree = T::recover(session, recovery, root, threads)?;
    if T::MARKS_LATER {
        tree.mark(session, recovery)?;
    }
    Ok(Arc::new(tree))
}

/// The designs that a program knows besides the tree of this crate.
#[derive(Clone, Copy, Debug)]
pub struct Registry<M: Machine = Hardware> {
    designs: &'static [Registered<M>],
}

impl<M: Machine> Registry<M> {
    /// No design but the tree of this crate.
    pub const NONE: Self = Registry { designs: &[] };

    /// These designs, no two of which share a name or a number.
    pub const fn new(designs: &'static [Registered<M>]) -> Self {
        Registry { designs }
    }

    /// The designs.
    pub fn designs(&self) -> &'static [Registered<M>] {
        self.designs
    }

    /// The design of this name.
    pub(crate) fn of_name(&self, name: &str) -> Option<&'static Registered<M>> {
        self.designs.iter().find(|design| design.info.name == name)
    }

    /// The design of this number in the pool's directory.
    pub(crate) fn of_kind(&self, kind: u16) -> Option<&'static Registered<M>> {
        self.designs.iter().find(|design| design.info.kind == kind)
    }
}
