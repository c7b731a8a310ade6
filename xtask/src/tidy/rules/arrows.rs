//! The layers' arrows point down: each crate depends only on the crates below it.
//!
//! Cargo refuses cycles but not shortcuts; this table is the architecture's picture as data.

use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "arrows", may_be_debt: false, check };

/// For each crate folder, the Everleaf crates it may depend on.
const ALLOWED: [(&str, &[&str]); 20] = [
    ("machine", &[]),
    ("pool", &["everleaf-machine"]),
    ("alloc", &["everleaf-machine", "everleaf-pool"]),
    ("index", &["everleaf-machine", "everleaf-pool", "everleaf-alloc"]),
    ("index/tests", &[]),
    ("designs", &["everleaf-machine", "everleaf-pool", "everleaf-alloc", "everleaf-index"]),
    ("designs/tests", &[]),
    ("log", &["everleaf-machine"]),
    ("store", &["everleaf-index", "everleaf-log"]),
    ("capi", &["everleaf"]),
    ("bench", &["everleaf-machine", "everleaf-index", "everleaf"]),
    ("lab-designs", &["everleaf-machine", "everleaf-index", "everleaf-designs", "everleaf-bench"]),
    (
        "lab",
        &[
            "everleaf-machine",
            "everleaf-index",
            "everleaf-designs",
            "everleaf-lab-designs",
            "everleaf",
            "everleaf-bench",
        ],
    ),
    (
        "prove",
        &[
            "everleaf-machine",
            "everleaf-pool",
            "everleaf-alloc",
            "everleaf-index",
            "everleaf-log",
            "everleaf",
        ],
    ),
    (
        "prove-designs",
        &[
            "everleaf-machine",
            "everleaf-alloc",
            "everleaf-index",
            "everleaf-designs",
            "everleaf-prove",
        ],
    ),
    ("lab-capi", &["everleaf", "everleaf-capi", "everleaf-lab-designs"]),
    ("models", &[]),
    ("server", &["everleaf"]),
    ("cli", &["everleaf", "everleaf-server", "everleaf-bench"]),
    (
        "lab-cli",
        &[
            "everleaf",
            "everleaf-bench",
            "everleaf-cli",
            "everleaf-lab",
            "everleaf-prove",
            "everleaf-prove-designs",
        ],
    ),
];

/// The folders of the research; no crate of another folder may depend on one of them.
pub const RESEARCH: [&str; 8] =
    ["designs", "lab-designs", "lab", "prove", "prove-designs", "models", "lab-capi", "lab-cli"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &workspace.files {
        let Some(folder) =
            file.path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == folder) else {
            let message =
                "a new crate: draw its arrows in ARCHITECTURE.md and in this rule's table";
            findings.push(finding(&RULE, &file.path, 0, message));
            continue;
        };
        for (line, name) in dependencies(&file.text) {
            let is_research = name.strip_prefix("everleaf-").is_some_and(|n| RESEARCH.contains(&n));
            if is_research && !RESEARCH.contains(&folder) {
                let message = format!("{folder} is product, {name} is research: take a registry");
                findings.push(finding(&RULE, &file.path, line, message));
            } else if name.starts_with("everleaf") && !allowed.contains(&name) {
                let message =
                    format!("{folder} may not depend on {name}: arrows point down, by one");
                findings.push(finding(&RULE, &file.path, line, message));
            }
        }
    }
    findings
}

/// The names in the `[dependencies]` tables of a manifest, with their lines; not those of tests.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut names = Vec::new();
    let mut in_table = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            in_table = line == "[dependencies]" || line.ends_with(".dependencies]");
        } else if in_table && !line.starts_with('#') {
            let end = line.find(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
            if let Some(end) = end.filter(|&end| end > 0) {
                names.push((index + 1, &line[..end]));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn an_arrow_that_points_up_or_skips_is_refused() {
        let manifest = "[package]\nname = \"everleaf-alloc\"\n[dependencies]\n\
                        everleaf-pool.workspace = true\neverleaf-index = { workspace = true }\n\
                        [dev-dependencies]\neverleaf.workspace = true\n";
        assert_eq!(lines_in(&RULE, "crates/alloc/Cargo.toml", manifest), [5]);
        let skip = "[dependencies]\neverleaf-pool.workspace = true\n";
        assert_eq!(lines_in(&RULE, "crates/server/Cargo.toml", skip), [2]);
        assert_eq!(lines_in(&RULE, "crates/utils/Cargo.toml", "[dependencies]\n"), [0]);
    }

    #[test]
    fn the_product_never_depends_on_the_research() {
        let manifest = "[dependencies]\neverleaf-designs.workspace = true\n";
        assert_eq!(lines_in(&RULE, "crates/store/Cargo.toml", manifest), [2]);
        assert_eq!(lines_in(&RULE, "crates/bench/Cargo.toml", manifest), [2]);
        assert!(lines_in(&RULE, "crates/prove-designs/Cargo.toml", manifest).is_empty());
        assert_eq!(lines_in(&RULE, "crates/prove/Cargo.toml", manifest), [2]);
        // Nor does the table allow it, by whatever edit.
        for (folder, allowed) in ALLOWED.iter().filter(|(name, _)| !RESEARCH.contains(name)) {
            let research = RESEARCH.map(|name| format!("everleaf-{name}"));
            assert!(allowed.iter().all(|name| !research.contains(&name.to_string())), "{folder}");
        }
    }
}
