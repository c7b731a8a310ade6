//! Programs made for one planted bug each: for safeguards that are missed in few programs, or in few
//! of their orders.

mod skip_lists;
mod sptree;

use everleaf_machine::simulated::Domain;

use crate::programs::directed_case::{DirectedCase, directed};
use crate::programs::scenarios::Scenario;
use crate::tree::operation::Operation::{self, Get, Insert, Remove, Scan, Update};

/// All of them.
pub fn safeguards() -> Vec<DirectedCase> {
    let mut all = of_searches();
    all.extend(of_merges());
    all.extend(of_fast_fair_logs());
    all.extend(of_hybrids());
    all.extend(sptree::all());
    all.extend(of_pactree());
    all.extend(of_wort());
    all.extend(skip_lists::all());
    all.extend(of_bztree());
    all.extend(of_cceh());
    all
}

/// Their programs, and one in which what a tree defers is made durable: no planted bug makes it fail, it is counted.
pub fn scenarios() -> Vec<Scenario> {
    let all = safeguards().into_iter().map(|directed| directed.scenario);
    let persisting = Scenario {
        name: "persisting beside writes of one key",
        slots: 3,
        history: vec![],
        plan: vec![
            vec![Operation::Release],
            [11, 12, 13, 14, 15, 16].map(|value| Operation::Upsert(1, value)).to_vec(),
        ],
    };
    all.chain([persisting]).collect()
}

/// Searches in FAST nodes whose records move. A node that nobody has locked since the pool was opened
/// is read with more care, so somebody locks it first.
fn of_searches() -> Vec<DirectedCase> {
    let three = [Insert(1, 10), Insert(2, 20), Insert(3, 30)];
    // The records move to the left, and the search from left to right misses the last one.
    let met_by_a_removal = |mutant| {
        directed(
            "a removal in front of the key that a search has not reached",
            ("fast-fair", mutant, None, 1, 2000),
            &three,
            &[&[Update(2, 21), Get(3)], &[Remove(1)]],
        )
    };
    vec![
        met_by_a_removal("fast_fair.no_recheck"),
        met_by_a_removal("fast_fair.no_turn"),
        // The search has read the word of the first record, which is the child from 20 on, and then
        // reads the key of what was put in there: 12.
        directed(
            "a separator between a search's word and its key",
            ("fast-fair", "fast_fair.word_first", None, 1, 2000),
            &[Insert(10, 100), Insert(20, 200), Insert(30, 300)],
            &[&[Insert(40, 400), Insert(12, 120), Insert(14, 140), Get(14)], &[Insert(16, 160)]],
        ),
        directed(
            "a merge between a reader's records and its sibling",
            ("fast-fair", "fast_fair.quiet_merge", None, 2, 10_000),
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Remove(4)],
            &[&[Update(1, 11), Remove(3)], &[Get(2)]],
        ),
        // The search has come to the record of 2 when that goes to the right half, and looks at the sibling
        // when the left one is cut.
        directed(
            "a split that ends a leaf where a search is",
            ("fast-fair", "fast_fair.early_cut", None, 2, 10_000),
            &three,
            &[&[Insert(4, 40)], &[Get(2)]],
        ),
        // The same, and the search ends before the switch is turned.
        directed(
            "a split that is not cut yet beside a search",
            ("fast-fair", "fast_fair.no_uncut", None, 2, 10_000),
            &three,
            &[&[Update(1, 11), Get(2)], &[Insert(4, 40)]],
        ),
    ]
}

/// Nodes of FAST & FAIR that leave the tree.
fn of_merges() -> Vec<DirectedCase> {
    let three = [Insert(1, 10), Insert(2, 20), Insert(3, 30)];
    let four = [Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40)];
    vec![
        directed(
            "a get behind a node that was merged away",
            ("fast-fair", "fast_fair.merge_keeps_sibling", None, 0, 10),
            &four,
            &[&[Remove(4), Remove(3), Get(9)]],
        ),
        // Between the split and its separator another thread puts the separator in, and merges the
        // new node away.
        directed(
            "a separator for a node that was merged away",
            ("fast-fair", "fast_fair.blind_separator", None, 1, 2000),
            &four,
            &[&[Insert(5, 50), Get(3)], &[Remove(5), Remove(4)]],
        ),
        directed(
            "a root for a node that was merged away",
            ("fast-fair", "fast_fair.blind_growth", None, 1, 2000),
            &three,
            &[&[Insert(4, 40), Get(2)], &[Remove(4), Remove(3)]],
        ),
    ]
}

