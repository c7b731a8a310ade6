//! Checksums of small records.

/// CRC-32C of `words` in their byte order in the file.
pub fn crc32c_of_words(words: &[u64]) -> u32 {
    words.iter().fold(0, |crc, word| crc32c::crc32c_append(crc, &word.to_le_bytes()))
}

/// CRC-8 (polynomial 0x2F, initial value 0xFF): finds every change confined to eight bits in a row,
/// so every damaged byte.
pub fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0xFF, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x2F })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_reproduced() {
        // The check values of the catalogue of CRCs for the input "123456789" (8H2F has its output
        // inverted, which detects nothing more and is left out here).
        assert_eq!(crc8(b"123456789") ^ 0xFF, 0xDF);
        assert_eq!(crc32c::crc32c(b"123456789"), 0xE306_9283);
    }

    #[test]
    fn words_are_summed_in_file_order() {
        let words = [0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09];
        let bytes: Vec<u8> = (1..=16).collect();
        assert_eq!(crc32c_of_words(&words), crc32c::crc32c(&bytes));
    }

    #[test]
    fn every_change_of_one_byte_is_seen() {
        let record = *b"\xa5\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a";
        let sum = crc8(&record);
        for index in 0..record.len() {
            for change in 1..=255 {
                let mut other = record;
                other[index] ^= change;
                assert_ne!(crc8(&other), sum, "byte {index} changed by {change:#x}");
            }
        }
    }
}
