//! The page about the log shows the bytes that the source says, and every planted bug is in it.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn the_page_has_the_diagram_of_the_layout() {
    let source = read("src/layout.rs");
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let header: String =
        lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect();
    let diagram = header.split("```").nth(1).unwrap();
    assert!(diagram.contains("durable LSN") && diagram.contains("footer"));
    let page = read("../../docs/log.md");
    assert!(page.contains(diagram), "copy the diagram of src/layout.rs into docs/log.md");
}

#[test]
fn the_page_has_every_planted_bug() {
    let hunted = read("tests/crashes/main.rs");
    let (_, list) = hunted.split_once("const MUTANTS").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(names.len() >= 12);
    let page = read("../../docs/log.md");
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/log.md");
    }
}
