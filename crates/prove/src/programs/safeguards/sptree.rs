//! SPTree: its leaves, the log of its buffers, and removals without room.

use everleaf_machine::simulated::Domain;

use crate::programs::directed_case::{DirectedCase, directed};
use crate::tree::operation::Operation::{Get, Insert, Remove, Scan, Update};

/// All of them.
pub(super) fn all() -> Vec<DirectedCase> {
    let mut all = unbuffered();
    all.extend(logged());
    all.extend(at_once());
    all.extend(without_room());
    all
}

/// SPTree with checkpoints, opened at once. In leaves of 3 slots a buffer has one entry, and two leaves are looked at
/// with each four records: a checkpoint is there soon.
fn at_once() -> Vec<DirectedCase> {
    let design = "sptree-checkpointed-at-once";
    let mut leaves = [1, 2, 3, 4, 5].map(|key| Insert(key, key * 10)).to_vec();
    leaves.extend((0..12).flat_map(|value| [Update(1, 100 + value), Update(5, 500 + value)]));
    // Histories that chance has found: the checkpoint has a leaf that is merged into one that is not the first. A
    // search from the right comes there.
    let sought = [20, 17, 14, 11, 8, 5, 2].map(Get);
    let mut merged_behind =
        [2, 4, 6, 8, 10, 12, 14, 16, 18, 20].map(|key| Insert(key, key)).to_vec();
    merged_behind.push(Update(8, 101));
    merged_behind.extend([8, 12, 18, 20, 14, 10].map(Remove));
    let mut merged_meanwhile =
        [1, 3, 5, 7, 9, 10, 12, 14, 18, 20].map(|key| Insert(key, key)).to_vec();
    merged_meanwhile.extend([Remove(10), Update(18, 102), Update(7, 104)]);
    merged_meanwhile.extend([9, 3, 12, 14].map(Remove));
    merged_meanwhile.extend([Update(5, 109), Update(7, 110), Remove(7)]);
    vec![
        directed(
            "two threads that meet at a leaf that opening has left",
            (design, "sptree.knows_twice", None, 1, 2000),
            &leaves,
            &[&[Update(5, 51), Get(5)], &[Update(4, 41), Get(4)]],
        ),
        // The first record begins a log, and with it a checkpoint.
        directed(
            "a record that only a checkpoint leads to",
            (design, "sptree.knows_no_head", None, 0, 100),
            &[Insert(1, 10)],
            &[&[Get(1)]],
        ),
        directed(
            "a record behind the tails of a checkpoint",
            (design, "sptree.knows_no_tail", None, 0, 100),
            &leaves,
            &[&[Get(5)]],
        ),
        directed(
            "a leaf that is merged away behind a checkpoint",
            (design, "sptree.keeps_leading", None, 0, 100),
            &merged_behind,
            &[&sought],
        ),
        directed(
            "a leaf that is merged away while a checkpoint is written",
            (design, "sptree.leads_past_merge", None, 0, 100),
            &merged_meanwhile,
            &[&sought],
        ),
    ]
}

/// SPTree, whose leaves of 3 slots are merged when one is empty.
fn unbuffered() -> Vec<DirectedCase> {
    let line = Some(Domain::Adr);
    let three_leaves = [1, 2, 3, 4, 5].map(|key| Insert(key, key * 10));
    vec![
        directed(
            "a get in a leaf that is merged away",
            ("sptree", "sptree.free_at_once", None, 1, 2000),
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Remove(2), Remove(3)],
            &[&[Get(4)], &[Remove(4)]],
        ),
        // The slot that the reader found is free after the update, and then another key's.
        directed(
            "a get whose slot another key takes",
            ("sptree", "sptree.no_validation", None, 1, 2000),
            &[Insert(2, 20)],
            &[&[Get(2)], &[Update(2, 21), Insert(3, 30)]],
        ),
        directed(
            "a scan whose order is not on the medium",
            ("sptree", "sptree.no_sort_generation", line, 0, 100),
            &[Insert(2, 20), Insert(1, 10)],
            &[&[Scan(0, 9)]],
        ),
        // The leaf that was merged away becomes the right half of another one, while the list on the
        // medium still leads to it.
        directed(
            "a leaf that is used again behind its merge",
            ("sptree", "sptree.no_merge_flush", line, 0, 100),
            &three_leaves,
            &[&[Remove(2), Insert(6, 60), Insert(7, 70)]],
        ),
    ]
}

