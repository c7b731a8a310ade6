//! What an operation of the trees with inner nodes in DRAM costs in the pool, exactly: lines flushed,
//! drains, lines written and read, on leaves that need not be split; and flushes with all splits.

#![allow(clippy::print_stdout, reason = "what was counted is the result")]

use everleaf_designs::{
    BzTree, Cceh, CddsTree, F3Tree, FpTree, NvTree, NvTreeBlind, PSkiplist, PacTree, RnTree,
    RnTreeDirect, RnTreeDual, RnTreeRtm, RnTreeWide, SpTree, SpTreeArt, SpTreeBuffered,
    SpTreePlain, SpTreeUnfiltered, UTree, WbTree, WbTreeSo, Wort,
};

use everleaf_designs::bztree::variant as bz;
use everleaf_designs::cceh::variant as cceh;
use everleaf_designs::f3tree::variant::Objects500;
use everleaf_designs::pactree::variant::Standard as PacStandard;
use everleaf_designs::skiplist::variant::Standard as SkipStandard;
use everleaf_index::{Design, OrderedIndex, Production, SingleTreePool};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::Random;
use everleaf_machine::simulated::counting::{Counting, CountingConfig, Tally};
use everleaf_prove::machine::backing::{new_pool_up_to, open_pool};

type M = Simulated;

/// Keys of the first leaf before counting, few enough for the smallest leaf.
const KEYS: u64 = 3;

/// Bytes of a pool.
const POOL: usize = 16 << 20;

/// Makes a tree.
fn make<T: Design<M>>(counting: &Counting) -> SingleTreePool<T, M> {
    let pool = new_pool_up_to(counting.memory(), POOL as u64).expect("memory becomes a pool");
    SingleTreePool::create(pool).expect("room")
}

/// Flushes, drains and lines written of one operation.
type Cost = (u64, u64, u64);

fn cost(tally: Tally) -> Cost {
    assert_eq!(tally.operations, 1);
    (tally.flushes, tally.drains, tally.pool_lines_written)
}

/// Asserts what single operations cost; gives the lines that a get reads, hit and miss.
fn assert_costs<T: Design<M>>(insert: Cost, update: Cost, remove: Cost) -> (u64, u64) {
    let name = T::INFO.name;
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<T>(&counting);
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    for key in 1..=KEYS {
        tree.insert(&mut session, key * 10, key).expect("room");
    }
    let session = &mut session;
    counting.operation("insert", || tree.insert(session, 15, 1).expect("room"));
    assert_eq!(cost(counting.tally("insert")), insert, "{name}: insert");
    counting.operation("update", || tree.update(session, 20, 2).expect("room"));
    assert_eq!(cost(counting.tally("update")), update, "{name}: update");
    counting.operation("remove", || tree.remove(session, 15).expect("room"));
    assert_eq!(cost(counting.tally("remove")), remove, "{name}: remove");
    counting.operation("refused", || tree.insert(session, 20, 2).expect("room"));
    counting.operation("refused", || tree.update(session, 15, 2).expect("room"));
    let refused = counting.tally("refused");
    assert_eq!((refused.flushes, refused.drains), (0, 0), "{name}: writes without effect");
    counting.operation("hit", || tree.get(session, 30).expect("get"));
    counting.operation("miss", || tree.get(session, 31).expect("get"));
    let (hit, miss) = (counting.tally("hit"), counting.tally("miss"));
    assert_eq!((hit.flushes, miss.flushes, hit.pool_lines_written), (0, 0, 0), "{name}: get");
    (hit.pool_lines_read, miss.pool_lines_read)
}

