//! Single pairs and scans.

use crate::common::PoolFolder;

fn place_with(pairs: &[(&str, &str)]) -> PoolFolder {
    let place = PoolFolder::with_pool();
    for (key, value) in pairs {
        place.run(["put", "pool", "--", key, value]).succeeded();
    }
    place
}

#[test]
fn a_pair_is_put_replaced_read_and_removed() {
    let place = PoolFolder::with_pool();
    assert_eq!(place.run(["put", "pool", "apple", "red"]).succeeded(), "inserted\n");
    assert_eq!(place.run(["put", "pool", "apple", "green"]).succeeded(), "replaced\n");
    assert_eq!(place.run(["get", "pool", "apple"]).succeeded(), "green");
    assert_eq!(place.run(["del", "pool", "apple"]).succeeded(), "removed 1\n");
    assert!(place.run(["get", "pool", "apple"]).failed(1).contains("no key \"apple\""));
    assert!(place.run(["del", "pool", "apple"]).failed(1).contains("no key \"apple\""));
}

#[test]
fn quiet_puts_and_removals_say_nothing() {
    let place = PoolFolder::with_pool();
    assert_eq!(place.run(["-q", "put", "pool", "a", "1"]).succeeded(), "");
    assert_eq!(place.run(["del", "pool", "a", "--quiet"]).succeeded(), "");
}

#[test]
fn conditions_hold_or_nothing_changes() {
    let place = PoolFolder::with_pool();
    assert!(place.run(["put", "pool", "a", "1", "--if-present"]).failed(1).contains("not there"));
    assert_eq!(place.run(["put", "pool", "a", "1", "--if-absent"]).succeeded(), "inserted\n");
    assert!(place.run(["put", "pool", "a", "2", "--if-absent"]).failed(1).contains("already"));
    assert_eq!(place.run(["get", "pool", "a"]).succeeded(), "1");
    assert_eq!(place.run(["put", "pool", "a", "3", "--if-present"]).succeeded(), "replaced\n");
    // The map was made, and stayed.
    let there = place.run(["put", "pool", "a", "4", "--map", "new", "--if-present"]).failed(1);
    assert!(there.contains("nothing was changed"), "{there}");
    let long = "k".repeat(65_537);
    place.run(["put", "pool", &long, "4", "--map", "new"]).failed(3);
    assert_eq!(place.run(["maps", "pool"]).succeeded().lines().count(), 1);
    place.run(["put", "pool", "a", "4", "--map", "new", "--if-absent"]).succeeded();
    place.run(["put", "pool", "a", "5", "--map", "new", "--if-present"]).succeeded();
    assert_eq!(place.run(["get", "pool", "a"]).succeeded(), "3");
}

#[test]
fn several_keys_are_removed_although_one_is_absent() {
    let place = place_with(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let ended = place.run(["del", "pool", "a", "nothing", "c"]);
    assert_eq!(ended.text(), "removed 2\n");
    assert!(ended.failed(1).contains("\"nothing\""));
    assert_eq!(place.run(["scan", "pool"]).succeeded(), "b\t2\n");
}

#[test]
fn a_value_can_come_from_a_file_byte_for_byte() {
    let place = PoolFolder::with_pool();
    let value: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    place.write("value", &value);
    place.run(["put", "pool", "big", "--value-file", "value"]).succeeded();
    assert!(place.run(["get", "pool", "big"]).out == value);
    place.run_with(["put", "pool", "piped", "--value-file", "-"], b"a\0b\n").succeeded();
    assert_eq!(place.run(["get", "pool", "piped"]).out, b"a\0b\n");
    assert!(place.run(["put", "pool", "k", "--value-file", "none"]).failed(7).contains("none"));
}

#[test]
fn binary_keys_and_values_are_hexadecimal_or_base64() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "00FF", "0a0b", "--hex"]).succeeded();
    assert_eq!(place.run(["get", "pool", "00ff", "--hex"]).succeeded(), "0a0b\n");
    assert_eq!(place.run(["get", "pool", "AP8=", "--base64"]).succeeded(), "Cgs=\n");
    assert_eq!(place.run(["scan", "pool", "--hex"]).succeeded(), "00ff\t0a0b\n");
    assert_eq!(
        place.run(["scan", "pool", "--prefix", "00", "--hex", "--count"]).succeeded(),
        "1\n"
    );
    let json = place.run(["get", "pool", "00ff", "--hex", "--json"]).json();
    assert_eq!(json, serde_json::json!({ "key_b64": "AP8=", "value": "\n\u{b}" }));
}

