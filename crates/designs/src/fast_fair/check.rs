//! The tree's own check: walks everything and says, in sentences, what is not as it must be.
//!
//! Run while nobody writes. What a crash may leave (invariants F1, F2, F4, F5) is no problem.

use std::collections::BTreeMap;

use everleaf_alloc::{AllocError, Recovery};
use everleaf_index::CheckReport;
use everleaf_machine::Machine;

use super::FastFair;
use super::state::NodeState;
use super::variant::Variant;
use crate::node::fast_node::{Node, slots};

/// One level, as the next one is held against it.
#[derive(Default)]
struct Level {
    /// Low fence and offset of each node.
    nodes: Vec<(u64, u64)>,
    /// Key and child of each separator, and of each leftmost child.
    separators: Vec<(u64, u64)>,
}

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// Walks the tree, marks in `used` what it uses, and notes what it finds.
    pub(super) fn check_nodes(
        &self,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), AllocError> {
        self.root_object.mark(used)?;
        self.mark_logs(used)?;
        let mut above: Option<Level> = None;
        let mut level = Level::default();
        let mut at = self.root()?.level();
        let result = self.walk(|node, offset| {
            used.mark_record(offset, V::NODE_SIZE)?;
            if node.level() < at {
                at = node.level();
                let done = std::mem::take(&mut level);
                compare::<V>(above.as_ref(), &done, report);
                above = Some(done);
            }
            self.check_node(node, &mut level, report)
        });
        compare::<V>(above.as_ref(), &level, report);
        self.check_cache(&level.nodes, &mut report.problems);
        if let Err(error) = result {
            report.problems.push(error.to_string());
        }
        Ok(())
    }

    fn check_node(
        &self,
        node: Node<V, M>,
        level: &mut Level,
        report: &mut CheckReport,
    ) -> Result<(), AllocError> {
        let offset = self.nodes.offset(node);
        let low = self.nodes.low(node);
        let mut problem = |text: &str| {
            if report.problems.len() < 1000 {
                report.problems.push(format!("node at {offset}: {text}"));
            }
        };
        let sibling = node.sibling().read_private();
        let bound = match self.nodes.follow(sibling)? {
            Some(next) if V::LOW_FENCE => Some(self.nodes.low(next)),
            _ => None,
        };
        if bound.is_some_and(|bound| bound <= low) {
            problem("its low fence is not below its sibling's (F5)");
        }
        if let Some((last, _)) = level.nodes.last()
            && *last >= low
            && V::LOW_FENCE
        {
            problem("it is out of order (F5)");
        }
        level.nodes.push((low, offset));
        let whole = NodeState::of(&self.nodes, node) == NodeState::Whole;
        let end = (0..slots::<V>()).find(|slot| node.entry(*slot).1 == 0).unwrap_or(slots::<V>());
        let mut keys: Vec<u64> = vec![];
        let mut words = vec![node.leftmost().read_private()];
        for slot in 0..end {
            let (key, word) = node.entry(slot);
            if word == node.left_of(slot).read_private() {
                if whole {
                    problem("a record is there twice (F1)");
                }
                continue;
            }
            if bound.is_some_and(|bound| key >= bound) {
                if whole {
                    problem("a key belongs to the sibling (F4)");
                }
                break;
            }
            if V::LOW_FENCE && key < low || keys.last().is_some_and(|last| *last >= key) {
                problem("a key is out of order");
            }
            if words.contains(&word) {
                problem("two records have the same word");
            }
            keys.push(key);
            words.push(word);
            if node.level() > 0 {
                level.separators.push((key, word));
            }
        }
        if whole && node.count() != keys.len() {
            problem(&format!("it counts {} records and has {}", node.count(), keys.len()));
        }
        if node.is_deleted() {
            problem("it is reachable and marked as gone");
        }
        if node.level() > 0 {
            level.separators.push((low, node.leftmost().read_private()));
        } else {
            report.keys += self.check_buffer(node, &keys, bound, &mut report.problems);
            report.leaves += 1;
        }
        Ok(())
    }
}

/// Holds a level against the separators of the level above.
fn compare<V: Variant>(above: Option<&Level>, level: &Level, report: &mut CheckReport) {
    let Some(above) = above else { return };
    let nodes = by_offset(&level.nodes);
    for (key, child) in &above.separators {
        match nodes.get(child) {
            None => report.problems.push(format!(
                "the separator {key} refers to {child}, which is no node of the next level (F5)"
            )),
            Some(low) if V::LOW_FENCE && low != key => report.problems.push(format!(
                "the separator {key} refers to the node at {child}, whose low fence is {low} (F5)"
            )),
            Some(_) => {}
        }
    }
}

/// The low fence of each node, by its place. Not part of what is generic, so that it is compiled once.
fn by_offset(nodes: &[(u64, u64)]) -> BTreeMap<u64, u64> {
    nodes.iter().map(|(low, offset)| (*offset, *low)).collect()
}
