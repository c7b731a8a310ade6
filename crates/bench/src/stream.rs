//! The operations of each thread, drawn before the clock starts.
//!
//! The keys of the index are numbered: those there are `0..population`, those inserted come next.
//! A stream depends on nothing but its [`Plan`], so a run can be repeated by its seed.

use crate::arrivals::Arrivals;
use crate::distribution::{Distribution, Sampler, Scramble};
use crate::keys::{ABSENT_FROM, KeyList};
use crate::random::{Random, mix};
use crate::workload::{Action, Order, Workload};

/// One operation of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub action: Action,
    /// Pairs wanted, of a scan; bytes of the value, of a put of a trace.
    pub length: u32,
}

/// What one thread does.
pub(crate) struct Stream<K> {
    /// The key of each operation.
    pub keys: K,
    /// The operations of a mix; empty if all operations are the same.
    pub steps: Vec<Step>,
    /// Where each transaction ends among the steps; empty if each step is one of its own.
    pub ends: Vec<u32>,
    /// When each operation under the clock is due, in nanoseconds; empty in a closed loop.
    pub due: Vec<u64>,
    /// What the effects under the clock must sum up to, if the workload alone does not say.
    pub expected: Option<u64>,
    /// Operations, or transactions, that come first, before the clock starts.
    pub warm_up: usize,
    /// Operations, or transactions, under the clock.
    pub timed: usize,
}

impl<K> Stream<K> {
    /// Operations, or transactions, in all.
    pub fn len(&self) -> usize {
        self.warm_up + self.timed
    }

    /// A stream whose operations are all the same, without warm-up.
    pub fn plain(keys: K, timed: usize) -> Self {
        let (steps, ends, due) = (vec![], vec![], vec![]);
        Stream { keys, steps, ends, due, expected: None, warm_up: 0, timed }
    }
}

/// The operations of a workload with keys of its own.
pub(crate) struct OwnStreams<K> {
    /// The keys that are there before; all of them inserts.
    pub fill: Stream<K>,
    /// What the threads do.
    pub streams: Vec<Stream<K>>,
    /// Keys that are there afterwards.
    pub population: u64,
}

/// What the streams of one measurement are drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub workload: Workload,
    pub distribution: Distribution,
    pub threads: usize,
    /// Keys in the index: those numbered below this.
    pub population: u64,
    /// Operations of each thread before the clock starts.
    pub warm_up: usize,
    /// Operations of each thread under the clock.
    pub timed: usize,
    /// Pairs of a scan, at most.
    pub scan_length: u32,
    /// The schedule of an open loop; `None` in a closed one.
    pub arrivals: Option<Arrivals>,
    pub seed: u64,
}

impl Plan {
    /// Operations of each thread.
    fn len(&self) -> usize {
        self.warm_up + self.timed
    }

