//! Every tree folder has the same file names, so that a reader of one tree knows them all.
//!
//! A folder of `crates/index/src` or `crates/designs/src` is a tree if it has at least two of the
//! names; folders of shared parts have their own.

use std::collections::BTreeMap;

use super::{Finding, Rule, Workspace, finding, rust_files};

pub const RULE: Rule = Rule { name: "tree-files", may_be_debt: true, check };

/// Where trees are.
const ROOTS: [&str; 2] = ["crates/index/src/", "crates/designs/src/"];

const NAMES: [&str; 8] =
    ["layout", "state", "search", "write", "split", "scan", "recover", "check"];

/// Trees without a part, and why.
const WITHOUT: [(&str, &str); 9] = [
    // Its nodes are those of the FAST & FAIR tree behind it, which splits them.
    ("crates/designs/src/f3tree", "split"),
    // Nodes of one pair: nothing to split.
    ("crates/designs/src/skiplist", "split"),
    // Its nodes have one pair each: nothing to split, and no state but that of their lock.
    ("crates/designs/src/utree", "split"),
    ("crates/designs/src/utree", "state"),
    // In DRAM: nothing is left to recover. A page has no state but the record on top of it.
    ("crates/designs/src/masstree", "recover"),
    ("crates/designs/src/bwtree", "recover"),
    ("crates/designs/src/bwtree", "state"),
    // A hash index has no order; a segment is locked or not, and has no other state.
    ("crates/designs/src/cceh", "scan"),
    ("crates/designs/src/cceh", "state"),
];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, _) in rust_files(workspace) {
        let Some(root) = ROOTS.into_iter().find(|root| file.path.starts_with(root)) else {
            continue;
        };
        let mut parts = file.path[root.len()..].split('/');
        if let (Some(folder), Some(name)) = (parts.next(), parts.next()) {
            // `write/mod.rs` and `write.rs` are the same module.
            let folder = &file.path[..root.len() + folder.len()];
            folders.entry(folder).or_default().push(name.strip_suffix(".rs").unwrap_or(name));
        }
    }
    let mut findings = Vec::new();
    for (folder, present) in folders {
        let missing: Vec<&str> = NAMES
            .into_iter()
            .filter(|name| !present.contains(name) && !WITHOUT.contains(&(folder, *name)))
            .collect();
        if missing.len() + 2 <= NAMES.len() && !missing.is_empty() {
            let path = format!("{folder}/mod.rs");
            let message = format!("the tree folder lacks {}", missing.join(", "));
            findings.push(Finding { amount: missing.len(), ..finding(&RULE, &path, 0, message) });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn a_tree_folder_that_lacks_a_file_is_refused() {
        let mut files: Vec<(String, &str)> =
            NAMES.iter().map(|name| (format!("crates/index/src/tree/{name}.rs"), "")).collect();
        let borrowed = |files: &[(String, &'static str)]| -> Vec<(String, usize)> {
            let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
            findings_in(&RULE, &files)
        };
        files.push(("crates/index/src/node/bitmap.rs".to_string(), ""));
        assert!(borrowed(&files).is_empty());
        files[3].0 = "crates/index/src/tree/write/mod.rs".to_string();
        assert!(borrowed(&files).is_empty());
        files.remove(3);
        files.push(("crates/designs/src/other/scan.rs".to_string(), ""));
        files.push(("crates/designs/src/other/split.rs".to_string(), ""));
        let expected = ["crates/designs/src/other/mod.rs", "crates/index/src/tree/mod.rs"];
        assert_eq!(borrowed(&files), expected.map(|path| (path.to_string(), 0)));
    }
}
