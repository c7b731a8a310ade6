//! Counts that can be known beforehand.

use std::alloc::Layout;
use std::collections::VecDeque;

use everleaf_machine::simulated::counting::{
    CacheShape, Counting, CountingConfig, MediaShape, Tally,
};
use everleaf_machine::{Atomic, AtomicPair, FingerprintLine, Machine, Ordering, Pair, Simulated};

type Word = Atomic<u64, Simulated>;

fn word(counting: &Counting, index: usize) -> &Word {
    assert!(index * 8 < counting.memory().size());
    // SAFETY: inside the pool, aligned; only accessed atomically.
    unsafe { &*counting.memory().base().cast::<Word>().wrapping_add(index) }
}

fn small() -> CountingConfig {
    CountingConfig {
        l1: CacheShape { bytes: 4096, ways: 4 },
        l2: CacheShape { bytes: 8192, ways: 4 },
        l3: CacheShape { bytes: 16384, ways: 4 },
        media: MediaShape { modules: 1, buffer_blocks: 64 },
        ..CountingConfig::default()
    }
}

#[test]
fn an_operation_is_counted_in_lines_and_calls() {
    let counting = Counting::new(small(), 4096);
    let memory: Word = Atomic::new(0);
    counting.operation("insert", || {
        word(&counting, 0).load(Ordering::Acquire);
        word(&counting, 1).load(Ordering::Acquire);
        word(&counting, 8).store(1, Ordering::Release);
        word(&counting, 9).store(1, Ordering::Release);
        memory.fetch_add(1, Ordering::AcqRel);
        Simulated::flush(word(&counting, 8).as_ptr());
        Simulated::drain();
        Simulated::fence(Ordering::SeqCst);
        Simulated::fence(Ordering::Release);
    });
    let tally = counting.tally("insert");
    assert_eq!((tally.operations, tally.loads, tally.stores, tally.locked), (1, 2, 2, 1));
    assert_eq!((tally.flushes, tally.drains, tally.fences), (1, 1, 1));
    assert_eq!((tally.pool_lines_read, tally.pool_lines_written), (1, 1));
    assert_eq!((tally.other_lines_read, tally.other_lines_written), (1, 1));
    assert_eq!((tally.l1_misses, tally.pool_misses, tally.dram_misses), (3, 2, 1));
    // Both lines are of one media block.
    assert_eq!(tally.media_read_bytes, 256);
    // Nothing outside of operations is counted.
    word(&counting, 0).load(Ordering::Acquire);
    assert_eq!(counting.tally("insert"), tally);
    assert_eq!(counting.tally("remove").operations, 0);
}

#[test]
fn flushes_under_a_lock_are_told_from_others() {
    let counting = Counting::new(small(), 4096);
    let flush = || Simulated::flush(word(&counting, 0).as_ptr());
    counting.operation("write", || {
        flush();
        Simulated::holds_lock(true);
        flush();
        Simulated::holds_lock(true);
        Simulated::holds_lock(false);
        flush();
        Simulated::holds_lock(false);
        flush();
        // One that its maker held from the start.
        Simulated::holds_lock(false);
        flush();
    });
    let tally = counting.tally("write");
    assert_eq!((tally.flushes, tally.flushes_under_lock), (5, 2));
    // A lock that is left held is the operation's alone.
    counting.operation("left", || Simulated::holds_lock(true));
    counting.operation("next", flush);
    assert_eq!(counting.tally("next").flushes_under_lock, 0);
}

#[test]
fn pairs_lines_and_bulk_copies_are_counted_as_one_access() {
    let counting = Counting::new(small(), 4096);
    let pair: AtomicPair<Simulated> = AtomicPair::new(Pair::default());
    let line: FingerprintLine<Simulated> = FingerprintLine::new();
    counting.operation("all", || {
        pair.load();
        line.matches(1);
        let target = word(&counting, 0).as_ptr().cast_mut();
        // SAFETY: 130 bytes of the pool, aligned.
        unsafe { Simulated::write_bytes(target, &[1; 130]) };
        // SAFETY: 130 bytes of the pool, just written.
        unsafe { Simulated::read_bytes(target, 130) };
    });
    let tally = counting.tally("all");
    assert_eq!((tally.loads, tally.stores), (3, 1));
    assert_eq!((tally.pool_lines_read, tally.pool_lines_written), (3, 3));
    assert_eq!(tally.other_lines_read, 2);
}