#[test]
fn keys_that_look_like_options_or_numbers_can_be_used() {
    let place = place_with(&[("-x", "--y"), ("-5", "-6")]);
    assert_eq!(place.run(["get", "pool", "-5"]).succeeded(), "-6");
    assert_eq!(place.run(["get", "pool", "--", "-x"]).succeeded(), "--y");
    assert_eq!(place.run(["scan", "pool", "--from", "-6"]).succeeded(), "-x\t--y\n");
}

#[test]
fn the_empty_value_and_the_empty_key_are_pairs_like_others() {
    let place = place_with(&[("empty", ""), ("", "nameless")]);
    assert_eq!(place.run(["get", "pool", "empty"]).succeeded(), "");
    assert_eq!(place.run(["get", "pool", ""]).succeeded(), "nameless");
    assert_eq!(place.run(["scan", "pool"]).succeeded(), "\tnameless\nempty\t\n");
}

#[test]
fn a_scan_is_in_byte_order_and_can_be_bounded() {
    let place = place_with(&[("b", "2"), ("a", "1"), ("ab", "3"), ("B", "4"), ("\u{e9}", "5")]);
    let scan = |arguments: &[&str]| place.run([&["scan", "pool"], arguments].concat()).succeeded();
    assert_eq!(scan(&[]), "B\t4\na\t1\nab\t3\nb\t2\n\u{e9}\t5\n");
    assert_eq!(scan(&["--keys-only"]), "B\na\nab\nb\n\u{e9}\n");
    assert_eq!(scan(&["--reverse", "--limit", "2"]), "\u{e9}\t5\nb\t2\n");
    assert_eq!(scan(&["--from", "a", "--to", "b"]), "a\t1\nab\t3\n");
    assert_eq!(scan(&["--from", "a", "--to", "b", "--reverse"]), "ab\t3\na\t1\n");
    assert_eq!(scan(&["--prefix", "a", "--reverse"]), "ab\t3\na\t1\n");
    assert_eq!(scan(&["--prefix", "a", "--from", "aa"]), "ab\t3\n");
    assert_eq!(scan(&["--from", "c", "--to", "a"]), "");
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(scan(&["--count"]), "5\n");
    assert_eq!(scan(&["--count", "--limit", "3"]), "3\n");
    assert_eq!(scan(&["--count", "--prefix", "zz"]), "0\n");
    assert_eq!(scan(&["--count", "--json"]), "{\"count\":5}\n");
}

#[test]
fn scanned_lines_stay_lines_whatever_they_hold() {
    let place = place_with(&[("tab\there", "line\nfeed"), ("back\\slash", "carriage\rreturn")]);
    let scan = place.run(["scan", "pool"]).succeeded();
    assert_eq!(scan, "back\\\\slash\tcarriage\\rreturn\ntab\\there\tline\\nfeed\n");
}

