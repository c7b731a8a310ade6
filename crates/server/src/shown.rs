//! What clients send, shown in sentences.

/// Bytes that are shown at most.
pub const SIZE_MAX: usize = 128;

/// Bytes of a client as the part of a sentence: cut, and without control characters.
pub fn shown(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(SIZE_MAX)];
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sent_is_cut_and_cleaned_before_it_is_shown() {
        assert_eq!(shown(b"a\r\nb"), "a  b");
        assert_eq!(shown(&[b'x'; 500]).len(), SIZE_MAX);
    }
}