/// FAST & FAIR with buffers, in leaves of three records with two entries in a buffer. A chunk of the log has four
/// records.
fn of_fast_fair_logs() -> Vec<DirectedCase> {
    // The record of 2 is in the oldest chunk, and nothing but the log has it: the buffer is never full.
    vec![directed(
        "a record that only the oldest chunk has",
        ("fast-fair-b", "fast_fair.no_forced_flush", Some(Domain::Adr), 0, 100),
        &[],
        &[&long_log()],
    )]
}

/// Writes whose records fill several chunks of four, while a buffer of two entries is never full.
fn long_log() -> Vec<Operation> {
    let mut many = vec![Insert(2, 20), Insert(3, 30)];
    many.extend((0..24).map(|value| Update(3, 100 + value)));
    many
}

/// Trees with inner nodes in DRAM.
fn of_hybrids() -> Vec<DirectedCase> {
    let line = Some(Domain::Adr);
    let removed = |name, structure, mutant| {
        let expectation = (structure, mutant, None, 0, 10);
        directed(name, expectation, &[Insert(1, 10)], &[&[Remove(1), Get(1)]]).with_wide_compares()
    };
    vec![
        removed("a get of an entry that no slot names", "rntree", "rntree.trusts_entries"),
        removed("a get of an entry that no bit names", "wbtree", "wbtree.trusts_entries"),
        directed(
            "two removals of one key",
            ("rntree", "rntree.removes_twice", None, 1, 2000),
            &[Insert(1, 10)],
            &[&[Remove(1)], &[Remove(1)]],
        ),
        // The inner nodes have two levels. The second insert splits the lower node that the search
        // is on its way to.
        directed(
            "a get on its way to an inner node that is split",
            ("rntree", "inner.no_validation", None, 1, 2000),
            &[1, 2, 3, 4, 5, 6].map(|key| Insert(key, key * 10)),
            &[&[Get(6)], &[Insert(7, 70), Insert(8, 80)]],
        ),
        // With 9 slots the array takes two words, and the insert changes both.
        directed(
            "an insert in front of a long slot array",
            ("rntree-wide", "rntree.in_place", line, 0, 10),
            &[2, 3, 4, 5, 6, 7, 8, 9].map(|key| Insert(key, key * 10)),
            &[&[Insert(1, 10)]],
        )
        .in_leaves_of(9),
        directed(
            "an insert into a leaf that is split before it is locked",
            ("wbtree", "hybrid.no_revalidation", None, 1, 2000),
            &[Insert(1, 10), Insert(2, 20)],
            &[&[Insert(9, 90), Get(9)], &[Insert(5, 50), Insert(6, 60)]],
        ),
        directed(
            "a get in a leaf that is emptied and unlinked",
            ("fptree", "hybrid.free_at_once", None, 1, 2000),
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Remove(2), Remove(3)],
            &[&[Get(4)], &[Remove(4)]],
        ),
    ]
}

