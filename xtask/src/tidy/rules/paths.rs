//! Paths of the workspace that are named in code quotes lead somewhere, in pages and in comments.

use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "paths", may_be_debt: false, check };

/// Folders at the root whose paths are checked.
const FOLDERS: [&str; 4] = ["crates/", "docs/", "rivals/", "xtask/"];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_told = |path: &str| path.ends_with(".md") || path.ends_with(".rs");
    // What a changelog names was there once.
    let files =
        workspace.files.iter().filter(|file| is_told(&file.path) && file.path != "CHANGELOG.md");
    for file in files {
        let is_prose = |line: &str| file.rust.is_none() || line.trim_start().starts_with("//");
        for (index, line) in file.text.lines().enumerate().filter(|(_, line)| is_prose(line)) {
            for path in line.split('`').skip(1).step_by(2).filter(|quoted| is_path(quoted)) {
                if has_line(path) {
                    let message = format!("{path} will point nowhere soon: name the function");
                    findings.push(finding(&RULE, &file.path, index + 1, message));
                    continue;
                }
                let path = path.trim_end_matches('/');
                let is_there = workspace.paths.contains(path)
                    || workspace.paths.contains(&format!("{path}.rs"));
                if !is_there {
                    let message = format!("there is no {path}: name what is there now");
                    findings.push(finding(&RULE, &file.path, index + 1, message));
                }
            }
        }
    }
    findings
}

/// Whether a path ends with the number of a line.
fn has_line(path: &str) -> bool {
    path.rsplit_once(':').is_some_and(|(_, line)| line.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a quotation is a path below one of the folders, and nothing else.
fn is_path(quoted: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:".contains(&byte);
    FOLDERS.iter().any(|folder| quoted.starts_with(folder)) && quoted.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::super::lines_in;
    use super::*;

    #[test]
    fn what_is_not_there_is_found_and_patterns_are_left_alone() {
        let text =
            "see `docs/a.md`\nand `crates/x/src/b.rs`, `docs/`\nany `crates/*/src`, `docs/{a,b}`\n";
        assert_eq!(lines_in(&RULE, "docs/a.md", text), [2]);
        assert_eq!(lines_in(&RULE, "docs/a.md", "at `docs/a.md:17`\n"), [1]);
        let code = "// see `crates/x/b.rs`\nconst PATH: &str = \"`crates/x/b.rs`\";\n";
        assert_eq!(lines_in(&RULE, "crates/x/src/lib.rs", code), [1]);
    }
}