/// The counts of a list of nodes that are allocated and freed in turn, among `others` that are not counted.
fn nodes_among(others: usize) -> Tally {
    const LAYOUT: Layout = match Layout::from_size_align(192, 64) {
        Ok(layout) => layout,
        Err(_) => panic!("a multiple of a power of two"),
    };
    let counting = Counting::new(small(), 1 << 20);
    let (mut nodes, mut apart) = (VecDeque::new(), vec![]);
    for index in 0..2000 {
        // Allocated when nothing is counted: only the heap knows of them.
        apart.extend((0..others).map(|other| vec![0_u8; 40 + (index + other) % 100]));
        counting.operation("node", || {
            let node = Simulated::allocate(LAYOUT);
            nodes.push_back(node);
            // A line in the middle, of this one and of an old one.
            for node in [node, nodes[0]] {
                // SAFETY: inside a node that is not freed, aligned; only accessed atomically.
                unsafe { &*node.cast::<Word>().wrapping_add(8) }.store(1, Ordering::Release);
            }
            word(&counting, index * 24).store(1, Ordering::Release);
            if nodes.len() > 100
                && let Some(node) = nodes.pop_front()
            {
                // SAFETY: allocated above, and no longer in the list.
                unsafe { Simulated::deallocate(node, LAYOUT) };
            }
        });
    }
    for node in nodes {
        // SAFETY: as in the loop.
        unsafe { Simulated::deallocate(node, LAYOUT) };
    }
    counting.tally("node")
}

#[test]
fn nodes_count_alike_wherever_the_heap_puts_them() {
    let alone = nodes_among(0);
    assert_eq!((alone.nodes, alone.other_lines_written), (2000, 2 * 2000 - 1));
    for others in 1..4 {
        assert_eq!(nodes_among(others), alone, "{others}");
    }
}

#[test]
fn a_node_takes_the_lines_of_one_that_was_freed() {
    let counting = Counting::new(small(), 4096);
    let layout = Layout::new::<[u64; 16]>();
    let layout = layout.align_to(64).expect("a power of two");
    let allocated = |count: usize| -> Vec<*mut u8> {
        let touch = |_| {
            let node = Simulated::allocate(layout);
            // SAFETY: inside the node, aligned; only accessed atomically.
            unsafe { &*node.cast::<Word>() }.store(1, Ordering::Release);
            node
        };
        counting.operation("allocate", || (0..count).map(touch).collect())
    };
    let first = allocated(4);
    counting.warm_up(|| {
        for node in first {
            // SAFETY: allocated above, freed once.
            unsafe { Simulated::deallocate(node, layout) };
        }
    });
    assert_eq!(counting.tally("allocate").dram_misses, 4);
    let mut rest = allocated(5);
    assert_eq!(counting.tally("allocate").dram_misses, 4 + 1);
    // What is new after a crash is in no cache.
    counting.lose_memory();
    rest.extend(allocated(4));
    assert_eq!(counting.tally("allocate").dram_misses, 4 + 1 + 4);
    for node in rest {
        // SAFETY: allocated by `allocated`, freed once.
        unsafe { Simulated::deallocate(node, layout) };
    }
}

/// Media bytes written per byte stored, for `lines` lines stored, flushed and drained at each of
/// 2,048 scattered blocks.
fn amplification(lines: usize, flush: bool) -> f64 {
    const BLOCKS: usize = 2048;
    let counting = Counting::new(small(), BLOCKS * 256);
    for index in 0..BLOCKS {
        let block = index * 1_193 % BLOCKS;
        counting.operation("store", || {
            for line in 0..lines {
                let word = word(&counting, block * 32 + line * 8);
                word.store(1, Ordering::Release);
                if flush {
                    Simulated::flush(word.as_ptr());
                }
            }
            Simulated::drain();
        });
    }
    let rest = counting.write_back_all().1;
    let written = counting.tally("store").media_written_bytes + rest;
    written as f64 / (BLOCKS * lines * 64) as f64
}

#[test]
fn scattered_writes_are_amplified_to_whole_media_blocks() {
    assert_eq!(amplification(1, true), 4.0);
    assert_eq!(amplification(2, true), 2.0);
    assert_eq!(amplification(4, true), 1.0);
}

/// Bytes per append of `record` bytes to a log, each flushed and drained: to the memory controller
/// (a line per flush), and to the media.
fn append_log(record: usize) -> (f64, f64) {
    const APPENDS: usize = 8192;
    let counting = Counting::new(small(), APPENDS * record);
    for append in 0..APPENDS {
        counting.operation("append", || {
            let first = append * record / 8;
            (first..first + record / 8)
                .for_each(|at| word(&counting, at).store(1, Ordering::Release));
            Simulated::flush(word(&counting, first).as_ptr());
            Simulated::drain();
        });
    }
    let tally = counting.tally("append");
    let media = tally.media_written_bytes + counting.write_back_all().1;
    (tally.per_operation(64 * tally.flushes), media as f64 / APPENDS as f64)
}

