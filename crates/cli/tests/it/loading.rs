//! Loading each format, well-formed and not.

use crate::common::PoolFolder;
use serde_json::json;

#[test]
fn each_format_is_told_by_the_extension() {
    let place = PoolFolder::with_pool();
    place.write("a.tsv", "tab\t1\nesc\\taped\ta\\nb\n");
    place.write("b.csv", "comma,2\n\"quo\"\"ted\",\"a,b\"\n");
    place.write(
        "c.jsonl",
        "{\"key\":\"json\",\"value\":\"3\"}\n{\"key_b64\":\"/w==\",\"value\":\"4\"}\n",
    );
    let loaded = place.run(["load", "pool", "a.tsv", "b.csv", "c.jsonl", "--json"]).json();
    assert_eq!((&loaded["lines"], &loaded["inserted"]), (&json!(6), &json!(6)));
    assert_eq!((&loaded["complete"], &loaded["bytes"]), (&json!(true), &json!(38)));
    for (key, value) in
        [("tab", "1"), ("esc\taped", "a\nb"), ("comma", "2"), ("quo\"ted", "a,b"), ("json", "3")]
    {
        assert_eq!(place.run(["get", "pool", key]).succeeded(), value);
    }
    assert_eq!(place.run(["get", "pool", "ff", "--hex"]).succeeded(), "34\n");
}

#[test]
fn the_report_tells_new_keys_from_replaced_ones() {
    let place = PoolFolder::with_pool();
    place.write("a.tsv", "a\t1\nb\t2\na\t3\n");
    let report = place.run(["load", "pool", "a.tsv"]).succeeded();
    let expected = "loaded 3 lines: 2 new keys, 1 value replaced; 6 bytes";
    assert!(report.starts_with(expected), "{report}");
    assert_eq!(place.run(["get", "pool", "a"]).succeeded(), "3", "the last line wins");
    let report = place.run(["load", "pool", "a.tsv", "--if-absent"]).succeeded();
    assert!(report.contains("0 new keys, 0 values replaced, 3 keys there already"), "{report}");
    assert_eq!(place.run(["-q", "load", "pool", "a.tsv"]).succeeded(), "");
}

#[test]
fn the_standard_input_is_loaded_too() {
    let place = PoolFolder::with_pool();
    place.run_with(["load", "pool", "-"], b"a\t1\r\nb\t2").succeeded();
    place.run_with(["load", "pool", "-", "--format", "csv"], b"c,3\r\nd,4").succeeded();
    assert_eq!(place.run(["scan", "pool"]).succeeded(), "a\t1\nb\t2\nc\t3\nd\t4\n");
}

#[test]
fn columns_can_be_chosen() {
    let place = PoolFolder::with_pool();
    place.write("people.csv", "id,name,mail\n1,Ada,ada@x\n2,\"Alan, M\",alan@x\n");
    let load =
        |arguments: &[&str]| place.run([&["load", "pool", "people.csv"], arguments].concat());
    load(&["--key-column", "mail", "--value-column", "name"]).succeeded();
    assert_eq!(place.run(["get", "pool", "alan@x"]).succeeded(), "Alan, M");
    load(&["--key-column", "1", "--value-column", "3", "--header"]).succeeded();
    assert_eq!(place.run(["get", "pool", "2"]).succeeded(), "alan@x");
    load(&["--key-column", "name", "--keys-only", "--map", "names"]).succeeded();
    let names = place.run(["scan", "pool", "--map", "names", "--keys-only"]).succeeded();
    assert_eq!(names, "Ada\nAlan, M\n");
    let sentence = load(&["--key-column", "phone"]).failed(3);
    assert!(sentence.starts_with("people.csv:1: ") && sentence.contains("id, name, mail"));
}

