//! The states of a node: which thread brings it there, and what others do about it.
//!
//! ```text
//!            first lock                split links      split cuts
//!   UNREAD ------------> WHOLE -------------> UNCUT -------------> WHOLE
//!     ^                    |                    |
//!     |                    | merged             | crash
//!     +---- crash, open ---+--> GONE            +--> UNREAD
//! ```
//!
//! | state | where | a reader | a writer | after a crash |
//! |---|---|---|---|---|
//! | `UNREAD` | lock word is of another opening, or says so | believes valid records below the sibling's fence | mends it, then goes on | every node |
//! | `WHOLE` | otherwise | believes all valid records | goes on | unread |
//! | `UNCUT` | bit of the sibling word | looks at the sibling's fence | never sees it: the splitter has the lock | cut by the first writer |
//! | `GONE` | bit of the state word | starts again at the root | the same | not reachable, free |

use everleaf_machine::Machine;

use crate::node::fast_node::{Node, NodeShape, Nodes, UNCUT};

/// Which records of a node are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// All of them, each valid, and the count is right.
    Whole,
    /// The valid ones below the sibling's fence.
    Doubtful,
}

impl NodeState {
    /// The state of a node that nobody uses now.
    pub fn of<S: NodeShape, M: Machine>(nodes: &Nodes<S, M>, node: Node<S, M>) -> Self {
        let uncut = node.sibling().read_private() & UNCUT != 0;
        if nodes.is_read(node) && !uncut { NodeState::Whole } else { NodeState::Doubtful }
    }
}