#[test]
fn an_append_costs_the_controller_a_line_and_the_media_its_size() {
    assert_eq!(append_log(16), (64.0, 16.0));
    assert_eq!(append_log(32), (64.0, 32.0));
    assert_eq!(append_log(64), (64.0, 64.0));
}

#[test]
fn without_flushes_evictions_write_the_same_lines_in_the_end() {
    // Lines of one block leave the caches together or apart; never less than once.
    let written = amplification(4, false);
    assert!((1.0..=4.0).contains(&written), "{written}");
    assert_eq!(amplification(1, false), 4.0);
}

#[test]
fn a_hot_line_costs_one_write_back_per_flush_and_none_without() {
    let stores = |flush: bool| {
        let counting = Counting::new(small(), 4096);
        for _ in 0..100 {
            counting.operation("store", || {
                word(&counting, 0).store(1, Ordering::Release);
                if flush {
                    Simulated::flush(word(&counting, 0).as_ptr());
                }
            });
        }
        let tally = counting.tally("store");
        assert_eq!(tally.pool_lines_written, 100);
        assert_eq!(tally.pool_misses, 1);
        assert_eq!(tally.per_operation(tally.stores), 1.0);
        tally.media_written_bytes + counting.write_back_all().1
    };
    // The buffer combines them.
    assert_eq!((stores(true), stores(false)), (256, 256));
}

#[test]
fn the_same_work_gives_the_same_counts() {
    let run = || {
        let counting = Counting::new(small(), 1 << 20);
        let mut at = 1usize;
        for _ in 0..5000 {
            counting.operation("mixed", || {
                at = at.wrapping_mul(25_214_903_917).wrapping_add(11) % (1 << 17);
                let word = word(&counting, at);
                if word.load(Ordering::Acquire).is_multiple_of(2) {
                    word.fetch_add(1, Ordering::AcqRel);
                    Simulated::flush(word.as_ptr());
                }
            });
        }
        (counting.tallies(), counting.write_back_all())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_line_that_is_read_and_then_written_is_written_back_once() {
    let counting = Counting::new(small(), 4096);
    counting.operation("update", || {
        let word = word(&counting, 0);
        word.store(word.load(Ordering::Acquire) + 1, Ordering::Release);
        Simulated::flush(word.as_ptr());
        // Clean now: nothing to write back again.
        Simulated::flush(word.as_ptr());
    });
    assert_eq!(counting.tally("update").l1_misses, 1);
    assert_eq!(counting.write_back_all().1, 256);
    counting.operation("read", || word(&counting, 0).load(Ordering::Acquire));
    assert_eq!(counting.write_back_all().1, 0);
}

#[test]
fn refusals_marks_and_what_is_handed_out_are_counted() {
    let counting = Counting::new(small(), 4096);
    Simulated::mark("outside");
    counting.operation("mixed", || {
        let word = word(&counting, 0);
        // Relaxed: one thread.
        let relaxed = Ordering::Relaxed;
        assert_eq!(word.compare_exchange(1, 2, relaxed, relaxed), Err(0));
        assert_eq!(word.compare_exchange(0, 2, relaxed, relaxed), Ok(0));
        Simulated::mark("helped");
        Simulated::mark("helped");
        Simulated::spin(0);
        Simulated::lifetime(counting.memory().base(), 64, true);
        Simulated::lifetime(counting.memory().base(), 64, false);
    });
    let tally = counting.tally("mixed");
    assert_eq!((tally.locked, tally.refused, tally.spins, tally.pieces), (2, 1, 1, 1));
    assert_eq!(counting.marks(), [("helped", 2)]);
}

#[test]
fn threads_on_one_pool_count_what_they_do_themselves() {
    const TURNS: u64 = 1000;
    let counting = Counting::new(small(), 4096);
    let memory = counting.owned_memory();
    let add = |counting: &Counting| {
        (0..TURNS).for_each(|_| {
            counting.operation("add", || word(counting, 0).fetch_add(1, Ordering::Relaxed));
        });
        counting.tally("add").locked
    };
    let other = std::thread::scope(|scope| {
        let thread = scope.spawn(|| add(&Counting::sharing(small(), &memory)));
        assert_eq!(add(&counting), TURNS);
        thread.join().expect("no panic")
    });
    assert_eq!(other, TURNS);
    assert_eq!(word(&counting, 0).load(Ordering::Relaxed), 2 * TURNS);
}

#[test]
fn neighbours_that_miss_in_a_row_are_one_chain() {
    let counting = Counting::new(small(), 8192);
    counting.operation("read", || {
        // Lines 0 1 2, then 10, then 12: three places to wait for.
        for line in [0, 1, 2, 10, 12] {
            word(&counting, line * 8).load(Ordering::Acquire);
        }
    });
    let tally = counting.tally("read");
    assert_eq!((tally.pool_misses, tally.pool_chains), (5, 3));
}
