//! Requests that sort.

use super::{Random, lists, sets, sorted_sets};

/// Templates with places for a key of a collection `oK`, a pattern `oP`, and options `oO`.
pub const TEMPLATES: &[&str] = &[
    "SORT oK",
    "SORT oK ALPHA",
    "SORT oK DESC",
    "SORT oK oO",
    "SORT oK oO oO",
    "SORT oK oO oO oO",
    "SORT oK ALPHA oO oO",
    "SORT_RO oK ALPHA oO oO",
    "SORT_RO oK oO oO",
    "SORT oK BY oP GET # GET oP",
    "SORT oK BY oP ALPHA GET # oO",
    "SORT oK ALPHA STORE sorted",
    "SORT oK ALPHA GET oP STORE sorted",
    "LRANGE sorted 0 -1",
    "TYPE sorted",
    "RPUSH oK 3 1 2 10",
    "RPUSH oK lE lE lE",
    "SADD oK 5 4 -1 1.5",
    "SADD oK sM sM sM",
    "ZADD oK 1 c 2 b 3 a 4 1",
    "SET w_1 5",
    "SET w_2 1",
    "SET w_3 V",
    "SET w_a 7",
    "SET w_b F",
    "HSET h_1 f 3",
    "HSET h_2 f V",
    "HSET h_b f 9",
    "DEL oK",
    "MULTI",
    "EXEC",
];

/// What a word of these templates stands for.
pub fn word(random: &mut Random, word: &str) -> Option<Vec<Vec<u8>>> {
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let patterns = ["w_*", "h_*->f", "#", "w_*_*", "nosort", "*", "h_*->", "no*->f", "->*"];
    let arg = match word {
        "oK" => match random.next() % 4 {
            0 => random.one(lists::KEYS),
            1 => random.one(sets::KEYS),
            2 => random.one(sorted_sets::KEYS),
            _ => random.one(super::KEYS),
        },
        "oP" => random.one(&patterns).as_bytes(),
        "oO" => {
            return Some(match random.next() % 8 {
                0 => vec![b"BY".to_vec(), random.one(&patterns).as_bytes().to_vec()],
                1 => vec![b"get".to_vec(), random.one(&patterns).as_bytes().to_vec()],
                2 => words(random.one(&["LIMIT 1 2", "LIMIT 0 1", "LIMIT -1 5", "LIMIT 1 -1"])),
                3 => words(random.one(&["LIMIT x 1", "LIMIT 1", "LIMIT 9223372036854775807 1"])),
                4 => words(random.one(&["STORE sorted", "STORE", "BY", "junk"])),
                _ => words(random.one(&["ASC", "desc", "ALPHA"])),
            });
        }
        _ => return None,
    };
    Some(vec![arg.to_vec()])
}
