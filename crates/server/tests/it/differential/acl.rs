//! Random users: one that is made of rules in both servers must be allowed the same requests.

use super::requests::{FAMILIES, Random, request};
use super::{Pair, Redis, TestServer};

/// Rules; a few make no sense.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">a",
    ">b",
    "<a",
    "#x",
    "!x",
    "sanitize-payload",
    "skip-sanitize-payload",
    "#ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afe48bb",
    "~a*",
    "~b*",
    "~*b",
    "~?",
    "~[a-c]*",
    "%R~a*",
    "%W~b*",
    "%RW~c*",
    "%WR~d*",
    "%R~*",
    "%W~*",
    "%~a",
    "%RR~a",
    "allkeys",
    "~*",
    "resetkeys",
    "&a",
    "&*",
    "allchannels",
    "resetchannels",
    "+@all",
    "-@all",
    "allcommands",
    "nocommands",
    "+@read",
    "-@read",
    "+@write",
    "-@write",
    "+@string",
    "-@string",
    "+@hash",
    "+@set",
    "-@set",
    "+@sortedset",
    "+@list",
    "+@fast",
    "-@fast",
    "+@slow",
    "-@slow",
    "+@keyspace",
    "-@dangerous",
    "+@dangerous",
    "+@bitmap",
    "+@connection",
    "+@transaction",
    "-@admin",
    "+@nosuch",
    "+get",
    "-get",
    "+set",
    "-set",
    "+config",
    "-config",
    "+config|get",
    "-config|set",
    "+client|id",
    "-client|kill",
    "+client",
    "+select|0",
    "+get|a",
    "+config|get|a",
    "+config|nosuch",
    "+object",
    "-object|freq",
    "+memory|usage",
    "+sort",
    "-sort",
    "+mget",
    "+del",
    "-del",
    "clearselectors",
    "reset",
    "x",
    "()",
    "(~a* +get)",
    "(+@all %R~a* %W~b*)",
    "(~b* +@write)",
    "(+@read ~*)",
    "(x)",
    "( ~c*",
    "+set )",
    "(",
    ")",
    "(+@string",
    "~*)",
];

