//! Requests of sorted sets.

use super::Random;

/// Templates with places for a key `zK`, a score `zS`, a member `zM`, bounds by score `zB` and by member
/// `zL`, a count `zN`, and options of `ZADD`, `ZRANGE` and the algebra. Keys `zX` have members of one score.
pub const TEMPLATES: &[&str] = &[
    "ZADD zK zS zM",
    "ZADD zK zS zM zS zM zS zM",
    "ZADD zK zS zM zS zM zS zM zS zM",
    "ZADD zK zADDOPTION zS zM",
    "ZADD zK zADDOPTION zADDOPTION zS zM zS zM",
    "ZADD zK zADDOPTION zADDOPTION zADDOPTION zS zM",
    "ZADD zX 0 zM 0 zM 0 zM",
    "ZADD zX 0 zM 0 zM 0 zM",
    "ZINCRBY zK zS zM",
    "ZREM zK zM",
    "ZREM zK zM zM",
    "ZREM zX zM",
    "ZCARD zK",
    "ZSCORE zK zM",
    "ZMSCORE zK zM zM",
    "ZRANK zK zM",
    "ZREVRANK zK zM",
    "ZCOUNT zK zB zB",
    "ZCOUNT zK -inf +inf",
    "ZLEXCOUNT zX zL zL",
    "ZRANGE zK 0 -1 WITHSCORES",
    "ZRANGE zK 0 -1 WITHSCORES",
    "ZRANGE zK I I",
    "ZRANGE zK I I zOPTION",
    "ZRANGE zK I I REV",
    "ZRANGE zK zB zB BYSCORE zOPTION",
    "ZRANGE zK zB zB BYSCORE zOPTION zOPTION",
    "ZRANGE zX zL zL BYLEX",
    "ZRANGE zX zL zL BYLEX zOPTION",
    "ZRANGE zX zL zL BYLEX REV zOPTION",
    "ZREVRANGE zK I I",
    "ZREVRANGE zK 0 I WITHSCORES",
    "ZRANGEBYSCORE zK zB zB",
    "ZRANGEBYSCORE zK zB zB zOPTION",
    "ZREVRANGEBYSCORE zK zB zB",
    "ZREVRANGEBYSCORE zK +inf -inf zOPTION zOPTION",
    "ZRANGEBYLEX zX zL zL",
    "ZRANGEBYLEX zX zL zL zOPTION",
    "ZREVRANGEBYLEX zX zL zL",
    "ZRANGESTORE zK zK I I",
    "ZRANGESTORE zK zK zB zB BYSCORE zOPTION",
    "ZPOPMIN zK",
    "ZPOPMAX zK",
    "ZPOPMIN zK zN",
    "ZPOPMAX zK zN",
    "ZMPOP 1 zK MIN",
    "ZMPOP 2 zK zK MAX COUNT zN",
    "ZMPOP zN zK zK MIN COUNT zN",
    "BZPOPMIN zK zK 0.001",
    "BZPOPMAX zK .001",
    "BZMPOP 0.001 2 zK zK MIN COUNT zN",
    "ZREMRANGEBYRANK zK I I",
    "ZREMRANGEBYSCORE zK zB zB",
    "ZREMRANGEBYLEX zX zL zL",
    "ZSCAN zK 0",
    "ZSCAN zK 0 SCANOPTION",
    "ZRANDMEMBER zK",
    "ZRANDMEMBER zK C",
    "ZRANDMEMBER zK C WITHSCORES",
    "ZUNION 2 zK zK",
    "ZUNION 2 zK zK WITHSCORES",
    "ZUNION 2 zK sK zALGEBRA WITHSCORES",
    "ZINTER 2 zK zK WITHSCORES",
    "ZINTER 2 zK zK zALGEBRA zALGEBRA",
    "ZDIFF 2 zK zK WITHSCORES",
    "ZDIFF zN zK zK zALGEBRA",
    "ZUNIONSTORE zK 2 zK zK zALGEBRA",
    "ZINTERSTORE zK 2 zK zK zALGEBRA",
    "ZINTERSTORE zK zN zK zK zALGEBRA",
    "ZDIFFSTORE zK 2 zK zK",
    "ZINTERCARD 2 zK zK",
    "ZINTERCARD 2 zK zK LIMIT zN",
    "EXPIRE zK S",
    "EXPIREAT zK T",
    "TYPE zK",
    "DEL zK",
    "SCAN 0 TYPE zset",
];

