//! Requests of lists.

use super::Random;

/// Templates with places for a key `lK`, an element `lE`, a side `lS`, a count `lN`, a time to wait `lT`, and
/// options of `LPOS`.
pub const TEMPLATES: &[&str] = &[
    "LPUSH lK lE",
    "LPUSH lK lE lE lE",
    "RPUSH lK lE",
    "RPUSH lK lE lE lE lE",
    "RPUSH lK lE lE lE lE lE lE lE",
    "LPUSHX lK lE",
    "RPUSHX lK lE lE",
    "LPOP lK",
    "RPOP lK",
    "LPOP lK lN",
    "RPOP lK lN",
    "LLEN lK",
    "LINDEX lK I",
    "LINDEX lK lN",
    "LRANGE lK 0 -1",
    "LRANGE lK 0 -1",
    "LRANGE lK I I",
    "LSET lK I lE",
    "LSET lK lN lE",
    "LTRIM lK I I",
    "LTRIM lK 1 -2",
    "LREM lK lN lE",
    "LREM lK 0 lE",
    "LREM lK -1 lE",
    "LREM lK I lE",
    "LINSERT lK BEFORE lE lE",
    "LINSERT lK after lE lE",
    "LINSERT lK lS lE lE",
    "LPOS lK lE",
    "LPOS lK lE lOPTION",
    "LPOS lK lE lOPTION lOPTION",
    "LMOVE lK lK lS lS",
    "LMOVE lK lK LEFT RIGHT",
    "RPOPLPUSH lK lK",
    "LMPOP 1 lK lS",
    "LMPOP 2 lK lK lS COUNT lN",
    "LMPOP lN lK lK LEFT",
    "BLPOP lK lK lT",
    "BRPOP lK lT",
    "BLMOVE lK lK lS lS lT",
    "BRPOPLPUSH lK lK lT",
    "BLMPOP lT 2 lK lK lS COUNT lN",
    "EXPIRE lK S",
    "EXPIREAT lK T",
    "TYPE lK",
    "DEL lK",
    "SCAN 0 TYPE list",
];

pub const KEYS: &[&[u8]] = &[b"list:1", b"list:2", b"list:3"];
const ELEMENTS: &[&[u8]] =
    &[b"a", b"b", b"c", b"1", b"", b"\x00\r\n", b"an element of some length"];
const COUNTS: &[&[u8]] = &[b"0", b"1", b"2", b"3", b"-2", b"100", b"-1", b"x", b""];

/// What a word of these templates stands for.
pub fn word(random: &mut Random, word: &str) -> Option<Vec<Vec<u8>>> {
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let arg = match word {
        "lK" if random.is(6) => random.one(super::KEYS),
        "lK" => random.one(KEYS),
        "lE" if random.is(5) => random.one(super::VALUES),
        "lE" => random.one(ELEMENTS),
        "lN" => random.one(COUNTS),
        // Nobody else is there to be waited for.
        "lT" => random.one::<&[u8]>(&[
            b"0.001", b"0.001", b"0.001", b"1e-3", b".001", b"-1", b"-0.5", b"x", b"", b"inf",
            b" 1", b"1e300", b"nan",
        ]),
        "lS" => return Some(words(random.one(&["LEFT", "RIGHT", "left", "Right", "junk"]))),
        "lOPTION" => {
            return Some(words(random.one(&[
                "RANK 1",
                "RANK 2",
                "RANK -1",
                "rank -2",
                "RANK 0",
                "COUNT 0",
                "COUNT 2",
                "COUNT -1",
                "MAXLEN 2",
                "MAXLEN 0",
                "MAXLEN -1",
                "RANK x",
                "junk",
                "COUNT",
                "RANK -9223372036854775808",
            ])));
        }
        _ => return None,
    };
    Some(vec![arg.to_vec()])
}