/// SPTree with buffers, in leaves of 7 slots with 2 entries in a buffer, and of 3 with one.
fn logged() -> Vec<DirectedCase> {
    let line = Some(Domain::Adr);
    // Six keys are in the leaf; the records of 8 and 1 are its buffer's, the second linked to the first.
    let mut both_halves = [1, 2, 3, 4, 5, 6].map(|key| Insert(key, key * 10)).to_vec();
    both_halves.extend([Insert(8, 80), Update(1, 11)]);
    // Six keys are in the leaf after five records; the ninth, of 8, begins a chunk and with it a checkpoint. Those of
    // 1 are before it.
    let mut newest_goes = vec![Insert(1, 10), Insert(2, 20), Update(2, 21), Insert(3, 30)];
    newest_goes.extend([Insert(4, 40), Insert(5, 50), Insert(6, 60)]);
    newest_goes.extend([Update(1, 11), Update(1, 12), Update(1, 13), Insert(8, 80)]);
    // In leaves of 3 slots with a buffer of one entry: 1 and 2, and 3 to 5. Both buffers have something.
    let mut two_leaves = [1, 2, 3, 4, 5].map(|key| Insert(key, key * 10)).to_vec();
    two_leaves.push(Update(1, 9));
    let split = |mutant| {
        directed(
            "a split whose left half has a record linked to one of the right half",
            ("sptree-buffered", mutant, line, 0, 100),
            &both_halves,
            &[&[Insert(7, 70)]],
        )
        .in_leaves_of(7)
    };
    // A write with an entry in the buffer brings both to the leaf, without a record; the next one has a record.
    let first = [Update(1, 11), Update(1, 12)];
    let third = [Update(5, 51), Update(5, 52)];
    // The chunk that the updates have filled first is used again.
    let mut chunks = [1, 2, 3, 4].map(|key| Insert(key, key * 10)).to_vec();
    chunks.extend((0..20).map(|value| Update(1, 100 + value)));
    vec![
        split("sptree.no_range_skip"),
        split("sptree.open_keeps_links"),
        // There are two logs: the first thread and the third have one.
        directed(
            "two threads that write to one log",
            ("sptree-buffered", "sptree.log_reserves", line, 1, 2000),
            &two_leaves,
            &[&first, &[Get(3)], &third],
        ),
        directed(
            "a record in a chunk that is used again",
            ("sptree-buffered", "sptree.no_record_sum", line, 0, 100),
            &chunks,
            &[&[41, 42, 43, 44, 45, 46].map(|value| Update(4, value))],
        ),
        // What a split's left half has in its buffer is before the last tails, and the checkpoint's head is a record of
        // a key that has gone to the right half.
        directed(
            "a split whose right half has the newest record of a checkpoint",
            ("sptree-checkpointed", "sptree.checkpoint_names_key", line, 0, 100),
            &newest_goes,
            &[&[Insert(7, 70)]],
        )
        .in_leaves_of(7),
        directed(
            "a split whose left half has a record linked to one of the right half",
            ("sptree-checkpointed", "sptree.split_covers_first", line, 0, 100),
            &both_halves,
            &[&[Insert(7, 70)]],
        )
        .in_leaves_of(7),
        // The other thread's first write begins a checkpoint, while the second one of 1 has its record and no more.
        directed(
            "a head that is read while its leaf is written",
            ("sptree-checkpointed", "sptree.checkpoint_ignores_locks", line, 1, 2000),
            &two_leaves,
            &[&[Update(1, 11), Update(1, 12)], &[Update(5, 51)]],
        ),
        directed(
            "a write between the heads of a checkpoint and its end",
            ("sptree-checkpointed", "sptree.checkpoint_late_tails", line, 1, 2000),
            &two_leaves,
            &[&[Update(1, 11), Update(1, 12)], &[Update(5, 51)]],
        ),
        // The leaf of 3 slots is full, and has the buffer of one entry, the removal, when 4 takes its slot.
        directed(
            "a slot that is free by a removal in the same buffer",
            ("sptree-unlogged", "sptree.no_removals_flush", line, 0, 100),
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30)],
            &[&[Remove(1), Insert(4, 40)]],
        ),
    ]
}

/// Removals in a full pool, in leaves of 7 slots with 2 entries in a buffer.
fn without_room() -> Vec<DirectedCase> {
    // Seven keys fill the leaf: that of 7 has so many records that it goes there alone. The buffer has 8 and 9.
    let mut no_room = [1, 2, 3, 4, 5, 6, 7].map(|key| Insert(key, key * 10)).to_vec();
    no_room.extend((0..8).map(|value| Update(7, 700 + value)));
    no_room.extend([Insert(8, 80), Insert(9, 90), Update(8, 81)]);
    let removed = |name, mutant, key| {
        let expectation = ("sptree-buffered", mutant, Some(Domain::Adr), 0, 100);
        directed(name, expectation, &no_room, &[&[Remove(key)]]).in_leaves_of(7).without_space()
    };
    let turned = |mutant| removed("a removal without room of what is buffered", mutant, 8);
    vec![
        turned("sptree.no_turn_flush"),
        turned("sptree.turns_nothing"),
        turned("sptree.turns_oldest"),
        turned("sptree.turns_value_first"),
        removed("a removal without room of what is in the leaf", "sptree.no_in_place_flush", 3),
    ]
}
