//! The tree's own check: every node, pair and bound, and that nobody has left work behind.

use everleaf_alloc::Recovery;
use everleaf_index::CheckReport;
use everleaf_machine::{Machine, Ordering};

use super::BzTree;
use super::recover::Walk;
use super::state::{RESERVED, VISIBLE};
use super::variant::Variant;

impl<V: Variant, M: Machine> BzTree<V, M> {
    /// Marks in `used` what the tree uses, and notes what it finds. Nobody else is active.
    pub(super) fn check_all(&self, used: &Recovery<M>, report: &mut CheckReport) {
        let walked = self
            .root_object
            .mark(used)
            .and_then(|()| self.words.mark(used))
            .and_then(|()| self.walk(used, Walk::Mark));
        let seen = match walked {
            Ok(seen) => seen,
            Err(error) => return report.problems.push(error.to_string()),
        };
        if seen.keys != self.keys.sum() {
            let (found, counted) = (seen.keys, self.keys.sum());
            report.problems.push(format!("{found} keys are there, {counted} are counted"));
        }
        report.keys += seen.keys;
        report.leaves += seen.leaves;
        if self.is_writable {
            self.check_node(self.root(0), &mut report.problems);
        }
    }

    /// At rest no node is frozen, no pair of an active leaf is reserved, and no key is there twice.
    fn check_node(&self, node: u64, problems: &mut Vec<String>) {
        let (is_leaf, count) = self.shape(node);
        // Relaxed: nobody else is active. No damage: the next write there replaces it, if there is room. So it is a
        // problem only where safeguards are searched for.
        let may_be_frozen = !M::SIMULATED || self.has_left_frozen.load(Ordering::Relaxed) != 0;
        if self.status(0, node).is_frozen() && !may_be_frozen {
            problems.push("a node is left frozen (Z7)".to_string());
        }
        if !is_leaf {
            for index in 0..count {
                self.check_node(self.child(0, node, index), problems);
            }
            return;
        }
        let status = self.status(0, node);
        let mut keys = vec![];
        for slot in 0..status.count() {
            let meta = self.meta(0, node, slot);
            if meta == RESERVED && !status.is_frozen() {
                problems.push(format!("pair {slot} of a leaf is left reserved (Z4)"));
            }
            if meta == VISIBLE {
                keys.push(self.key(node, true, slot));
            }
        }
        keys.sort_unstable();
        for two in keys.windows(2).filter(|two| two[0] == two[1]) {
            problems.push(format!("key {} is there twice (Z5)", two[0]));
        }
    }
}