pub const KEYS: &[&[u8]] = &[b"zset:1", b"zset:2", b"zset:3"];
const LEX_KEYS: &[&[u8]] = &[b"lex:1", b"lex:2"];
const SCORES: &[&[u8]] = &[
    b"0",
    b"1",
    b"2",
    b"3",
    b"-1",
    b"1.5",
    b"0.1",
    b"-0",
    b"inf",
    b"-inf",
    b"1e20",
    b"+5",
    b".5",
    b"1e400",
    b"nan",
    b"x",
    b"",
    b" 1",
    b"1e-400",
    b"123456789012345678",
    b"1e-5",
];
const MEMBERS: &[&[u8]] =
    &[b"a", b"b", b"c", b"d", b"e", b"", b"ab", b"1", b"\x00\r\n", b"a member of some length"];
const BOUNDS: &[&[u8]] = &[
    b"-inf", b"+inf", b"inf", b"0", b"(0", b"1", b"(1", b"2", b"(1.5", b"-1", b"(-inf", b"(inf",
    b"x", b"", b"(", b" 1", b"1e400", b"nan", b"1 ",
];
const LEX: &[&[u8]] = &[
    b"-", b"+", b"[a", b"(a", b"[b", b"(c", b"[", b"(", b"[ab", b"(d", b"x", b"", b"-a", b"[\xff",
    b"[e",
];
const COUNTS: &[&[u8]] = &[b"0", b"1", b"2", b"3", b"100", b"-1", b"x", b""];

/// What a word of these templates stands for.
pub fn word(random: &mut Random, word: &str) -> Option<Vec<Vec<u8>>> {
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let arg = match word {
        "zK" if random.is(6) => random.one(super::KEYS),
        "zK" if random.is(6) => random.one(LEX_KEYS).get(..4).unwrap_or(b""),
        "zK" => random.one(KEYS),
        "zX" => random.one(LEX_KEYS),
        // Most are scores.
        "zS" if random.is(60) => random.one(&SCORES[..8]),
        "zS" => random.one(SCORES),
        "zM" if random.is(5) => random.one(super::VALUES),
        "zM" => random.one(MEMBERS),
        "zB" => random.one(BOUNDS),
        "zL" => random.one(LEX),
        "zN" => random.one(COUNTS),
        "zADDOPTION" => {
            return Some(words(
                random.one(&["NX", "xx", "GT", "lt", "CH", "INCR", "INCR", "junk"]),
            ));
        }
        "zOPTION" => {
            return Some(words(random.one(&[
                "WITHSCORES",
                "withscores",
                "REV",
                "BYSCORE",
                "LIMIT 0 2",
                "LIMIT 1 2",
                "LIMIT 1 -1",
                "LIMIT -1 2",
                "limit 0 0",
                "LIMIT x 1",
                "LIMIT 1",
                "junk",
                "LIMIT 0 -1",
            ])));
        }
        "zALGEBRA" => {
            return Some(words(random.one(&[
                "WEIGHTS 1 2",
                "WEIGHTS 2 -1",
                "weights inf 0",
                "WEIGHTS x 1",
                "AGGREGATE MIN",
                "aggregate max",
                "AGGREGATE SUM",
                "AGGREGATE junk",
                "WITHSCORES",
                "WEIGHTS 1",
            ])));
        }
        _ => return None,
    };
    Some(vec![arg.to_vec()])
}
