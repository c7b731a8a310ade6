//! Which keys are asked for how often.

use std::fmt;

use crate::random::{Random, mix};

/// Which keys the operations of a workload choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Each key is equally likely.
    Uniform,
    /// The key of rank r is chosen with a probability proportional to r to the power of minus
    /// `theta`, 0.5 to 0.99; ranks are scattered over the keys.
    Zipfian {
        /// The exponent: the larger, the more skewed.
        theta: f64,
    },
    /// Of the keys, `hot` in all get the other part of the operations: with .2, 80 % of the operations
    /// ask for 20 % of the keys, and of those again; scattered over the keys. 0.01 to 0.49.
    SelfSimilar {
        /// The part of the keys.
        hot: f64,
    },
    /// As `Zipfian`, with ranks by age: the newest key is the likeliest.
    Latest {
        /// The exponent: the larger, the more skewed.
        theta: f64,
    },
}

impl Distribution {
    /// The usual exponent of a Zipfian distribution in benchmarks of this kind.
    pub const THETA_DEFAULT: f64 = 0.99;

    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian { .. } => "zipfian",
            Distribution::SelfSimilar { .. } => "self-similar",
            Distribution::Latest { .. } => "latest",
        }
    }

    /// The exponent, or the part that is hot; `None` if there is none.
    pub fn theta(self) -> Option<f64> {
        match self {
            Distribution::Uniform => None,
            Distribution::SelfSimilar { hot } => Some(hot),
            Distribution::Zipfian { theta } | Distribution::Latest { theta } => Some(theta),
        }
    }

    /// Whether the exponent, if any, is in the range that is supported.
    pub fn is_valid(self) -> bool {
        match self {
            Distribution::Uniform => true,
            Distribution::SelfSimilar { hot } => (0.01..=0.49).contains(&hot),
            Distribution::Zipfian { theta } | Distribution::Latest { theta } => {
                (0.5..=0.99).contains(&theta)
            }
        }
    }
}

/// `uniform`, `zipfian .99`, `latest .99`.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.theta() {
            None => f.pad(self.name()),
            Some(theta) => f.pad(&format!("{} {theta}", self.name()).replace("0.", ".")),
        }
    }
}

/// Chooses numbers in `0..count` by a distribution, at random.
pub enum Sampler {
    /// All alike.
    Uniform {
        /// Numbers below this.
        count: u64,
    },
    /// A few very often, scattered.
    Zipfian {
        /// The ranks.
        zipf: Zipf,
        /// What number has which rank.
        scramble: Scramble,
    },
    /// A part very often, of that a part very often, and so on; scattered.
    SelfSimilar {
        /// Numbers below this.
        count: u64,
        /// To this power a fraction is raised that is drawn uniformly.
        power: f64,
        /// What number has which rank.
        scramble: Scramble,
    },
    /// Ranks by age: 0 is the newest.
    Latest {
        /// The ranks.
        zipf: Zipf,
    },
}

impl Sampler {
    /// A sampler over `0..count`; `count` above 0.
    pub fn new(distribution: Distribution, count: u64) -> Self {
        match distribution {
            Distribution::Uniform => Sampler::Uniform { count },
            Distribution::Zipfian { theta } => {
                let scramble = Scramble::new(count, 0);
                Sampler::Zipfian { zipf: Zipf::new(count, theta), scramble }
            }
            Distribution::SelfSimilar { hot } => Sampler::SelfSimilar {
                count,
                power: hot.ln() / (1.0 - hot).ln(),
                scramble: Scramble::new(count, 0),
            },
            Distribution::Latest { theta } => Sampler::Latest { zipf: Zipf::new(count, theta) },
        }
    }

    /// The next number.
    pub fn sample(&self, random: &mut Random) -> u64 {
        match self {
            Sampler::Uniform { count } => random.below(*count),
            Sampler::Zipfian { zipf, scramble } => scramble.apply(zipf.sample(random)),
            Sampler::SelfSimilar { count, power, scramble } => {
                let rank = (*count as f64 * random.fraction().powf(*power)) as u64;
                scramble.apply(rank.min(count - 1))
            }
            Sampler::Latest { zipf } => zipf.sample(random),
        }
    }
}

/// A Zipfian distribution over the ranks `0..count`, exact at any size without tables.
///
/// *Source*: W. Hoermann, G. Derflinger, "Rejection-inversion to generate variates from monotone
/// discrete distributions", ACM TOMACS 6(3), 1996. The density x^-theta is inverted as if it were
/// continuous, rounded, and the few that fall outside the histogram are drawn again.
pub struct Zipf {
    count: u64,
    theta: f64,
    /// The integral of the density up to one half beyond the first rank, less the first bar.
    low: f64,
    /// The integral up to one half beyond the last rank.
    high: f64,
    /// A draw that was rounded up by at most this much is accepted unseen.
    margin: f64,
}

