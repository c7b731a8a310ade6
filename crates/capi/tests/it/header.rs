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
    for code in -28..=3 {
        assert!(told.insert(text(el_strerror(code))), "{code} has a text of its own");
    }
    assert_eq!(text(el_strerror(12345)), text(el_strerror(everleaf_capi::code::EL_OTHER)));
}