#[test]
fn an_operation_on_a_leaf_with_room_costs_what_the_papers_say() {
    // Insert, update, remove as (flushes, drains, lines written with the line of the lock).
    let rntree = assert_costs::<RnTree<Production, M>>((2, 2, 3), (2, 2, 3), (1, 1, 2));
    assert_eq!(rntree.0, 4, "header, slot array, and two lines of entries");
    assert_costs::<RnTreeDual<Production, M>>((2, 2, 3), (2, 2, 3), (1, 1, 2));
    assert_costs::<RnTreeWide<Production, M>>((2, 2, 3), (2, 2, 3), (1, 1, 2));
    // A direct store is a line on its way, as a flushed one.
    assert_costs::<RnTreeDirect<Production, M>>((2, 2, 3), (2, 2, 3), (1, 1, 2));
    assert_costs::<RnTreeRtm<Production, M>>((2, 2, 3), (2, 2, 3), (1, 1, 2));
    let fptree = assert_costs::<FpTree<Production, M>>((3, 3, 3), (3, 3, 3), (1, 1, 1));
    assert_eq!(fptree, (3, 2), "bitmap, fingerprints, and an entry if it is there");
    assert_costs::<WbTree<Production, M>>((4, 4, 3), (4, 4, 3), (3, 3, 2));
    assert_costs::<WbTreeSo<Production, M>>((2, 2, 2), (2, 2, 2), (1, 1, 1));
    assert_costs::<NvTree<Production, M>>((2, 2, 2), (2, 2, 2), (2, 2, 2));
    // An entry of a future object, for keys that are pending or not.
    assert_costs::<F3Tree<Objects500, M>>((1, 1, 1), (1, 1, 1), (1, 1, 1));
    // A new node and the link before it; a value; a link. And the lock of the node that goes.
    let listed = assert_costs::<UTree<Production, M>>((2, 2, 2), (1, 1, 1), (1, 1, 2));
    assert_eq!(listed, (1, 0), "its node; nothing if the tree in DRAM says so");
    // A new node of one level and the link before it; a value; a dead value and the link around it.
    let skipped = assert_costs::<PSkiplist<SkipStandard, M>>((2, 2, 2), (1, 1, 1), (2, 2, 2));
    assert_eq!(skipped, (4, 4), "two of the head with its twelve links, and two of three nodes");
    // An exchange of n words: its descriptor's lines, n pointers, the decision, n values. Two of two words and
    // the pair; one of three; one of two.
    let exchanged = assert_costs::<BzTree<bz::Standard, M>>((15, 9, 6), (10, 4, 5), (7, 4, 3));
    assert_eq!(exchanged, (4, 4), "the link to the root, status and metadata, two of pairs");
    // Descriptors whose entries have three words instead of seven: one line less, or one.
    assert_costs::<BzTree<bz::Compact, M>>((13, 9, 4), (9, 4, 4), (6, 4, 2));
    // Entry and fingerprint on their way together, then line 0; a value in place; line 0.
    let published = assert_costs::<PacTree<PacStandard, 4, M>>((3, 2, 3), (1, 1, 2), (1, 1, 1));
    assert_eq!(published, (4, 3), "a link of the root, line 0, fingerprints, and an entry");
    // Entry and tag on their way together, then line 0.
    let filtered = assert_costs::<SpTree<Production, M>>((3, 2, 3), (3, 2, 3), (1, 1, 1));
    assert_eq!(filtered, (3, 0), "line 0, tags and an entry; nothing if the filter says so");
    let below_art = assert_costs::<SpTreeArt<Production, M>>((3, 2, 3), (3, 2, 3), (1, 1, 1));
    assert_eq!(below_art, filtered, "what is above the leaves is not in the pool");
    let bare = assert_costs::<SpTreeUnfiltered<Production, M>>((3, 2, 3), (3, 2, 3), (1, 1, 1));
    assert_eq!(bare, (3, 2), "line 0, tags, and an entry if it is there");
}

