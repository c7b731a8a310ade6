//! No circle of more than two files inside a crate: each could only be read with all others.

use super::{Finding, Rule, Workspace, finding};
use crate::tidy::circles::circles;

pub const RULE: Rule = Rule { name: "circle", may_be_debt: false, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let found = circles(workspace).into_iter().map(|circle| {
        let message = format!(
            "{} use each other in a circle: give what two of them share a file of its own",
            circle.files.join(", ")
        );
        let path = format!("crates/{}/src/lib.rs", circle.of);
        Finding { amount: circle.files.len(), ..finding(&RULE, &path, 0, message) }
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(texts: &[(&str, &str)]) -> Vec<Finding> {
        let texts = texts.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        check(&Workspace::from_texts(texts).expect("it parses"))
    }

    #[test]
    fn three_files_in_a_circle_are_refused_and_two_are_not() {
        let ring = [
            ("crates/store/src/a.rs", "use crate::b::B;\n"),
            ("crates/store/src/b.rs", "use crate::c::C;\n"),
            ("crates/store/src/c.rs", "use super::a::A;\n"),
        ];
        let found = findings(&ring);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].amount, &*found[0].path), (3, "crates/store/src/lib.rs"));
        assert!(found[0].message.starts_with("a, b, c use each other"), "{}", found[0].message);
        let pair = [ring[0], ("crates/store/src/b.rs", "use crate::a::A;\n"), ring[2]];
        assert_eq!(findings(&pair), vec![]);
    }
}