fn words(line: &[&str]) -> Vec<Vec<u8>> {
    line.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Whether a command says how many keys it names.
fn counts_keys(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let families = [&b"zunion"[..], b"zinter", b"zdiff", b"sintercard"];
    families.iter().any(|family| name.starts_with(family)) || name.ends_with(b"mpop")
}

/// Whether it is read as a number where one need not be written as one: `01`, `+1`, `1x`.
fn is_nearly_a_number(arg: &[u8]) -> bool {
    let rest = arg.strip_prefix(b"+").unwrap_or(arg);
    let is_number = arg == b"0" || arg[0] != b'0' && arg.iter().all(u8::is_ascii_digit);
    !is_number && rest.first().is_some_and(u8::is_ascii_digit)
}

/// One user of these rules, and what it may do.
fn check_user(pair: &mut Pair, seed: u64) -> Result<(), String> {
    let mut random = Random(seed);
    let mut told = Vec::new();
    let mut ask = |pair: &mut Pair, request: &[Vec<u8>], compares: bool| {
        let (redis, ours) = pair.ask(0, request);
        let shown: Vec<String> = request.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        told.push(shown.join(" "));
        // Behind a command or category that is not known we say where it stands what we have not.
        let said =
            ours.bytes.strip_suffix(b" (what differs from Redis: docs/redis-differences.md)\r\n");
        let is_same = match said {
            Some(said) => redis.bytes.strip_suffix(b"\r\n") == Some(said),
            None => redis == ours,
        };
        if !compares || is_same {
            return Ok(redis.kind());
        }
        let (redis, ours) = (redis.bytes.escape_ascii(), ours.bytes.escape_ascii());
        Err(format!("seed {seed}\n{}\n  redis {redis}\n  ours  {ours}", told.join("\n")))
    };
    ask(pair, &words(&["ACL", "DELUSER", "u"]), true)?;
    for _ in 0..4 {
        let mut rules = vec!["ACL", "SETUSER", "u"];
        rules.extend((0..1 + random.next() % 5).map(|_| random.one(RULES)));
        ask(pair, &words(&rules), true)?;
        for _ in 0..20 {
            let preferred = FAMILIES[random.next() as usize % FAMILIES.len()];
            let mut dry = words(&["ACL", "DRYRUN", "u"]);
            let request = request(&mut random, preferred);
            // What an error repeats is cleaned before it is shown.
            let is_plain = |arg: &Vec<u8>| arg.iter().all(u8::is_ascii_graphic);
            // And the empty key matches `*` in one server only.
            if request.iter().any(|arg| arg.is_empty() || arg.len() > 100 || !is_plain(arg)) {
                continue;
            }
            // There a number of keys may be no number.
            if counts_keys(&request[0]) && request.iter().any(|arg| is_nearly_a_number(arg)) {
                continue;
            }
            dry.extend(request);
            ask(pair, &dry, true)?;
        }
    }
    Ok(())
}

#[test]
fn users_are_allowed_what_those_of_redis_are() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server here; apt-get install redis-server");
        return;
    };
    let server = TestServer::start();
    let mut pair = Pair::new(&redis, &server);
    let seed = std::env::var("DIFFERENCE_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let count =
        std::env::var("DIFFERENCES").map_or(300, |count| count.parse::<u64>().unwrap() / 84);
    let mut differences = Vec::new();
    for seed in seed.map_or(1..count + 1, |seed| seed..seed + 1) {
        differences.extend(check_user(&mut pair, seed).err());
        if differences.len() == 8 {
            break;
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// The categories of the commands that both have.
#[test]
fn commands_belong_to_the_categories_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server here; apt-get install redis-server");
        return;
    };
    let server = TestServer::start();
    let mut pair = Pair::new(&redis, &server);
    let (all, ours) = pair.line(0, "ACL CAT");
    assert_eq!(all, ours);
    let (redis, ours) = pair.line(0, "COMMAND LIST");
    let known: Vec<Vec<u8>> = redis.children.iter().map(|child| child.bytes.clone()).collect();
    let own: Vec<Vec<u8>> = ours.children.iter().map(|child| child.bytes.clone()).collect();
    for category in &all.children {
        let name = String::from_utf8(category.bytes.clone()).unwrap();
        let (redis, ours) = pair.line(0, &format!("ACL CAT {}", name.lines().nth(1).unwrap()));
        for command in &known {
            if own.contains(command) {
                let has =
                    |raw: &super::Raw| raw.children.iter().any(|child| child.bytes == *command);
                assert_eq!(has(&redis), has(&ours), "{name}: {}", command.escape_ascii());
            }
        }
        // Subcommands: what both have is there in both.
        let of_containers = |raw: &super::Raw| -> Vec<Vec<u8>> {
            let names = raw.children.iter().map(|child| child.bytes.clone());
            names.filter(|name| name.contains(&b'|')).collect()
        };
        let known_here = of_containers(&redis);
        for name in of_containers(&ours) {
            // These two came with version 7.2.
            let is_later = [&b"|no-touch"[..], b"|setinfo"]
                .iter()
                .any(|later| name.windows(later.len()).any(|part| part == *later));
            assert!(is_later || known_here.contains(&name), "{}", name.escape_ascii());
        }
    }
}

/// Of what both have: in another order, each is in the lists of both or of neither.
#[test]
fn commands_are_listed_by_the_filters_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server here; apt-get install redis-server");
        return;
    };
    let server = TestServer::start();
    let mut pair = Pair::new(&redis, &server);
    let names = |raw: &super::Raw| -> Vec<Vec<u8>> {
        let mut names: Vec<_> = raw.children.iter().map(|child| child.bytes.clone()).collect();
        names.sort_unstable();
        names
    };
    let (theirs, own) = pair.line(0, "COMMAND LIST");
    let (theirs, own) = (names(&theirs), names(&own));
    let mut check = |filter: &str, is_empty: bool| {
        let (redis, ours) = pair.line(0, format!("COMMAND LIST {filter}").trim_end());
        assert_eq!(redis.kind(), ours.kind(), "{filter}");
        if redis.kind() == b'-' {
            assert_eq!(redis, ours, "{filter}");
        }
        let (mut redis, mut ours) = (names(&redis), names(&ours));
        redis.retain(|name| own.contains(name));
        ours.retain(|name| theirs.contains(name));
        assert_eq!(redis, ours, "{filter}");
        assert_eq!(ours.is_empty(), is_empty, "{filter}");
    };
    check("", false);
    for category in ["hash", "HASH", "read", "dangerous", "transaction", "admin", "connection"] {
        check(&format!("FILTERBY ACLCAT {category}"), false);
    }
    for pattern in ["get*", "GET*", "config|*re*", "?lpop", "[s-z]*"] {
        check(&format!("FILTERBY PATTERN {pattern}"), false);
    }
    for nothing in ["ACLCAT none", "ACLCAT scripting", "MODULE none", "PATTERN xadd", "PATTERN x"] {
        check(&format!("filterby {nothing}"), true);
    }
    for wrong in ["x", "FILTERBY x", "FILTERBY x y", "FILTERBY MODULE", "FILTERBY ACLCAT a b"] {
        check(wrong, true);
    }
}
