//! What the authors' programs do to the modules of persistent memory, played back.
//!
//! Not our trees, and no prediction of theirs: the layouts and the order of accesses are those of the
//! public programs as far as reading them tells, mistakes included (a bitmap that is not flushed, a log
//! that is not). The accesses go through one model of processor and modules, the same for all:
//!
//! ```text
//!   access -> L1 -> L2 <- prefetchers (the other line of a pair; the next line of a run)
//!                    +-> L3 -> read buffer  -> blocks of 256 bytes
//!   write back ------------> write buffer -> blocks of 256 bytes
//! ```
//!
//! Its constants are those of the processor and the modules, but for one: how much of the L3 works for
//! one thread. That one is fitted to what was measured of CCEH and FAST & FAIR together.

mod cceh;
mod fast_fair;
mod machine;
mod pactree;
mod parts;
mod skip_list;
mod sptree;

use everleaf_bench::random::{Random, mix};

pub(crate) use machine::{Machine, Traffic};
use parts::Play;
pub(crate) use parts::{LogWrites, Techniques};

/// Keys of the paper's workload.
pub(crate) const PAPERS_KEYS: f64 = 120.96e6;

/// A program that can be played back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// CCEH.
    Cceh(Techniques),
    /// FAST & FAIR with nodes of 512 bytes.
    FastFair(Techniques),
    /// PACTree.
    PacTree,
    /// The skip list.
    SkipList(Techniques),
    /// SPTree with buffers, with the filters, and whether an unbuffered insert flushes its bitmap.
    SpTree {
        /// Writes are gathered, with this log.
        buffered: Option<LogWrites>,
        /// Lookups ask a filter first.
        filtered: bool,
        /// The public program leaves this out.
        flushes_bitmap: bool,
    },
}

/// Bytes of an operation, by phase.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Volumes {
    pub load: Traffic,
    pub positive: Traffic,
    pub negative: Traffic,
    pub scan: Traffic,
}

/// Plays the paper's workload with `keys` keys: load, positive and negative lookups, scans of 50.
pub(crate) fn play(program: Program, keys: u64, seed: u64) -> Volumes {
    let scale = PAPERS_KEYS / keys as f64;
    let mut machine = Machine::xeon_6230(scale);
    let mut played = made(program, scale, seed);
    let mut volumes = Volumes::default();
    for number in 0..keys {
        played.insert(&mut machine, key(number, seed));
    }
    volumes.load = machine.take(keys);
    // The paper's share: 4 M of 121 M.
    let reads = keys / 30;
    let mut random = Random::new(seed ^ 0x5eed);
    for _ in 0..reads {
        played.get(&mut machine, key(random.below(keys), seed));
    }
    volumes.positive = machine.take(reads);
    for _ in 0..reads {
        played.get(&mut machine, key(keys + random.below(keys), seed));
    }
    volumes.negative = machine.take(reads);
    for _ in 0..reads {
        played.scan(&mut machine, key(random.below(keys), seed), 50);
    }
    volumes.scan = machine.take(reads);
    volumes
}

fn made(program: Program, scale: f64, seed: u64) -> Box<dyn Play> {
    match program {
        Program::Cceh(techniques) => Box::new(cceh::Cceh::new(techniques)),
        Program::FastFair(techniques) => Box::new(fast_fair::FastFair::new(techniques)),
        Program::PacTree => Box::new(pactree::PacTree::new(scale)),
        Program::SkipList(techniques) => Box::new(skip_list::SkipList::new(techniques, seed)),
        Program::SpTree { buffered, filtered, flushes_bitmap } => {
            Box::new(sptree::SpTree::new(buffered, filtered, flushes_bitmap))
        }
    }
}

/// The key of a number: different numbers have different keys, none is 0.
fn key(number: u64, seed: u64) -> u64 {
    mix(number.wrapping_add(seed << 40)).max(1)
}

#[cfg(test)]
mod tests {
    use super::parts::{Heap, RECORD};
    use super::*;

    const NONE: Techniques = Techniques::of("");

    #[test]
    fn buffers_save_media_writes_in_every_program() {
        let pairs = [
            (Program::Cceh(NONE), Program::Cceh(Techniques::of("b"))),
            (Program::FastFair(NONE), Program::FastFair(Techniques::of("bo"))),
            (Program::SkipList(NONE), Program::SkipList(Techniques::of("b"))),
            (sptree(false), sptree(true)),
        ];
        for (plain, buffered) in pairs {
            let written = |program| play(program, 30_000, 1).load.media_written;
            let (plain_bytes, buffered_bytes) = (written(plain), written(buffered));
            assert!(
                buffered_bytes < 0.8 * plain_bytes,
                "{plain:?}: {plain_bytes}, {buffered_bytes}"
            );
        }
    }

    fn sptree(buffered: bool) -> Program {
        let buffered = buffered.then_some(LogWrites::Flushed);
        Program::SpTree { buffered, filtered: true, flushes_bitmap: true }
    }

    /// Of the same program: a log costs what is written more for it, and one that is flushed no less.
    #[test]
    fn a_log_costs_bytes_and_a_flushed_one_no_fewer() {
        let sptree =
            |log| Program::SpTree { buffered: Some(log), filtered: true, flushes_bitmap: true };
        let of = |letters| Program::Cceh(Techniques::of(letters));
        let families = [
            [of("b"), of("bl"), of("bf")],
            [sptree(LogWrites::None), sptree(LogWrites::Stored), sptree(LogWrites::Flushed)],
        ];
        for family in families {
            let written = family.map(|program| play(program, 30_000, 1).load.media_written);
            // Some of the last records are still in the caches.
            assert!(written[0] + RECORD as f64 / 2.0 < written[1], "{written:?}");
            assert!(written[1] <= written[2] * 1.1, "{written:?}");
        }
    }

    #[test]
    fn filters_spare_absent_keys_the_medium() {
        let volumes = play(sptree(false), 60_000, 1);
        assert!(volumes.negative.media_read < 20.0, "{volumes:?}");
        assert!(volumes.positive.media_read > 200.0, "{volumes:?}");
        let bare = Program::SpTree { buffered: None, filtered: false, flushes_bitmap: true };
        assert!(play(bare, 60_000, 1).negative.media_read > 200.0);
    }

    #[test]
    fn a_copy_in_dram_of_what_leads_to_the_data_spares_reads() {
        for make in [Program::FastFair, Program::SkipList] {
            let reads =
                |letters| play(make(Techniques::of(letters)), 60_000, 1).positive.media_read;
            assert!(reads("boc") < 0.8 * reads("bo"), "{:?}", make(NONE));
        }
    }

    #[test]
    fn objects_begin_behind_their_headers() {
        let mut heap = Heap::new(0);
        assert_eq!([heap.take(512), heap.take(40), heap.take(1)], [16, 592, 720]);
    }
}
