//! Runs every command of the guide (`docs/guide`), page by page, and compares what it prints.
//!
//! How a page is written is in `docs/guide/README.md`. An author who changes a command sees here which
//! page tells something else.

#![allow(clippy::print_stdout, reason = "it says what it does not run, and why")]

mod block;
mod session;

use block::{Block, Kind, blocks};
use session::Session;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The page that `src/lib.rs` includes for its examples.
const RUST_PAGE: &str = "embed.md";

/// The folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    let path = root().join("docs/guide").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A test for each page.
macro_rules! pages {
    ($($name:ident => $file:literal,)+) => {
        const PAGES: &[&str] = &[$($file),+];
        $(#[test]
        fn $name() {
            run($file);
        })+
    };
}

pages! {
    the_introduction => "README.md",
    the_first_ten_minutes => "first-ten-minutes.md",
    embedding => "embed.md",
    the_server => "server.md",
    durability => "durability.md",
    operating => "operate.md",
    moving => "move.md",
    persistent_memory => "persistent-memory.md",
    tuning => "tuning.md",
    internals => "internals.md",
}

/// Runs the blocks of a page in one shell and one folder.
fn run(name: &str) {
    let text = page(name);
    let blocks = blocks(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut session = Session::default();
    for block in &blocks {
        match &block.kind {
            Kind::Commands(commands) => match missing(&block.needs) {
                None => session.add(block.line, commands),
                Some(what) => println!("{name}:{}: not run: there is no {what} here", block.line),
            },
            Kind::File(file) => session.add_file(file, &block.text),
            Kind::SameAs(file) => is_part_of(name, block, file),
            Kind::NotRun(why) => println!("{name}:{}: not run: {why}", block.line),
            Kind::Rust => {
                assert_eq!(name, RUST_PAGE, "line {}: its Rust is run by nothing", block.line);
            }
            Kind::Other => {}
        }
    }
    session.run(name);
}

/// What makes a missing program a failure: where everything was installed, as in continuous integration.
const ALL_PROGRAMS: &str = "EVERLEAF_TEST_ALL_PROGRAMS";

/// The first of the programs (or `root`) that is not here.
fn missing(needs: &[String]) -> Option<&str> {
    let found = first_missing(needs)?;
    let may_be = found == "root" || std::env::var_os(ALL_PROGRAMS).is_none();
    assert!(may_be, "{ALL_PROGRAMS}: there is no {found}");
    Some(found)
}

fn first_missing(needs: &[String]) -> Option<&str> {
    let is_here = |need: &str| match need {
        "root" => is_root(),
        program => is_in_path(program),
    };
    needs.iter().map(String::as_str).find(|need| !is_here(need))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The block is in that file of the repository, which another test compiles and runs.
fn is_part_of(name: &str, block: &Block, file: &str) {
    let text = std::fs::read_to_string(root().join(file)).expect("the file is there");
    assert!(text.contains(&block.text), "{name}:{}: it is not what {file} has", block.line);
}

#[test]
fn every_page_is_in_the_summary_and_is_run() {
    let folder = std::fs::read_dir(root().join("docs/guide")).expect("the guide is there");
    let names = folder.map(|entry| entry.expect("it can be listed").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    let pages: BTreeSet<String> =
        names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    let summary = page("SUMMARY.md");
    let listed = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    assert_eq!(listed.map(String::from).collect::<BTreeSet<_>>(), pages);
    assert_eq!(PAGES.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), pages);
}

/// A guide without commands would pass the tests above.
#[test]
fn many_commands_need_nothing_but_a_shell() {
    let (mut all, mut plain) = (0, 0);
    for name in PAGES {
        for block in blocks(&page(name)).unwrap_or_else(|error| panic!("{name}: {error}")) {
            if let Kind::Commands(commands) = block.kind {
                all += commands.len();
                plain += if block.needs.is_empty() { commands.len() } else { 0 };
            }
        }
    }
    println!("{plain} of {all} commands need nothing but a shell");
    assert!(plain >= 85 && all > PAGES.len(), "{plain} of {all}");
}
