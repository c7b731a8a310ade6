//! The planted bugs, and how long they live.

use everleaf_machine::simulated::{Abandon, Config, CrashConfig, Domain, Failure, MemoryModel};

use crate::campaign::{self, Budget, Settings, WORK};
use crate::case::Outcome;
use crate::configure::{Fixed, exhaustive};
use crate::published::{self, GUARDED};
use crate::structure::{Step, Structure, find};
use crate::{anomalies, safeguards, scenarios};

/// A safeguard that can be switched off by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Its name in the source.
    pub name: &'static str,
    /// The structure whose programs miss it.
    pub structure: &'static str,
}

const fn of(structure: &'static str, name: &'static str) -> Mutant {
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
    of("batch", "journal.no_entry"),
    of("batch", "journal.no_erasure"),
    of("batch", "journal.no_recovery"),
    of("batch", "stripes.readers_pass"),
    of("epoch", "epoch.ignores_pins"),
    of("epoch", "epoch.no_grace"),
    of("epoch", "epoch.no_heavy_barrier"),
    of("epoch", "epoch.short_grace"),
    of("expiry", "expiry.writers_pass"),
    of("expiry", "record.expiry_no_persist"),
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
];

/// The planted bugs of the other trees. Some take programs made for them: those of [`anomalies`],
/// [`safeguards`] and [`published`].
pub const OF_OTHER_TREES: &[Mutant] = &[
    of("blocks-everleaf", "everleaf.marks_nothing"),
    of("blocks-everleaf", "everleaf.no_link_flush"),
    of("blocks-everleaf", "everleaf.no_unlink_flush"),
    of("blocks-naive", "naive.behind_the_first"),
    of("blocks-naive", "naive.from_the_start"),
    of("blocks-naive", "naive.no_link_flush"),
    of("blocks-naive", "naive.no_unlink_flush"),
    of("blocks-nvalloc", "nvalloc.bit_first"),
    of("blocks-nvalloc", "nvalloc.free_at_once"),
    of("blocks-nvalloc", "nvalloc.link_first"),
    of("blocks-nvalloc", "nvalloc.no_bit_flush"),
    of("blocks-nvalloc", "nvalloc.no_entry_flush"),
    of("blocks-nvalloc", "nvalloc.no_link_flush"),
    of("blocks-nvalloc", "nvalloc.no_replay"),
    of("blocks-nvalloc", "nvalloc.replays_all"),
    of("blocks-nvm-malloc", "nvm_malloc.end_first"),
    of("blocks-nvm-malloc", "nvm_malloc.free_at_once"),
    of("blocks-nvm-malloc", "nvm_malloc.no_end_flush"),
    of("blocks-nvm-malloc", "nvm_malloc.no_link_flush"),
    of("blocks-nvm-malloc", "nvm_malloc.no_lock"),
    of("blocks-nvm-malloc", "nvm_malloc.no_replay"),
    of("blocks-nvm-malloc", "nvm_malloc.no_state_flush"),
    of("blocks-nvm-malloc", "nvm_malloc.state_first"),
    of("blocks-pmdk", "pmdk.free_at_once"),
    of("blocks-pmdk", "pmdk.kind_first"),
    of("blocks-pmdk", "pmdk.no_apply_flush"),
    of("blocks-pmdk", "pmdk.no_erase_flush"),
    of("blocks-pmdk", "pmdk.no_lane_flush"),
    of("blocks-pmdk", "pmdk.no_replay"),
    of("nbtree-on-pmdk", "nbtree_blocks.free_at_once"),
    of("nbtree-on-pmdk", "nbtree_blocks.no_end_flush"),
    of("nbtree-on-pmdk", "nbtree_blocks.no_old"),
    of("nbtree-on-pmdk", "nbtree_blocks.no_ring"),
    of("nbtree-on-pmdk", "nbtree_blocks.settles_listed"),
    of("nbtree-on-pmdk", "nbtree_blocks.settles_nothing"),
    of("nbtree-on-pmdk", "nbtree_blocks.settles_twice"),
    of("cceh", "cceh.depth_first"),
    of("cceh", "cceh.free_at_once"),
    of("cceh", "cceh.key_first"),
    of("cceh", "cceh.no_anchor_flush"),
    of("cceh", "cceh.no_depth_flush"),
    of("cceh", "cceh.no_directory_flush"),
    of("cceh", "cceh.no_entry_flush"),
    of("cceh", "cceh.no_pair_flush"),
    of("cceh", "cceh.no_recheck"),
    of("cceh", "cceh.no_removal_flush"),
    of("cceh", "cceh.no_repair"),
    of("cceh", "cceh.no_segment_flush"),
    of("cceh", "cceh.no_validation"),
    of("cceh", "cceh.no_value_flush"),
    of("cceh", "cceh.opens_first"),
    of("cceh-b", "cceh.flushed_first"),
    of("cceh-b", "cceh.no_fill_flush"),
    of("cceh-b", "cceh.no_forced_flush"),
    of("cceh-b", "cceh.no_sequence"),
    of("cceh-b", "cceh.unlogged_removal"),
    of("cceh-bo", "cceh.free_segment_at_once"),
    of("cceh-bo", "cceh.no_copy_flush"),
    of("cceh-bo", "cceh.no_flushed"),
    of("cceh-c", "cceh.stale_copy"),
    of("cdds", "cdds.keep_ends"),
    of("cdds", "cdds.keep_later"),
    of("cdds", "cdds.no_end_flush"),
    of("cdds", "cdds.no_entry_flush"),
    of("cdds", "cdds.no_version_flush"),
    of("cdds", "cdds.start_first"),
    of("f3-tree", "f3.drains_first"),
    of("f3-tree", "f3.evaluates_all"),
    of("f3-tree", "f3.forgets_order"),
    of("f3-tree", "f3.forgets_tombstones"),
    of("f3-tree", "f3.late_horizon"),
    of("f3-tree", "f3.no_drained_flush"),
    of("f3-tree", "f3.no_entry_flush"),
    of("f3-tree", "f3.no_head_flush"),
    of("f3-tree", "f3.object_unflushed"),
    of("f3-tree", "f3.removal_stores_value"),
    of("f3-tree", "f3.serves_at_once"),
    of("f3-tree", "f3.skips_empty"),
    of("f3-tree", "f3.stamp_first"),
    of("fast-fair", "fast_fair.blind_growth"),
    of("fast-fair", "fast_fair.blind_separator"),
    of("fast-fair", "fast_fair.cut_before_link"),
    of("fast-fair", "fast_fair.equal_words"),
    of("fast-fair", "fast_fair.first_key"),
    of("fast-fair", "fast_fair.merge_keeps_sibling"),
    of("fast-fair", "fast_fair.middle_key_stays"),
    of("fast-fair", "fast_fair.no_mend"),
    of("fast-fair", "fast_fair.no_recheck"),
    of("fast-fair", "fast_fair.no_shift_persist"),
    of("fast-fair", "fast_fair.no_turn"),
    of("fast-fair", "fast_fair.old_lock"),
    of("fast-fair", "fast_fair.quiet_merge"),
    of("fast-fair", "fast_fair.quiet_update"),
    of("fast-fair", "fast_fair.root_before_node"),
    of("fast-fair", "fast_fair.stays_left"),
    of("fast-fair", "fast_fair.word_first"),
    of("fast-fair", "fast_fair.wrong_line_end"),
    of("fptree", "fptree.half_a_redo"),
    of("fptree", "fptree.no_bitmap_flush"),
    of("fptree", "fptree.no_entry_flush"),
    of("fptree", "fptree.no_fingerprint_flush"),
    of("fptree", "fptree.no_link_flush"),
    of("fptree", "fptree.no_new_flush"),
    of("fptree", "hybrid.free_at_once"),
    of("nvtree", "hybrid.no_head_flush"),
    of("hashed-leaf", "hashed.freeze_kills_pending"),
    of("hashed-leaf", "hashed.late_in_flight"),
    of("hashed-leaf", "hashed.no_build_flush"),
    of("hashed-leaf", "hashed.no_clear"),
    of("hashed-leaf", "hashed.no_commit_flush"),
    of("hashed-leaf", "hashed.no_insert_flush"),
    of("hashed-leaf", "hashed.no_merge_mark"),
    of("hashed-leaf", "hashed.no_observe"),
    of("hashed-leaf", "hashed.no_scan_tomb_observe"),
    of("hashed-leaf", "hashed.no_tomb_observe"),
    of("hashed-leaf", "hashed.no_update_flush"),
    of("hashed-leaf", "hashed.old_way"),
    of("hashed-leaf", "hashed.read_pending"),
    of("hashed-leaf", "hashed.recovery_keeps_pending"),
    of("hashed-leaf", "hashed.switch_before_commit"),
    of("hashed-leaf", "hashed.wrong_help"),
    of("hashed-leaf", "hashed.zeros_last"),
    of("rntree", "hybrid.no_image_flush"),
    of("nvtree", "hybrid.no_link_flush"),
    of("rntree", "hybrid.no_new_flush"),
    of("wbtree", "hybrid.no_revalidation"),
    of("rntree", "hybrid.no_restore_flush"),
    of("rntree", "hybrid.no_rewrite_flush"),
    of("rntree", "hybrid.no_token"),
    of("rntree", "hybrid.replay_again"),
    of("rntree", "inner.no_validation"),
    of("rntree", "lock.no_generation"),
    of("nbtree-published", "nbtree_published.frees_once"),
    of("nbtree-w", "nbtree_published.key_first"),
    of("nbtree-published", "nbtree_published.late_commit"),
    of("nbtree-w", "nbtree_published.no_clear"),
    of("nbtree-w", "nbtree_published.no_copy_flush"),
    of("nbtree-w", "nbtree_published.no_high_key"),
    of("nbtree-w", "nbtree_published.no_insert_flush"),
    of("nbtree-w", "nbtree_published.no_key_check"),
    of("nbtree-w", "nbtree_published.no_link_flush"),
    of("nbtree-w", "nbtree_published.no_recheck"),
    of("nbtree-published", "nbtree_published.no_sync"),
    of("nbtree-published", "nbtree_published.no_sync_on_write"),
    of("nbtree-published", "nbtree_published.no_tail"),
    of("nbtree-w", "nbtree_published.no_update_flush"),
    of("nbtree-published", "nbtree_published.removes_twice"),
    of("nbtree-published", "nbtree_published.trusts_calloc"),
    of("bw-tree", "bwtree.blind_install"),
    of("bw-tree", "bwtree.forgets_removals"),
    of("bw-tree", "bwtree.free_at_once"),
    of("bw-tree", "bwtree.keeps_moved"),
    of("bw-tree", "bwtree.no_range_check"),
    of("bw-tree", "bwtree.oldest_first"),
    of("bw-tree", "bwtree.plain_store"),
    of("bw-tree", "bwtree.stale_split"),
    of("masstree", "masstree.early_publish"),
    of("masstree", "masstree.free_at_once"),
    of("masstree", "masstree.no_validation"),
    of("masstree", "masstree.plain_unlock"),
    of("masstree", "masstree.reader_stays"),
    of("masstree", "masstree.silent_reuse"),
    of("masstree", "masstree.unmarked_split"),
    of("masstree", "masstree.writer_stays"),
    of("nvtree", "nvtree.no_count_flush"),
    of("nvtree", "nvtree.no_entry_flush"),
    of("nvtree", "nvtree.read_uncommitted"),
    of("rntree", "micro_log.kind_first"),
    of("rntree", "micro_log.no_clear_flush"),
    of("fptree", "micro_log.no_record_flush"),
    of("pactree", "pactree.bitmap_first"),
    of("pactree", "pactree.free_at_once"),
    of("pactree", "pactree.keeps_merged"),
    of("pactree", "pactree.link_first"),
    of("pactree", "pactree.no_bitmap_flush"),
    of("pactree", "pactree.no_entry_flush"),
    of("pactree", "pactree.no_erase_flush"),
    of("pactree", "pactree.no_fingerprint_flush"),
    of("pactree", "pactree.no_linked_flush"),
    of("pactree", "pactree.no_link_back"),
    of("pactree", "pactree.no_log_flush"),
    of("pactree", "pactree.no_merge_flush"),
    of("pactree", "pactree.no_new_flush"),
    of("pactree", "pactree.no_range_check"),
    of("pactree", "pactree.no_redo"),
    of("pactree", "pactree.no_remove_flush"),
    of("pactree", "pactree.no_sort_generation"),
    of("pactree", "pactree.no_split_flush"),
    of("pactree", "pactree.no_value_flush"),
    of("rntree", "rntree.early_split"),
    of("rntree-dual", "rntree.early_switch"),
    of("rntree-wide", "rntree.in_place"),
    of("rntree", "rntree.max_slot"),
    of("rntree", "rntree.no_entry_flush"),
    of("rntree", "rntree.no_recheck"),
    of("rntree", "rntree.no_revalidation"),
    of("rntree", "rntree.no_slot_flush"),
    of("rntree", "rntree.removes_twice"),
    of("rntree", "rntree.trusts_entries"),
    of("rntree", "rntree.trusts_seen"),
    of("bztree", "bztree.copies_active_inner"),
    of("bztree", "bztree.copies_active_leaf"),
    of("bztree", "bztree.frees_at_once"),
    of("bztree", "bztree.keeps_reserved"),
    of("bztree", "bztree.no_node_flush"),
    of("bztree", "bztree.no_pair_flush"),
    of("bztree", "bztree.no_recheck"),
    of("bztree", "bztree.publish_ignores_freeze"),
    of("bztree", "bztree.removes_old_value"),
    of("bztree", "bztree.swap_ignores_freeze"),
    of("bztree", "bztree.update_ignores_freeze"),
    of("bztree", "pmwcas.no_descriptor_flush"),
    of("bztree", "pmwcas.no_final_flush"),
    of("bztree", "pmwcas.no_help"),
    of("bztree", "pmwcas.no_install_flush"),
    of("bztree", "pmwcas.no_marker"),
    of("bztree", "pmwcas.no_roll_back"),
    of("bztree", "pmwcas.no_roll_forward"),
    of("bztree", "pmwcas.no_status_flush"),
    of("bztree", "pmwcas.reuses_at_once"),
    of("p-skiplist", "skiplist.before_its_like"),
    of("p-skiplist", "skiplist.descends_from_removed"),
    of("p-skiplist", "skiplist.follows_dirty"),
    of("p-skiplist", "skiplist.free_at_once"),
    of("p-skiplist", "skiplist.keeps_dirty"),
    of("p-skiplist", "skiplist.keeps_removed"),
    of("p-skiplist", "skiplist.links_down"),
    of("p-skiplist", "skiplist.no_dead_flush"),
    of("p-skiplist", "skiplist.no_link_flush"),
    of("p-skiplist", "skiplist.no_mark"),
    of("p-skiplist", "skiplist.no_node_flush"),
    of("p-skiplist", "skiplist.no_unlink_flush"),
    of("p-skiplist", "skiplist.no_value_flush"),
    of("p-skiplist", "skiplist.reads_dirty"),
    of("p-skiplist", "skiplist.retires_early"),
    of("p-skiplist", "skiplist.trusts_upper_links"),
    of("sptree", "sptree.bitmap_first"),
    of("sptree", "sptree.free_at_once"),
    of("sptree", "sptree.keeps_masked"),
    of("sptree", "sptree.link_first"),
    of("sptree", "sptree.no_bitmap_flush"),
    of("sptree", "sptree.no_entry_flush"),
    of("sptree", "sptree.no_filter_add"),
    of("sptree", "sptree.no_merge_flush"),
    of("sptree", "sptree.no_new_flush"),
    of("sptree", "sptree.no_range_check"),
    of("sptree", "sptree.no_remove_flush"),
    of("sptree", "sptree.no_sort_generation"),
    of("sptree", "sptree.no_split_flush"),
    of("sptree", "sptree.no_tag_flush"),
    of("sptree", "sptree.no_validation"),
    of("sptree-buffered", "sptree.flushed_first"),
    of("sptree-buffered", "sptree.no_flushed"),
    of("sptree-buffered", "sptree.no_forced_flush"),
    of("sptree-buffered", "sptree.no_range_skip"),
    of("sptree-buffered", "sptree.no_record_flush"),
    of("sptree-buffered", "sptree.no_record_sum"),
    of("sptree-buffered", "sptree.no_sequence"),
    of("sptree-buffered", "sptree.open_keeps_links"),
    of("sptree-buffered", "sptree.reads_before_restore"),
    of("sptree-buffered", "sptree.split_keeps_links"),
    of("sptree-buffered", "sptree.split_replays"),
    of("sptree-buffered", "sptree.unlogged_removal"),
    of("sptree-buffered", "sptree.writes_before_restore"),
    of("utree", "utree.free_at_once"),
    of("utree", "utree.hides_first"),
    of("utree", "utree.no_link_flush"),
    of("utree", "utree.no_node_flush"),
    of("utree", "utree.no_revalidation"),
    of("utree", "utree.no_unlink_flush"),
    of("utree", "utree.no_value_flush"),
    of("utree", "utree.shows_first"),
    of("wbtree", "wbtree.keep_valid"),
    of("wbtree", "wbtree.no_bitmap_flush"),
    of("wbtree", "wbtree.no_entry_flush"),
    of("wbtree", "wbtree.no_slot_flush"),
    of("wbtree", "wbtree.no_sorted_flush"),
    of("wbtree", "wbtree.trusts_entries"),
    of("wbtree-so", "wbtree.no_word_flush"),
    of("wort", "radix.free_at_once"),
    of("wort", "radix.link_first"),
    of("wort", "radix.no_exchange"),
    of("wort", "radix.no_link_flush"),
    of("wort", "radix.no_node_flush"),
    of("wort", "radix.reads_dirty"),
    of("wort", "radix.skips_prefix"),
    of("wort", "wort.free_at_once"),
    of("wort", "wort.no_exchange"),
    of("wort", "wort.no_record_flush"),
    of("wort", "wort.no_value_flush"),
    of("wort", "wort.reads_dirty"),
];

