//! Requests of keys whatever they hold.

use super::{Random, lists, sets, sorted_sets};

/// Templates with places for a key of any type `kK`.
pub const TEMPLATES: &[&str] = &[
    "RENAME kK kK",
    "RENAME kK kK",
    "RENAMENX kK kK",
    "RENAMENX kK kK",
    "COPY kK kK",
    "COPY kK kK REPLACE",
    "COPY kK kK replace",
    "COPY kK kK kOPTION",
    "COPY kK kK kOPTION kOPTION",
    "COPY kK kK DB kDATABASE",
    "COPY kK kK DB kDATABASE REPLACE",
    "MOVE kK kDATABASE",
    "MOVE kK kDATABASE",
    "SELECT kDATABASE",
    "SELECT kDATABASE",
    "SWAPDB kDATABASE kDATABASE",
    "SWAPDB kDATABASE kDATABASE",
    "SWAPDB 0 1",
    "DBSIZE",
    "SET kK V",
    "GET kK",
    "HSET kK V V V V",
    "HGETALL kK",
    "HLEN kK",
    "SADD kK sM sM",
    "SREM kK sM sM",
    "SMEMBERS kK",
    "SCARD kK",
    "RPUSH kK lE lE lE",
    "LPUSH kK lE",
    "LRANGE kK 0 -1",
    "ZADD kK 1 V 2 V 3 V",
    "ZRANGE kK 0 -1 WITHSCORES",
    "ZREM kK V V",
    "ZCOUNT kK -inf +inf",
    "EXPIRE kK S",
    "EXPIREAT kK T",
    "PEXPIRETIME kK",
    "TYPE kK",
    "DEL kK",
    "EXISTS kK kK",
    "MULTI",
    "EXEC",
    "EXEC",
    "WATCH kK",
];

/// What a word of these templates stands for.
pub fn word(random: &mut Random, word: &str) -> Option<Vec<Vec<u8>>> {
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let arg = match word {
        "kK" => match random.next() % 6 {
            0 => random.one(super::HASHES),
            1 => random.one(lists::KEYS),
            2 => random.one(sets::KEYS),
            3 => random.one(sorted_sets::KEYS),
            _ => random.one(super::KEYS),
        },
        "kDATABASE" => random.one(&[&b"0"[..], b"0", b"1", b"2", b"15", b"16", b"x"]),
        "kOPTION" => {
            return Some(words(
                random.one(&["REPLACE", "DB 0", "DB 2", "DB 99", "DB x", "db -1", "DB", "x"]),
            ));
        }
        _ => return None,
    };
    Some(vec![arg.to_vec()])
}
