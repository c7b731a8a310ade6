//! A number for each name, so that what is chosen by it lies anywhere.

/// A number that spreads what is chosen by it (FNV-1a).
pub fn spread(seed: u64, name: &str) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
