//! What single operations cost on leaves that have room: no split, no compaction.
//!
//! A trial is a new tree, filled with some random keys: as many as leave room for the operations of the
//! trial before the tree grows, each number equally likely. A trial in which it grew does not count.

use everleaf_bench::BenchError;
use everleaf_bench::random::Random;
use everleaf_machine::simulated::Domain;
use everleaf_machine::simulated::counting::{CacheShape, CountingConfig, Tally};

use super::{Counted, CountedOperation, pool_bytes};

/// Entries that a trial may use up besides those it starts with: an append for each write.
const ROOM: u64 = 3;

/// More random keys than the leaves of any design take before one is split.
const KEYS_MAX: u64 = 4096;

/// Keys of which each is tried to be the one that splits a leaf.
const EXACT: u64 = 512;

/// The sums over the trials, by operation.
pub struct LeafCosts {
    /// Random keys that a new tree takes before its leaves become more. A tree may start with several.
    pub capacity: u64,
    sums: Vec<(CountedOperation, Tally)>,
}

impl LeafCosts {
    /// The sums of an operation.
    pub fn of(&self, operation: CountedOperation) -> Tally {
        let found = self.sums.iter().find(|(other, _)| *other == operation);
        found.map_or_else(Tally::default, |(_, tally)| *tally)
    }

    /// A figure of one operation, on average.
    pub fn each(&self, operation: CountedOperation, sum: fn(&Tally) -> u64) -> f64 {
        let tally = self.of(operation);
        tally.per_operation(sum(&tally))
    }
}

/// Caches of no account: only lines and calls are looked at.
fn config(domain: Domain) -> CountingConfig {
    CountingConfig {
        l1: CacheShape { bytes: 4096, ways: 4 },
        l2: CacheShape { bytes: 8192, ways: 4 },
        l3: CacheShape { bytes: 16384, ways: 4 },
        domain,
        ..CountingConfig::default()
    }
}

/// Measures a design in `trials` trials.
///
/// # Errors
/// The design's; that it has no leaf with room, as in [`costs_if_any`].
pub fn costs(
    design: &str,
    domain: Domain,
    trials: u64,
    seed: u64,
) -> Result<LeafCosts, BenchError> {
    costs_if_any(design, domain, trials, seed)?.ok_or_else(|| {
        BenchError::Wrong(format!("{design} has no leaf with room to be told from a full one"))
    })
}

/// As [`costs`], but `None` for a design without a leaf with room to be told from a full one: it keeps writes outside
/// of its leaves for so long that none of them fills up by 4,096 keys, or grows with each key, so that no trial counts.
///
/// # Errors
/// The design's.
pub fn costs_if_any(
    design: &str,
    domain: Domain,
    trials: u64,
    seed: u64,
) -> Result<Option<LeafCosts>, BenchError> {
    let mut random = Random::new(seed);
    let Some(capacity) = capacity(design, domain, &mut random)? else { return Ok(None) };
    let mut sums: Vec<(CountedOperation, Tally)> =
        CountedOperation::SINGLE.iter().map(|operation| (*operation, Tally::default())).collect();
    let mut counted = 0;
    for _ in 0..trials {
        let Some(tree) = trial(design, domain, capacity, &mut random)? else { continue };
        counted += 1;
        for (operation, sum) in &mut sums {
            *sum += tree.tally(*operation);
        }
    }
    Ok((counted > 0).then_some(LeafCosts { capacity, sums }))
}

/// What an insert costs in a tree of so many random keys, on average of `trials`.
///
/// # Errors
/// The design's, or that so many keys make more than the leaves of a new tree.
pub fn insert_at(design: &str, entries: u64, trials: u64, seed: u64) -> Result<Tally, BenchError> {
    let mut random = Random::new(seed);
    let mut sum = Tally::default();
    for _ in 0..trials {
        let mut tree = Counted::new(design, config(Domain::Adr), pool_bytes(1000))?;
        let first = tree.leaves()?;
        for _ in 0..entries {
            tree.fill(random.next_word())?;
        }
        tree.count(CountedOperation::Insert, random.next_word())?;
        if tree.leaves()? != first {
            let text = format!("{entries} keys and one more do not fit into a leaf of {design}");
            return Err(BenchError::Wrong(text));
        }
        sum += tree.tally(CountedOperation::Insert);
    }
    Ok(sum)
}

/// Random keys that a new tree takes before it grows; `None` if it does not by [`KEYS_MAX`]. Leaves are counted, which
/// may take long, behind each of the first [`EXACT`] keys, and then behind so many more: there may be room for some
/// more.
fn capacity(design: &str, domain: Domain, random: &mut Random) -> Result<Option<u64>, BenchError> {
    let mut tree = Counted::new(design, config(domain), pool_bytes(1000))?;
    let first = tree.leaves()?;
    let mut known = 0;
    for count in 1..=KEYS_MAX {
        tree.fill(random.next_word())?;
        if count > EXACT && count % EXACT != 0 {
            continue;
        }
        if tree.leaves()? != first {
            return Ok(Some(known));
        }
        known = count;
    }
    Ok(None)
}

/// One trial; `None` if the tree grew.
fn trial(
    design: &str,
    domain: Domain,
    capacity: u64,
    random: &mut Random,
) -> Result<Option<Counted>, BenchError> {
    let mut tree = Counted::new(design, config(domain), pool_bytes(1000))?;
    let first = tree.leaves()?;
    let most = capacity.saturating_sub(ROOM).max(2);
    let keys: Vec<u64> = (0..1 + random.below(most)).map(|_| random.next_word()).collect();
    for key in &keys {
        tree.fill(*key)?;
    }
    let mut chosen = || keys[random.below(keys.len() as u64) as usize];
    let (updated, read, removed) = (chosen(), chosen(), chosen());
    tree.count(CountedOperation::Insert, random.next_word())?;
    tree.count(CountedOperation::Update, updated)?;
    tree.count(CountedOperation::Get, read)?;
    tree.count(CountedOperation::GetAbsent, random.next_word())?;
    tree.count(CountedOperation::Remove, removed)?;
    Ok((tree.leaves()? == first).then_some(tree))
}
