//! Planted bugs that the everyday searches do not find, and those that no search can find wrong.

use super::{Mutant, of};

/// Planted bugs that only long searches find: ten to sixty seconds each.
pub const RARE: &[Mutant] = &[
    of("bztree", "bztree.leaves_frozen"),
    of("cdds", "cdds.no_repair_flush"),
    of("cdds", "cdds.no_shift_flush"),
    of("fast-fair", "fast_fair.key_first"),
    of("nbtree", "nbtree.keeps_order"),
    of("nbtree", "nbtree.no_merge_finalize"),
    of("rntree", "slots.first_word_first"),
    of("rntree-wide", "line_store.torn"),
    of("hashed-leaf", "hashed.freeze_leaves_zeros"),
    of("hashed-leaf", "hashed.no_finalize"),
    of("hashed-leaf", "hashed.no_freeze_empty"),
    of("hashed-leaf", "hashed.no_plug"),
    of("hashed-leaf", "hashed.trusts_frozen"),
    of("hashed-leaf", "hashed.trusts_full"),
];

/// Those that take nothing away but speed or the guarantee of progress (`docs/mutants.md`).
pub const HARMLESS: &[Mutant] = &[
    of("bztree", "bztree.no_carry"),
    of("bztree", "bztree.update_ignores_removal"),
    of("hashed-leaf", "hashed.no_carry"),
    of("nbtree", "nbtree.no_carry"),
    of("store", "store.replay_never_waits"),
];
