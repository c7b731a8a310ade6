//! The requests that chance makes: of templates, and of words that are near the limits of each command.

mod bits;
mod keyspace;
mod lists;
mod sets;
mod sorted_sets;
mod sorting;

/// Numbers by a seed.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        everleaf::random::next(&mut self.0)
    }

    /// One of some.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.next() as usize % of.len()]
    }

    /// So often of a hundred.
    pub fn is(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// What requests are made of: words, and places for a key `K`, a value `V`, an integer `I`, a
/// duration `S`, a moment `T`, a pattern `P`, a key of a hash `H`, a number `F`, a small count `C`, and
/// options of `SET`, `GETEX`, `EXPIRE`, `SCAN`. The other families have words of their own.
const TEMPLATES: &[&str] = &[
    "GET K",
    "SET K V",
    "SET K V SETOPTION",
    "SET K V SETOPTION SETOPTION",
    "SET K V SETOPTION SETOPTION SETOPTION",
    "SETNX K V",
    "SETEX K S V",
    "PSETEX K S V",
    "GETSET K V",
    "GETDEL K",
    "GETEX K",
    "GETEX K GETOPTION",
    "GETEX K GETOPTION GETOPTION",
    "APPEND K V",
    "STRLEN K",
    "GETRANGE K I I",
    "SUBSTR K I I",
    "INCR K",
    "DECR K",
    "INCRBY K I",
    "DECRBY K I",
    "INCRBYFLOAT K F",
    "TOUCH K K",
    "MSET K V K V",
    "MSETNX K V K V",
    "MGET K K K",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K",
    "TYPE K",
    "EXPIRE K S",
    "EXPIRE K S EXOPTION",
    "EXPIRE K S EXOPTION EXOPTION",
    "PEXPIRE K S EXOPTION",
    "EXPIREAT K T",
    "PEXPIREAT K T EXOPTION",
    "TTL K",
    "PTTL K",
    "EXPIRETIME K",
    "PEXPIRETIME K",
    "PERSIST K",
    "KEYS P",
    "KEYS P",
    "SCAN I SCANOPTION",
    "SCAN 0 SCANOPTION SCANOPTION",
    "DBSIZE",
    "RANDOMKEY",
    "OBJECT REFCOUNT K",
    "OBJECT FREQ K",
    "MEMORY USAGE K",
    "MEMORY USAGE K SAMPLES I",
    "TIME",
    "SLOWLOG LEN",
    "SLOWLOG RESET",
    "SLOWLOG GET I",
    "SLOWLOG V",
    "LATENCY LATEST",
    "LATENCY RESET",
    "LATENCY HISTORY V",
    "RESTORE K S V",
    "RESTORE K 0 V EXOPTION",
    "DUMP K",
    "FLUSHALL",
    "FLUSHDB V",
    "PING",
    "PING V",
    "ECHO V",
    "SELECT I",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH K",
    "WATCH K K",
    "UNWATCH",
    "HELLO 2",
    "HELLO 3",
    "HELLO I",
    "HELLO 3 AUTH default V",
    "HELLO 3 SETNAME K",
    "HELLO 3 V",
    "AUTH V",
    "AUTH default V",
    "CLIENT GETNAME",
    "CLIENT SETNAME V",
    "CLIENT ID",
    "CLIENT GETREDIR",
    "CLIENT TRACKINGINFO",
    "ROLE",
    "CLIENT NO-EVICT V",
    "CLIENT REPLY V",
    "CLIENT V",
    "CLIENT KILL V",
    "CONFIG GET V",
    "CONFIG SET V",
    "CONFIG SET V V",
    "CONFIG RESETSTAT",
    "CONFIG V",
    "COMMAND COUNT",
    "COMMAND GETKEYS GET K",
    "COMMAND GETKEYS MSET K V K V",
    "COMMAND GETKEYS SORT K STORE K STORE K",
    "COMMAND GETKEYS ZUNIONSTORE K I K K",
    "COMMAND GETKEYS ZDIFF 2 K K",
    "COMMAND GETKEYS V",
    "SAVE",
    "LASTSAVE",
    "RESET",
    "NOSUCH V V",
];

/// Requests of hashes.
const OF_HASHES: &[&str] = &[
    "HSET H V V",
    "HSET H V V V V",
    "HSET H V V",
    "HMSET H V V V I",
    "HSETNX H V V",
    "HGET H V",
    "HMGET H V V V",
    "HGETALL H",
    "HGETALL H",
    "HDEL H V",
    "HDEL H V V V",
    "HLEN H",
    "HEXISTS H V",
    "HKEYS H",
    "HVALS H",
    "HINCRBY H V I",
    "HINCRBYFLOAT H V F",
    "HSTRLEN H V",
    "HSCAN H I SCANOPTION",
    "HSCAN H 0 SCANOPTION SCANOPTION",
    "HRANDFIELD H",
    "HRANDFIELD H C",
    "HRANDFIELD H C WITHVALUES",
];

/// The families of templates. Each sequence prefers one of them.
pub const FAMILIES: &[&[&str]] = &[
    TEMPLATES,
    OF_HASHES,
    sets::TEMPLATES,
    sorted_sets::TEMPLATES,
    lists::TEMPLATES,
    keyspace::TEMPLATES,
    bits::TEMPLATES,
    sorting::TEMPLATES,
];

const HASHES: &[&[u8]] = &[b"hash:1", b"hash:2", b"a"];
const NUMBERS: &[&[u8]] = &[
    b"1.5",
    b"-0.25",
    b"3",
    b"5.0e2",
    b"x",
    b"",
    b" 1",
    b"1 ",
    b"10.5",
    b"-1e-1",
    b"+.5",
    b"inf",
    b"-Infinity",
    b"nan",
];
const COUNTS: &[&[u8]] = &[b"0", b"1", b"-3", b"5", b"-1", b"x", b"-9223372036854775808"];
const KEYS: &[&[u8]] = &[
    b"hash:1",
    b"hash:2",
    b"a",
    b"b",
    b"c",
    b"",
    b"a\r\nb",
    b"\xff\x00",
    b"h[a]*?",
    b"longer:key:1",
    b"longer:key:2",
];
const VALUES: &[&[u8]] = &[
    b"1",
    b"-5",
    b"x",
    b"",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"0",
    b"-0",
    b"+1",
    b" 1",
    b"01",
    b"\x00\r\n\xfe",
    b"a string of some length",
    b"async",
    b"foo",
];
const INTEGERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"3",
    b"-3",
    b"5",
    b"-100",
    b"100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"18446744073709551616",
    b"x",
    b"1.5",
    b"",
    b" 1",
    b"1 ",
    b"-",
    b"007",
];
/// Long enough that nothing expires in between.
const DURATIONS: &[&[u8]] = &[
    b"1000000",
    b"2000000",
    b"3000000",
    b"0",
    b"-1",
    b"9223372036854775807",
    b"9223372036854775",
    b"9223372036854776",
    b"-9223372036854775808",
    b"-9223372036854776",
    b"x",
    b"",
];
const MOMENTS: &[&[u8]] = &[
    b"4000000000000",
    b"4000000000499",
    b"4000000000500",
    b"4000000000",
    b"1",
    b"0",
    b"-1",
    b"9223372036854775807",
    b"x",
];
pub const PATTERNS: &[&[u8]] = &[
    b"*",
    b"a*",
    b"*y*",
    b"longer:key:?",
    b"longer:*[^1]",
    b"longer:*[0-1]",
    b"longer:*[1-0]",
    b"longer:key:[",
    b"longer:key:[1",
    b"longer:key:[^2",
    b"h\\[a]\\*\\?",
    b"[a-c]",
    b"[]a]",
    b"[\\a]",
    b"[a-",
    b"[^",
    b"a\\",
    b"\\a",
    b"**",
    b"?",
    b"",
    b"\xff*",
];