#[test]
fn json_comes_from_every_command_that_prints() {
    let place = PoolFolder::empty();
    let json = |arguments: &[&str]| place.run([arguments, &["--json"]].concat()).json();
    assert_eq!(json(&["create", "pool", "--size", "64M"])["pool"], "pool");
    assert_eq!(json(&["put", "pool", "a", "1"]), serde_json::json!({ "replaced": false }));
    assert_eq!(json(&["put", "pool", "a", "2"]), serde_json::json!({ "replaced": true }));
    assert_eq!(json(&["get", "pool", "a"]), serde_json::json!({ "key": "a", "value": "2" }));
    assert_eq!(json(&["scan", "pool"]), serde_json::json!({ "key": "a", "value": "2" }));
    assert_eq!(json(&["scan", "pool", "--keys-only"]), serde_json::json!({ "key": "a" }));
    assert_eq!(json(&["stat", "pool"])["keys"], 1);
    assert_eq!(json(&["maps", "pool"]), serde_json::json!({ "map": "default", "keys": 1 }));
    assert_eq!(json(&["check", "pool"])["sound"], true);
    let exported = json(&["export", "pool", "--output", "a.tsv"]);
    assert_eq!(exported, serde_json::json!({ "pairs": 1, "left_out": 0, "file": "a.tsv" }));
    assert_eq!(json(&["load", "pool", "a.tsv"])["replaced"], 1);
    let removed = json(&["del", "pool", "a"]);
    assert_eq!(removed, serde_json::json!({ "removed": 1, "absent": 0 }));
}

#[test]
fn figures_and_checks_are_readable_too() {
    let place = place_with(&[("a", "1"), ("b", "2")]);
    let stat = place.run(["stat", "pool"]).succeeded();
    let figure = |name: &str| {
        let line = stat.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.and_then(|line| line.split_whitespace().nth(1)).map(str::to_string)
    };
    assert_eq!(figure("keys").as_deref(), Some("2"), "{stat}");
    assert_eq!(figure("size").as_deref(), Some("1"), "{stat}");
    assert!(stat.contains(" 1 MiB: ") && stat.contains(" 64 GiB at most"), "{stat}");
    let json = place.run(["stat", "pool", "--json"]).json();
    assert_eq!(json["pool_size_bytes"], 1 << 20);
    assert_eq!(json["by_map"]["default"]["keys"], 2);
    assert!(place.run(["check", "pool"]).succeeded().starts_with("sound: "));
}

/// It said `process`, and nothing of the log, of every pool.
#[test]
fn figures_of_a_pool_with_a_log_tell_of_the_log() {
    let place = PoolFolder::empty();
    for durability in ["process", "interval", "power"] {
        let pool = format!("{durability}.pool");
        place.run(["create", &pool, "--durability", durability]).succeeded();
        assert_eq!(place.run(["stat", &pool, "--json"]).json()["durability"], durability);
        place.run(["put", &pool, "key", "a value"]).succeeded();
        let json = place.run(["stat", &pool, "--json"]).json();
        assert_eq!(json["durability"], durability);
        assert_eq!(json["log_bytes"], if durability == "process" { 0 } else { 10 });
        let stat = place.run(["stat", &pool]).succeeded();
        let tells = stat.lines().any(|line| line.ends_with("since the last snapshot"));
        assert_eq!(tells, durability != "process", "{stat}");
    }
}

#[test]
fn maps_are_apart_from_each_other() {
    let place = place_with(&[("a", "in default")]);
    place.run(["put", "pool", "a", "in fruit", "--map", "fruit"]).succeeded();
    place.run(["put", "pool", "b", "in fruit", "--map", "fruit"]).succeeded();
    assert_eq!(place.run(["get", "pool", "a"]).succeeded(), "in default");
    assert_eq!(place.run(["get", "pool", "a", "--map", "fruit"]).succeeded(), "in fruit");
    assert_eq!(place.run(["maps", "pool"]).succeeded(), "default\t1\nfruit\t2\n");
    assert!(place.run(["get", "pool", "b"]).failed(1).contains("no key \"b\""));
    let missing = place.run(["scan", "pool", "--map", "nuts"]).failed(1);
    assert!(missing.contains("no map named \"nuts\"") && missing.contains("everleaf maps"));
}
