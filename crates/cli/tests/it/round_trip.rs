//! Many lines in, the same bytes out.

use crate::common::PoolFolder;
use serde_json::json;

const COUNT: usize = 120_000;

/// Lines with distinct keys of many lengths, in no order.
fn lines() -> Vec<String> {
    let mut state = 7;
    let mut draw = || everleaf::random::next(&mut state);
    (0..COUNT)
        .map(|index| {
            let padding = "x".repeat((draw() % 40) as usize);
            let scattered = (index as u64).wrapping_mul(0x9e3779b97f4a7c15);
            format!("{scattered:x}/{padding}\tvalue \\\\ {} \\t{}", draw(), index)
        })
        .collect()
}

fn joined(lines: &[impl AsRef<str>]) -> String {
    lines.iter().map(|line| format!("{}\n", line.as_ref())).collect()
}

/// Byte order of the keys; in these files no key holds a byte below the tab.
fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_by(|a, b| a.split('\t').next().cmp(&b.split('\t').next()));
    lines
}

#[test]
fn many_lines_come_out_sorted_and_byte_for_byte() {
    let place = PoolFolder::with_pool();
    let unsorted = lines();
    place.write("in.tsv", joined(&unsorted));
    let loaded = place.run(["load", "pool", "in.tsv", "--json"]).json();
    assert_eq!((&loaded["lines"], &loaded["inserted"]), (&json!(COUNT), &json!(COUNT)));
    let expected = joined(&sorted(unsorted));
    let scanned = place.run(["scan", "pool"]);
    assert!(scanned.out == expected.as_bytes(), "the scan is the sorted input");
    let exported = place.run(["export", "pool"]);
    assert!(exported.out == expected.as_bytes(), "the export is the sorted input");
    place.run(["export", "pool", "--output", "out.tsv", "--no-progress"]).succeeded();
    assert!(place.read("out.tsv") == expected.as_bytes());
    assert_eq!(place.run(["scan", "pool", "--count"]).succeeded(), format!("{COUNT}\n"));
    let backwards = place.run(["scan", "pool", "--reverse"]).succeeded();
    assert!(backwards.lines().eq(expected.lines().rev()));
    assert!(place.run(["check", "pool"]).succeeded().starts_with("sound: "));
}

#[test]
fn every_format_carries_every_pair_to_another_pool() {
    let place = PoolFolder::with_pool();
    let lines = lines();
    place.write("in.tsv", joined(&lines[..20_000]));
    place.run(["load", "pool", "in.tsv"]).succeeded();
    place.run(["put", "pool", "00ff", "0d0a0922", "--hex"]).succeeded();
    let original = place.run(["export", "pool"]).out;
    for (file, pool) in [("x.tsv", "p1"), ("x.csv", "p2"), ("x.jsonl", "p3")] {
        place.run(["export", "pool", "--output", file]).succeeded();
        place.run(["load", pool, file, "--create"]).succeeded();
        assert!(place.run(["export", pool]).out == original, "{file}");
        place.run(["export", pool, "--output", "again", "--format", &file[2..]]).succeeded();
        assert!(place.read(file) == place.read("again"), "{file} is the same the second time");
    }
}

#[test]
fn a_header_goes_out_and_comes_in() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "a", "1"]).succeeded();
    for file in ["a.csv", "a.tsv"] {
        place.run(["export", "pool", "--output", file, "--header"]).succeeded();
        assert!(place.read(file).starts_with(b"key"));
        let load = ["load", "pool", file, "--header", "--map", file];
        place.run(load).succeeded();
        assert_eq!(place.run(["scan", "pool", "--map", file]).succeeded(), "a\t1\n");
    }
}

#[test]
fn an_export_can_be_a_part() {
    let place = PoolFolder::with_pool();
    place.run_with(["load", "pool", "-"], b"a\t1\nab\t2\nb\t3\nc\t4\n").succeeded();
    let export =
        |arguments: &[&str]| place.run([&["export", "pool"], arguments].concat()).succeeded();
    assert_eq!(export(&["--prefix", "a"]), "a\t1\nab\t2\n");
    assert_eq!(export(&["--from", "ab", "--to", "c", "--format", "csv"]), "ab,2\nb,3\n");
    assert_eq!(export(&["--from", "62", "--hex", "--keys-only"]), "b\nc\n");
}

#[test]
fn an_export_that_fails_leaves_the_old_file() {
    let place = PoolFolder::with_pool();
    place.write("out.tsv", "old");
    place.run(["export", "pool", "--map", "none", "--output", "out.tsv"]).failed(1);
    assert_eq!(place.read("out.tsv"), b"old");
    let sentence = place.run(["export", "pool", "--output", "no/such/out.tsv"]).failed(7);
    assert!(sentence.starts_with("cannot write no/such/out.tsv: "), "{sentence}");
}

/// The word list of the system, if it has one.
#[test]
fn a_dictionary_comes_out_sorted_and_byte_for_byte() {
    let Ok(words) = std::fs::read("/usr/share/dict/words") else { return };
    let place = PoolFolder::with_pool();
    place.write("words", &words);
    place.run(["load", "pool", "words", "--format", "tsv", "--keys-only"]).succeeded();
    let mut lines: Vec<&[u8]> = words.split(|byte| *byte == b'\n').collect();
    lines.retain(|line| !line.is_empty());
    lines.sort_unstable();
    lines.dedup();
    let mut expected = lines.join(&b'\n');
    expected.push(b'\n');
    assert!(place.run(["export", "pool", "--keys-only"]).out == expected);
}
