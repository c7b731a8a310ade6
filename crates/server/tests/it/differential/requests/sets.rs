//! Requests of sets.

use super::Random;

/// Templates with places for a key of a set `sK`, a member `sM`, a count `sN` and the options of `SINTERCARD`.
pub const TEMPLATES: &[&str] = &[
    "SADD sK sM",
    "SADD sK sM sM",
    "SADD sK sM sM sM sM sM",
    "SADD sK sM sM sM",
    "SREM sK sM",
    "SREM sK sM sM sM",
    "SMEMBERS sK",
    "SMEMBERS sK",
    "SISMEMBER sK sM",
    "SMISMEMBER sK sM sM sM",
    "SCARD sK",
    "SPOP sK",
    "SPOP sK sN",
    "SRANDMEMBER sK",
    "SRANDMEMBER sK C",
    "SSCAN sK 0",
    "SSCAN sK 0 SCANOPTION",
    "SSCAN sK I SCANOPTION SCANOPTION",
    "SMOVE sK sK sM",
    "SMOVE sK sK sM",
    "SINTER sK sK",
    "SINTER sK sK sK",
    "SUNION sK sK",
    "SUNION sK sK sK",
    "SDIFF sK sK",
    "SDIFF sK sK sK",
    "SINTERSTORE sK sK sK",
    "SUNIONSTORE sK sK sK",
    "SDIFFSTORE sK sK sK",
    "SINTERCARD 1 sK",
    "SINTERCARD 2 sK sK",
    "SINTERCARD 2 sK sK LIMIT sN",
    "SINTERCARD sN sK sK LIMIT I",
    "EXPIRE sK S",
    "EXPIREAT sK T",
    "TYPE sK",
    "DEL sK",
    "SCAN 0 TYPE set",
];

pub const KEYS: &[&[u8]] = &[b"set:1", b"set:2", b"set:3"];
const MEMBERS: &[&[u8]] =
    &[b"1", b"2", b"-7", b"x", b"y", b"", b"a member", b"01", b"\x00\r\n", b"9223372036854775807"];
const COUNTS: &[&[u8]] = &[b"0", b"1", b"2", b"100", b"100", b"-1", b"x", b""];

/// What a word of these templates stands for.
pub fn word(random: &mut Random, word: &str) -> Option<Vec<Vec<u8>>> {
    let arg = match word {
        "sK" if random.is(6) => random.one(super::KEYS),
        "sK" => random.one(KEYS),
        "sM" if random.is(10) => random.one(super::VALUES),
        "sM" => random.one(MEMBERS),
        "sN" => random.one(COUNTS),
        _ => return None,
    };
    Some(vec![arg.to_vec()])
}
