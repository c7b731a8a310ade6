//! Comparing passwords without telling how much of a guess was right.

use std::hint::black_box;

/// True if both are equal. The time taken depends on the length of `given` only.
pub fn equal(given: &[u8], expected: &[u8]) -> bool {
    let mut difference = u8::from(given.len() != expected.len());
    for (index, byte) in given.iter().enumerate() {
        // `expected` is never empty: the configuration refuses an empty password.
        let other = expected.get(index % expected.len().max(1)).copied().unwrap_or(0);
        // The black box keeps the compiler from leaving the loop at the first difference.
        difference = black_box(difference | (byte ^ other));
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::equal;

    #[test]
    fn only_the_password_is_equal_to_the_password() {
        assert!(equal(b"secret", b"secret"));
        for guess in [&b""[..], b"s", b"secre", b"Secret", b"secreT", b"secretsecret", b"secret\0"]
        {
            assert!(!equal(guess, b"secret"), "{}", guess.escape_ascii());
        }
        assert!(!equal(b"x", b""));
    }
}
