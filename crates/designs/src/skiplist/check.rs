//! The list's own check: every level against level 0.

use everleaf_alloc::Recovery;
use everleaf_index::CheckReport;
use everleaf_machine::Machine;

use super::PSkiplist;
use super::layout::{
    DEAD, DEAD_VALUE, FLUSHED_SHIFT, HEIGHT_MASK, LINKED_UP, is_tall, linked_levels, live,
};
use super::variant::{LEVEL_COUNT_MAX, Variant};

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    /// Marks in `used` what the list uses, and notes what it finds. Nobody else is active.
    pub(super) fn check_all(&self, used: &Recovery<M>, report: &mut CheckReport) {
        let (mut keys, mut nodes) = (0, 0);
        let mut last = [self.head; LEVEL_COUNT_MAX];
        let mut tall = vec![(self.head, 0)];
        let problems = &mut report.problems;
        let walked = self.root_object.mark(used).and_then(|()| {
            self.mark_logs(used)?;
            self.walk(used, true, &mut |found| {
                nodes += 1;
                keys += u64::from(live(found.word).is_some());
                if self.is_writable {
                    self.check_node(found.offset, found.word, problems);
                }
                if is_tall::<V>(found.height) {
                    tall.push((found.offset, found.key));
                }
                let levels = linked_levels::<V>(found.height);
                for (level, last) in last.iter_mut().enumerate().take(levels) {
                    self.check_link(*last, level, found.offset, problems);
                    *last = found.offset;
                }
                true
            })
        });
        if let Err(error) = walked {
            return problems.push(error.to_string());
        }
        for (level, last) in last.iter().enumerate().take(linked_levels::<V>(V::LEVEL_COUNT)) {
            self.check_link(*last, level, 0, problems);
        }
        if V::BUFFERED || V::CACHED {
            self.partitions.check(&tall, problems);
        }
        if V::BUFFERED {
            keys = self.check_buffers(problems);
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
        // With buffers the bits above the height are a number.
        let flags = state & !HEIGHT_MASK & ((1 << FLUSHED_SHIFT) - 1);
        let rests = flags == if V::BUFFERED { 0 } else { LINKED_UP };
        let may_be_dead = self.is_tall(node) && word == DEAD_VALUE;
        if live(word) != Some(word) && !may_be_dead || !rests {
            let is_dead = state & DEAD != 0;
            problems.push(format!(
                "the node of key {} is left with value {word:#x}, dead: {is_dead} (K4, K7)",
                self.key(node)
            ));
        }
    }

    /// Holds the buffers against the numbers of flushed writes; gives the number of keys.
    fn check_buffers(&self, problems: &mut Vec<String>) -> u64 {
        let mut keys = 0;
        for number in 0..self.partitions.count() {
            let low = self.low(number);
            keys += self.pairs(number, low).len() as u64;
            let flushed = self.flushed(self.partitions.at(number).node());
            let has_entries = !self.partitions.entries(number, 0).is_empty();
            if V::LOGGED && has_entries && flushed >= self.partitions.buffers.sequence(number) {
                problems
                    .push(format!("the partition from {low} on says that it has its buffer (K10)"));
            }
        }
        keys
    }

    fn check_link(&self, node: u64, level: usize, next: u64, problems: &mut Vec<String>) {
        let link = self.link(node, level).read_private();
        if self.is_writable && link != next {
            problems.push(format!("a link of level {level} is {link:#x} and not {next:#x} (K6)"));
        }
    }
}
