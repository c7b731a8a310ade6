//! `cargo xtask tidy`: the style rules that neither rustc nor clippy can check.
//!
//! Each rule is one file of `rules/`, with a test that shows a source it must refuse. A rule enters
//! `docs/style.md` only together with its check, so the guide never claims more than is enforced.

pub mod circles;
pub mod figures;
mod format_page;
mod lexer;
mod names;
mod ratchet;
mod rules;
mod source;
mod test_kinds;
mod workspace;

use std::collections::BTreeMap;
use std::path::Path;

use ratchet::Ratchet;
use rules::{Finding, RULES};
pub use rules::{RESEARCH, links, resolve};
pub use test_kinds::{BY_HAND_PREFIX, LANDING_PREFIX, LONG_NAMES};
use workspace::Workspace;

const RATCHET_PATH: &str = "xtask/ratchet.txt";

/// Checks the workspace at `root`, prints what is wrong, and returns whether nothing is.
/// With `update`, first writes what is generated, and lowers the ratchet to the debt that is left.
pub fn run(root: &Path, update: bool) -> bool {
    match check_and_print(root, update) {
        Ok(is_tidy) => is_tidy,
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("{error}"));
            false
        }
    }
}

fn check_and_print(root: &Path, update: bool) -> Result<bool, Vec<String>> {
    let mut workspace = Workspace::load(root)?;
    if update && let Some(page) = format_page::refreshed(&workspace) {
        write(root, format_page::PATH, &page)?;
        workspace = Workspace::load(root)?;
    }
    let text = std::fs::read_to_string(root.join(RATCHET_PATH)).unwrap_or_default();
    let ratchet =
        Ratchet::parse(&text).map_err(|error| vec![format!("{RATCHET_PATH}: {error}")])?;
    let report = check(&workspace, &ratchet);
    for finding in &report.refused {
        println!("{}:{}: {}: {}", finding.path, finding.line, finding.rule, finding.message);
    }
    if update {
        write(root, RATCHET_PATH, &ratchet.lowered(&report.amounts).to_text())?;
    } else {
        for (rule, path, allowed, now) in ratchet.slack(&report.amounts) {
            println!("note: {rule} in {path} shrank from {allowed} to {now}: run with --update");
        }
    }
    let (files, rules) = (workspace.files.len(), RULES.len());
    println!("tidy: {files} files, {rules} rules, {} findings", report.refused.len());
    Ok(report.refused.is_empty())
}

fn write(root: &Path, path: &str, text: &str) -> Result<(), Vec<String>> {
    std::fs::write(root.join(path), text)
        .map_err(|error| vec![format!("{path}: cannot be written: {error}")])
}

/// What a check found.
struct Report {
    /// Findings beyond the ratchet.
    refused: Vec<Finding>,
    /// The amount present for each rule and path that the ratchet may cover.
    amounts: BTreeMap<(String, String), usize>,
}

fn check(workspace: &Workspace, ratchet: &Ratchet) -> Report {
    let mut report = Report { refused: Vec::new(), amounts: BTreeMap::new() };
    for rule in RULES {
        let mut by_path: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
        for finding in (rule.check)(workspace) {
            by_path.entry(finding.path.clone()).or_default().push(finding);
        }
        for (path, findings) in by_path {
            let amount = findings.iter().map(|finding| finding.amount).sum();
            if !rule.may_be_debt || amount > ratchet.allowed(rule.name, &path) {
                report.refused.extend(findings);
            }
            if rule.may_be_debt {
                report.amounts.insert((rule.name.to_string(), path), amount);
            }
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratchet_silences_known_debt_and_not_one_more() {
        let text = |body: &str| {
            let text = format!("//! A file.\n{body}");
            Workspace::from_texts(vec![("crates/index/src/lib.rs".to_string(), text)]).unwrap()
        };
        let ratchet = Ratchet::parse("seam crates/index/src/lib.rs 1").unwrap();
        let one = text("use std::thread;\n");
        assert_eq!(check(&one, &Ratchet::default()).refused.len(), 1);
        assert_eq!(check(&one, &ratchet).refused.len(), 0);
        let two = text("use std::thread;\nuse std::time;\n");
        assert_eq!(check(&two, &ratchet).refused.len(), 2);
    }

    #[test]
    fn this_workspace_can_be_loaded() {
        let root = crate::workspace_root();
        let workspace = Workspace::load(&root).unwrap();
        assert!(workspace.file("xtask/src/tidy/mod.rs").is_some());
        assert!(workspace.file("Cargo.toml").is_some());
    }
}