#[test]
fn a_malformed_line_stops_the_load_and_is_named() {
    for (name, text, line, part) in [
        ("a.tsv", "a\t1\nb 2\nc\t3\n", 2, "no tab"),
        ("b.tsv", "a\t1\nb\t2\t3\n", 2, "more than one tab"),
        ("c.tsv", "\na\t1\nb\t\\q\n", 3, "\\q is not an escape"),
        ("d.csv", "a,1\nb\nc,3\n", 2, "1 columns where 2 are expected"),
        ("e.csv", "a,\"1\n\"\nb,\"2\nc,3\n", 3, "never closed"),
        ("f.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",}\n", 2, "column 12"),
        ("g.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n\n[1]\n", 3, "one object"),
        // Taken for the members of an object in their order.
        ("k.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n[\"b\",null,\"2\",null]\n", 2, "one object"),
        ("h.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\"}\n", 2, "neither \"value\""),
        ("i.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":1,\"value\":\"\"}\n", 2, "string"),
        ("j.jsonl", "{\"key\":\"a\",\"value\":\"1\"}\n{\"key_b64\":\"_\"}\n", 2, "not base64"),
    ] {
        let place = PoolFolder::with_pool();
        place.write(name, text);
        let sentence = place.run(["load", "pool", name]).failed(3);
        assert!(sentence.starts_with(&format!("{name}:{line}: ")), "{sentence}");
        assert!(sentence.contains(part), "{sentence}");
        assert!(sentence.ends_with("; what was loaded (1 line) stays in the pool"), "{sentence}");
        assert_eq!(place.run(["scan", "pool", "--keys-only"]).succeeded(), "a\n", "{name}");
    }
}

#[test]
fn malformed_lines_are_skipped_and_counted_when_asked() {
    let place = PoolFolder::with_pool();
    place.write("a.tsv", "a\t1\nbad\nb\t2\nbad\\\n");
    let ended = place.run(["load", "pool", "a.tsv", "--skip-bad"]);
    assert_eq!(ended.code, 0);
    assert!(ended.text().contains("2 malformed lines skipped"), "{}", ended.text());
    assert!(ended.err.contains("skipped a.tsv:2: there is no tab"), "{}", ended.err);
    assert_eq!(place.run(["scan", "pool", "--keys-only"]).succeeded(), "a\nb\n");
    let json = place.run(["load", "pool", "a.tsv", "--skip-bad", "--json"]).json();
    assert_eq!((&json["skipped"], &json["replaced"]), (&json!(2), &json!(2)));
    // They were named without --json only.
    let shown = json["shown"][0].as_str().expect("a sentence");
    assert!(shown.starts_with("a.tsv:2: there is no tab"), "{shown}");
}

#[test]
fn with_json_a_failed_load_tells_what_stays() {
    let place = PoolFolder::with_pool();
    place.write("a.tsv", "a\t1\nbad\n");
    let ended = place.run(["load", "pool", "a.tsv", "--json"]);
    assert_eq!(ended.code, 3);
    let report: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!((&report["complete"], &report["lines"]), (&json!(false), &json!(1)));
    let error: serde_json::Value = serde_json::from_str(&ended.err).unwrap();
    assert_eq!(error["code"], 3);
    assert!(error["error"].as_str().unwrap().starts_with("a.tsv:2: "));
}

#[test]
fn a_key_that_is_too_long_is_bad_data() {
    let place = PoolFolder::with_pool();
    place.write("a.tsv", format!("a\t1\n{}\t2\n", "k".repeat(everleaf::KEY_SIZE_MAX + 1)));
    let sentence = place.run(["load", "pool", "a.tsv"]).failed(3);
    assert!(sentence.starts_with("a.tsv:2: the key has 64 KiB (65537 bytes)"), "{sentence}");
    place.write("b.tsv", format!("{}\t2\n", "k".repeat(everleaf::KEY_SIZE_MAX)));
    place.run(["load", "pool", "b.tsv"]).succeeded();
}

#[test]
fn nothing_is_touched_when_an_input_is_not_there() {
    let place = PoolFolder::empty();
    place.write("a.tsv", "a\t1\n");
    let sentence = place.run(["load", "new", "a.tsv", "none.tsv", "--create"]).failed(7);
    assert!(sentence.starts_with("cannot read none.tsv: "), "{sentence}");
    assert!(!place.path("new").exists());
    place.run(["load", "new", "a.tsv", "--create"]).succeeded();
    assert_eq!(place.run(["get", "new", "a"]).succeeded(), "1");
}
