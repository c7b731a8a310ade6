//! The header is what the crate says, and every function of it is called by a test.

use std::path::{Path, PathBuf};

/// What lets the test write the header instead: `cargo xtask capi header`.
const UPDATE: &str = "EVERLEAF_UPDATE_HEADER";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn generated() -> String {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).expect("it parses");
    let mut config = config;
    let version = env!("CARGO_PKG_VERSION");
    let numbers: Vec<&str> = version.split(['.', '-']).take(3).collect();
    let [major, minor, patch] = numbers[..] else { panic!("{version} has three numbers") };
    // The library may be another one: its is `el_version()`.
    let macros = format!(
        "\n// The version of this header.\n#define EL_VERSION \"{version}\"\n\
         #define EL_VERSION_MAJOR {major}\n#define EL_VERSION_MINOR {minor}\n\
         #define EL_VERSION_PATCH {patch}\n"
    );
    let after = config.after_includes.take().unwrap_or_default();
    config.after_includes = Some(macros + &after);
    let mut builder = cbindgen::Builder::new().with_config(config);
    // In an order that reads well: what everything needs first.
    for file in [
        "code",
        "argument",
        "memory",
        "entry",
        "options",
        "store",
        "files",
        "upkeep",
        "map",
        "expiry",
        "atomic",
        "many",
        "cursor",
        "batch",
        "view",
        "watch",
        "statistics",
    ] {
        builder = builder.with_src(folder().join(format!("src/{file}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn the_committed_header_is_what_the_crate_says() {
    let path = folder().join("include/everleaf.h");
    let text = generated();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &text).expect("the header can be written");
    }
    assert!(read(&path) == text, "include/everleaf.h is old: run `cargo xtask capi header`");
}

/// The names of the functions that the header declares.
fn functions() -> Vec<String> {
    let text = generated();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = Vec::new();
    // Declarations begin in the first column, behind the type that they return.
    for line in text.lines().filter(|line| !line.starts_with(['/', ' ', '#', '}'])) {
        let Some((before, _)) = line.split_once('(') else { continue };
        let name = before.rsplit(|c| !is_name(c)).next().unwrap_or_default();
        let is_ours = name.starts_with("el_") && !before.starts_with("static inline");
        if is_ours && !before.starts_with("typedef") {
            names.push(name.to_string());
        }
    }
    names
}

#[test]
fn every_function_is_called_by_a_test_in_rust() {
    let mut calls = String::new();
    for file in std::fs::read_dir(folder().join("tests/it")).expect("the folder") {
        calls += &read(&file.expect("a file").path());
    }
    let names = functions();
    assert!(names.len() > 50, "the header was not understood: {names:?}");
    let missing: Vec<_> = names.iter().filter(|n| !calls.contains(&format!("{n}("))).collect();
    assert!(missing.is_empty(), "not called: {missing:?}");
}

/// What the wrapper for C++ leaves out, because something else in it does the same: `map::get` copies what `el_get_with` shows,
/// and an exception has the text of its error.
const NOT_IN_CPP: [&str; 3] = ["el_strerror", "el_get", "el_get_copy"];

#[test]
fn the_wrapper_for_cpp_has_all_but_what_it_leaves_out() {
    let text = read(&folder().join("include/everleaf.hpp"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: std::collections::BTreeSet<&str> = text.split(|c| !is_name(c)).collect();
    let names = functions();
    let missing: Vec<_> = names.iter().filter(|name| !words.contains(name.as_str())).collect();
    assert_eq!(missing, NOT_IN_CPP, "the list says what is left out, and nothing else is");
}

/// What the library in Rust has under another name in C: a function of its own, an option, or another function that
/// does as much.
const BY_ANOTHER_NAME: [(&str, &str); 39] = [
    ("Map::expire", "el_expire_at"),
    ("Map::first", "el_iter_next"),
    ("Map::get_rows", "el_get_columns"),
    ("Map::get_with_expiry", "el_get_expiring"),
    ("Map::is_empty", "el_count"),
    ("Map::iter", "el_iter_new"),
    ("Map::last", "el_iter_prev"),
    ("Map::len", "el_count"),
    ("Map::persist", "el_expire_at"),
    ("Map::pop_first", "el_pop"),
    ("Map::pop_last", "el_pop"),
    ("Map::prefix", "el_iter_prefix"),
    ("Map::put_with_expiry", "el_put_expiring"),
    ("Map::range", "el_iter_new"),
    ("Map::statistics", "el_map_numbers"),
    ("Map::update_with_expiry", "el_update_expiring_with"),
    ("Map::watch", "el_watch_new"),
    ("MapView::contains", "el_view_get"),
    ("MapView::iter", "el_iter_view"),
    ("MapView::prefix", "el_iter_view"),
    ("MapView::range", "el_iter_view"),
    ("Options::events", "el_options_log"),
    ("Options::initial_size_bytes", "EL_INITIAL_SIZE"),
    ("Options::max_size_bytes", "EL_MAX_SIZE"),
    ("Options::open", "el_store_open"),
    ("Options::read_only", "EL_READ_ONLY_OPEN"),
    ("Options::snapshot_after_bytes", "EL_SNAPSHOT_AFTER"),
    ("Options::view_memory_bytes", "EL_VIEW_MEMORY"),
    ("Store::default_map", "el_store_map"),
    ("Store::existing_map", "el_store_map"),
    ("Store::repair_with", "el_repair"),
    ("Store::view", "el_view_new"),
    ("View::default_map", "el_view_get"),
    ("View::map", "el_view_get"),
    ("WriteBatch::expect_with_expiry", "el_batch_expect_expiring"),
    ("WriteBatch::expire", "el_batch_expire_at"),
    ("WriteBatch::is_empty", "el_batch_count"),
    ("WriteBatch::len", "el_batch_count"),
    ("WriteBatch::put_with_expiry", "el_batch_put_expiring"),
];

/// What C leaves out; `docs/bindings.md` says so, and says why.
const NOT_IN_C: [&str; 19] = [
    "Map::ceiling",
    "Map::floor",
    "Map::remove_expired",
    "Map::replace",
    "Options::interval_of_last",
    "Options::open_at_once",
    "Options::rebuild_progress",
    "Range::peek",
    "Store::can_tell_crashes",
    "Store::check_process",
    "Store::pause_sweep",
    "Store::resume_sweep",
    "Store::write_alone",
    "Watch::key",
    "Watch::map",
    "WriteBatch::expire_seen",
    "WriteBatch::reserve",
    "WriteBatch::size_bytes",
    "WriteBatch::try_reserve",
];

/// Types of the library in Rust, and how names in C begin that do the same as their functions.
const TYPES: [(&str, &[&str]); 8] = [
    ("Map", &["el_"]),
    ("MapView", &["el_view_"]),
    ("Options", &["EL_", "el_options_", "el_"]),
    ("Range", &["el_iter_"]),
    ("Store", &["el_store_", "el_"]),
    ("View", &["el_view_"]),
    ("Watch", &["el_watch_"]),
    ("WriteBatch", &["el_batch_"]),
];

/// The public functions of these types in a file, each with the names that it may have in C.
fn functions_of(text: &str, found: &mut Vec<(String, Vec<String>)>) {
    let (mut prefixes, mut of, mut is_hidden) = (&[][..], "", false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("impl ").and_then(|line| line.strip_suffix(" {")) {
            let known = TYPES.iter().find(|(known, _)| *known == name);
            (of, prefixes) = known.copied().unwrap_or_default();
        }
        is_hidden |= line.contains("doc(hidden)");
        let Some((before, rest)) = line.split_once("fn ") else { continue };
        let is_shown = !std::mem::take(&mut is_hidden);
        if of.is_empty() || !is_shown || !["    pub ", "    pub const "].contains(&before) {
            continue;
        }
        let name = rest.split(['(', '<']).next().unwrap_or_default();
        let in_c = |prefix: &&str| match *prefix {
            "EL_" => format!("EL_{}", name.to_uppercase()),
            prefix => format!("{prefix}{name}"),
        };
        found.push((format!("{of}::{name}"), prefixes.iter().map(in_c).collect()));
    }
}

fn functions_in_rust() -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut next = vec![folder().join("../store/src")];
    while let Some(path) = next.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).expect("the library is beside us");
            next.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else {
            functions_of(&read(&path), &mut found);
        }
    }
    found
}

