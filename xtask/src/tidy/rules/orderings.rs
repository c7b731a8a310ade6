//! Every memory ordering has a comment that begins with its name and says what it pairs with.
//!
//! The comment stands on the line, or within four lines above it or above its statement:
//! `// Acquire: sees the entry; pairs with the release in ..`. A file whose relaxed accesses all have
//! one reason may say it once: `// Relaxed throughout: ..`. The machine crate, which passes orderings
//! through, and test code are exempt.

use super::{Finding, Rule, Workspace, finding, rust_files};
use crate::tidy::source::RustSource;

pub const RULE: Rule = Rule { name: "ordering", may_be_debt: true, check };

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// How many lines above the line or its statement the comment may end.
const REACH: usize = 4;

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        if file.path.starts_with("crates/machine/src/") {
            continue;
        }
        let relaxed_throughout =
            rust.lines.iter().any(|l| l.comment.contains("Relaxed throughout:"));
        rust.each_pair_path(&file.text, "Ordering", &mut |line, name| {
            let is_explained = rust.is_test_line(line)
                || !ORDERINGS.contains(&name)
                || (name == "Relaxed" && relaxed_throughout)
                || rust.comments_near(line, REACH).iter().any(|text| explains(text, name));
            if !is_explained {
                findings.push(finding(&RULE, &file.path, line, message(name)));
            }
        });
        for line in imported(rust) {
            findings.push(finding(
                &RULE,
                &file.path,
                line,
                "orderings are written `Ordering::X`, so that they can be found: do not import them",
            ));
        }
    }
    findings
}

fn message(name: &str) -> String {
    format!(
        "no comment `{name}: ..` on the line or above its statement: say what becomes visible to \
         whom and what it pairs with (or why Relaxed suffices)"
    )
}

/// Whether a comment explains an ordering. What is said of AcqRel covers the Acquire with which the
/// same exchange reads when it fails.
fn explains(comment: &str, ordering: &str) -> bool {
    names(comment, ordering) || (ordering == "Acquire" && names(comment, "AcqRel"))
}

/// Whether a comment claims something for an ordering: its name, in any case, then a colon in the
/// same clause ("Acquire: ..", "relaxed on failure: ..").
fn names(comment: &str, ordering: &str) -> bool {
    let comment = comment.to_ascii_lowercase();
    let ordering = ordering.to_ascii_lowercase();
    comment.match_indices(&ordering).any(|(at, _)| {
        let before = &comment[..at];
        let after = &comment[at + ordering.len()..];
        let stands_alone = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        // `::` is a path, not a claim.
        let clause = after.split(['.', ';']).next().unwrap_or_default().replace("::", "");
        stands_alone && clause.contains(':')
    })
}

/// Lines that import an ordering by name or by glob.
fn imported(rust: &RustSource) -> Vec<usize> {
    let mut lines = Vec::new();
    for (index, line) in rust.lines.iter().enumerate() {
        let code = line.code.trim_start();
        let is_import = code.starts_with("use ") || code.starts_with("pub use ");
        if is_import
            && !rust.is_test_line(index + 1)
            && (code.contains("Ordering::{") || code.contains("Ordering::*"))
        {
            lines.push(index + 1);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    const PATH: &str = "crates/index/src/x.rs";

    #[test]
    fn an_ordering_without_its_comment_is_refused() {
        let text = "fn f() {\n    a.load(Ordering::Acquire);\n}\n";
        assert_eq!(lines_in(&RULE, PATH, text), [2]);
        let wrong = "fn f() {\n    // Release: no.\n    a.load(Ordering::Acquire);\n}\n";
        assert_eq!(lines_in(&RULE, PATH, wrong), [3]);
        let empty = "fn f() {\n    // Acquire the lock.\n    a.load(Ordering::Acquire);\n}\n";
        assert_eq!(lines_in(&RULE, PATH, empty), [3]);
    }

    #[test]
    fn an_ordering_inside_a_macro_is_seen() {
        let text = "fn f() {\n    assert!(a.load(Ordering::Relaxed) > 0);\n}\n";
        assert_eq!(lines_in(&RULE, PATH, text), [2]);
    }

    #[test]
    fn both_orderings_of_an_exchange_must_be_explained() {
        let text = "fn f() {\n    // Acquire: sees the last holder's writes; pairs with drop.\n    \
                    a.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);\n}\n";
        assert_eq!(lines_in(&RULE, PATH, text), [3]);
        let both = text.replace("drop.", "drop. Relaxed on failure: nothing is read.");
        assert!(lines_in(&RULE, PATH, &both).is_empty());
        let at_once = text.replace("Acquire: sees", "Acquire on success, relaxed on failure: sees");
        assert!(lines_in(&RULE, PATH, &at_once).is_empty());
    }

    #[test]
    fn what_is_said_of_an_exchange_covers_its_failing_read() {
        let text = "fn f() {\n    // AcqRel: publishes; pairs with g.\n    \
                    a.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);\n}\n";
        assert!(lines_in(&RULE, PATH, text).is_empty());
        let relaxed = text.replace("Ordering::Acquire)", "Ordering::Relaxed)");
        assert_eq!(lines_in(&RULE, PATH, &relaxed), [3]);
    }

    #[test]
    fn a_comment_on_the_line_or_above_the_statement_is_enough() {
        let same = "fn f() {\n    a.load(Ordering::Acquire); // Acquire: pairs with g.\n}\n";
        assert!(lines_in(&RULE, PATH, same).is_empty());
        let long = "fn f() {\n    // AcqRel: publishes; pairs with g.\n    a\n        .b()\n        \
                    .c()\n        .d()\n        .e()\n        .swap(1, Ordering::AcqRel);\n}\n";
        assert!(lines_in(&RULE, PATH, long).is_empty());
        let once = "// Relaxed throughout: statistics.\nfn f() { a.load(Ordering::Relaxed); }\n";
        assert!(lines_in(&RULE, PATH, once).is_empty());
    }

    #[test]
    fn imported_orderings_are_refused_and_tests_are_exempt() {
        let text = "use std::sync::atomic::Ordering::{Acquire, Relaxed};\n";
        assert_eq!(lines_in(&RULE, PATH, text), [1]);
        let test = "#[cfg(test)]\nmod tests {\n    fn f() { a.load(Ordering::Acquire); }\n}\n";
        assert!(lines_in(&RULE, PATH, test).is_empty());
        let machine = "fn f() { a.load(Ordering::Acquire); }\n";
        assert!(lines_in(&RULE, "crates/machine/src/x.rs", machine).is_empty());
    }
}