#[test]
fn a_write_that_does_not_look_reads_no_entry() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<NvTreeBlind<Production, M>>(&counting);
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    for key in 0..40 {
        tree.insert(&mut session, key, key).expect("room");
    }
    let session = &mut session;
    counting.operation("insert", || tree.insert(session, 7, 1).expect("room"));
    counting.operation("update", || tree.update(session, 99, 2).expect("room"));
    counting.operation("remove", || tree.remove(session, 98).expect("room"));
    for kind in ["insert", "update", "remove"] {
        let tally = counting.tally(kind);
        assert_eq!(cost(tally), (2, 2, 2), "{kind}");
        assert_eq!(tally.pool_lines_read, 1, "{kind}: the header, no entry");
    }
    assert_eq!(tree.get(session, 7).expect("get"), Some(1));
    assert_eq!(tree.len(session).expect("len"), 41);
}

/// What the paper on RNTree calls "L writes": entries of 32 bytes, sorted in place.
#[test]
fn a_write_to_sorted_versions_costs_the_lines_from_its_place_on() {
    // The place among 20 entries: lines from there to the place behind the last entry. And the version.
    for (place, lines) in [(20, 1), (19, 2), (18, 2), (11, 6), (10, 6), (0, 11)] {
        let counting = Counting::new(CountingConfig::default(), POOL);
        let tree_pool = make::<CddsTree<Production, M>>(&counting);
        let (tree, mut session) =
            (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
        for key in 1..=20 {
            tree.insert(&mut session, key * 10, key).expect("room");
        }
        let session = &mut session;
        let key = place * 10 + 5;
        counting.operation("insert", || tree.insert(session, key, 1).expect("room"));
        counting.operation("remove", || tree.remove(session, key).expect("there"));
        assert_eq!(cost(counting.tally("insert")), (lines + 1, lines + 1, lines + 1), "{place}");
        assert_eq!(cost(counting.tally("remove")), (2, 2, 2), "{place}");
    }
}

/// Lines that a get of a present key reads, on average over the keys of a leaf with `count` keys.
fn lines_per_hit<T: Design<M>>(count: u64) -> f64 {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<T>(&counting);
    let mut session = tree_pool.heap().session().expect("a session");
    // 37 is prime to 64, so entries and keys are in different orders.
    let key = |index: u64| index * 37 % 64;
    for index in 0..count {
        tree_pool.tree().insert(&mut session, key(index), 1).expect("room");
    }
    for index in 0..count {
        let get = || tree_pool.tree().get(&mut session, key(index)).expect("get");
        assert_eq!(counting.operation("get", get), Some(1));
    }
    let tally = counting.tally("get");
    tally.per_operation(tally.pool_lines_read)
}

#[test]
fn a_search_reads_few_lines_where_entries_are_sorted_or_marked() {
    let sorted = lines_per_hit::<RnTree<Production, M>>(48);
    println!("rntree {sorted:.2}");
    // Header, slot array, and at most one line for each of log2 48 + 1 probes.
    assert!(sorted <= 2.0 + 6.6, "{sorted}");
    let marked = lines_per_hit::<FpTree<Production, M>>(48);
    println!("fptree {marked:.2}");
    // One entry more for one in five keys or so whose fingerprint is also another's.
    assert!((3.0..3.4).contains(&marked), "{marked}");
    let appended = lines_per_hit::<NvTree<Production, M>>(48);
    println!("nvtree {appended:.2}");
    // Header and, on average, half of the twelve lines of entries.
    assert!((7.4..7.6).contains(&appended), "{appended}");
}

/// Flushes per insert of `count` random keys, splits included.
fn flushes_per_insert<T: Design<M>>(count: u64) -> f64 {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<T>(&counting);
    let mut session = tree_pool.heap().session().expect("a session");
    let mut random = Random::new(1);
    for _ in 0..count {
        let key = random.below(u64::MAX);
        let insert = || tree_pool.tree().insert(&mut session, key, 1).expect("room");
        counting.operation("insert", insert);
    }
    let tally = counting.tally("insert");
    tally.per_operation(tally.flushes)
}

#[test]
fn splits_add_the_expected_flushes_to_random_inserts() {
    // The lines of an insert and of a split: image, both leaves and two log words (RNTree, wB+Tree);
    // the new leaf, two words of the old one and two log words (FPTree); two new leaves and a link
    // (NVTree). With random keys there is a split for every ln 2 times the capacity inserts.
    let count = 30_000;
    for (name, flushes, insert, split, capacity) in [
        ("rntree", flushes_per_insert::<RnTree<Production, M>>(count), 2.0, 3.0 * 19.0 + 2.0, 62.0),
        ("fptree", flushes_per_insert::<FpTree<Production, M>>(count), 3.0, 18.0 + 4.0, 62.0),
        ("wbtree", flushes_per_insert::<WbTree<Production, M>>(count), 4.0, 3.0 * 18.0 + 2.0, 62.0),
        (
            "wbtree-so",
            flushes_per_insert::<WbTreeSo<Production, M>>(count),
            2.0,
            3.0 * 3.0 + 2.0,
            7.0,
        ),
        ("nvtree", flushes_per_insert::<NvTree<Production, M>>(count), 2.0, 2.0 * 17.0 + 1.0, 62.0),
        (
            "pactree",
            flushes_per_insert::<PacTree<PacStandard, 4, M>>(count),
            3.0,
            // The new node, its record thrice, two lines 0; a link, and for every third a node of it.
            10.0 + 3.0 + 2.0 + 1.0 + 3.0 * 0.36,
            64.0,
        ),
        (
            "bztree",
            flushes_per_insert::<BzTree<bz::Standard, M>>(count),
            15.0,
            // Two leaves, a copy of what is above, a link; and for every 44th three inner nodes instead of one. The
            // insert is done in the copies, without lines of its own.
            2.0 * 16.0 + 16.0 + 7.0 - 15.0 + 2.0 * 16.0 / (63.0 * std::f64::consts::LN_2),
            42.0,
        ),
        // Line 0, tags and half of the entries of the new leaf, and line 0 of the old one.
        ("sptree", flushes_per_insert::<SpTree<Production, M>>(count), 3.0, 10.0 + 1.0, 64.0),
        // A node and the link before it; what is split is in DRAM.
        ("utree", flushes_per_insert::<UTree<Production, M>>(count), 2.0, 0.0, 64.0),
        (
            "p-skiplist",
            flushes_per_insert::<PSkiplist<SkipStandard, M>>(count),
            // A node and a link. Every fourth node of two or three levels, 48 bytes each, lies on two lines with the
            // 32 that are flushed of it.
            2.0 + (3.0 / 16.0 + 3.0 / 64.0) / 4.0,
            0.0,
            64.0,
        ),
    ] {
        let expected = insert + split / (capacity * std::f64::consts::LN_2);
        println!("{name}: {flushes:.3} flushes per insert, {expected:.3} expected");
        assert!((flushes - expected).abs() < 0.06, "{name}: {flushes} instead of {expected}");
    }
}

/// Lines of the pool that a scan of 20 of 40 keys reads, all of one leaf, when the leaf has been scanned before.
fn lines_per_scan<T: Design<M>>() -> u64 {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<T>(&counting);
    let mut session = tree_pool.heap().session().expect("a session");
    for key in 1..=40 {
        // In no order: 7 is prime to 41.
        tree_pool.tree().insert(&mut session, key * 7 % 41, key).expect("room");
    }
    let mut pairs = vec![];
    tree_pool.tree().scan(&mut session, 11, 20, &mut pairs).expect("scan");
    pairs.clear();
    let scan = || tree_pool.tree().scan(&mut session, 11, 20, &mut pairs).expect("scan");
    counting.operation("scan", scan);
    assert_eq!(pairs.iter().map(|pair| pair.0).collect::<Vec<_>>(), (11..31).collect::<Vec<_>>());
    let tally = counting.tally("scan");
    let written = (tally.flushes, tally.drains, tally.pool_lines_written);
    assert_eq!(written, (0, 0, 0), "{}", T::INFO.name);
    tally.pool_lines_read
}

#[test]
fn a_scan_reads_the_order_of_a_leaf_and_the_lines_of_its_pairs() {
    // The 20 pairs lie on all ten lines that 40 entries take.
    const ENTRIES: u64 = 10;
    for (name, lines, expected) in [
        ("sptree", lines_per_scan::<SpTree<Production, M>>(), 2 + ENTRIES),
        // 30 pairs are in the leaf, 10 in the buffer: of the leaf all that follow are read.
        ("sptree-buffered", lines_per_scan::<SpTreeBuffered<Production, M>>(), 2 + 8),
        // A link of the root beside.
        ("pactree", lines_per_scan::<PacTree<PacStandard, 4, M>>(), 3 + ENTRIES),
        ("rntree", lines_per_scan::<RnTree<Production, M>>(), 2 + ENTRIES),
        // Header and entries: it is sorted in DRAM, for each scan.
        ("fptree", lines_per_scan::<FpTree<Production, M>>(), 1 + ENTRIES),
        // Two nodes a line, and of each 20 next to each other in the list some share one.
        ("utree", lines_per_scan::<UTree<Production, M>>(), 13),
    ] {
        println!("{name}: {lines} lines read by a scan of 20 of 40 keys");
        assert_eq!(lines, expected, "{name}");
    }
}

/// The same inserts on paper: sorted leaves of 30 entries, two a line, replaced by two when full.
fn shifted_lines(count: u64) -> u64 {
    const CAPACITY: usize = 30;
    let mut leaves: Vec<Vec<u64>> = vec![vec![]];
    let mut random = Random::new(1);
    let mut lines = 0;
    for _ in 0..count {
        let key = random.below(u64::MAX);
        let mut index = leaves.partition_point(|leaf| leaf.first().is_some_and(|low| *low <= key));
        index = index.saturating_sub(1);
        if leaves[index].len() == CAPACITY {
            let upper = leaves[index].split_off(CAPACITY / 2);
            leaves.insert(index + 1, upper);
            // Two new leaves of 16 lines, and the link.
            lines += 2 * 16 + 1;
            index += usize::from(leaves[index + 1][0] <= key);
        }
        let leaf = &mut leaves[index];
        let place = leaf.partition_point(|known| *known < key);
        // From the entry's line to that of the place behind the last one, and the version.
        lines += (leaf.len() / 2 - place / 2 + 1 + 1) as u64;
        leaf.insert(place, key);
    }
    lines
}

#[test]
fn random_inserts_of_sorted_versions_flush_what_a_model_does() {
    let count = 30_000;
    let (flushes, expected) = (
        flushes_per_insert::<CddsTree<Production, M>>(count),
        shifted_lines(count) as f64 / count as f64,
    );
    println!("cdds: {flushes:.3} flushes per insert, {expected:.3} on paper");
    // The allocator flushes a header for each chunk it hands out.
    let chunks = ((flushes - expected) * count as f64).round();
    assert!((0.0..=16.0).contains(&chunks), "{chunks} flushes are not accounted for");
}

/// A write to a buffer is one record of half a line. The 15th entry writes the leaf: what was buffered is
/// on as few lines as slots next to each other take.
#[test]
fn buffered_writes_cost_a_line_each_and_a_flush_for_fifteen() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<SpTreeBuffered<Production, M>>(&counting);
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    let session = &mut session;
    // The first write makes a log.
    tree.insert(session, 10, 1).expect("room");
    for key in 11..24 {
        counting.operation("insert", || tree.insert(session, key, 1).expect("room"));
    }
    let buffered = counting.tally("insert");
    assert_eq!((buffered.operations, buffered.flushes, buffered.drains), (13, 13, 13));
    counting.operation("update", || tree.update(session, 10, 2).expect("there"));
    counting.operation("remove", || tree.remove(session, 11).expect("there"));
    assert_eq!(cost(counting.tally("update")), (1, 1, 1));
    assert_eq!(cost(counting.tally("remove")), (1, 1, 1));
    counting.operation("hit", || assert_eq!(tree.get(session, 10).expect("get"), Some(2)));
    counting.operation("miss", || assert_eq!(tree.get(session, 11).expect("get"), None));
    let read = |kind| counting.tally(kind).pool_lines_read;
    assert_eq!((read("hit"), read("miss")), (0, 0));
    // 13 values and the tomb of a key that the leaf never had, and one value more: 14 entries on four
    // lines, the tags, line 0.
    counting.operation("flush", || tree.insert(session, 24, 1).expect("room"));
    assert_eq!(cost(counting.tally("flush")), (6, 2, 6));
    counting.operation("hit in the leaf", || tree.get(session, 10).expect("get"));
    assert_eq!(read("hit in the leaf"), 3);
}

