//! The tree's own check, and a walk through all nodes. Nobody else is active.

use everleaf_alloc::Session;
use everleaf_index::CheckReport;
use everleaf_machine::Machine;

use super::Masstree;
use super::layout::{Border, Header, Inner};

/// What a walk has found so far.
struct Walk<M: Machine> {
    borders: Vec<*const Border<M>>,
    keys: u64,
    height: u64,
    problems: Vec<String>,
}

impl<const WIDTH: usize, M: Machine> Masstree<WIDTH, M> {
    /// Notes what contradicts the invariants.
    pub(super) fn check_all(&self, report: &mut CheckReport) {
        let walk = self.walk();
        report.problems.extend(walk.problems);
        report.keys += walk.keys;
        report.leaves += walk.borders.len() as u64;
        if walk.keys != self.keys.sum() {
            let counted = self.keys.sum();
            report.problems.push(format!("{} keys are there, {counted} are counted", walk.keys));
        }
    }

    /// Border nodes and levels.
    pub(super) fn count_nodes(&self) -> (u64, u64) {
        let walk = self.walk();
        (walk.borders.len() as u64, walk.height)
    }

    fn walk(&self) -> Walk<M> {
        let mut walk = Walk { borders: vec![], keys: 0, height: 0, problems: vec![] };
        let root = self.root();
        if !self.header(root).version.held_or_open().is_root() {
            walk.problems.push("the root does not say that it is".into());
        }
        self.walk_below(root, std::ptr::null(), (0, u64::MAX), 1, &mut walk);
        for (index, node) in walk.borders.iter().enumerate() {
            let next = walk.borders.get(index + 1).copied().unwrap_or(std::ptr::null());
            if !std::ptr::eq(self.border(node.cast_mut().cast()).next(), next) {
                walk.problems.push(format!("border node {index} does not lead to the next (T1)"));
            }
        }
        walk
    }

    fn walk_below(
        &self,
        node: *mut Header<M>,
        parent: *const Inner<M>,
        (first, last): (u64, u64),
        level: u64,
        walk: &mut Walk<M>,
    ) {
        let header = self.header(node);
        walk.height = walk.height.max(level);
        if !header.version.is_open() || header.version.held_or_open().is_deleted() {
            walk.problems.push("a node is left locked, or was removed".into());
        }
        if !std::ptr::eq(header.parent(), parent) {
            walk.problems.push("a node does not know the one above (T4)".into());
        }
        if header.version.is_border() {
            return self.walk_border(self.border(node), (first, last), walk);
        }
        let children = self.inner(node).children();
        for (index, (key, child)) in children.iter().enumerate() {
            let low = if index == 0 { first } else { *key };
            let end = children.get(index + 1).map_or(last, |next| next.0.saturating_sub(1));
            if low > end || index > 0 && low <= first {
                walk.problems.push(format!("keys {low} and {end} of an inner node do not ascend"));
            }
            self.walk_below(
                *child,
                std::ptr::from_ref(self.inner(node)),
                (low, end),
                level + 1,
                walk,
            );
        }
    }

    fn walk_border(&self, node: &Border<M>, (first, last): (u64, u64), walk: &mut Walk<M>) {
        let pairs = node.pairs();
        if node.low != first {
            walk.problems.push(format!("a node from {first} on says {} (T1)", node.low));
        }
        if pairs.iter().any(|(key, _)| !(first..=last).contains(key)) {
            walk.problems.push(format!("a key is outside of {first} to {last} (T1)"));
        }
        if pairs.windows(2).any(|two| two[0].0 >= two[1].0) {
            walk.problems.push("the keys of a node do not ascend".into());
        }
        walk.keys += pairs.len() as u64;
        walk.borders.push(node);
    }

    /// Gives all nodes back. Nobody uses the tree any more.
    pub(super) fn free_nodes(&self, session: &mut Session<M>, node: *mut Header<M>) {
        let size = if self.header(node).version.is_border() {
            size_of::<Border<M>>()
        } else {
            for (_, child) in self.inner(node).children() {
                self.free_nodes(session, child);
            }
            size_of::<Inner<M>>()
        };
        // SAFETY: made with this size, by a session of this heap; by the caller's promise nobody can reach
        // it.
        unsafe { session.free_node(node.cast(), size) };
    }
}
