//! The list's own check: every level against level 0.

use everleaf_alloc::Recovery;
use everleaf_index::CheckReport;
use everleaf_machine::Machine;

use super::PSkiplist;
use super::layout::{DEAD, HEIGHT_MASK, LINKED_UP, live};
use super::variant::{LEVEL_COUNT_MAX, Variant};

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    /// Marks in `used` what the list uses, and notes what it finds. Nobody else is active.
    pub(super) fn check_all(&self, used: &Recovery<M>, report: &mut CheckReport) {
        let (mut keys, mut nodes) = (0, 0);
        let mut last = [self.head; LEVEL_COUNT_MAX];
        let problems = &mut report.problems;
        let walked = self.root_object.mark(used).and_then(|()| {
            self.walk(used, true, &mut |found| {
                nodes += 1;
                keys += u64::from(live(found.word).is_some());
                if self.is_writable {
                    self.check_node(found.offset, found.word, problems);
                }
                for (level, last) in last.iter_mut().enumerate().take(found.height) {
                    self.check_link(*last, level, found.offset, problems);
                    *last = found.offset;
                }
                true
            })
        });
        if let Err(error) = walked {
            return problems.push(error.to_string());
        }
        for (level, last) in last.iter().enumerate().take(V::LEVEL_COUNT) {
            self.check_link(*last, level, 0, problems);
        }
        if keys != self.keys.sum() {
            problems.push(format!("{keys} keys are there, {} are counted", self.keys.sum()));
        }
        report.keys += keys;
        report.leaves += nodes;
    }

    /// At rest nobody is at work on a node.
    fn check_node(&self, node: u64, word: u64, problems: &mut Vec<String>) {
        let state = self.state(node).read_private();
        if live(word) != Some(word) || state & !HEIGHT_MASK != LINKED_UP {
            let is_dead = state & DEAD != 0;
            problems.push(format!(
                "the node of key {} is left with value {word:#x}, dead: {is_dead} (K4, K7)",
                self.key(node)
            ));
        }
    }

    fn check_link(&self, node: u64, level: usize, next: u64, problems: &mut Vec<String>) {
        let link = self.link(node, level).read_private();
        if self.is_writable && link != next {
            problems.push(format!("a link of level {level} is {link:#x} and not {next:#x} (K6)"));
        }
    }
}