impl Zipf {
    /// `theta` above 0 and not 1; `count` above 0.
    pub fn new(count: u64, theta: f64) -> Self {
        let mut zipf = Zipf { count, theta, low: 0.0, high: 0.0, margin: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count as f64 + 0.5);
        zipf.margin = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.theta)
    }

    fn integral(&self, x: f64) -> f64 {
        (x.powf(1.0 - self.theta) - 1.0) / (1.0 - self.theta)
    }

    fn inverse(&self, area: f64) -> f64 {
        (1.0 + area * (1.0 - self.theta)).powf(1.0 / (1.0 - self.theta))
    }

    /// The next rank; 0 is the likeliest.
    pub fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.high + random.fraction() * (self.low - self.high);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.count as f64);
            if rank - x <= self.margin || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// A permutation of `0..count` that scatters neighbours: a multiplication modulo `count`.
pub struct Scramble {
    count: u64,
    factor: u64,
    offset: u64,
}

impl Scramble {
    /// A permutation for each seed; `count` above 0.
    pub fn new(count: u64, seed: u64) -> Self {
        // Near the golden ratio neighbours land far apart; the seed moves it a little.
        let golden = (count as f64 * 0.618_033_988_749_895) as u64;
        let mut factor = golden.saturating_add(mix(seed) % (count / 16 + 1)).max(1);
        while greatest_common_divisor(factor, count) != 1 {
            factor += 1;
        }
        Scramble { count, factor, offset: mix(!seed) % count }
    }

    /// The place of `number`; `number` below `count`.
    pub fn apply(&self, number: u64) -> u64 {
        let product = u128::from(number) * u128::from(self.factor) + u128::from(self.offset);
        (product % u128::from(self.count)) as u64
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipfian_frequencies_are_those_of_the_formula() {
        for (count, theta) in [(1000_u64, 0.99), (1000, 0.5), (100_000, 0.9), (2, 0.99)] {
            let zipf = Zipf::new(count, theta);
            let mut random = Random::new(7);
            let draws = 400_000;
            let mut counts = vec![0_u64; count as usize];
            (0..draws).for_each(|_| counts[zipf.sample(&mut random) as usize] += 1);
            let total: f64 = (1..=count).map(|rank| (rank as f64).powf(-theta)).sum();
            for rank in [1, 2, 3, 10, 100].into_iter().filter(|rank| *rank <= count) {
                let expected = draws as f64 * (rank as f64).powf(-theta) / total;
                let seen = counts[rank as usize - 1] as f64;
                let tolerance = 5.0 * expected.sqrt() + 1.0;
                assert!((seen - expected).abs() < tolerance, "{rank}: {seen} for {expected}");
            }
            // The tail as a whole: the upper half of the ranks.
            let tail = |from: u64| (from..=count).map(|r| (r as f64).powf(-theta)).sum::<f64>();
            let expected = draws as f64 * tail(count / 2 + 1) / total;
            let seen = counts[count as usize / 2..].iter().sum::<u64>() as f64;
            assert!((seen - expected).abs() < 5.0 * expected.sqrt() + 1.0, "{seen} {expected}");
        }
    }

    #[test]
    fn a_scramble_reaches_every_number_once() {
        for count in [1, 2, 3, 10, 997, 1 << 12, 100_000] {
            for seed in 0..3 {
                let scramble = Scramble::new(count, seed);
                let mut seen = vec![false; count as usize];
                (0..count).for_each(|number| seen[scramble.apply(number) as usize] = true);
                assert!(seen.into_iter().all(|seen| seen), "{count} seed {seed}");
            }
        }
    }

    #[test]
    fn the_hot_keys_of_a_zipfian_sampler_are_scattered() {
        let sampler = Sampler::new(Distribution::Zipfian { theta: 0.99 }, 1000);
        let mut random = Random::new(3);
        let mut counts = vec![0_u32; 1000];
        (0..200_000).for_each(|_| counts[sampler.sample(&mut random) as usize] += 1);
        assert!(counts.iter().all(|&count| count > 0), "every key is asked for at some time");
        let mut hot: Vec<usize> = (0..1000).collect();
        hot.sort_by_key(|&number| std::cmp::Reverse(counts[number]));
        assert!(hot[0].abs_diff(hot[1]) > 10 && hot[1].abs_diff(hot[2]) > 10, "{:?}", &hot[..3]);
    }

    #[test]
    fn a_part_of_the_keys_gets_the_other_part_of_the_operations() {
        let hot = 0.2;
        let sampler = Sampler::new(Distribution::SelfSimilar { hot }, 1000);
        let mut random = Random::new(3);
        let mut counts = vec![0_u32; 1000];
        let draws = 200_000;
        (0..draws).for_each(|_| counts[sampler.sample(&mut random) as usize] += 1);
        counts.sort_unstable_by(|one, other| other.cmp(one));
        for (part, share) in [(200, 0.8), (40, 0.64), (8, 0.512)] {
            let seen = counts[..part].iter().sum::<u32>();
            let seen = f64::from(seen) / f64::from(draws);
            assert!((seen - share).abs() < 0.01, "{part} keys: {seen}");
        }
        assert!(!Distribution::SelfSimilar { hot: 0.5 }.is_valid());
    }

    #[test]
    fn distributions_have_short_names() {
        assert_eq!(Distribution::Uniform.to_string(), "uniform");
        assert_eq!(Distribution::Zipfian { theta: 0.99 }.to_string(), "zipfian .99");
        assert!(Distribution::Latest { theta: 0.5 }.is_valid());
        assert!(!Distribution::Zipfian { theta: 1.0 }.is_valid());
        assert!(!Distribution::Zipfian { theta: f64::NAN }.is_valid());
    }
}