/// PACTree, in nodes of 2 and 3 pairs.
fn of_pactree() -> Vec<DirectedCase> {
    vec![
        directed(
            "a get in a node that is merged away",
            ("pactree", "pactree.free_at_once", None, 1, 2000),
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30), Remove(3)],
            &[&[Get(2)], &[Remove(1)]],
        )
        .in_leaves_of(2),
        directed(
            "a scan whose order is not on the medium",
            ("pactree", "pactree.no_sort_generation", Some(Domain::Adr), 0, 100),
            &[Insert(2, 20), Insert(1, 10)],
            &[&[Scan(0, 9)]],
        ),
        directed(
            "a split in front of another data node",
            ("pactree", "pactree.no_link_back", None, 0, 10),
            &[Insert(10, 1), Insert(20, 2), Insert(30, 3), Insert(40, 4)],
            &[&[Insert(11, 5), Insert(12, 6), Insert(13, 7)]],
        ),
        // The records of the log are on two lines: that of the first split of the node from 20 on is on
        // the line of the history's, that of the second one is not, and brings nothing else to the medium.
        directed(
            "a node that is split twice, with records on two lines",
            ("pactree", "pactree.no_linked_flush", Some(Domain::Adr), 0, 100),
            &[Insert(10, 1), Insert(20, 2), Insert(30, 3), Insert(40, 4)],
            &[&[Insert(50, 5), Insert(21, 6), Insert(22, 7), Insert(23, 8)]],
        ),
    ]
}

/// WORT. The first two are where only the process dies: no drain empties a store buffer there, and readers
/// do not wait for the writer's lock. The plain search with seed 7 found it in its 19th schedule (`Process`,
/// total store order, `made/4/near/2/usual/777/41e5.c9f6/-/eb74d1f2`, seed 0x7f363c8b24ae3b0a): a get behind
/// an upsert that had returned, and behind the upserter's own get, did not find the key.
fn of_wort() -> Vec<DirectedCase> {
    let (process, line) = (Some(Domain::Process), Some(Domain::Adr));
    vec![
        directed(
            "a get behind an insert that waits in a store buffer",
            ("wort", "radix.no_exchange", process, 1, 2000),
            &[],
            &[&[Insert(3, 30)], &[Get(3)]],
        )
        .with_store_buffers(),
        directed(
            "a get behind an update that waits in a store buffer",
            ("wort", "wort.no_exchange", process, 1, 2000),
            &[Insert(3, 30)],
            &[&[Update(3, 31)], &[Get(3)]],
        )
        .with_store_buffers(),
        directed(
            "a get of a value that is not durable",
            ("wort", "wort.reads_dirty", line, 1, 2000),
            &[Insert(3, 30)],
            &[&[Update(3, 31)], &[Get(3)]],
        ),
        directed(
            "a get of a record that is removed",
            ("wort", "wort.free_at_once", None, 1, 2000),
            &[Insert(3, 30)],
            &[&[Get(3)], &[Remove(3)]],
        ),
        directed(
            "a get in a node that is dropped",
            ("wort", "radix.free_at_once", None, 1, 2000),
            &[Insert(2, 20), Insert(3, 30)],
            &[&[Get(3)], &[Remove(2)]],
        )
        .in_leaves_of(2),
    ]
}

/// BzTree, in leaves of 3 pairs with 4 descriptors, or of 2 pairs with 16.
fn of_bztree() -> Vec<DirectedCase> {
    let mut all = of_pmwcas();
    // The root is over a full leaf of 10 and 15, and one of 20 and of 30, which is gone.
    let two_leaves = [Insert(10, 1), Insert(15, 2), Insert(20, 3), Insert(30, 4), Remove(30)];
    // The first insert splits its leaf, and copies the root for it; the second exchanges a child of the root.
    let met_by_a_root_that_is_copied = |mutant| {
        directed(
            "a child that is exchanged while its node is copied",
            ("bztree", mutant, None, 1, 500),
            &two_leaves,
            &[&[Insert(12, 5)], &[Insert(40, 6)]],
        )
        .in_leaves_of(2)
    };
    all.extend([
        directed(
            "a removal whose value changes after it was read",
            ("bztree", "bztree.removes_old_value", None, 1, 500),
            &[Insert(1, 10)],
            &[&[Remove(1)], &[Update(1, 11)]],
        ),
        // The insert freezes the node above for two leaves, when the removal has put one in the place of the full one.
        directed(
            "a split that comes too late",
            ("bztree", "bztree.leaves_holder", None, 1, 500),
            &[Insert(1, 10), Insert(2, 20), Insert(3, 30), Insert(4, 40), Insert(5, 50)],
            &[&[Insert(6, 60)], &[Remove(3)]],
        ),
        // The leaf is full: the insert replaces it, and the update goes on in the one that was replaced.
        directed(
            "an update in a leaf that was replaced",
            ("bztree", "bztree.update_ignores_freeze", None, 1, 500),
            &[Insert(1, 10), Insert(2, 20)],
            &[&[Update(1, 11)], &[Insert(3, 30)]],
        )
        .in_leaves_of(2),
        met_by_a_root_that_is_copied("bztree.swap_ignores_freeze"),
        met_by_a_root_that_is_copied("bztree.copies_active_inner"),
    ]);
    all
}