/// Planted bugs that only long searches find: ten to sixty seconds each.
pub const RARE: &[Mutant] = &[
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
    of("bztree", "bztree.update_ignores_removal"),
    of("fast-fair", "fast_fair.no_uncut"),
    of("hashed-leaf", "hashed.no_carry"),
    of("nbtree", "nbtree.no_carry"),
];

/// Every planted bug of all trees, without those that are harmless.
pub fn all() -> impl Iterator<Item = Mutant> {
    MUTANTS.iter().chain(OF_OTHER_TREES).chain(RARE).copied()
}

/// The planted bug of this name.
pub fn named(name: &str) -> Option<Mutant> {
    all().chain(HARMLESS.iter().copied()).find(|mutant| mutant.name == name)
}

/// How a planted bug was found.
pub struct Kill {
    /// The program that found it.
    pub program: String,
    /// Its configuration.
    pub config: Config,
    /// Schedules until then, of all programs.
    pub schedules: u64,
    /// What was seen.
    pub failure: Box<Failure>,
}

/// Schedules of a small program: a bug that needs more is left to the other searches.
const SMALL_SCHEDULES: u64 = 2000;
/// Schedules of a small program whose stores wait in buffers: those have many more orders.
const TSO_SCHEDULES: u64 = 50_000;
/// Schedules of a small program with crashes in recovery.
const NESTED_SCHEDULES: u64 = 2;
/// Schedules of the plain search for each round of the other.
const PLAIN_SCHEDULES: u64 = 20_000;
/// Steps of the random search per round.
const STEPS: u64 = 160;

