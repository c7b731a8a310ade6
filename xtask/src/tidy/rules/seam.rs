//! Pool, allocator and trees reach the machine only through the machine crate.
//!
//! A standard atomic, thread, clock or lock would be invisible to the simulated machine, and a
//! hash map would iterate in another order on each run. One that is never iterated may stay, with a
//! comment `Unordered: ..` that says so. Test code is exempt.

use proc_macro2::Span;
use syn::visit::Visit;

use super::{Finding, Rule, Workspace, finding, sources_of};
use crate::tidy::source::RustSource;

pub const RULE: Rule = Rule { name: "seam", may_be_debt: true, check };

/// Paths that no layer between the machine and the store may use, and what to use instead.
const BANNED: [(&str, &str); 11] = [
    ("std::sync::atomic", "everleaf_machine::Atomic"),
    ("std::arch", "everleaf_machine"),
    ("std::thread", "a thread of the caller"),
    ("std::time", "Machine::now_ns"),
    ("std::alloc", "Machine::allocate"),
    ("std::sync::Mutex", "everleaf_machine::SpinLock"),
    ("std::sync::RwLock", "everleaf_machine::SpinLock"),
    ("std::sync::Condvar", "Machine::spin"),
    ("std::sync::Barrier", "Machine::spin"),
    ("std::sync::mpsc", "everleaf_machine::SpinLock"),
    ("parking_lot", "everleaf_machine::SpinLock"),
];

/// Further names banned where order decides what a replayed schedule does.
const BANNED_IN_TREES: [(&str, &str); 3] = [
    ("std::collections::HashMap", "a BTreeMap or a sorted Vec"),
    ("std::collections::HashSet", "a BTreeSet or a sorted Vec"),
    ("thread_local", "the per-thread handle"),
];

/// `Layout` only describes memory.
const ALLOWED: [&str; 1] = ["std::alloc::Layout"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in sources_of(workspace, &["pool", "alloc", "index", "designs"]) {
        let mut banned = BANNED.to_vec();
        if file.crate_of_source() != Some("pool") {
            banned.extend(BANNED_IN_TREES);
        }
        let mut paths = Paths::default();
        paths.visit_file(&rust.ast);
        for (line, path) in paths.found {
            let path = path.replace("core::", "std::");
            if rust.is_test_line(line) || ALLOWED.iter().any(|allowed| is_under(&path, allowed)) {
                continue;
            }
            for (name, instead) in &banned {
                if is_under(&path, name) && !is_excused(rust, line, name) {
                    let message = format!("`{name}` goes round the machine: use {instead}");
                    findings.push(finding(&RULE, &file.path, line, message));
                }
            }
        }
    }
    findings
}

/// Whether a comment says that the order of a hash map does not matter.
fn is_excused(rust: &RustSource, line: usize, name: &str) -> bool {
    name.starts_with("std::collections::Hash")
        && rust.comments_near(line, 4).iter().any(|text| text.contains("Unordered:"))
}

fn is_under(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path of a file, with imports spelled out.
#[derive(Default)]
struct Paths {
    found: Vec<(usize, String)>,
}

impl Paths {
    fn add(&mut self, span: Span, path: String) {
        self.found.push((span.start().line, path));
    }

    fn add_tree(&mut self, prefix: &str, tree: &syn::UseTree) {
        let joined = |name: &syn::Ident| match prefix {
            "" => name.to_string(),
            _ => format!("{prefix}::{name}"),
        };
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&joined(&path.ident), &path.tree),
            syn::UseTree::Name(name) if name.ident == "self" => {
                self.add(name.ident.span(), prefix.to_string());
            }
            syn::UseTree::Name(name) => self.add(name.ident.span(), joined(&name.ident)),
            syn::UseTree::Rename(rename) => self.add(rename.ident.span(), joined(&rename.ident)),
            syn::UseTree::Glob(glob) => {
                self.add(glob.star_token.spans[0], prefix.to_string());
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add_tree(prefix, item));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree("", &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let Some(first) = path.segments.first() {
            self.add(first.ident.span(), names.join("::"));
        }
        syn::visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn ways_round_the_machine_are_refused_however_they_are_spelled() {
        let text = "use std::sync::atomic::AtomicU64;\n\
                    use std::{sync::{Arc, Mutex}, thread};\n\
                    fn f() {\n    std::time::Instant::now();\n}\n\
                    use core::sync::atomic;\n";
        assert_eq!(lines_in(&RULE, "crates/pool/src/x.rs", text), [1, 2, 2, 4, 6]);
    }

    #[test]
    fn hash_maps_and_thread_locals_are_refused_in_trees() {
        let text =
            "use std::collections::{BTreeMap, HashMap};\nthread_local! { static A: u8 = 0; }\n";
        assert_eq!(lines_in(&RULE, "crates/index/src/x.rs", text), [1, 2]);
        let excused = "// Unordered: only asked for membership.\nuse std::collections::HashSet;\n";
        assert!(lines_in(&RULE, "crates/index/src/x.rs", excused).is_empty());
        assert!(lines_in(&RULE, "crates/pool/src/x.rs", text).is_empty());
        assert!(lines_in(&RULE, "crates/store/src/x.rs", text).is_empty());
    }

    #[test]
    fn layouts_arcs_and_tests_are_left_alone() {
        let text = "use std::alloc::Layout;\nuse std::sync::Arc;\n\
                    #[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
        assert!(lines_in(&RULE, "crates/index/src/x.rs", text).is_empty());
        assert!(lines_in(&RULE, "crates/index/tests/x.rs", "use std::thread;").is_empty());
    }
}