/// Its exchanges of several words. Where one descriptor is soon used again there are four of them.
fn of_pmwcas() -> Vec<DirectedCase> {
    vec![
        // The get helps the first update, and comes to the value when the second one has put it back.
        directed(
            "a helper that comes when all is done and undone",
            ("bztree", "pmwcas.no_marker", None, 2, 50_000),
            &[Insert(1, 10)],
            &[&[Update(1, 11), Update(1, 10)], &[Get(1)]],
        ),
        // Key 2 is on a line of its own. The fifth operation has the descriptor of the first, whose pointer
        // is still there after a crash.
        directed(
            "a descriptor that is used again before its words are durable",
            ("bztree", "pmwcas.no_final_flush", Some(Domain::Adr), 0, 1000),
            &[Insert(1, 10), Insert(2, 20)],
            &[&[Update(2, 21), Update(1, 11), Update(1, 12), Update(1, 13), Update(1, 14)]],
        ),
        // The get helps the update, and puts its marker into a word when the descriptor is another's.
        directed(
            "a helper of a descriptor that is used again",
            ("bztree", "pmwcas.reuses_at_once", Some(Domain::Eadr), 2, 50_000),
            &[Insert(1, 10)],
            &[&[Update(1, 11), Insert(2, 20), Insert(3, 30)], &[Get(1)]],
        ),
    ]
}

/// CCEH, in segments of two pairs or three. The hashes of 2, 4, 7 and 8 begin with 0011, 0100, 0111 and 0100,
/// and end with a 1; that of 3 begins with 0000 and ends with a 0. A segment's buffer has two parts of two
/// entries.
fn of_cceh() -> Vec<DirectedCase> {
    let line = Some(Domain::Adr);
    let full = [Insert(2, 20), Insert(4, 40)];
    let mut many = vec![Insert(2, 20), Insert(3, 30)];
    many.extend((0..24).map(|value| Update(3, 100 + value)));
    vec![
        // The insert splits the segment of 2 and 4; 4, 7 and 8 are of the upper half.
        directed(
            "a write to a segment that is split before it is locked",
            ("cceh", "cceh.no_recheck", None, 1, 2000),
            &full,
            &[&[Insert(8, 80), Get(8)], &[Insert(7, 70)]],
        )
        .in_leaves_of(2),
        directed(
            "a write to the upper half of a split that is not durable",
            ("cceh", "cceh.opens_first", line, 1, 2000),
            &full,
            &[&[Insert(7, 70)], &[Update(4, 41)]],
        )
        .in_leaves_of(2),
        directed(
            "a get whose place another key takes",
            ("cceh", "cceh.no_validation", None, 1, 2000),
            &[Insert(2, 20)],
            &[&[Get(2)], &[Remove(2), Insert(4, 40)]],
        ),
        // The part of 2 and 4 is full, and the segment has room for what is in it.
        directed(
            "a get in a segment that is replaced",
            ("cceh-bo", "cceh.free_segment_at_once", None, 1, 2000),
            &[Insert(2, 20), Insert(4, 40), Remove(4)],
            &[&[Get(2)], &[Insert(7, 70)]],
        ),
        directed(
            "a record in a chunk that is not needed any more but for it",
            ("cceh-b", "cceh.no_forced_flush", line, 0, 100),
            &[],
            &[&many],
        ),
    ]
}
