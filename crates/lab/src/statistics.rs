//! What a few measurements say: medians, and how sure a ratio of two medians is.

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Samples drawn anew from the measurements, for an interval.
const RESAMPLE_COUNT: usize = 2000;

/// The ratio of two medians, with the interval that holds it in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio of the medians.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Ratio {
    /// `values` in units of `base`. The interval is the bootstrap's: both are drawn from again, with
    /// replacement, 2000 times, and the middle 95 % of the ratios count. With fewer than five values
    /// on a side it is too narrow; with one it is a point. `None` if either is empty or the base is
    /// zero.
    ///
    /// # Example
    /// ```
    /// use everleaf_lab::statistics::Ratio;
    /// let ratio = Ratio::of(&[20.0, 22.0, 21.0], &[10.0, 11.0, 10.5]).expect("values");
    /// assert_eq!(ratio.ratio, 2.0);
    /// assert!(ratio.low >= 20.0 / 11.0 && ratio.high <= 22.0 / 10.0);
    /// ```
    pub fn of(values: &[f64], base: &[f64]) -> Option<Self> {
        let (above, below) = (median(values)?, median(base)?);
        if below == 0.0 {
            return None;
        }
        let mut random = Random::new(0x5eed);
        let mut resampled = |from: &[f64]| {
            let mut one = || from[random.below(from.len() as u64) as usize];
            let drawn: Vec<f64> = (0..from.len()).map(|_| one()).collect();
            median(&drawn).expect("as many as were there")
        };
        let mut ratios: Vec<f64> =
            (0..RESAMPLE_COUNT).map(|_| resampled(values) / resampled(base)).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios[(share * (RESAMPLE_COUNT - 1) as f64).round() as usize];
        Some(Ratio { ratio: above / below, low: at(0.025), high: at(0.975) })
    }

    /// Whether 1 lies in the interval, so that no difference was shown.
    pub fn is_even(&self) -> bool {
        (self.low..=self.high).contains(&1.0)
    }
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
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_samples_are_even_and_distant_ones_are_not() {
        let near: Vec<f64> = (0..9).map(|at| 100.0 + f64::from(at)).collect();
        let far: Vec<f64> = near.iter().map(|value| value * 1.3).collect();
        let same = Ratio::of(&near, &near).unwrap();
        assert!(same.is_even() && same.ratio == 1.0, "{same:?}");
        let apart = Ratio::of(&far, &near).unwrap();
        assert!(!apart.is_even() && (apart.ratio - 1.3).abs() < 1e-9, "{apart:?}");
        assert!(apart.low <= apart.ratio && apart.ratio <= apart.high);
        assert_eq!(Ratio::of(&near, &near), Some(same), "the same values, the same interval");
    }

    #[test]
    fn nothing_has_no_ratio() {
        assert_eq!(Ratio::of(&[], &[1.0]), None);
        assert_eq!(Ratio::of(&[1.0], &[]), None);
        assert_eq!(Ratio::of(&[1.0], &[0.0]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
    }

    /// The interval must hold the true ratio about as often as it says.
    #[test]
    fn nine_rounds_give_an_interval_that_holds_the_truth_nearly_always() {
        let mut random = Random::new(1);
        let mut noisy = |centre: f64| -> Vec<f64> {
            (0..9).map(|_| centre * (0.95 + 0.1 * random.fraction())).collect()
        };
        let held = (0..200)
            .filter(|_| {
                let ratio = Ratio::of(&noisy(1.2), &noisy(1.0)).unwrap();
                (ratio.low..=ratio.high).contains(&1.2)
            })
            .count();
        assert!(held >= 180, "{held} of 200");
    }

    #[test]
    fn shuffling_loses_nothing_and_makes_every_order_as_likely_as_any_other() {
        let mut random = Random::new(4);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            shuffle(&mut items, &mut random);
            *counts.entry(items).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
