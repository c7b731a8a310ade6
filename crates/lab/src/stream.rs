//! The operations of each thread, drawn before the clock starts.
//!
//! The keys of the index are numbered: those there are `0..population`, those inserted come next.
//! A stream depends on nothing but its [`Plan`], so a run can be repeated by its seed.

use crate::distribution::{Distribution, Sampler, Scramble};
use crate::keys::{ABSENT_FROM, KeyList};
use crate::random::Random;
use crate::workload::{Action, Workload};

/// One operation of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub action: Action,
    /// Pairs wanted, of a scan.
    pub length: u32,
}

/// What one thread does.
pub(crate) struct Stream<K> {
    /// The key of each operation.
    pub keys: K,
    /// The operations of a mix; empty if all operations are the same.
    pub steps: Vec<Step>,
    /// Operations that come first, before the clock starts.
    pub warm_up: usize,
    /// Operations under the clock.
    pub timed: usize,
}

impl<K> Stream<K> {
    /// Operations in all.
    pub fn len(&self) -> usize {
        self.warm_up + self.timed
    }
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
    pub seed: u64,
}

impl Plan {
    /// Operations of each thread.
    fn len(&self) -> usize {
        self.warm_up + self.timed
    }

    /// Random numbers for one purpose of one thread.
    fn random(&self, thread: usize, purpose: u64) -> Random {
        let place = (thread as u64) << 8 | purpose;
        Random::new(self.seed ^ place.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    fn steps(&self, thread: usize) -> Vec<Step> {
        let shares = self.workload.mix();
        if shares.is_empty() {
            return Vec::new();
        }
        let mut random = self.random(thread, 1);
        let mut step = || {
            let mut ticket = random.below(100);
            let action = shares.iter().find(|(_, share)| {
                let is_chosen = ticket < *share;
                ticket = ticket.saturating_sub(*share);
                is_chosen
            });
            let (action, _) = action.expect("the shares sum up to 100");
            let length = 1 + random.below(u64::from(self.scan_length)) as u32;
            Step { action: *action, length }
        };
        (0..self.len()).map(|_| step()).collect()
    }
}

/// Draws the streams of all threads, into lists that `new_keys` makes (given a capacity). Returns
/// them with the number of keys there are after the inserts among them.
pub(crate) fn draw<K: KeyList>(
    plan: &Plan,
    new_keys: impl Fn(usize) -> K,
) -> (Vec<Stream<K>>, u64) {
    let mut population = plan.population;
    let mut streams = Vec::with_capacity(plan.threads);
    let mut once = DrawnOnce::new(plan);
    for thread in 0..plan.threads {
        let mut keys = new_keys(plan.len());
        let steps = plan.steps(thread);
        match plan.workload {
            Workload::Load | Workload::Insert => {
                let end = population + plan.len() as u64;
                (population..end).for_each(|number| keys.push(number));
                population = end;
            }
            Workload::Remove => {
                let mut random = plan.random(thread, 2);
                (0..plan.len()).for_each(|_| keys.push(once.draw(&mut random)));
            }
            _ => population = draw_keys(plan, thread, &steps, population, &mut keys),
        }
        streams.push(Stream { keys, steps, warm_up: plan.warm_up, timed: plan.timed });
    }
    (streams, population)
}

/// Draws the keys of one thread, whose inserts get the numbers from `next` on. Returns the number
/// after them.
fn draw_keys<K: KeyList>(
    plan: &Plan,
    thread: usize,
    steps: &[Step],
    next: u64,
    keys: &mut K,
) -> u64 {
    let sampler = Sampler::new(plan.distribution, plan.population);
    let mut random = plan.random(thread, 2);
    let mut inserted = 0;
    for position in 0..plan.len() {
        if steps.get(position).is_some_and(|step| step.action == Action::Insert) {
            keys.push(next + inserted);
            inserted += 1;
            continue;
        }
        let drawn = sampler.sample(&mut random);
        keys.push(match (&sampler, plan.workload) {
            (_, Workload::GetAbsent) => ABSENT_FROM + drawn,
            // The newest first: what this thread inserted, then what was there before.
            (Sampler::Latest { .. }, _) if drawn < inserted => next + inserted - 1 - drawn,
            (Sampler::Latest { .. }, _) => plan.population - 1 - (drawn - inserted),
            _ => drawn,
        });
    }
    next + inserted
}

/// Draws keys, each at most once: in the order in which the distribution first asks for them.
struct DrawnOnce {
    sampler: Sampler,
    /// For when the likely keys are used up.
    order: Scramble,
    position: u64,
    population: u64,
    drawn: Vec<bool>,
}

impl DrawnOnce {
    /// For other workloads than removals it stays empty.
    fn new(plan: &Plan) -> Self {
        let is_used = plan.workload == Workload::Remove;
        let population = if is_used { plan.population } else { 1 };
        let wanted = (plan.len() * plan.threads) as u64;
        assert!(!is_used || wanted <= population, "{wanted} of {population} keys, each once");
        DrawnOnce {
            sampler: Sampler::new(plan.distribution, population),
            order: Scramble::new(population, plan.seed),
            position: 0,
            population,
            drawn: vec![false; population as usize],
        }
    }

    fn draw(&mut self, random: &mut Random) -> u64 {
        for _ in 0..32 {
            let number = self.sampler.sample(random);
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
            seed: 1,
        }
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
        for workload in Workload::ALL {
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
        for workload in Workload::ALL {
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
            let plan =
                Plan { timed: 10_000, ..plan(workload, workload.default_distribution(0.99)) };
            let (_, steps) = everything(&plan);
            for (action, share) in workload.mix() {
                let count = steps.iter().filter(|step| step.action == *action).count();
                let percent = count as f64 * 100.0 / steps.len() as f64;
                assert!((percent - *share as f64).abs() < 2.0, "{workload} {action:?} {percent}");
            }
            assert!(steps.iter().all(|step| (1..=100).contains(&step.length)));
        }
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

    #[test]
    fn the_latest_keys_are_the_likeliest() {
        let plan = plan(Workload::YcsbD, Distribution::Latest { theta: 0.99 });
        let (streams, _) = drawn(&plan);
        let newest: Vec<u64> = (990..2000).map(mix).collect();
        let count = streams[0].keys.0.iter().filter(|key| newest.contains(key)).count();
        assert!(count * 4 > streams[0].len(), "{count} of {}", streams[0].len());
    }
}
