//! Student's distribution: how far off a mean may be whose spread is known from a few measurements
//! only.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Halvings of an interval until two neighbouring numbers are left.
const HALVING_COUNT: u32 = 60;

/// The share of the distribution with `freedom` degrees of freedom, at least 1, that lies less than
/// `angle` from 0 on either side, where the distance is the tangent of the angle times the root of
/// `freedom`. For a whole number of degrees this is a sum of a few powers.
fn share_within(angle: f64, freedom: u32) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let (mut term, mut sum) = (if is_odd { cosine } else { 1.0 }, 0.0);
    for step in 0..freedom / 2 {
        sum += term;
        let (above, below) = (2 * step + 1 + u32::from(is_odd), 2 * step + 2 + u32::from(is_odd));
        term *= cosine * cosine * f64::from(above) / f64::from(below);
    }
    if is_odd { (angle + sine * sum) * FRAC_2_PI } else { sine * sum }
}

/// How far from 0, on either side, `share` of the distribution lies.
pub(super) fn distance_of(share: f64, freedom: u32) -> f64 {
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..HALVING_COUNT {
        let middle = (low + high) / 2.0;
        if share_within(middle, freedom) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.tan() * f64::from(freedom).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the tables of the textbooks.
    #[test]
    fn distances_are_those_of_the_tables() {
        let known = [
            (0.95, 1, 12.706),
            (0.95, 2, 4.303),
            (0.95, 3, 3.182),
            (0.95, 4, 2.776),
            (0.95, 7, 2.365),
            (0.95, 16, 2.120),
            (0.95, 120, 1.980),
            (0.99, 4, 4.604),
            (0.999, 10, 4.587),
            (0.5, 5, 0.727),
        ];
        for (share, freedom, distance) in known {
            let found = distance_of(share, freedom);
            assert!((found - distance).abs() < 6e-4, "{share} {freedom}: {found}");
        }
    }
}
