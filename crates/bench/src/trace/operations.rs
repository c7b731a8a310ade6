//! The operations of a trace, in order, with their keys.

use std::ops::Range;

use crate::stream::Step;
use crate::workload::Action;

/// The operations of a trace, in order.
///
/// # Example
/// ```
/// let file = b"put user:1 100\nget user:1\n1339518083.1 [0 :1] \"incr\" \"visits\"\n";
/// let trace = everleaf_bench::Trace::parse(&file[..], "example")?;
/// assert_eq!(trace.len(), 4, "incr reads, then writes");
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub(super) operations: Vec<(Step, Range<usize>)>,
    /// The keys, one behind the other.
    pub(super) texts: Vec<u8>,
    pub(super) skipped: u64,
}

impl Trace {
    /// Operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Never: a trace has at least one operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Commands of a capture that were left out, because they are not about strings by key.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether some operation needs an index that has its keys in order.
    pub fn scans(&self) -> bool {
        self.operations.iter().any(|(step, _)| step.action == Action::Scan)
    }

    /// Bytes that all operations together write, at most, with what an index needs for each.
    pub(crate) fn written_bytes(&self) -> u64 {
        let size = |step: &Step| if step.action == Action::Put { step.length } else { 0 };
        let values: u64 = self.operations.iter().map(|(step, _)| u64::from(size(step)) + 128).sum();
        values + self.texts.len() as u64
    }

    /// Adds an operation behind the others.
    pub(super) fn add(&mut self, action: Action, length: u32, key: &[u8]) {
        let start = self.texts.len();
        self.texts.extend_from_slice(key);
        self.operations.push((Step { action, length }, start..self.texts.len()));
    }
}