/// A plain log leaves the buffer of the left half of a split where it is: nothing but the split is flushed.
#[test]
fn a_split_with_a_plain_log_leaves_the_buffer() {
    fn split<T: Design<M>>() -> Cost {
        let counting = Counting::new(CountingConfig::default(), POOL);
        let tree_pool = make::<T>(&counting);
        let (tree, mut session) =
            (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
        for number in 0..200_u64 {
            let before = counting.tally("all");
            let insert = || tree.insert(&mut session, number * 37 % 211, 1).expect("room");
            counting.operation("all", insert);
            let after = counting.tally("all");
            let shape = tree.shape(&mut session).expect("shape");
            if shape.splits > 0 {
                return (
                    after.flushes - before.flushes,
                    after.drains - before.drains,
                    after.pool_lines_written - before.pool_lines_written,
                );
            }
        }
        unreachable!("a leaf is full before")
    }
    let (linked, plain) =
        (split::<SpTreeBuffered<Production, M>>(), split::<SpTreePlain<Production, M>>());
    println!("a write that splits: linked {linked:?}, plain {plain:?}");
    assert!(plain.0 < linked.0 && plain.1 < linked.1, "{plain:?}, {linked:?}");
}

#[test]
fn a_write_of_a_radix_tree_is_a_record_and_a_link() {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<Wort<4, M>>(&counting);
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    let session = &mut session;
    // Of each class of records a chunk is taken.
    for key in [1, 2, 3] {
        tree.insert(session, key, key).expect("room");
    }
    counting.operation("insert", || tree.insert(session, 4, 1).expect("room"));
    counting.operation("update", || tree.update(session, 4, 2).expect("there"));
    counting.operation("remove", || tree.remove(session, 4).expect("there"));
    assert_eq!(cost(counting.tally("insert")), (2, 2, 2));
    assert_eq!(cost(counting.tally("update")), (1, 1, 1));
    assert_eq!(cost(counting.tally("remove")), (1, 1, 1));
    // Its bits differ from those of the others before the node does: a new node of three lines.
    counting.operation("new node", || tree.insert(session, 0x100, 1).expect("room"));
    assert_eq!(cost(counting.tally("new node")), (5, 2, 5));
    // A node that would have one link left goes with the record.
    counting.operation("dropped node", || tree.remove(session, 0x100).expect("there"));
    assert_eq!(cost(counting.tally("dropped node")), (1, 1, 1));
    counting.operation("refused", || tree.insert(session, 2, 9).expect("room"));
    assert_eq!(counting.tally("refused").flushes, 0);
    counting.operation("hit", || assert_eq!(tree.get(session, 3).expect("get"), Some(3)));
    counting.operation("miss", || assert_eq!(tree.get(session, 5).expect("get"), None));
    let read = |kind| counting.tally(kind).pool_lines_read;
    assert_eq!((read("hit"), read("miss")), (3, 2), "root, node, and a record if it is there");
}

/// Nodes of a radix tree with these keys, without the root: one for each place where two keys that
/// follow each other part.
fn branches(keys: &[u64]) -> usize {
    let part = |pair: &[u64]| {
        let at = (pair[0] ^ pair[1]).leading_zeros() / 4 * 4;
        (at, pair[0].unbounded_shr(64 - at))
    };
    let all: std::collections::BTreeSet<_> = keys.windows(2).map(part).collect();
    all.into_iter().filter(|(at, _)| *at > 0).count()
}

#[test]
fn random_inserts_of_a_radix_tree_flush_two_lines_three_a_node() {
    let count = 30_000;
    let mut random = Random::new(1);
    let mut keys: Vec<u64> = (0..count).map(|_| random.below(u64::MAX)).collect();
    keys.sort_unstable();
    let nodes = branches(&keys) as u64;
    let flushes = (flushes_per_insert::<Wort<4, M>>(count) * count as f64).round() as u64;
    println!("wort: {:.3} flushes per insert, {nodes} nodes", flushes as f64 / count as f64);
    // The allocator flushes a header for each chunk it hands out.
    let chunks = flushes - (2 * count + 3 * nodes);
    assert!(chunks <= 16, "{chunks} flushes are not accounted for");
}

#[test]
fn a_write_of_a_hash_index_is_one_line() {
    // The line of the pair, flushed, and that of the lock.
    let write = (1, 1, 2);
    let (hit, miss) = assert_costs::<Cceh<cceh::Standard, M>>(write, write, write);
    // The directory, the lock, and the home of the key; a key that is absent could be in four lines.
    assert_eq!((hit, miss), (3, 6));
}

/// A write to a buffer is one record of half a line. When a part of the buffer is full, all of it goes to the
/// segment: in place a line for most pairs, or a new segment as a whole.
#[test]
fn a_write_of_a_hash_index_with_buffers_is_a_record() {
    let costs = [
        full_buffer::<Cceh<cceh::Buffered, M>>(),
        full_buffer::<Cceh<cceh::OutOfPlace, M>>(),
        full_buffer::<Cceh<cceh::Whole, M>>(),
    ];
    println!("entries, flushes, drains of a full buffer: {costs:?}");
    for (index, (entries, flushes, drains)) in costs.into_iter().enumerate() {
        // Twelve in the part that is full; the others have about as many on average, at most.
        assert!((32..=32 * 12).contains(&entries), "{entries} entries");
        if index == 0 {
            // Each pair by itself, the head, and the record of the write.
            assert_eq!((flushes, drains), (entries + 2, 3));
        } else {
            // The new segment, one entry of the directory, the record.
            assert_eq!((flushes, drains), (256 + 2, 3));
        }
    }
}

/// Inserts until a buffer is full. Gives the number of its entries, and the flushes and drains of the insert
/// that brings them to the pool.
fn full_buffer<T: Design<M>>() -> (u64, u64, u64) {
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<T>(&counting);
    let (tree, mut session) = (tree_pool.tree(), tree_pool.heap().session().expect("a session"));
    let session = &mut session;
    // Of two segments the second one only: its hashes are those whose first bit is set.
    let keys = (1_u64..).filter(|key| hash_of(*key) >> 63 == 1);
    for (inserted, key) in (0..).zip(keys) {
        let before = counting.tally("all");
        counting.operation("all", || tree.insert(session, key, 1).expect("room"));
        let after = counting.tally("all");
        let flushes = after.flushes - before.flushes;
        if inserted > 0 && flushes > 1 {
            counting.operation("update", || tree.update(session, key, 2).expect("there"));
            counting.operation("remove", || tree.remove(session, key).expect("there"));
            assert_eq!(counting.tally("update").flushes, 1);
            assert_eq!(counting.tally("remove").flushes, 1);
            return (inserted, flushes, after.drains - before.drains);
        }
    }
    unreachable!("a buffer has an end")
}

/// The hash of CCEH.
fn hash_of(key: u64) -> u64 {
    let hash = (key ^ key >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ hash >> 33
}

/// The same inserts on paper: segments of 255 lines of 4 pairs, a key in one of 4 lines from its home on.
/// Gives the lines that splits and doublings of the directory flush.
fn split_lines(count: u64) -> u64 {
    struct Segment {
        low: u64,
        depth: u32,
        lines: Vec<Vec<u64>>,
    }
    let empty = |low, depth| Segment { low, depth, lines: vec![vec![]; 255] };
    let mut segments = vec![empty(0, 1), empty(1 << 63, 1)];
    let (mut depth, mut lines) = (1, 0);
    let mut random = Random::new(1);
    for _ in 0..count {
        let hash = hash_of(random.below(u64::MAX));
        let home = (((hash & 0xFFFF_FFFF) * 255) >> 32) as usize;
        loop {
            let at = segments.partition_point(|segment| segment.low <= hash) - 1;
            let segment = &mut segments[at];
            let room = (home..home + 4).find(|line| segment.lines[line % 255].len() < 4);
            if let Some(line) = room {
                segment.lines[line % 255].push(hash);
                break;
            }
            segment.depth += 1;
            let mut upper = empty(segment.low | 1 << (64 - segment.depth), segment.depth);
            for (line, lower) in upper.lines.iter_mut().zip(&mut segment.lines) {
                *line = lower.extract_if(.., |hash| *hash >= upper.low).collect();
            }
            if upper.depth > depth {
                depth = upper.depth;
                // The new directory, and the root object.
                lines += (8_u64 << depth).div_ceil(64) + 1;
            }
            // The new segment, the first entry that leads to it, and the old one's depth.
            lines += 256 + 1 + 1;
            segments.insert(at + 1, upper);
        }
    }
    lines
}

#[test]
fn random_inserts_of_a_hash_index_flush_what_a_model_does() {
    let count = 30_000;
    let flushes =
        (flushes_per_insert::<Cceh<cceh::Standard, M>>(count) * count as f64).round() as u64;
    let expected = count + split_lines(count);
    println!("cceh: {flushes} flushes of {count} inserts, {expected} on paper");
    // The allocator flushes a header for each chunk it hands out.
    let others = flushes as i64 - expected as i64;
    assert!((0..=24).contains(&others), "{others} flushes are not accounted for");
}

/// Stores of restoring the first buffers of a tree that was opened, in so many calls of so many leaves each.
fn stores_of_restoring(calls: usize, leaves: usize) -> u64 {
    type Tree = SpTreeBuffered<Production, M>;
    let counting = Counting::new(CountingConfig::default(), POOL);
    let tree_pool = make::<Tree>(&counting);
    let mut session = tree_pool.heap().session().expect("a session");
    for number in 0..3000 {
        // In no order, so that most leaves have something in their buffers.
        tree_pool.tree().insert(&mut session, number * 7919 % 3001, number).expect("room");
    }
    drop(session);
    drop(tree_pool);
    let pool = open_pool(counting.memory()).expect("the pool");
    let tree_pool: SingleTreePool<Tree, M> = SingleTreePool::open(pool, 1).expect("the tree");
    let mut session = tree_pool.heap().session().expect("a session");
    let mut from = 0;
    counting.operation("restore", || {
        for _ in 0..calls {
            let next = tree_pool
                .tree()
                .restore_next(&mut session, from, leaves, &mut vec![])
                .expect("whole");
            from = next.expect("there are more");
        }
    });
    counting.tally("restore").stores
}

/// A thread in the background that restores many leaves in a call was pinned for all of them, and nothing that
/// others gave up meanwhile could be used again. A pin is two stores.
#[test]
fn restoring_is_pinned_for_one_leaf_at_a_time() {
    assert_eq!(stores_of_restoring(1, 20), stores_of_restoring(20, 1));
}
