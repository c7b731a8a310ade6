//! Node sizes and the paper's variants, as types.

use crate::node::fast_node::NodeShape;
use crate::node::variant::{Named, variants};

/// A configuration of the tree.
pub trait Variant: Named + NodeShape {
    /// Whether readers lock their leaf, so that they see nothing that a crash takes back.
    const LEAF_LOCKS: bool = false;
    /// Whether readers and descending writers lock every node they read, one after the other.
    const NODE_LOCKS: bool = false;
    /// Whether a node with few records is merged with a neighbour.
    const MERGES: bool = true;
    /// Whether a node's image is made durable before it is split, as other trees need (the paper's
    /// "FAST+Logging"). Nothing ever reads it.
    const LOGGING: bool = false;
    /// Buffering: whether writes are gathered in DRAM, with a log, before they go to their leaf. Readers lock
    /// their leaf then, and nothing is merged.
    const BUFFERED: bool = false;
    /// Whether what is in buffers is in a log too. If not, a crash takes it back.
    const LOGGED: bool = true;
    /// Out-of-place writing: whether a leaf with a full buffer is replaced by a copy that has all of it.
    const OUT_OF_PLACE: bool = false;
    /// Caching: whether an inner tree in DRAM leads to the leaves too. Nothing is merged then.
    const CACHED: bool = false;
    /// Entries of a buffer, at most 14.
    const BUFFER_CAPACITY: usize = 12;
    /// Whether there are few logs with short chunks: for tests.
    const SMALL_LOGS: bool = false;
}

variants! {
    /// Nodes of 512 bytes; readers without locks.
    Standard "fast-fair" 16 NodeShape {}, Variant {}
    /// As [`Standard`], with nodes of 256 bytes.
    Nodes256 "fast-fair-256" 17 NodeShape { const NODE_SIZE: usize = 256; }, Variant {}
    /// As [`Standard`], with nodes of 1 KiB.
    Nodes1024 "fast-fair-1024" 18 NodeShape { const NODE_SIZE: usize = 1024; }, Variant {}
    /// As [`Standard`], with nodes of 2 KiB.
    Nodes2048 "fast-fair-2048" 19 NodeShape { const NODE_SIZE: usize = 2048; }, Variant {}
    /// As [`Standard`], with nodes of 4 KiB.
    Nodes4096 "fast-fair-4096" 20 NodeShape { const NODE_SIZE: usize = 4096; }, Variant {}
    /// As [`Standard`]; readers lock their leaf and see only what is durable.
    LeafLocks "fast-fair-leaf-locks" 21 NodeShape {}, Variant { const LEAF_LOCKS: bool = true; }
    /// As [`Standard`], with an image of a node made durable before it is split.
    Logging "fast-fair-logging" 22 NodeShape {}, Variant { const LOGGING: bool = true; }
    /// As [`Standard`]; nodes are searched by halving, and readers wait for writers.
    Binary "fast-fair-binary" 23 NodeShape { const BINARY: bool = true; }, Variant {}
    /// As [`Standard`], with a fence after every store of a shift.
    Fenced "fast-fair-fenced" 24 NodeShape { const FENCED: bool = true; }, Variant {}
    /// B-link: every node is locked to be read, none is merged (see [`blink`](crate::blink)).
    BLink "blink" 26 NodeShape {}, Variant {
        const LEAF_LOCKS: bool = true;
        const NODE_LOCKS: bool = true;
        const MERGES: bool = false;
    }
    /// As [`Standard`], with the inner nodes in DRAM too.
    Cached "fast-fair-c" 0xB0 NodeShape {}, Variant {
        const CACHED: bool = true;
        const MERGES: bool = false;
    }
    /// As [`Standard`], with buffers and a log.
    Buffered "fast-fair-b" 0xB1 NodeShape {}, Variant {
        const LEAF_LOCKS: bool = true;
        const MERGES: bool = false;
        const BUFFERED: bool = true;
    }
    /// As [`Buffered`], with the inner nodes in DRAM too.
    BufferedCached "fast-fair-bc" 0xB7 NodeShape {}, Variant {
        const LEAF_LOCKS: bool = true;
        const MERGES: bool = false;
        const BUFFERED: bool = true;
        const CACHED: bool = true;
    }
    /// As [`BufferedCached`], without a log.
    BufferedCachedUnlogged "fast-fair-bc-unlogged" 0xB8 NodeShape {}, Variant {
        const LEAF_LOCKS: bool = true;
        const MERGES: bool = false;
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
        const CACHED: bool = true;
    }
    /// As [`Buffered`]; a leaf with a full buffer is replaced by a new one.
    OutOfPlace "fast-fair-bo" 0xB2 NodeShape {}, Variant {
        const LEAF_LOCKS: bool = true;
        const MERGES: bool = false;
        const BUFFERED: bool = true;
        const OUT_OF_PLACE: bool = true;
    }
    /// As [`OutOfPlace`], with the inner nodes in DRAM too.
    Whole "fast-fair-boc" 0xB3 NodeShape {}, Variant {
        const LEAF_LOCKS: bool = true;
        const MERGES: bool = false;
        const BUFFERED: bool = true;
        const OUT_OF_PLACE: bool = true;
        const CACHED: bool = true;
    }
    /// As [`Buffered`], without a log.
    BufferedUnlogged "fast-fair-b-unlogged" 0xB4 NodeShape {}, Variant {
        const LEAF_LOCKS: bool = true;
        const MERGES: bool = false;
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
    }
    /// As [`OutOfPlace`], without a log.
    OutOfPlaceUnlogged "fast-fair-bo-unlogged" 0xB5 NodeShape {}, Variant {
        const LEAF_LOCKS: bool = true;
        const MERGES: bool = false;
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
        const OUT_OF_PLACE: bool = true;
    }
    /// As [`Whole`], without a log.
    WholeUnlogged "fast-fair-boc-unlogged" 0xB6 NodeShape {}, Variant {
        const LEAF_LOCKS: bool = true;
        const MERGES: bool = false;
        const BUFFERED: bool = true;
        const LOGGED: bool = false;
        const OUT_OF_PLACE: bool = true;
        const CACHED: bool = true;
    }
    /// As published: without low fences. **Loses keys** when several threads write; it exists to be
    /// compared with, and is not in the catalogue.
    Unfenced "fast-fair-published" 25 NodeShape { const LOW_FENCE: bool = false; }, Variant {}
    /// Nodes of a few records, so that a handful of keys splits and merges them: for tests. The numbers
    /// are records per node; whose locks: 1 for those of [`LeafLocks`], 2 for those of [`BLink`]; and 1 for
    /// buffering, plus 2 for out-of-place writing, plus 4 for caching, plus 8 for no log.
    Small<RECORDS: usize = 3, LOCKS: u8 = 0, TECHNIQUES: u8 = 0> "fast-fair-small" 31 NodeShape {
        const NODE_SIZE: usize = 256;
        const ENTRY_LIMIT: usize = RECORDS;
    }, Variant {
        const LEAF_LOCKS: bool = LOCKS > 0 || TECHNIQUES & 1 != 0;
        const NODE_LOCKS: bool = LOCKS == 2;
        const MERGES: bool = LOCKS != 2 && TECHNIQUES == 0;
        const BUFFERED: bool = TECHNIQUES & 1 != 0;
        const LOGGED: bool = TECHNIQUES & 8 == 0;
        const OUT_OF_PLACE: bool = TECHNIQUES & 2 != 0;
        const CACHED: bool = TECHNIQUES & 4 != 0;
        const BUFFER_CAPACITY: usize = 2;
        const SMALL_LOGS: bool = true;
    }
}