    /// Random numbers for one purpose of one thread.
    pub fn random(&self, thread: usize, purpose: u64) -> Random {
        let place = (thread as u64) << 8 | purpose;
        Random::new(self.seed ^ place.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    /// When the operations of a thread are due.
    pub fn due(&self, thread: usize) -> Vec<u64> {
        let draw = |arrivals: Arrivals| {
            arrivals.draw(self.timed, self.threads, &mut self.random(thread, 3))
        };
        self.arrivals.map_or_else(Vec::new, draw)
    }

    fn steps(&self, thread: usize) -> Vec<Step> {
        let shares = self.workload.mix();
        if shares.is_empty() {
            return Vec::new();
        }
        let whole: u64 = shares.iter().map(|(_, share)| share).sum();
        let mut random = self.random(thread, 1);
        let mut step = |position: usize| {
            let mut ticket = match self.workload.order() {
                Order::Drawn => random.below(whole),
                Order::Cycle => position as u64 % whole,
            };
            let action = shares.iter().find(|(_, share)| {
                let is_chosen = ticket < *share;
                ticket = ticket.saturating_sub(*share);
                is_chosen
            });
            let (action, _) = action.expect("the ticket is below the sum of the shares");
            let drawn = 1 + random.below(u64::from(self.scan_length)) as u32;
            // Only YCSB E asks for scans of all lengths up to that one.
            let length = if self.workload == Workload::YcsbE { drawn } else { self.scan_length };
            Step { action: *action, length }
        };
        (0..self.len()).map(&mut step).collect()
    }
}

/// Draws the streams of all threads, into lists that `new_keys` makes (given a capacity). Returns
/// them with the number of keys there are after the inserts among them (and before what removals
/// took is put back).
///
/// The workload has no keys of its own.
pub(crate) fn draw<K: KeyList>(
    plan: &Plan,
    new_keys: impl Fn(usize) -> K,
) -> (Vec<Stream<K>>, u64) {
    debug_assert!(!plan.workload.has_own_keys());
    let mut next = plan.population;
    let mut streams = Vec::with_capacity(plan.threads);
    let steps: Vec<Vec<Step>> = (0..plan.threads).map(|thread| plan.steps(thread)).collect();
    let removals = Removals::draw(plan, &steps);
    let ascending = ascending_words(plan);
    for (thread, steps) in steps.into_iter().enumerate() {
        let mut keys = new_keys(plan.len());
        match plan.workload {
            Workload::Load | Workload::Insert => {
                let end = next + plan.len() as u64;
                (next..end).for_each(|number| keys.push(number));
                next = end;
            }
            Workload::LoadSequential => {
                let own = &ascending[thread * plan.len()..][..plan.len()];
                own.iter().for_each(|word| keys.push_word(*word));
                next += plan.len() as u64;
            }
            Workload::Remove => {
                removals.numbers[thread].iter().for_each(|number| keys.push(*number));
            }
            _ => next = draw_keys(plan, thread, &steps, &removals, next, &mut keys),
        }
        let due = plan.due(thread);
        let (warm_up, timed) = (plan.warm_up, plan.timed);
        streams.push(Stream { steps, due, warm_up, ..Stream::plain(keys, timed) });
    }
    (streams, next)
}

/// The words of all keys of a sequential load, ascending; empty for other workloads.
fn ascending_words(plan: &Plan) -> Vec<u64> {
    if plan.workload != Workload::LoadSequential {
        return Vec::new();
    }
    let end = plan.population + (plan.len() * plan.threads) as u64;
    let mut words: Vec<u64> = (plan.population..end).map(mix).collect();
    words.sort_unstable();
    words
}

/// Draws the keys of one thread, whose inserts get the numbers from `next` on. Returns the number
/// after them.
fn draw_keys<K: KeyList>(
    plan: &Plan,
    thread: usize,
    steps: &[Step],
    removals: &Removals,
    next: u64,
    keys: &mut K,
) -> u64 {
    let sampler = Sampler::new(plan.distribution, plan.population);
    let mut random = plan.random(thread, 2);
    let mut removed = removals.numbers[thread].iter();
    let mut inserted = 0;
    for position in 0..plan.len() {
        match steps.get(position).map(|step| step.action) {
            Some(Action::Insert) => {
                keys.push(next + inserted);
                inserted += 1;
                continue;
            }
            Some(Action::Remove) => {
                keys.push(*removed.next().expect("one was drawn for each removal"));
                continue;
            }
            _ => {}
        }
        let drawn = sampler.sample(&mut random);
        keys.push(match (&sampler, plan.workload) {
            (_, Workload::GetAbsent) => ABSENT_FROM + drawn,
            // The newest first: what this thread inserted, then what was there before.
            (Sampler::Latest { .. }, _) if drawn < inserted => next + inserted - 1 - drawn,
            (Sampler::Latest { .. }, _) => {
                removals.other_than_removed(plan.population - 1 - (drawn - inserted))
            }
            _ => removals.other_than_removed(drawn),
        });
    }
    next + inserted
}

/// The keys that are removed: each once, and no other operation of any thread asks for one, so
/// that what every operation returns is known beforehand.
struct Removals {
    /// Of each thread, in order.
    numbers: Vec<Vec<u64>>,
    /// Whether a key is removed by any of them; empty if there are no removals.
    is_removed: Vec<bool>,
}

impl Removals {
    fn draw(plan: &Plan, steps: &[Vec<Step>]) -> Self {
        let is_removal = |step: &&Step| step.action == Action::Remove;
        let count_of = |steps: &Vec<Step>| match plan.workload {
            Workload::Remove => plan.len(),
            _ => steps.iter().filter(is_removal).count(),
        };
        let counts: Vec<usize> = steps.iter().map(count_of).collect();
        let wanted = counts.iter().sum();
        if wanted == 0 {
            return Removals { numbers: vec![Vec::new(); steps.len()], is_removed: Vec::new() };
        }
        let mut once = DrawnOnce::new(plan, wanted);
        let mut draw = |(thread, count): (usize, &usize)| {
            let mut random = plan.random(thread, 4);
            (0..*count).map(|_| once.draw(&mut random)).collect()
        };
        let numbers = counts.iter().enumerate().map(&mut draw).collect();
        Removals { numbers, is_removed: once.drawn }
    }

    /// The number, or the next one that is not removed.
    fn other_than_removed(&self, number: u64) -> u64 {
        let Some(after) = self.is_removed.get(number as usize..) else { return number };
        let distance = after.iter().position(|is_removed| !is_removed);
        let wrapped = || self.is_removed.iter().position(|is_removed| !is_removed);
        let found = distance.map(|distance| number + distance as u64);
        found.or_else(|| wrapped().map(|first| first as u64)).unwrap_or(number)
    }
}

/// Draws keys, each at most once: in the order in which the distribution first asks for them.
struct DrawnOnce {
    sampler: Sampler,
    /// For when the likely keys are used up.
    order: Scramble,
    position: u64,
    population: u64,
    /// The distribution gives ranks, of which 0 is the newest key.
    is_latest: bool,
    drawn: Vec<bool>,
}

impl DrawnOnce {
    /// For `wanted` keys at most.
    fn new(plan: &Plan, wanted: usize) -> Self {
        let population = plan.population;
        assert!(wanted as u64 <= population, "{wanted} of {population} keys, each once");
        DrawnOnce {
            sampler: Sampler::new(plan.distribution, population),
            order: Scramble::new(population, plan.seed),
            position: 0,
            population,
            is_latest: matches!(plan.distribution, Distribution::Latest { .. }),
            drawn: vec![false; population as usize],
        }
    }

    fn draw(&mut self, random: &mut Random) -> u64 {
        for _ in 0..32 {
            let rank = self.sampler.sample(random);
            let number = if self.is_latest { self.population - 1 - rank } else { rank };
            if !std::mem::replace(&mut self.drawn[number as usize], true) {
                return number;
            }
        }
        while self.position < self.population {
            let number = self.order.apply(self.position);
            self.position += 1;
            if !std::mem::replace(&mut self.drawn[number as usize], true) {
                return number;
            }
        }
        unreachable!("`new` checked that there are keys enough")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::IntegerKeys;
    use crate::random::mix;

    fn plan(workload: Workload, distribution: Distribution) -> Plan {
        Plan {
            workload,
            distribution,
            threads: 2,
            population: 1000,
            warm_up: 50,
            timed: 400,
            scan_length: 100,
            arrivals: None,
            seed: 1,
        }
    }

    fn drawn_here() -> Vec<Workload> {
        let more = [Workload::Writes { percent: 30 }];
        let all = Workload::ALL.into_iter().chain(more);
        all.filter(|workload| !workload.has_own_keys()).collect()
    }

    fn drawn(plan: &Plan) -> (Vec<Stream<IntegerKeys>>, u64) {
        draw(plan, |capacity| IntegerKeys(Vec::with_capacity(capacity)))
    }

    fn everything(plan: &Plan) -> (Vec<u64>, Vec<Step>) {
        let (streams, _) = drawn(plan);
        let keys = streams.iter().flat_map(|stream| stream.keys.0.clone()).collect();
        (keys, streams.into_iter().flat_map(|stream| stream.steps).collect())
    }

    #[test]
    fn a_seed_determines_the_stream_and_another_seed_gives_another() {
        for workload in drawn_here() {
            let plan = plan(workload, workload.default_distribution(0.99));
            assert_eq!(everything(&plan), everything(&plan), "{workload}");
            if !workload.has_fresh_keys() {
                let other = Plan { seed: 2, ..plan };
                assert_ne!(everything(&plan).0, everything(&other).0, "{workload}");
                let (streams, _) = drawn(&plan);
                assert_ne!(streams[0].keys.0, streams[1].keys.0, "{workload}");
            }
        }
    }

    #[test]
    fn keys_exist_unless_they_are_inserted_or_absent() {
        let numbers: std::collections::HashMap<u64, u64> =
            (0..3000).map(|number| (mix(number), number)).collect();
        for workload in drawn_here() {
            let plan = plan(workload, workload.default_distribution(0.8));
            let (streams, after) = drawn(&plan);
            let mut inserts = 0;
            for stream in &streams {
                let mut own = std::collections::BTreeSet::new();
                for (position, key) in stream.keys.0.iter().enumerate() {
                    let number = numbers.get(key).copied();
                    let step = stream.steps.get(position);
                    let is_insert = workload.has_fresh_keys()
                        || step.is_some_and(|step| step.action == Action::Insert);
                    match number {
                        None => assert_eq!(workload, Workload::GetAbsent),
                        Some(number) if is_insert => {
                            assert!((1000..after).contains(&number) && own.insert(number));
                            inserts += 1;
                        }
                        Some(number) => assert!(number < 1000 || own.contains(&number)),
                    }
                }
            }
            assert_eq!(after, 1000 + inserts, "{workload}: the new numbers have no gap");
        }
    }

    #[test]
    fn the_actions_of_a_mix_come_in_their_shares() {
        for workload in Workload::ALL.into_iter().filter(|workload| workload.is_mix()) {
            let plan = plan(workload, workload.default_distribution(0.99));
            let plan = Plan { timed: 10_000, population: 20_000, ..plan };
            let (_, steps) = everything(&plan);
            let whole: u64 = workload.mix().iter().map(|(_, share)| share).sum();
            for (action, share) in workload.mix() {
                let count = steps.iter().filter(|step| step.action == action).count();
                let percent = count as f64 * 100.0 / steps.len() as f64;
                let expected = share as f64 * 100.0 / whole as f64;
                assert!((percent - expected).abs() < 2.0, "{workload} {action:?} {percent}");
            }
            assert!(steps.iter().all(|step| (1..=100).contains(&step.length)));
        }
    }

    /// They were half as long as PiBench's on average, beside whose figures they are put.
    #[test]
    fn scans_of_shares_are_as_long_as_was_asked_for() {
        let workload: Workload = "mix-50-0-0-0-50".parse().unwrap();
        let (_, steps) = everything(&plan(workload, Distribution::Uniform));
        assert!(steps.iter().all(|step| step.length == 100));
        let (_, steps) = everything(&plan(Workload::YcsbE, Distribution::Uniform));
        assert!(steps.iter().any(|step| step.length < 50));
    }

    #[test]
    fn a_removal_takes_each_key_once_even_if_it_takes_them_all() {
        for distribution in [Distribution::Uniform, Distribution::Zipfian { theta: 0.99 }] {
            let plan = Plan { warm_up: 100, ..plan(Workload::Remove, distribution) };
            let (mut keys, _) = everything(&plan);
            assert_eq!(keys.len(), 1000);
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), 1000, "{distribution}");
        }
    }

    /// The oldest keys went first.
    #[test]
    fn removals_of_the_latest_keys_begin_with_the_newest() {
        let plan = Plan {
            warm_up: 0,
            timed: 50,
            ..plan(Workload::Remove, Distribution::Latest { theta: 0.99 })
        };
        let (keys, _) = everything(&plan);
        let numbers: std::collections::HashMap<u64, u64> =
            (0..1000).map(|number| (mix(number), number)).collect();
        let sum: u64 = keys.iter().map(|key| numbers[key]).sum();
        assert!(sum / keys.len() as u64 > 500, "{}", sum / keys.len() as u64);
    }

    #[test]
    fn the_mix_of_fast_and_fair_is_a_cycle() {
        let plan = plan(Workload::Mix4To16To1, Distribution::Uniform);
        let (streams, _) = drawn(&plan);
        let actions: Vec<_> = streams[1].steps[..42].iter().map(|step| step.action).collect();
        assert!(actions[..4].iter().all(|action| *action == Action::Insert));
        assert!(actions[4..20].iter().all(|action| *action == Action::Get));
        assert_eq!(actions[20], Action::Remove);
        assert_eq!(actions[21..], actions[..21]);
    }

    #[test]
    fn nobody_asks_for_a_key_that_is_removed() {
        for distribution in [Distribution::Uniform, Distribution::Zipfian { theta: 0.99 }] {
            let plan = plan(Workload::MixQuarters, distribution);
            let (keys, steps) = everything(&plan);
            let (mut removed, mut others) = (Vec::new(), std::collections::BTreeSet::new());
            for (key, step) in keys.into_iter().zip(steps) {
                match step.action {
                    Action::Remove => removed.push(key),
                    _ => _ = others.insert(key),
                }
            }
            let count = removed.len();
            assert!(count > 150 && removed.iter().all(|key| !others.contains(key)));
            removed.sort_unstable();
            removed.dedup();
            assert_eq!(removed.len(), count, "each once");
        }
    }

    #[test]
    fn a_sequential_load_has_the_keys_of_a_random_one_in_order() {
        let of = |workload| {
            let (streams, after) =
                drawn(&Plan { population: 0, ..plan(workload, Distribution::Uniform) });
            assert_eq!(after, 900);
            streams.into_iter().flat_map(|stream| stream.keys.0).collect::<Vec<_>>()
        };
        let (ascending, mut random) = (of(Workload::LoadSequential), of(Workload::Load));
        assert!(ascending.is_sorted() && !random.is_sorted());
        random.sort_unstable();
        assert_eq!(ascending, random);
    }

    #[test]
    fn the_latest_keys_are_the_likeliest() {
        let plan = plan(Workload::YcsbD, Distribution::Latest { theta: 0.99 });
        let (streams, _) = drawn(&plan);
        let newest: Vec<u64> = (990..2000).map(mix).collect();
        let count = streams[0].keys.0.iter().filter(|key| newest.contains(key)).count();
        assert!(count * 4 > streams[0].len(), "{count} of {}", streams[0].len());
    }
}
