//! Flush and drain calls by their place in the source, so that each can be counted and switched off.

use std::fmt;
use std::panic::Location;

/// One flush or drain call in the source of the program under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The source file, as the compiler names it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl From<&'static Location<'static>> for Site {
    fn from(location: &'static Location<'static>) -> Self {
        Site { file: location.file(), line: location.line(), column: location.column() }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What a call site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// Starts a write-back.
    Flush,
    /// Waits for write-backs.
    Drain,
}

impl fmt::Display for SiteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SiteKind::Flush => "flush",
            SiteKind::Drain => "drain",
        })
    }
}

/// A call site with the number of times it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteHits {
    /// Where.
    pub site: Site,
    /// What it does.
    pub kind: SiteKind,
    /// How often it ran.
    pub hits: u64,
}

/// All call sites seen so far. The compiler may give one call several `Location` objects; they are
/// found by address first and merged by value.
#[derive(Default)]
pub(super) struct Sites {
    known: Vec<(usize, usize)>,
    hits: Vec<SiteHits>,
    ablated: Option<Site>,
}

impl Sites {
    pub fn new(ablated: Option<Site>) -> Self {
        Sites { ablated, ..Sites::default() }
    }

    /// Counts one execution; false if the site is switched off.
    #[inline]
    pub fn hit(&mut self, kind: SiteKind, at: &'static Location<'static>) -> bool {
        let address = std::ptr::from_ref(at).addr();
        let known = self.known.iter().find(|(known, _)| *known == address).map(|(_, index)| *index);
        let index = known.unwrap_or_else(|| self.learn(address, kind, at.into()));
        self.hits[index].hits += 1;
        self.ablated.is_none_or(|site| site != self.hits[index].site)
    }

    fn learn(&mut self, address: usize, kind: SiteKind, site: Site) -> usize {
        let same = self.hits.iter().position(|known| known.site == site);
        let index = same.unwrap_or_else(|| {
            self.hits.push(SiteHits { site, kind, hits: 0 });
            self.hits.len() - 1
        });
        self.known.push((address, index));
        index
    }

    /// All sites, by place.
    pub fn list(&self) -> Vec<SiteHits> {
        let mut list = self.hits.clone();
        list.sort_by_key(|entry| entry.site);
        list
    }
}