fn option(random: &mut Random, of: &str) -> Vec<Vec<u8>> {
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let with = |name: &str, arg: &[u8]| vec![name.as_bytes().to_vec(), arg.to_vec()];
    match of {
        "SETOPTION" if random.is(50) => words(random.one(&["NX", "xx", "GET", "KEEPTTL", "junk"])),
        "GETOPTION" if random.is(40) => words(random.one(&["PERSIST", "persist", "KEEPTTL", "NX"])),
        "SETOPTION" | "GETOPTION" => match random.next() % 4 {
            0 => with("EX", random.one(DURATIONS)),
            1 => with("px", random.one(DURATIONS)),
            2 => with("EXAT", random.one(MOMENTS)),
            _ => with("PXAT", random.one(MOMENTS)),
        },
        "EXOPTION" => words(random.one(&["NX", "xx", "GT", "lt", "junk", "PERSIST"])),
        _ => match random.next() % 4 {
            0 => with("COUNT", random.one(INTEGERS)),
            1 => with("MATCH", random.one(PATTERNS)),
            2 => with("TYPE", random.one(&[&b"string"[..], b"STRING", b"list", b"hash", b"set"])),
            _ => words("junk"),
        },
    }
}

/// A request.
pub fn request(random: &mut Random, preferred: &[&str]) -> Vec<Vec<u8>> {
    let mut request: Vec<Vec<u8>> = Vec::new();
    let family = if random.is(60) { preferred } else { random.one(FAMILIES) };
    for word in random.one(family).split(' ') {
        let args = sets::word(random, word)
            .or_else(|| sorted_sets::word(random, word))
            .or_else(|| lists::word(random, word))
            .or_else(|| keyspace::word(random, word))
            .or_else(|| bits::word(random, word))
            .or_else(|| sorting::word(random, word));
        if let Some(args) = args {
            request.extend(args);
            continue;
        }
        match word {
            "K" => request.push(random.one(KEYS).to_vec()),
            "V" => request.push(random.one(VALUES).to_vec()),
            "I" => request.push(random.one(INTEGERS).to_vec()),
            "S" => request.push(random.one(DURATIONS).to_vec()),
            "T" => request.push(random.one(MOMENTS).to_vec()),
            "H" if random.is(5) => request.push(random.one(KEYS).to_vec()),
            "H" => request.push(random.one(HASHES).to_vec()),
            "F" => request.push(random.one(NUMBERS).to_vec()),
            "C" => request.push(random.one(COUNTS).to_vec()),
            "P" => request.push(random.one(PATTERNS).to_vec()),
            _ if word.ends_with("OPTION") => request.extend(option(random, word)),
            _ if random.is(20) => request.push(word.to_ascii_lowercase().into_bytes()),
            _ => request.push(word.as_bytes().to_vec()),
        }
    }
    match random.next() % 40 {
        0 if request.len() > 1 => drop(request.pop()),
        1 => request.push(random.one(VALUES).to_vec()),
        2 if request.len() > 1 => {
            let index = 1 + random.next() as usize % (request.len() - 1);
            request[index] = random.one(VALUES).to_vec();
        }
        _ => {}
    }
    // A later version has an option there.
    if matches!(&request[0].to_ascii_lowercase()[..], b"zrank" | b"zrevrank") {
        request.truncate(3);
    }
    request
}
