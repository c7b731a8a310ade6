//! Decompressing what LZF has compressed.
//!
//! A byte below 32 is followed by one more bytes than it says, as they are. Any other byte refers back: its upper
//! three bits are the length (7: a byte with more of it follows), its lower five bits and the next byte
//! the distance.

/// What so many bytes can become at most: a reference of three bytes makes 264.
pub fn size_max(compressed_size: usize) -> usize {
    compressed_size.saturating_mul(264 / 3 + 1)
}

/// The bytes, of which there must be exactly so many.
pub fn decompressed(input: &[u8], size: usize) -> Option<Vec<u8>> {
    if size > size_max(input.len()) {
        return None;
    }
    let mut output = Vec::with_capacity(size);
    let mut input = input.iter().copied();
    while let Some(control) = input.next() {
        let count = usize::from(control);
        if control < 32 {
            for _ in 0..=count {
                output.push(input.next()?);
            }
        } else {
            let mut length = count >> 5;
            if length == 7 {
                length += usize::from(input.next()?);
            }
            let distance = ((count & 31) << 8) + usize::from(input.next()?) + 1;
            let start = output.len().checked_sub(distance)?;
            for at in start..start + length + 2 {
                let byte = output[at];
                output.push(byte);
            }
        }
        if output.len() > size {
            return None;
        }
    }
    (output.len() == size).then_some(output)
}

#[cfg(test)]
mod tests {
    use super::decompressed;

    #[test]
    fn what_is_compressed_comes_back_and_what_is_damaged_does_not() {
        let compressed = b"\x01ab\xe0\x03\x01\x00x";
        let expected = b"abababababababx".to_vec();
        assert_eq!(expected.len(), 15);
        assert_eq!(decompressed(compressed, 15), Some(expected));
        for size in [0, 14, 16, usize::MAX] {
            assert_eq!(decompressed(compressed, size), None, "{size}");
        }
        assert_eq!(decompressed(b"\x20\x05", 3), None, "nothing is so far back");
        assert_eq!(decompressed(b"\x05ab", 6), None);
    }
}
