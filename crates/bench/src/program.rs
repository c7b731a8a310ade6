//! Which program this is, so that what it measured is not taken for another's.

use std::fs;
use std::sync::OnceLock;

/// A checksum of the file that this program was started from, as hexadecimal digits; empty if it
/// cannot be read. It is computed once.
pub fn checksum() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let contents = std::env::current_exe().and_then(fs::read);
        contents.map_or_else(|_| String::new(), |bytes| format!("{:016x}", sum(&bytes)))
    })
}

/// A checksum in the manner of FNV-1a, over words of eight bytes, the last filled with zeros, and the
/// length. It tells builds apart; it is no protection against anybody.
fn sum(bytes: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |word: u64| sum = (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        add(u64::from_le_bytes(word));
    }
    add(bytes.len() as u64);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_tells_contents_and_lengths_apart() {
        let all = [&b""[..], b"a", b"a\0", b"b", b"12345678", b"123456780", b"0123456712345678"];
        let sums: std::collections::BTreeSet<u64> = all.into_iter().map(sum).collect();
        assert_eq!(sums.len(), all.len());
        assert_eq!(checksum().len(), 16);
    }
}
