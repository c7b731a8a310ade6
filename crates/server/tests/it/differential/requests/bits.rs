//! Requests of strings as bits and as bytes.

use super::Random;

/// Templates with places for a key of a string `bK`, an offset `bO`, a bit `bB`, the kind of a field `bT`, a
/// number `bN`, a unit `bU`, an operation `bP`, and options of `LCS` `bL`.
pub const TEMPLATES: &[&str] = &[
    "SET bK bV",
    "SET bK bV",
    "APPEND bK bV",
    "GET bK",
    "GET bK",
    "SETRANGE bK bN V",
    "SETRANGE bK I V",
    "GETRANGE bK I I",
    "SETBIT bK bO bB",
    "SETBIT bK bO bB",
    "GETBIT bK bO",
    "BITCOUNT bK",
    "BITCOUNT bK bN bN",
    "BITCOUNT bK bN bN bU",
    "BITCOUNT bK I I bU",
    "BITPOS bK bB",
    "BITPOS bK bB bN",
    "BITPOS bK bB bN bN",
    "BITPOS bK bB bN bN bU",
    "BITPOS bK bB I I bU",
    "BITOP bP bK bK bK",
    "BITOP bP bK bK",
    "BITOP NOT bK bK",
    "BITOP bP bK bK bK bK",
    "BITFIELD bK bF",
    "BITFIELD bK bF bF",
    "BITFIELD bK bF bF bF",
    "BITFIELD bK bF bF bF bF",
    "BITFIELD_RO bK bF",
    "BITFIELD_RO bK GET bT bO GET bT bO",
    "LCS bK bK",
    "LCS bK bK bL",
    "LCS bK bK bL bL",
    "LCS bK bK IDX bL bL",
    "EXPIRE bK S",
    "DEL bK",
    "WATCH bK",
    "MULTI",
    "EXEC",
];

const KEYS: &[&[u8]] = &[b"bits:1", b"bits:2", b"bits:3"];
const VALUES: &[&[u8]] = &[
    b"",
    b"\x00\x00\x00",
    b"\xff\xff\xff",
    b"\xff\xf0\x00",
    b"\x00\xff\xf0\x01\x80",
    b"foobar",
    b"ohmytext",
    b"mynewtext",
    b"12345",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
    b"a value that is a little longer than thirty-two bytes are, so that words are used",
];
const OFFSETS: &[&[u8]] = &[
    b"0",
    b"1",
    b"7",
    b"8",
    b"15",
    b"100",
    b"1000",
    b"-1",
    b"x",
    b"4294967296",
    b"",
    b"#1",
    b"99999999999999999999",
    b"9223372036854775807",
    b"01",
];
const PLACES: &[&[u8]] = &[
    b"0",
    b"1",
    b"3",
    b"7",
    b"8",
    b"100",
    b"#0",
    b"#1",
    b"#7",
    b"#",
    b"-1",
    b"#-1",
    b"x",
    b"4294967296",
    b"#68719476736",
];
const FIELDS: &[&[u8]] = &[
    b"u8", b"i8", b"u1", b"i1", b"u2", b"i5", b"u16", b"i64", b"u63", b"u64", b"i65", b"i0", b"x8",
    b"u", b"I8", b"i08", b"u33",
];
const NUMBERS: &[&[u8]] = &[
    b"0", b"1", b"-1", b"2", b"-2", b"3", b"5", b"-5", b"8", b"20", b"-100", b"127", b"128",
    b"255", b"x",
];

fn field(random: &mut Random) -> Vec<Vec<u8>> {
    let number = if random.is(20) { super::INTEGERS } else { NUMBERS };
    let mut parts: Vec<&[u8]> = match random.next() % 5 {
        0 => vec![b"GET"],
        1 => vec![b"set"],
        2 | 3 => vec![b"INCRBY"],
        _ => vec![b"OVERFLOW", random.one(&[&b"SAT"[..], b"fail", b"WRAP", b"x"])],
    };
    if parts.len() == 1 {
        parts.extend([random.one(FIELDS), random.one(PLACES)]);
        if parts[0] != b"GET" {
            parts.push(random.one(number));
        }
    }
    parts.into_iter().map(<[u8]>::to_vec).collect()
}

/// What a word of these templates stands for.
pub fn word(random: &mut Random, word: &str) -> Option<Vec<Vec<u8>>> {
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let arg = match word {
        "bK" if random.is(6) => random.one(super::KEYS),
        "bK" => random.one(KEYS),
        "bV" if random.is(5) => random.one(super::VALUES),
        "bV" => random.one(VALUES),
        "bO" => random.one(OFFSETS),
        "bB" => random.one(&[&b"0"[..], b"1", b"1", b"0", b"2", b"-1", b"x"]),
        "bT" => random.one(FIELDS),
        "bN" => random.one(NUMBERS),
        "bU" => random.one(&[&b"BIT"[..], b"byte", b"Bit", b"x"]),
        "bP" => random.one(&[&b"AND"[..], b"or", b"XOR", b"not", b"nand"]),
        "bF" => return Some(field(random)),
        "bL" => {
            return Some(words(random.one(&[
                "LEN",
                "IDX",
                "WITHMATCHLEN",
                "MINMATCHLEN 2",
                "minmatchlen 4",
                "MINMATCHLEN x",
                "MINMATCHLEN",
                "x",
            ])));
        }
        _ => return None,
    };
    Some(vec![arg.to_vec()])
}
