//! The tree's own check: the future objects against the table of pending keys, then the global tree.

use everleaf_alloc::{Recovery, Session};
use everleaf_index::{CheckReport, IndexError, OrderedIndex};
use everleaf_machine::Machine;

use super::F3Tree;
use super::state::EntryState;
use super::variant::Variant;

impl<V: Variant, M: Machine> F3Tree<V, M> {
    /// Marks in `used` what the tree uses, and notes what it finds. Nobody else is active.
    pub(super) fn check_all(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        self.root_object.mark(used)?;
        self.check_objects(used, report)?;
        self.check_table(report);
        let before = report.keys;
        self.global.check(session, used, report)?;
        let stored = report.keys - before;
        let all = self.count(session)?.keys;
        report.keys = before + all;
        if all.abs_diff(stored) > self.pending_count() {
            report.problems.push(format!("{stored} keys are stored, and {all} in all (F4)"));
        }
        Ok(())
    }

    /// Keys in the table.
    fn pending_count(&self) -> u64 {
        self.table.shards().iter().map(|shard| shard.lock().keys().len() as u64).sum()
    }

    fn check_objects(
        &self,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), IndexError> {
        let drained = self.drained.read_private();
        for (index, front) in self.fronts.iter().enumerate() {
            let front = front.lock();
            let mut next = self.head(index).read_private();
            for object in front.objects.iter().rev() {
                used.mark_record(*object, V::OBJECT_SIZE)?;
                if next != *object {
                    report.problems.push(format!(
                        "front {index}: its list has {next} where an object at {object} is used"
                    ));
                }
                next = self.objects.next(*object).read_private();
            }
            for entry in Self::entries(&front.objects) {
                let stamp = self.objects.stamp(entry);
                let (key, _) = self.objects.pair(entry);
                let shard = self.table.shard(key);
                let is_due = stamp.sequence() >= shard.horizon();
                let newest = shard.lock().keys().get(&key).map(|pending| pending.stamp.sequence());
                if EntryState::of(stamp, drained) == EntryState::Counts
                    && is_due
                    && newest.is_none_or(|newest| newest < stamp.sequence())
                {
                    let text = format!("the entry at {entry} counts and is not in the table (F4)");
                    report.problems.push(text);
                }
            }
        }
        Ok(())
    }

    fn check_table(&self, report: &mut CheckReport) {
        for shard in self.table.shards() {
            for (key, pending) in shard.lock().keys().iter() {
                let (stored, value) = self.objects.pair(pending.entry);
                let stamp = self.objects.stamp(pending.entry);
                let differs = value != pending.value && !stamp.is_removal();
                if stored != *key || differs || stamp != pending.stamp {
                    let at = pending.entry;
                    report
                        .problems
                        .push(format!("key {key} is not what its entry at {at} says (F4)"));
                }
            }
        }
    }
}