#[test]
fn c_has_all_of_rust_but_what_it_leaves_out() {
    let text = generated();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // Not its types: a function may have the name of one.
    let constants = text.split(|c| !is_name(c)).filter(|word| word.starts_with("EL_"));
    let functions = functions();
    let words: std::collections::BTreeSet<&str> =
        constants.chain(functions.iter().map(String::as_str)).collect();
    let found = functions_in_rust();
    assert!(found.len() > 90, "the library was not understood: {found:?}");
    for (name, other) in BY_ANOTHER_NAME {
        assert!(found.iter().any(|(one, _)| one == name), "there is no {name}");
        assert!(words.contains(other), "{name}: there is no {other}");
    }
    let is_there = |name: &str, in_c: &[String]| {
        in_c.iter().any(|word| words.contains(word.as_str()))
            || BY_ANOTHER_NAME.iter().any(|(one, _)| *one == name)
    };
    let missing = found.iter().filter(|(name, in_c)| !is_there(name, in_c));
    let mut missing: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
    missing.sort_unstable();
    assert_eq!(missing, NOT_IN_C, "the list says what is left out, and nothing else is");

    let page = read(&folder().join("../../docs/bindings.md"));
    let (_, told) = page.split_once("- **What Rust has**").expect("the page has the list");
    let told = told.split("\n- **").next().expect("it has an end");
    let quoted = told.split('`').skip(1).step_by(2).filter(|word| !word.starts_with("el_"));
    let mut quoted: Vec<&str> = quoted.collect();
    let mut left_out = NOT_IN_C.map(|name| name.split("::").nth(1).unwrap_or_default());
    quoted.sort_unstable();
    left_out.sort_unstable();
    assert_eq!(quoted, left_out, "docs/bindings.md says the same");
}

#[test]
fn every_function_that_can_fail_runs_in_an_entry() {
    let mut count = 0;
    for file in std::fs::read_dir(folder().join("src")).expect("the folder") {
        let text = read(&file.expect("a file").path());
        for function in text.split("pub extern \"C\" fn ").skip(1) {
            let name = function.split('(').next().unwrap_or_default();
            let (signature, body) = function.split_once("{\n").expect("a body");
            count += 1;
            if signature.contains("-> c_int") {
                assert!(body.trim_start().starts_with("entry("), "{name}");
            }
        }
    }
    assert_eq!(count, functions().len(), "each function is in the header");
}

#[test]
fn numbers_of_the_header_are_those_of_the_crate() {
    use everleaf_capi::entry::{el_abi_version, el_strerror, el_version};
    assert_eq!(el_abi_version(), everleaf_capi::code::EL_ABI_VERSION);
    let text = |text| super::support::text(text);
    assert_eq!(text(el_version()), env!("CARGO_PKG_VERSION"));
    let mut told = std::collections::BTreeSet::new();
    for code in -29..=3 {
        assert!(told.insert(text(el_strerror(code))), "{code} has a text of its own");
    }
    assert_eq!(text(el_strerror(12345)), text(el_strerror(everleaf_capi::code::EL_OTHER)));
}
