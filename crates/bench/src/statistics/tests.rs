//! Intervals against noise of known shape.

use super::*;

#[test]
fn equal_samples_are_even_and_distant_ones_are_not() {
    let near: Vec<f64> = (0..9).map(|at| 100.0 + f64::from(at)).collect();
    let far: Vec<f64> = near.iter().map(|value| value * 1.3).collect();
    let same = Ratio::of(&near, &near).unwrap();
    assert!(same.is_even() && same.ratio == 1.0, "{same:?}");
    let apart = Ratio::of(&far, &near).unwrap();
    assert!(!apart.is_even() && (apart.ratio - 1.3).abs() < 1e-9, "{apart:?}");
    assert!(apart.low < apart.ratio && apart.ratio < apart.high);
    let among = Ratio::one_of(100, &far, &near).unwrap();
    assert!(among.ratio == apart.ratio && among.low < apart.low && among.high > apart.high);
}

#[test]
fn nothing_has_no_ratio_and_one_measurement_no_interval() {
    assert_eq!(Ratio::of(&[], &[1.0]), None);
    assert_eq!(Ratio::of(&[1.0], &[]), None);
    assert_eq!(Ratio::of(&[1.0], &[0.0]), None);
    let single = Ratio::of(&[2.0], &[1.0]).unwrap();
    assert_eq!((single.ratio, single.to_string().as_str()), (2.0, "2.00 (no interval)"));
    assert!(single.is_even());
    // Zero has no logarithm.
    assert_eq!(Ratio::of(&[0.0, 1.0, 2.0], &[1.0, 1.1]).unwrap().high, f64::INFINITY);
    // One against several: as wide as theirs, and by the root of three wider.
    let several = [1.0, 1.1, 1.2];
    let one = Ratio::of(&[2.2], &several).unwrap();
    let many = Ratio::of(&several.map(|value| value * 2.0), &several).unwrap();
    assert!(one.high.is_finite() && one.high > many.high, "{one:?} {many:?}");
    assert_eq!(Ratio::of(&[2.0, 2.0], &[1.0, 1.0]).unwrap(), Ratio::exact(2.0, 1.0));
    assert_eq!(median(&[3.0, 1.0]), Some(2.0));
}

/// Noise of a machine: a factor on every measurement.
type Factor = fn(&mut Random) -> f64;

/// Even noise of 5 % on both sides.
fn even(random: &mut Random) -> f64 {
    0.95 + 0.1 * random.fraction()
}

/// Noise with a bell: the sum of twelve even ones.
fn bell(random: &mut Random) -> f64 {
    (0.03 * ((0..12).map(|_| random.fraction()).sum::<f64>() - 6.0)).exp()
}

/// One measurement in seven was disturbed, and took up to a third longer.
fn tail(random: &mut Random) -> f64 {
    let disturbed = if random.below(7) == 0 { 0.3 * random.fraction() } else { 0.0 };
    1.0 + 0.01 * random.fraction() + disturbed
}

/// Runs of `rounds` measurements of 1.2 and of 1, again and again: in how many of 1000 pairs the
/// interval holds the ratio.
fn held(rounds: usize, noise: Factor) -> usize {
    let mut random = Random::new(rounds as u64);
    let mut run =
        |centre: f64| -> Vec<f64> { (0..rounds).map(|_| centre * noise(&mut random)).collect() };
    let holds = |ratio: Ratio| (ratio.low..=ratio.high).contains(&1.2);
    (0..1000).filter(|_| holds(Ratio::of(&run(1.2), &run(1.0)).unwrap())).count()
}

#[test]
fn an_interval_holds_the_truth_as_often_as_it_says() {
    for (name, noise) in [("even", even as Factor), ("bell", bell), ("tail", tail)] {
        for rounds in [2, 3, 5, 9] {
            let held = held(rounds, noise);
            assert!(held >= 940, "{name}, {rounds} rounds: {held} of 1000");
        }
    }
}

/// What the laboratory promises of its tables: a second run contradicts none of a hundred ratios of
/// the first, in 95 of 100 cases.
#[test]
fn two_runs_of_a_hundred_rows_seldom_contradict_each_other() {
    for noise in [even as Factor, bell, tail] {
        let mut random = Random::new(7);
        let mut run = || -> Vec<f64> { (0..5).map(|_| noise(&mut random)).collect() };
        let mut is_clean =
            || (0..100).all(|_| Ratio::one_of(100, &run(), &run()).expect("values").is_even());
        let clean = (0..100).filter(|_| is_clean()).count();
        assert!(clean >= 90, "{clean} of 100");
    }
}

/// A wide interval is no excuse: what is twice as slow is seen.
#[test]
fn a_difference_that_is_larger_than_the_noise_is_found() {
    let mut random = Random::new(3);
    let mut run =
        |centre: f64| -> Vec<f64> { (0..5).map(|_| centre * bell(&mut random)).collect() };
    let found = (0..200).filter(|_| Ratio::of(&run(1.2), &run(1.0)).unwrap().low > 1.0).count();
    assert!(found >= 190, "{found} of 200");
    let three = Ratio::of(&[2.0, 2.04, 1.96], &[1.0, 1.02, 0.98]).unwrap();
    assert!(three.low > 1.8, "{three:?}");
}

#[test]
fn shuffling_loses_nothing_and_makes_all_orders_equally_likely() {
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