/// Programs that were made for a planted bug, with the search through all orders that finds it and
/// how many schedules that may take.
fn made_for(mutant: Mutant) -> Vec<(String, Config, u64)> {
    let guarded = [anomalies::anomalies(), safeguards::safeguards(), published::guarded()];
    let guarded = guarded.into_iter().flatten();
    let guarded = guarded.filter(|one| mutant == of(one.structure, one.mutant));
    let guarded = guarded.map(|one| (one.program(), one.config(true), one.schedules));
    let lost = published::anomalies().into_iter();
    let lost = lost.filter(|one| one.mutant.is_some_and(|name| mutant == of(GUARDED, name)));
    guarded.chain(lost.map(|one| (one.program(), one.config(), one.schedules))).collect()
}

/// Looks for a planted bug with the programs of its structure: first in those that were made for it,
/// then in every order of the small ones with one preemption, then with crashes in their recovery,
/// then round after round at random, in turn a written program, with more schedules each time, and a
/// step of the plain search, then in every order of the small ones' store buffers too, and at last by
/// the plain search.
pub fn hunt(mutant: Mutant, rounds: u64) -> Option<Kill> {
    let structure = find(mutant.structure).expect("the list names structures that exist");
    let base = Config { mutants: vec![mutant.name], ..Config::default() };
    let mut hunt = Hunt { structure, mutant: mutant.name, schedules: 0, kill: None };
    for (program, config, schedules) in made_for(mutant) {
        if hunt.run(program, config, schedules) {
            return hunt.kill;
        }
    }
    for program in structure.small() {
        if hunt.run(program, exhaustive(&base, 1), SMALL_SCHEDULES) {
            return hunt.kill;
        }
    }
    // Then with many crashes in recovery, and the whole plan again after them.
    let crash = CrashConfig { nested_one_in: 1, ..CrashConfig::default() };
    let nested = Config { crash, ..base.clone() };
    for program in structure.small() {
        if hunt.run(program, nested.clone(), NESTED_SCHEDULES) {
            return hunt.kill;
        }
    }
    for round in 0..rounds {
        for number in round * STEPS..(round + 1) * STEPS {
            let (program, config) = step(structure.name, number);
            let config = Config { mutants: base.mutants.clone(), ..config };
            if hunt.run(program, config, 20 << round) || hunt.run_plain_step(number) {
                return hunt.kill;
            }
        }
    }
    let tso = Config { memory: MemoryModel::Tso, ..base };
    for program in structure.small() {
        if hunt.run(program, exhaustive(&tso, 1), TSO_SCHEDULES) {
            return hunt.kill;
        }
    }
    // At last what finds what nobody has met: the plain search.
    let kill = hunt_plainly(mutant, Budget::Schedules(rounds * PLAIN_SCHEDULES), 1)?;
    Some(Kill { schedules: hunt.schedules + kill.schedules, ..kill })
}

