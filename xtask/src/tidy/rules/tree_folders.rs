//! Every tree folder has the same file names, so that a reader of one tree knows them all.
//!
//! Each folder of `crates/index/src` and `crates/designs/src` is a tree and has all of them, or is in one of the lists
//! here: parts that trees share, and trees that are little more than a leaf of a shared tree.

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

/// Folders that are no trees: what several trees share, and how a pool's trees are held and written.
const SHARED: [&str; 7] = [
    "crates/designs/src/node",
    "crates/designs/src/allocators",
    "crates/index/src/api",
    "crates/index/src/bytes",
    "crates/index/src/journal",
    "crates/index/src/pool_trees",
    "crates/index/src/write_order",
];

/// Trees that are a variant of another one, and the files that they have instead: the rest is where the comment says.
const OF_ANOTHER: [(&str, &[&str]); 7] = [
    // A type of FAST & FAIR with locks.
    ("crates/designs/src/blink", &[]),
    // Leaves of `node/hybrid`.
    ("crates/designs/src/cdds", &["leaf"]),
    ("crates/designs/src/fptree", &["leaf"]),
    ("crates/designs/src/nvtree", &["leaf"]),
    ("crates/designs/src/rntree", &["leaf", "write"]),
    ("crates/designs/src/wbtree", &["leaf"]),
    // Records below the nodes of `node/radix`.
    ("crates/designs/src/wort", &["leaf", "write"]),
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
        if SHARED.contains(&folder) {
            continue;
        }
        let of_another = OF_ANOTHER.iter().find(|(name, _)| *name == folder);
        let wanted = of_another.map_or(&NAMES[..], |(_, names)| names);
        let missing: Vec<&str> = wanted
            .iter()
            .copied()
            .filter(|name| !present.contains(name) && !WITHOUT.contains(&(folder, name)))
            .collect();
        if !missing.is_empty() {
            let path = format!("{folder}/mod.rs");
            let message = format!(
                "the tree folder lacks {}: add them, or list the folder in this rule with a reason",
                missing.join(", ")
            );
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
        files.push(("crates/designs/src/node/bitmap.rs".to_string(), ""));
        files.push(("crates/designs/src/fptree/leaf.rs".to_string(), ""));
        assert!(borrowed(&files).is_empty());
        files[3].0 = "crates/index/src/tree/write/mod.rs".to_string();
        assert!(borrowed(&files).is_empty());
        files.remove(3);
        files.push(("crates/designs/src/other/scan.rs".to_string(), ""));
        files.push(("crates/designs/src/wort/leaf.rs".to_string(), ""));
        let lacking = ["designs/src/other", "designs/src/wort", "index/src/tree"];
        let expected = lacking.map(|folder| format!("crates/{folder}/mod.rs"));
        assert_eq!(borrowed(&files), expected.map(|path| (path, 0)));
    }
}
