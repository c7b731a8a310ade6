//! No circle of more than two files inside a crate: each could only be read with all others.
//!
//! What is left is counted in the ratchet, by crate.

use super::{Finding, Rule, Workspace, finding};
use crate::tidy::circles::circles;

pub const RULE: Rule = Rule { name: "circle", may_be_debt: true, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let found = circles(workspace).into_iter().map(|circle| {
        let file = |(module, used): (&String, &Vec<String>)| {
            let module = if module.is_empty() { "the root" } else { module };
            format!("{module} (uses {})", used.join(", "))
        };
        let files: Vec<String> = circle.files.iter().map(file).collect();
        let message = format!(
            "{} use each other in a circle: give what two of them share a file of its own",
            files.join("; ")
        );
        let [library, program] = ["lib", "main"].map(|root| format!("{}/src/{root}.rs", circle.of));
        let is_program = workspace.file(&library).is_none() && workspace.file(&program).is_some();
        let path = if is_program { program } else { library };
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

    /// What the rule once did not see: it read a path up to the first brace, and one line of it.
    #[test]
    fn a_circle_is_seen_however_it_is_written() {
        let lib = ("crates/store/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use c::C;\n");
        let a = ("crates/store/src/a.rs", "use crate::{\n    b::{self, B},\n    D,\n};\n");
        let c = ("crates/store/src/c.rs", "use super::{a::A};\npub struct C;\n");
        for b in [
            "use crate::c::C;\n",
            "use crate::{d, c};\n",
            "use super::C;\n",
            "use crate::{C, E};\n",
            "fn f() { vec![super::C] }\n",
            "use super::c;\n",
        ] {
            let found = findings(&[lib, a, ("crates/store/src/b.rs", b), c]);
            assert_eq!(found.len(), 1, "{b}");
            assert_eq!(found[0].amount, 3, "{b}");
        }
    }

    #[test]
    fn what_is_taken_from_the_file_above_counts() {
        let head = "mod b;\nmod c;\npub use self::c::C;\npub struct A;\nfn f() { b::g() }\n";
        let files = [
            ("crates/store/src/a.rs", head),
            ("crates/store/src/a/b.rs", "use super::A;\nuse super::c::h;\n"),
            ("crates/store/src/a/c.rs", "use super::A;\n"),
        ];
        assert_eq!(findings(&files)[0].amount, 3);
        // What they share has a file of its own, which the one above only passes on.
        let head = "mod b;\nmod c;\nmod d;\npub use self::d::A;\nfn f() { b::g() }\n";
        let leaf = ("crates/store/src/a/d.rs", "pub struct A;\n");
        assert_eq!(findings(&[("crates/store/src/a.rs", head), files[1], files[2], leaf]), vec![]);
        // So it may be called as the module is that has it.
        let head = "mod b;\npub use self::b::b;\npub struct A;\n";
        let above = ("crates/store/src/a.rs", head);
        let below = ("crates/store/src/a/b.rs", "use crate::c::C;\npub fn b() {}\n");
        let aside = ("crates/store/src/c.rs", "use crate::a::A;\npub struct C;\n");
        assert_eq!(findings(&[above, below, aside]), vec![]);
        let root = ("crates/store/src/lib.rs", "mod a;\npub type Result = a::A;\n");
        let above = ("crates/store/src/a.rs", "mod b;\npub use b::A;\nfn f() { b::g() }\n");
        let below = ("crates/store/src/a/b.rs", "use crate::{Result, a::f};\npub struct A;\n");
        assert_eq!(findings(&[root, above, below])[0].amount, 3);
    }

    #[test]
    fn circles_of_bindings_rivals_and_this_program_are_seen() {
        for (folder, root) in [("bindings/python", "lib"), ("xtask", "main"), ("rivals", "main")] {
            let path = |name: &str| format!("{folder}/src/{name}.rs");
            let [main, a, b, c] = [root, "a", "b", "c"].map(path);
            let files = [
                (&*main, "mod a;\nmod b;\nmod c;\n"),
                (&*a, "use crate::b::B;\n"),
                (&*b, "use crate::c::C;\n"),
                (&*c, "use crate::a::A;\n"),
            ];
            let found = findings(&files);
            let found: Vec<_> = found.iter().map(|one| (one.amount, &*one.path)).collect();
            assert_eq!(found, [(3, &*main)]);
        }
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
        assert!(
            found[0].message.starts_with("a (uses b); b (uses c); c (uses a) use"),
            "{}",
            found[0].message
        );
        let pair = [ring[0], ("crates/store/src/b.rs", "use crate::a::A;\n"), ring[2]];
        assert_eq!(findings(&pair), vec![]);
    }
}
