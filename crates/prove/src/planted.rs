//! The planted bugs, by the structure whose programs miss them.

mod others;
pub mod plain;
mod rare;

pub use others::OF_OTHER_TREES;
pub use rare::{HARMLESS, RARE};

/// A safeguard that can be switched off by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Its name in the source.
    pub name: &'static str,
    /// The structure whose programs miss it.
    pub structure: &'static str,
}

pub(crate) const fn of(structure: &'static str, name: &'static str) -> Mutant {
    Mutant { name, structure }
}

/// Every planted bug that a search must find.
pub const MUTANTS: &[Mutant] = &[
    of("alloc", "alloc.no_clear"),
    of("alloc", "alloc.no_header_flush"),
    of("alloc", "alloc.no_remainder"),
    of("alloc", "recovery.no_marks"),
    of("alloc", "session.gives_twice"),
    of("alloc", "session.keeps_all"),
    of("alloc", "session.no_orphans"),
    of("alloc", "session.orphans_at_once"),
    of("batch", "gate.no_wait"),
    of("batch", "journal.enters_one"),
    of("batch", "journal.expires_first"),
    of("batch", "journal.expiry_unflushed"),
    of("batch", "journal.keeps_last_made"),
    of("batch", "journal.lone_expiry_unwritten"),
    of("batch", "journal.no_entry"),
    of("batch", "journal.no_erasure"),
    of("batch", "journal.no_recovery"),
    of("batch", "journal.redo_skips_expiries"),
    of("batch", "look.forgets_gate"),
    of("batch", "look.trusts"),
    of("batch", "read.looks_once"),
    of("batch", "stripes.counts_nothing"),
    of("batch", "stripes.readers_pass"),
    of("alloc", "alloc.returns_chunks"),
    of("alloc", "alloc.returns_header"),
    of("alloc", "alloc.secures_chunks"),
    of("alloc", "alloc.secures_nothing"),
    of("alloc", "alloc.trusts_returned"),
    of("alloc", "recovery.secures_chunks"),
    of("alloc", "recovery.unmarked_no_holes"),
    of("epoch", "epoch.ignores_pins"),
    of("epoch", "epoch.no_grace"),
    of("epoch", "epoch.no_heavy_barrier"),
    of("epoch", "epoch.short_grace"),
    of("expiry", "bytes.expiry_seen_early"),
    of("expiry", "expiry.writers_pass"),
    of("batch", "record.expiry_no_persist"),
    of("expiry", "record.expiry_without_check"),
    of("epoch", "epoch.unseen_join"),
    of("nbtree", "nbtree.commit_ignores_freeze"),
    of("nbtree", "nbtree.freeze_kills_pending"),
    of("nbtree", "nbtree.late_in_flight"),
    of("nbtree", "nbtree.merge_frees_twice"),
    of("nbtree", "nbtree.modify_ignores_freeze"),
    of("nbtree", "nbtree.no_build_flush"),
    of("nbtree", "nbtree.no_clear"),
    of("nbtree", "nbtree.no_commit_flush"),
    of("nbtree", "nbtree.no_finalize"),
    of("nbtree", "nbtree.no_follow"),
    of("nbtree", "nbtree.no_freeze_slots"),
    of("nbtree", "nbtree.no_insert_flush"),
    of("nbtree", "nbtree.no_merge_mark"),
    of("nbtree", "nbtree.no_observe"),
    of("nbtree", "nbtree.no_pending"),
    of("nbtree", "nbtree.no_scan_tomb_observe"),
    of("nbtree", "nbtree.no_tomb_observe"),
    of("nbtree", "nbtree.no_update_flush"),
    of("nbtree", "nbtree.no_validate"),
    of("nbtree", "nbtree.read_pending"),
    of("nbtree", "nbtree.recovery_keeps_marks"),
    of("nbtree", "nbtree.recovery_leans"),
    of("nbtree", "nbtree.recovery_no_end_flush"),
    of("nbtree", "nbtree.recovery_no_live_flush"),
    of("nbtree", "nbtree.recovery_takes_pending"),
    of("nbtree", "nbtree.switch_before_commit"),
    of("nbtree-bytes", "record.no_persist"),
    of("pool", "pool.commit_before_name"),
    of("pool", "pool.ids_unlocked"),
    of("pool", "pool.no_record_persist"),
    of("pool", "pool.no_replace_persist"),
    of("pool", "pool.no_size_record"),
    of("pool", "pool.stays_clean"),
    of("pool", "pool.whole_copy_first"),
    of("alloc", "recovery.slots_off_by_one"),
    of("hashed-leaf", "hashed.stops_at_first_chunk"),
    of("nbtree", "nbtree.recovery_takes_any_new"),
    of("nbtree-bytes", "bytes.back_excludes"),
    of("hashed-leaf", "hashed.commit_names_left"),
    of("nbtree", "nbtree.commit_names_left"),
    of("nbtree-bytes", "record.persist_short"),
    of("alloc", "recovery.returns_one_chunk"),
    of("epoch", "epoch.one_late_is_fine"),
    of("pool", "pool.root_commit_unflushed"),
    of("nbtree", "nbtree.discard_keeps_right"),
    of("pool", "pool.features_first"),
    of("pool", "pool.size_before_record"),
    of("hashed-leaf", "hashed.discard_keeps_right"),
    of("nbtree", "nbtree.recovery_forgets_removed"),
    of("pool", "pool.exists_unchecked"),
    of("pool", "pool.second_copy_unflushed"),
];
