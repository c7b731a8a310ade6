//! `everleaf-lab bench`, `create` and `check`: every design by its name. No times are asserted.

use crate::common::{Ended, PoolFolder};

/// Arguments that keep a run short.
const SHORT: [&str; 6] = ["--keys", "3k", "--ops", "500", "--rounds", "1"];

fn bench(arguments: &[&str]) -> Ended {
    let place = PoolFolder::empty();
    let all: Vec<&str> = ["bench"].iter().chain(arguments).chain(&SHORT).copied().collect();
    place.run(all)
}

#[test]
fn designs_are_measured_by_name_and_side_by_side() {
    let text = bench(&["get", "scan", "--index", "fast-fair"]).succeeded();
    assert!(text.contains("index fast-fair"), "{text}");
    let ended = bench(&["get", "insert", "--index", "all"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let told = |what: &str| ended.err.lines().filter(|line| line.contains(what)).count();
    let (wrong, late) =
        (told("loses writes when several threads"), told("-unlogged: what was written last"));
    assert_eq!((wrong, late, ended.err.lines().count()), (2, 14, 16), "caveats: {}", ended.err);
    let text = ended.text();
    for name in ["nbtree", "fast-fair", "fast-fair-4096"] {
        let lines = text.lines().filter(|line| line.split_whitespace().next() == Some(name));
        assert_eq!(lines.count(), 2, "one line for misses, one for speed: {text}");
    }
    assert!(text.lines().any(|line| line.starts_with("index") && line.contains("insert")));
    let object = bench(&["get", "--index", "nbtree-coupled", "--json"]).json();
    assert!(object["caveat"].as_str().is_some_and(|caveat| caveat.contains("loses writes")));
    assert!(bench(&["get", "--index", "nbtree-wr", "--json"]).json()["caveat"].is_null());
    let refused = bench(&["get", "--index", "slow-fair"]).failed(2);
    assert!(refused.contains("fast-fair"), "{refused}");
}

#[test]
fn a_pool_is_created_with_an_index() {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--index", "fast-fair"]).succeeded();
    let sound = place.run(["check", "pool"]).succeeded();
    assert!(sound.starts_with("sound: 0 keys"), "{sound}");
    // The store has no such design, and says which program has it.
    let Err(error) = everleaf::Options::new().open(place.path("pool")) else {
        panic!("the store opened a tree of a design that it does not have");
    };
    assert!(error.to_string().contains("everleaf-lab check"), "{error}");
    place.run(["create", "plain", "--index", "nbtree"]).succeeded();
    let store = everleaf::Options::new().open(place.path("plain")).expect("the flagship's pool");
    store.default_map().put(b"a", b"b").expect("there is room");
    let published = |name, flag: &[&str]| {
        let arguments = ["create", name, "--index", "nbtree-published"];
        place.run(arguments.iter().chain(flag))
    };
    let ended = published("told", &[]);
    assert_eq!(ended.code, 0);
    assert!(ended.err.starts_with("everleaf-lab: nbtree-published: as published"), "{}", ended.err);
    let object = published("json", &["--json"]).json();
    assert!(object["caveat"].as_str().is_some_and(|caveat| caveat.contains("loses writes")));
    published("quiet", &["--quiet"]).succeeded();
    assert!(place.run(["create", "other", "--index", "fair"]).failed(2).contains("fast-fair"));
    assert!(!place.path("other").exists());
}

#[test]
fn the_flagship_is_put_beside_the_fastest_designs() {
    let place = PoolFolder::empty();
    let preset = ["bench", "--preset", "flagship", "--keys", "2k", "--ops", "200", "--rounds", "1"];
    let page = place.run(preset).succeeded();
    assert!(page.contains("--preset flagship --keys 2000 --rounds 1"), "{page}");
    let lines = |start: &str| page.lines().filter(|line| line.starts_with(start)).count();
    // Both tables have a line for each case, the flushed one of its own.
    assert_eq!(lines("| get |"), 2, "{page}");
    assert_eq!(lines("| update-many, 2 threads |"), 2, "{page}");
    assert_eq!(lines("| update |"), 2 + 1, "{page}");
    assert_eq!(lines("| hashed-leaf |") + lines("| fast-fair-1024 |"), 2, "{page}");
    // 1 load, and 11 cases on 1 and on 2 threads, and 4 flushed ones; 7 costs, a speed, 11 times two
    // threads, memory twice.
    let verdicts = |word: &str| page.lines().filter(|line| line.contains(word)).count();
    let (met, missed) = (verdicts("| met"), verdicts("| **missed**"));
    assert_eq!(met + missed, (1 + 22 + 4) + 7 + 1 + 11 + 2, "{page}");
    assert!(page.contains(&format!("{met} of {} are met", met + missed)), "{page}");
}
