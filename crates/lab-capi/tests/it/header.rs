//! The header is what the crate says.

use std::path::PathBuf;

/// Set by `cargo xtask capi header`.
const UPDATE: &str = "EVERLEAF_UPDATE_HEADER";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_committed_header_is_what_the_crate_says() {
    let config = cbindgen::Config::from_file(folder().join("cbindgen.toml")).expect("it parses");
    let builder = cbindgen::Builder::new().with_config(config);
    let mut text = Vec::new();
    let builder = builder.with_src(folder().join("src/index.rs"));
    builder.generate().expect("the source can be read").write(&mut text);
    let path = folder().join("include/everleaf_lab.h");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &text).expect("the header can be written");
    }
    let committed = std::fs::read(&path).expect("the header is there");
    assert!(committed == text, "include/everleaf_lab.h is old: run `cargo xtask capi header`");
}
