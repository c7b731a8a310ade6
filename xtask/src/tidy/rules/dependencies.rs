//! Every outside dependency has its reason in `ARCHITECTURE.md`.

use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "dependency-reason", may_be_debt: false, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(manifest) = workspace.file("Cargo.toml") else { return Vec::new() };
    let reasons = workspace.file("ARCHITECTURE.md").map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    let mut in_table = false;
    for (index, line) in manifest.text.lines().enumerate() {
        if line.starts_with('[') {
            in_table = line.trim() == "[workspace.dependencies]";
            continue;
        }
        let Some((name, _)) = line.split_once(['=', '.']).filter(|_| in_table) else { continue };
        let name = name.trim();
        let is_outside = !name.is_empty() && !name.starts_with(['#', ' ']) && !is_ours(name);
        if is_outside && !reasons.contains(&format!("`{name}`")) {
            let message = format!("`{name}` has no reason in the table of ARCHITECTURE.md");
            findings.push(finding(&RULE, &manifest.path, index + 1, message));
        }
    }
    findings
}

fn is_ours(name: &str) -> bool {
    name == "everleaf" || name.starts_with("everleaf-")
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn a_dependency_without_a_reason_is_refused() {
        let manifest = "[workspace.dependencies]\neverleaf-pool = { path = \"a\" }\nmio = \"1\"\n\
                        csv = \"1\"\n[profile.release]\ndebug = 1\n";
        let files = [("Cargo.toml", manifest), ("ARCHITECTURE.md", "| `mio` | sockets |\n")];
        assert_eq!(findings_in(&RULE, &files), [("Cargo.toml".to_string(), 4)]);
    }
}
