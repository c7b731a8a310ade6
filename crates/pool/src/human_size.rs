//! Sizes as people read them.

/// `bytes` in the largest unit of which there is at least one: `512 KiB`, `8.3 MiB`, `1 byte`. Units are
/// powers of 1024; one decimal place, and none for a whole number.
///
/// # Example
///
/// ```
/// use everleaf_pool::human_size;
///
/// assert_eq!(human_size(512 << 10), "512 KiB");
/// assert_eq!(human_size(8_703_181), "8.3 MiB");
/// ```
#[must_use]
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} {}", if bytes == 1 { "byte" } else { "bytes" });
    }
    let mut unit = (bytes.ilog2() / 10) as usize;
    // What would be shown as 1024 of a unit is one of the next.
    let mut tenths = tenths_of(bytes, unit);
    if tenths >= 10 * 1024 {
        unit += 1;
        tenths = tenths_of(bytes, unit);
    }
    let name = UNITS[unit - 1];
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        rest => format!("{}.{rest} {name}", tenths / 10),
    }
}

/// Tenths of the unit of 1024 to the power of `unit` in `bytes`, rounded.
fn tenths_of(bytes: u64, unit: usize) -> u64 {
    let size = 1_u128 << (10 * unit);
    ((u128::from(bytes) * 10 + size / 2) / size) as u64
}

#[cfg(test)]
mod tests {
    use super::human_size;

    #[test]
    fn sizes_are_shown_in_units_of_people() {
        let expected = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (9_999, "9.8 KiB"),
            (64 << 10, "64 KiB"),
            ((1 << 20) - 1, "1 MiB"),
            (1 << 30, "1 GiB"),
            (100 << 30, "100 GiB"),
            (1 << 40, "1 TiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (bytes, text) in expected {
            assert_eq!(human_size(bytes), text);
        }
    }
}