/// Looks for a planted bug as for one that nobody knows: by the plain search.
pub fn hunt_plainly(mutant: Mutant, budget: Budget, seed: u64) -> Option<Kill> {
    let structure = find(mutant.structure).expect("the list names structures that exist");
    let settings = Settings { budget, seed, mutant: Some(mutant.name), ..Settings::default() };
    let verdict = campaign::run(structure, &settings, &mut |_| {});
    let schedules = verdict.report.counts.schedules;
    verdict.failure.map(|(record, failure)| Kill {
        program: record.program,
        config: record.config,
        schedules,
        failure: Box::new(failure),
    })
}

/// What the random part of a hunt does at its step of this number: mostly one memory model and caches
/// that forget, in which most planted bugs are seen; the others take turns.
fn step(structure: &str, number: u64) -> (String, Config) {
    let nested = |nested_one_in| CrashConfig { nested_one_in, ..CrashConfig::default() };
    let usual = Config::default();
    let simple = format!("random/{number}");
    let (program, config) = match structure {
        "alloc" | "pool" => {
            let one_in = if structure == "alloc" { 1000 } else { 200 };
            let crash = nested(if number.is_multiple_of(4) { one_in } else { 0 });
            (simple, Config { crash, simulate_open: number % 8 == 5, ..usual })
        }
        name if name.starts_with("nbtree-on-") => {
            let crash = nested(if number.is_multiple_of(4) { 100 } else { 0 });
            (format!("random/2/{number}"), Config { crash, ..usual })
        }
        name if name.starts_with("blocks-") => {
            let crash = nested(if number.is_multiple_of(4) { 50 } else { 0 });
            (simple, Config { crash, simulate_open: number % 8 == 5, ..usual })
        }
        "batch" | "expiry" => {
            (simple, Config { crash: nested(if number % 4 == 3 { 50 } else { 0 }), ..usual })
        }
        "epoch" => {
            let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
            (simple, Config { crash, ..usual })
        }
        _ => step_of_trees(structure, number),
    };
    let memory = if number % 5 == 4 { MemoryModel::Tso } else { MemoryModel::Sc };
    let domain = if number % 7 == 6 { Domain::Eadr } else { Domain::Adr };
    let races = memory == MemoryModel::Sc && number % 3 == 2;
    (program, Config { memory, domain, races, seed: number + 1, ..config })
}

