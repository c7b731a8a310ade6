//! What a few measurements say: medians, and how sure a ratio of two medians is.

mod student;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// The share of cases in which an interval holds the truth.
const CONFIDENCE: f64 = 0.95;

/// The ratio of two medians, with the interval that holds it in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio of the medians.
    pub ratio: f64,
    /// The lower end of the interval; 0 if nothing is known.
    pub low: f64,
    /// The upper end of the interval; infinite if nothing is known.
    pub high: f64,
}

impl Ratio {
    /// `values` in units of `base`. Noise is taken to be a factor, so the logarithms are looked at: the
    /// variance of each side is estimated, that of its median is at most `3 / (n + 2)` of it (as noise
    /// with one peak is at worst even), and both together are weighed by Student's distribution with
    /// Welch's degrees of freedom. So three rounds give an interval that is wide enough, too. If one
    /// side was measured once, it is taken to spread as the other does; if both were, nothing is known.
    /// `None` if either is empty or the base is zero.
    ///
    /// The interval knows the noise within the two runs. What changes from one start of the program to
    /// the next, for both sides alike, it does not see.
    ///
    /// # Example
    /// ```
    /// use everleaf_bench::statistics::Ratio;
    /// let ratio = Ratio::of(&[20.0, 22.0, 21.0], &[10.0, 11.0, 10.5]).expect("values");
    /// assert_eq!(ratio.ratio, 2.0);
    /// assert!(ratio.low < 20.0 / 11.0 && ratio.high > 22.0 / 10.0);
    /// ```
    pub fn of(values: &[f64], base: &[f64]) -> Option<Self> {
        Self::one_of(1, values, base)
    }

    /// The same for one of `count` ratios that are looked at together: all their intervals hold in 95
    /// of 100 cases, so that each is wider than it would be alone.
    pub fn one_of(count: usize, values: &[f64], base: &[f64]) -> Option<Self> {
        let (above, below) = (median(values)?, median(base)?);
        if below == 0.0 {
            return None;
        }
        let ratio = above / below;
        let share = 1.0 - (1.0 - CONFIDENCE) / count.max(1) as f64;
        Some(match factor(values, base, share) {
            Some(factor) => Ratio { ratio, low: ratio / factor, high: ratio * factor },
            None => Ratio { ratio, low: 0.0, high: f64::INFINITY },
        })
    }

    /// Exact numbers, which have no noise.
    pub fn exact(value: f64, base: f64) -> Self {
        let ratio = if value == base { 1.0 } else { value / base };
        Ratio { ratio, low: ratio, high: ratio }
    }

    /// Whether 1 lies in the interval, so that no difference was shown.
    pub fn is_even(&self) -> bool {
        (self.low..=self.high).contains(&1.0)
    }

    /// The interval, such as `0.95 to 1.05`.
    pub fn interval(&self) -> String {
        if self.high.is_finite() {
            format!("{:.2} to {:.2}", self.low, self.high)
        } else {
            "no interval".to_owned()
        }
    }
}

/// The ratio and its interval: `1.20 (1.11 to 1.30)`.
impl fmt::Display for Ratio {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.2} ({})", self.ratio, self.interval())
    }
}

/// The variance of the median of some logarithms, and its degrees of freedom.
struct Noise {
    variance: f64,
    freedom: f64,
}

/// The variance of the logarithms; `None` of a single one, or if one has no logarithm.
fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let count = values.len() as f64;
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares: f64 = logarithms.iter().map(|one| (one - mean) * (one - mean)).sum();
    Some(squares / (count - 1.0))
}

/// By which factor the ratio of the medians may be off in either direction, in `share` of the cases.
fn factor(values: &[f64], base: &[f64], share: f64) -> Option<f64> {
    let (one, other) = (variance(values), variance(base));
    let noise = |values: &[f64], own: Option<f64>| {
        let count = values.len() as f64;
        let variance = own.or(one).or(other)? * 3.0 / (count + 2.0);
        Some(Noise { variance, freedom: if own.is_some() { count - 1.0 } else { f64::INFINITY } })
    };
    let is_positive = |values: &[f64]| values.iter().all(|value| *value > 0.0);
    if !is_positive(values) || !is_positive(base) {
        return None;
    }
    let (above, below) = (noise(values, one)?, noise(base, other)?);
    let sum = above.variance + below.variance;
    if sum == 0.0 {
        return Some(1.0);
    }
    // A side that borrowed its variance brings no freedom of its own: that of the lender counts.
    let part = |noise: &Noise| noise.variance * noise.variance / noise.freedom;
    let freedom = match (one, other) {
        (Some(_), Some(_)) => sum * sum / (part(&above) + part(&below)),
        _ => above.freedom.min(below.freedom),
    };
    let distance = student::distance_of(share, freedom.floor().max(1.0) as u32);
    Some((distance * sum.sqrt()).exp())
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        _ if values.is_empty() => None,
        0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

/// Puts `items` into a random order, each equally likely.
pub fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests;
