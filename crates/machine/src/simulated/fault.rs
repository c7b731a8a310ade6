//! Mutants by rule: any access of the program under test can be given a fault by its place in the source, so
//! that of each it can be asked which program notices. Nothing of this is in the code under test.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;

use super::sites::Site;

/// How an access fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// It is left out: a store, a flush, a drain, a fence.
    Skip,
    /// A compare-and-exchange writes without comparing, and says that it was done.
    Blind,
    /// A store comes after the next store of its thread, or before the next thing that orders stores.
    Late,
    /// A load gives what its thread saw there the time before, if it did: a check that is no check.
    Stale,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FaultKind::Skip => "skip",
            FaultKind::Blind => "blind",
            FaultKind::Late => "late",
            FaultKind::Stale => "stale",
        })
    }
}

/// All kinds.
pub const FAULT_KINDS: [FaultKind; 4] =
    [FaultKind::Skip, FaultKind::Blind, FaultKind::Late, FaultKind::Stale];

/// An access with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fault {
    /// Where.
    pub site: Site,
    /// How.
    pub kind: FaultKind,
}

/// Which accesses can have a fault, and which has one.
#[derive(Default)]
pub(super) struct Faults {
    planted: Option<Fault>,
    /// Which faults there can be, by the address of the place, if they are to be listed.
    listed: Option<HashMap<usize, (&'static Location<'static>, u8)>>,
    /// What each thread saw where, if that is wanted.
    seen: HashMap<(usize, usize), u64>,
}

impl Faults {
    pub fn new(planted: Option<Fault>, lists: bool) -> Self {
        Faults { planted, listed: lists.then(HashMap::new), seen: HashMap::new() }
    }

    /// A schedule begins.
    pub fn begin(&mut self) {
        self.seen.clear();
    }

    /// An access that could have this fault; whether it has.
    pub fn meet(&mut self, kind: FaultKind, at: &'static Location<'static>) -> bool {
        if let Some(listed) = &mut self.listed {
            let address = std::ptr::from_ref(at).addr();
            listed.entry(address).or_insert((at, 0)).1 |= 1 << kind as u8;
        }
        self.planted.is_some_and(|fault| {
            fault.kind == kind
                && fault.site.line == at.line()
                && fault.site.column == at.column()
                && fault.site.file == at.file()
        })
    }

    /// A load by a thread; what it gives.
    pub fn load(
        &mut self,
        thread: usize,
        address: usize,
        value: u64,
        at: &'static Location<'static>,
    ) -> u64 {
        let is_stale = self.meet(FaultKind::Stale, at);
        if self.planted.is_none_or(|fault| fault.kind != FaultKind::Stale) {
            return value;
        }
        let before = self.seen.insert((thread, address), value);
        match before {
            Some(before) if is_stale => before,
            _ => value,
        }
    }

    /// All faults that there could be, in order of place.
    pub fn list(&self) -> Vec<Fault> {
        let mut all = vec![];
        for (at, kinds) in self.listed.iter().flat_map(|listed| listed.values()) {
            let site = Site::from(*at);
            let kinds = FAULT_KINDS.into_iter().filter(|kind| kinds >> *kind as u8 & 1 == 1);
            all.extend(kinds.map(|kind| Fault { site, kind }));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}