/// The same of a tree.
fn step_of_trees(structure: &str, number: u64) -> (String, Config) {
    let random = |kind| format!("{kind}/{}/{number}", 2 + number % 3);
    let usual = Config::default();
    // Many keys make many volatile nodes.
    let roomy = Config { arena_bytes: 4 << 20, ..Config::default() };
    let crash = CrashConfig { nested_one_in: 300, ..CrashConfig::default() };
    let named = scenarios::named();
    let name = named[(number as usize * 5 + number as usize / 16) % named.len()].name;
    match number % 16 {
        15 if structure == "nbtree" => {
            let (thread, after_points) = (number as usize / 16 % 2, number / 16 * 7 % 61);
            let abandon = Some(Abandon { thread, after_points });
            (format!("roomy/{name}"), Config { abandon, ..usual })
        }
        8..11 | 15 => (format!("scenario/{name}"), usual),
        11 => (format!("near_full/{number}"), roomy),
        12 => (format!("growing/{number}"), roomy),
        13 => (random("random"), Config { crash, ..usual }),
        14 if number % 32 == 14 => (random("random"), Config { simulate_open: true, ..usual }),
        14 => {
            let fail_allocation = Some(number / 32 % 14);
            (random("refusing"), Config { fail_allocation, ..usual })
        }
        _ => (random("random"), usual),
    }
}

struct Hunt {
    structure: &'static Structure,
    mutant: &'static str,
    schedules: u64,
    kill: Option<Kill>,
}

impl Hunt {
    /// Counts a search; true if it found the bug.
    fn run(&mut self, program: String, config: Config, schedules: u64) -> bool {
        let case = self.structure.case(&program).expect("a structure knows its programs");
        let (report, failure): Outcome = case.explore(&config, schedules);
        self.schedules += report.counts.schedules;
        let schedules = self.schedules;
        self.kill = failure.map(|failure| Kill { program, config, schedules, failure });
        self.kill.is_some()
    }

    /// A step of the plain search: its leaves have all sizes, and its trees a past. What needs those is
    /// met by few written programs.
    fn run_plain_step(&mut self, number: u64) -> bool {
        let Step { program, config, .. } = self.structure.step(1, number, Fixed::default());
        let config = Config { mutants: vec![self.mutant], work_limit: WORK, ..config };
        self.run(program, config, Settings::default().schedules)
    }
}
