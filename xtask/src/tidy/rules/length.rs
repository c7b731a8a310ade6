//! Files stay short: above 500 lines they are debt, above 600 they are refused. Tests do not count.

use super::{Finding, Rule, Workspace, finding, rust_files};

/// Files above the aim: known debt may stay, and shrink.
pub const LONG: Rule = Rule { name: "length", may_be_debt: true, check: check_long };
/// Files above the hard limit.
pub const TOO_LONG: Rule = Rule { name: "length-limit", may_be_debt: false, check: check_limit };

pub const AIM: usize = 500;
const LIMIT: usize = 600;

fn check_long(workspace: &Workspace) -> Vec<Finding> {
    above(workspace, &LONG, AIM)
}

fn check_limit(workspace: &Workspace) -> Vec<Finding> {
    above(workspace, &TOO_LONG, LIMIT)
}

fn above(workspace: &Workspace, rule: &Rule, bound: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in rust_files(workspace) {
        let count = rust.product_line_count();
        if count > bound {
            let message = format!("{count} lines without tests, above {bound}: split the file");
            findings.push(Finding { amount: count, ..finding(rule, &file.path, 0, message) });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn long_files_are_refused_and_tests_do_not_count() {
        let path = "crates/a/src/x.rs";
        let lines = |count: usize| "//! A line.\n".repeat(count);
        assert!(lines_in(&LONG, path, &lines(490)).is_empty());
        assert_eq!(lines_in(&LONG, path, &lines(510)), [0]);
        assert!(lines_in(&TOO_LONG, path, &lines(510)).is_empty());
        assert_eq!(lines_in(&TOO_LONG, path, &lines(601)), [0]);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    // A line.\n".repeat(900));
        assert!(lines_in(&LONG, path, &tests).is_empty());
    }
}
