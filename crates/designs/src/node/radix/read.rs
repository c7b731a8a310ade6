//! Searches: one key, the neighbours of a key, all in order.

use std::ops::ControlFlow;

use everleaf_index::build::Way;
use everleaf_machine::Machine;

use super::{Link, Links, RadixTree};

/// How a key compares with one that comes before it.
fn later(way: Way) -> std::cmp::Ordering {
    if way == Way::Up { std::cmp::Ordering::Greater } else { std::cmp::Ordering::Less }
}

/// What is called for each record of a walk, and says whether it goes on.
pub type Visit<'v> = dyn FnMut(u64) -> ControlFlow<()> + 'v;

impl<const BITS: u32, M: Machine> RadixTree<BITS, M> {
    /// The record of a key. The caller is pinned.
    ///
    /// *Complexity*: a node for each chunk of bits in which keys differ. *Linearizes at* the load of the
    /// last link; if that was in a node that has left the tree, when it left.
    #[inline]
    pub fn find(&self, key: u64) -> Option<u64> {
        let (mut links, mut at) = (self.root(), 0);
        loop {
            match self.load(&links[Self::chunk(key, at)]) {
                Link::Empty => return None,
                Link::Leaf(leaf) => return (self.key(leaf) == key).then_some(leaf),
                Link::Node(node) => {
                    let header = self.header(node);
                    // The record would say so too, some nodes below.
                    if !header.covers(key) {
                        return None;
                    }
                    (links, at) = (self.links(node), header.at());
                }
            }
        }
    }

    /// The record of the largest key that is not above `key`. The caller is pinned.
    #[inline]
    pub fn find_le(&self, key: u64) -> Option<u64> {
        // The nodes on the way; the first is the root.
        let (mut nodes, mut depth) = ([0; 64], 0);
        let (mut links, mut at) = (self.root(), 0);
        loop {
            let link = self.load(&links[Self::chunk(key, at)]);
            match link {
                Link::Leaf(leaf) if self.key(leaf) <= key => return Some(leaf),
                Link::Empty | Link::Leaf(_) => break,
                Link::Node(node) => {
                    let header = self.header(node);
                    let order = header.compare(key);
                    if order.is_lt()
                        && let Some(leaf) = self.last(link)
                    {
                        return Some(leaf);
                    }
                    if !order.is_eq() {
                        break;
                    }
                    depth += 1;
                    nodes[depth] = node;
                    (links, at) = (self.links(node), header.at());
                }
            }
        }
        // Up again, until something is on the left of the way.
        loop {
            let before = &links[..Self::chunk(key, at)];
            let found = before.iter().rev().find_map(|link| self.last(self.load(link)));
            if found.is_some() || depth == 0 {
                return found;
            }
            depth -= 1;
            (links, at) = match nodes[depth] {
                0 => (self.root(), 0),
                node => (self.links(node), self.header(node).at()),
            };
        }
    }

    /// The record of the largest key behind a link.
    fn last(&self, link: Link) -> Option<u64> {
        match link {
            Link::Empty => None,
            Link::Leaf(leaf) => Some(leaf),
            Link::Node(node) => {
                self.links(node).iter().rev().find_map(|link| self.last(self.load(link)))
            }
        }
    }

    /// Visits the records from `from` on, in order, each once; one that is there all the time is not
    /// missed. The caller is pinned.
    pub fn walk(&self, way: Way, from: u64, visit: &mut Visit<'_>) {
        let _ = self.walk_links(self.root(), 0, way, Some(from), visit);
    }

    /// The same of the links of a node; all of them without a bound.
    fn walk_links(
        &self,
        links: &Links<M>,
        at: u32,
        way: Way,
        from: Option<u64>,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let last = Self::FANOUT - 1;
        let first = if way == Way::Up { 0 } else { last };
        let start = from.map_or(first, |key| Self::chunk(key, at));
        let count = if way == Way::Up { Self::FANOUT - start } else { start + 1 };
        for step in 0..count {
            let index = if way == Way::Up { start + step } else { start - step };
            // Only what is behind the first link may be before the bound.
            self.walk_link(self.load(&links[index]), way, from.filter(|_| step == 0), visit)?;
        }
        ControlFlow::Continue(())
    }

    fn walk_link(
        &self,
        link: Link,
        way: Way,
        from: Option<u64>,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        match link {
            Link::Empty => ControlFlow::Continue(()),
            Link::Leaf(leaf) => match from {
                Some(from) if from.cmp(&self.key(leaf)) == later(way) => ControlFlow::Continue(()),
                _ => visit(leaf),
            },
            Link::Node(node) => {
                let header = self.header(node);
                let order = from.map(|from| header.compare(from));
                let from = match order {
                    Some(order) if order.is_eq() => from,
                    Some(order) if order != later(way) => return ControlFlow::Continue(()),
                    _ => None,
                };
                self.walk_links(self.links(node), header.at(), way, from, visit)
            }
        }
    }

    /// Nodes on the longest way to a record, with the root. The caller is pinned.
    pub fn height(&self) -> u64 {
        self.height_of(self.root())
    }

    fn height_of(&self, links: &Links<M>) -> u64 {
        let below = links.iter().map(|link| match self.load(link) {
            Link::Node(node) => self.height_of(self.links(node)),
            _ => 0,
        });
        1 + below.max().unwrap_or(0)
    }
}
