//! Loading from memory into a store in a temporary directory.

use super::*;
use crate::format::Format;
use crate::format::columns::ColumnChoice;
use everleaf::{Options, Store};

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Options::new().create(true).open(dir.path().join("pool")).unwrap();
    (dir, store)
}

fn load(store: &Store, settings: Settings, texts: &[&str]) -> LoadResult {
    let choice = ColumnChoice::default();
    let mut inputs: Vec<Input<'_>> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| Input {
            name: format!("input{index}"),
            reader: Format::Tsv.reader(text.as_bytes(), &choice),
        })
        .collect();
    let progress = Progress::pairs(false, "", 0);
    run(store, store.default_map(), settings, &mut inputs, &|| 0, &progress)
}

const SETTINGS: Settings = Settings { threads: 3, if_absent: false, skip_bad: false };

#[test]
fn the_last_value_of_a_key_wins_with_any_number_of_writers() {
    let mut text = String::new();
    for round in 0..50 {
        for key in 0..200 {
            text.push_str(&format!("key{key}\t{round}\n"));
        }
    }
    for threads in [1, 2, 7] {
        let (_dir, store) = store();
        let outcome = load(&store, Settings { threads, ..SETTINGS }, &[&text, "key7\tlast\n"]);
        assert!(outcome.failure.is_none());
        assert_eq!((outcome.counts.inserted, outcome.counts.replaced), (200, 49 * 200 + 1));
        assert_eq!(outcome.counts.bytes, (text.len() - 2 * 200 * 50) as u64 + 8);
        assert_eq!(store.default_map().get(b"key0").unwrap().as_deref(), Some(&b"49"[..]));
        assert_eq!(store.default_map().get(b"key7").unwrap().as_deref(), Some(&b"last"[..]));
    }
}

#[test]
fn with_if_absent_the_first_value_stays() {
    let (_dir, store) = store();
    let settings = Settings { if_absent: true, ..SETTINGS };
    let outcome = load(&store, settings, &["a\t1\nb\t2\na\t3\n", "b\t4\n"]);
    assert_eq!(outcome.counts, Counts { inserted: 2, replaced: 0, kept: 2, bytes: 4 });
    assert_eq!(store.default_map().get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn lines_before_a_malformed_one_are_loaded_and_none_after_it() {
    let (_dir, store) = store();
    let mut text: String = (0..5000).map(|key| format!("{key}\tx\n")).collect();
    text.push_str("malformed\nafter\tx\n");
    let outcome = load(&store, SETTINGS, &[&text, "other\tx\n"]);
    let failure = outcome.failure.unwrap();
    assert_eq!(failure.code, ExitCode::BadInput);
    assert!(failure.message.starts_with("input0:5001: there is no tab"), "{}", failure.message);
    assert_eq!((outcome.counts.inserted, store.default_map().len()), (5000, 5000));
}

#[test]
fn malformed_lines_are_counted_and_the_first_few_shown() {
    let (_dir, store) = store();
    let text = "bad\na\t1\n".repeat(20);
    let outcome = load(&store, Settings { skip_bad: true, ..SETTINGS }, &[&text]);
    assert!(outcome.failure.is_none());
    assert_eq!((outcome.skipped, outcome.shown.len()), (20, SHOWN_MAX));
    assert_eq!((outcome.counts.inserted, outcome.counts.replaced), (1, 19));
}

#[test]
fn a_key_that_is_too_long_is_a_malformed_line() {
    let (_dir, store) = store();
    let text = format!("a\t1\n{}\t2\n", "k".repeat(KEY_SIZE_MAX + 1));
    let failure = load(&store, SETTINGS, &[&text]).failure.unwrap();
    assert_eq!(failure.code, ExitCode::BadInput);
    assert!(
        failure.message.contains("input0:2: the key has 64 KiB (65537 bytes)"),
        "{}",
        failure.message
    );
}
