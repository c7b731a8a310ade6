//! What two runs are compared by after a recovery.

use everleaf_lab_designs::openings::Openings;

use super::finding::Series;

/// The openings after a crash, in dependent misses.
pub(super) fn series(openings: &Openings, design: &str, keys: u64) -> Series {
    Series {
        name: format!("{design} recovery of {keys} keys"),
        unit: "dm".to_owned(),
        more_is_better: false,
        is_exact: false,
        is_disturbed: openings.is_noisy,
        values: openings.crashed_misses.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_is_compared_in_misses_and_noisy_if_they_change() {
        let mut openings = Openings::default();
        openings.add_crashed(1e-6, 90.0, 100.0);
        let one = series(&openings, "a", 5);
        assert_eq!((one.unit.as_str(), one.is_disturbed), ("dm", false));
        assert!((one.values[0] - 1000.0 / 95.0).abs() < 1e-9, "{one:?}");
        openings.add_crashed(1e-6, 100.0, 130.0);
        assert!(series(&openings, "a", 5).is_disturbed);
    }
}
