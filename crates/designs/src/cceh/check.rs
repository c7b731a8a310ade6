//! The index's own check: the directory, the segments, and every pair in its place.

use everleaf_alloc::{AllocError, Recovery};
use everleaf_index::CheckReport;
use everleaf_machine::Machine;

use super::Cceh;
use super::directory_word::Directory;
use super::layout::{DIRECTORY_WORD, Segment, hash_of};
use super::recover::Stride;
use super::variant::Variant;

impl<V: Variant, M: Machine> Cceh<V, M> {
    /// Marks in `used` what the index uses, and notes what it finds. Nobody else is active.
    pub(super) fn check_all(&self, used: &Recovery<M>, report: &mut CheckReport) {
        if let Err(error) = self.check_or_fail(used, report) {
            report.problems.push(error.to_string());
        }
    }

    fn check_or_fail(
        &self,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), AllocError> {
        self.root_object.mark(used)?;
        let directory = self.directory();
        if Directory::from_word(self.root_object.word(DIRECTORY_WORD).read_private()) != directory {
            report.problems.push("the root object names another directory (C2)".to_owned());
        }
        if self.directory_lock.stable(0).is_none() {
            report.problems.push("the directory is left locked".to_owned());
        }
        used.mark_record(directory.offset, Directory::size(directory.depth))?;
        self.mark_logs(used)?;
        for index in (0..directory.count()).filter(|_| V::CACHED) {
            if self.copy.get(directory, index) != self.entry(directory, index).read_private() {
                report.problems.push(format!("entry {index} is another one in DRAM (C7)"));
            }
        }
        for stride in self.strides() {
            let stride = stride?;
            used.mark_record(stride.segment, Segment::<V, M>::SIZE)?;
            self.check_stride(directory, &stride, &mut report.problems);
            report.keys += self.check_segment(self.segment(stride.segment), &mut report.problems);
            report.leaves += 1;
        }
        Ok(())
    }

    /// Whether all entries that a segment should have lead to it.
    fn check_stride(&self, directory: Directory, stride: &Stride, problems: &mut Vec<String>) {
        for index in stride.first..stride.first + stride.count {
            let found = self.entry(directory, index).read_private();
            if found != stride.segment {
                let first = stride.first;
                problems.push(format!("entry {index} leads elsewhere than entry {first} (C3)"));
            }
        }
    }

    /// Whether a segment's pairs can be found, each once. Gives their number.
    fn check_segment(&self, segment: Segment<'_, V, M>, problems: &mut Vec<String>) -> u64 {
        if segment.head.lock.stable(self.generation).is_none() {
            problems.push(format!("the segment of hash {:#x} is left locked", segment.low()));
        }
        for (key, _) in segment.pairs() {
            let places = segment.places(hash_of(key)).filter(|pair| pair.key() == key).count();
            if places != 1 {
                problems.push(format!("key {key} is in {places} of its places (C4)"));
            }
        }
        if V::BUFFERED {
            let node_of = |key| self.node(segment, hash_of(key));
            for (number, node) in self.nodes(segment).enumerate() {
                let is_own =
                    |(key, _)| segment.covers(hash_of(key)) && std::ptr::eq(node_of(key), node);
                if node.len() > V::NODE_LENGTH || !node.iter().all(is_own) {
                    problems.push(format!("part {number} of a buffer has what it should not"));
                }
            }
        }
        self.key_count(segment)
    }
}
