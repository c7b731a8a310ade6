//! Passwords: kept as SHA-256, compared without telling how much of a guess was right.

use std::hint::black_box;

use sha2::{Digest, Sha256};

/// The SHA-256 of a password.
pub type Hash = [u8; 32];

/// The longest password. A longer one is none: it would be hashed as long as it is, by a client that need not know any,
/// and within a transaction while everybody waits.
pub const SIZE_MAX: usize = 64 << 10;

/// The hash of a password; `None` if it is longer than any is.
pub fn hash(password: &[u8]) -> Option<Hash> {
    (password.len() <= SIZE_MAX).then(|| Sha256::digest(password).into())
}

/// True if both are equal. The time taken does not depend on where they differ.
pub fn equal(one: &Hash, other: &Hash) -> bool {
    let mut difference = 0;
    for (a, b) in one.iter().zip(other) {
        // The black box keeps the compiler from leaving the loop at the first difference.
        difference = black_box(difference | (a ^ b));
    }
    difference == 0
}

/// A hash as 64 hexadecimal digits.
pub fn digits(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A hash from 64 hexadecimal digits, all letters small.
pub fn parse_hash(digits: &[u8]) -> Option<Hash> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut hash = Hash::default();
    if digits.len() != 2 * hash.len() {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_is_equal_to_the_password() {
        let secret = hash(b"secret").unwrap();
        assert!(equal(&secret, &hash(b"secret").unwrap()));
        for guess in [&b""[..], b"s", b"secre", b"Secret", b"secreT", b"secretsecret", b"secret\0"]
        {
            assert!(!equal(&hash(guess).unwrap(), &secret), "{}", guess.escape_ascii());
        }
    }

    #[test]
    fn a_hash_is_the_known_one_and_its_digits_are_read_back() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digits(&hash(b"abc").unwrap()), text);
        assert_eq!(parse_hash(text.as_bytes()), hash(b"abc"));
        for bad in ["", &text[1..], &text.to_uppercase(), &text.replace('b', "g")] {
            assert_eq!(parse_hash(bad.as_bytes()), None, "{bad}");
        }
    }
}
