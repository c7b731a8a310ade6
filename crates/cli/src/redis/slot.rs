//! The slot of a key: CRC16 (XMODEM) of the key, or of what stands in its first braces, modulo 16,384.

/// How many slots there are.
pub const SLOT_COUNT: usize = 16_384;

/// The slot of a key.
pub fn slot_of(key: &[u8]) -> usize {
    usize::from(crc16(hashed_part(key))) % SLOT_COUNT
}

/// What stands between the first opening brace and the first closing one behind it, or all if that is nothing.
fn hashed_part(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').map(|close| &rest[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Polynomial 0x1021, from 0, not reflected.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of XMODEM, and slots that `CLUSTER KEYSLOT` tells.
    #[test]
    fn sums_and_slots_are_those_of_the_protocol() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
        for (key, slot) in [("foo", 12_182), ("bar", 5061), ("hello", 866), ("", 0)] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn the_first_braces_with_something_in_them_decide() {
        for (key, part) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo}{bar", "foo}{bar"),
            ("}{a}", "a"),
            ("{", "{"),
            ("", ""),
        ] {
            assert_eq!(hashed_part(key.as_bytes()), part.as_bytes(), "{key}");
        }
    }
}
