//! Why some faulty accesses cannot be missed by any program: the list and its reader.

use std::collections::HashMap;
use std::path::Path;

use everleaf_machine::simulated::{Fault, FaultKind, Site};
use everleaf_prove::hunt::arguments::{KEPT, SourceLine, Sources, argued, function_of, parse};

const LIST: &str = "\
# a remark
one | crates/prove/src/hunt/arguments.rs | parse | skip | let mut all: Vec<Argument> = vec![];
    Because
    of this.

two | crates/prove/src/hunt/arguments.rs | parse | late | nothing
    So.
";

fn fault_at(line: &str, kind: FaultKind) -> Fault {
    let lines = include_str!("../../../src/hunt/arguments.rs").lines();
    let number = lines.map(str::trim).position(|known| known == line).expect("a line") as u32;
    let site = Site { file: "crates/prove/src/hunt/arguments.rs", line: number + 1, column: 9 };
    Fault { site, kind }
}

fn sources() -> Sources {
    Sources::below(Path::new("../.."))
}

#[test]
fn an_argument_finds_its_access_by_function_and_line() {
    let arguments = parse(LIST).expect("a list");
    assert_eq!((arguments.len(), arguments[0].why.as_str()), (2, "Because of this."));
    let line = arguments[0].place.line.as_str();
    let [skip, late] = [FaultKind::Skip, FaultKind::Late].map(|kind| fault_at(line, kind));
    let found = argued("one", &arguments, &[skip, late], &mut sources()).expect("it is there");
    assert_eq!(found, HashMap::from([(skip, 0)]));
    assert_eq!(argued("three", &arguments, &[skip], &mut sources()), Ok(HashMap::new()));
    let place = arguments[0].place.clone();
    assert!(sources().has(&place));
    assert!(!sources().has(&SourceLine { function: "argued".to_owned(), ..place }));
}

#[test]
fn an_argument_for_what_is_not_there_is_refused() {
    let arguments = parse(LIST).expect("a list");
    let skip = fault_at(&arguments[0].place.line, FaultKind::Skip);
    let error = argued("two", &arguments, &[skip], &mut sources()).expect_err("not there");
    assert!(error.contains("line 6") && error.contains("late of 'nothing'"), "{error}");
}

#[test]
fn a_list_that_is_written_wrongly_is_refused() {
    for (text, what) in [
        ("one | file | function | skip", "line 1: write"),
        ("one | file | function | away | text\n  why", "no kind 'away'"),
        ("one | file | function | skip | text\n", "without a reason"),
        ("  why", "without an access"),
    ] {
        assert!(parse(text).expect_err(text).contains(what), "{text}");
    }
    parse(KEPT).expect("the list that is kept");
}

#[test]
fn functions_are_known_by_their_declarations() {
    assert_eq!(function_of("    pub(crate) unsafe fn at<T>(self) {"), Some("at"));
    assert_eq!(function_of("fn main() {"), Some("main"));
    assert_eq!(function_of("    // what a fn does("), None);
    assert_eq!(function_of("    let f: fn (u64) = g;"), None);
}
