//! No test stands where it is never run: a library that says `test = false` has none inside.

use super::{Finding, Rule, Workspace, finding, sources_of};

pub const RULE: Rule = Rule { name: "unrun-tests", may_be_debt: false, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in &workspace.files {
        let folder = manifest.path.strip_prefix("crates/");
        let Some(folder) = folder.and_then(|rest| rest.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        if !is_without_tests(&manifest.text) {
            continue;
        }
        for (file, rust) in sources_of(workspace, &[folder]) {
            let mut lines = 1..=rust.lines.len();
            if let Some(line) = lines.find(|line| rust.is_test_line(*line)) {
                let message = "never run, `test = false` in Cargo.toml: move it to tests/it";
                findings.push(finding(&RULE, &file.path, line, message));
            }
        }
    }
    findings
}

/// Whether the section of the library says that it has no tests.
fn is_without_tests(manifest: &str) -> bool {
    let lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lib]").skip(1);
    lines.take_while(|line| !line.starts_with('[')).any(|line| line == "test = false")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_in_a_library_without_tests_is_found() {
        let source = "fn f() {}\n#[cfg(test)]\nmod tests {}\n";
        let found = |manifest: &str| {
            let texts = [("crates/prove/Cargo.toml", manifest), ("crates/prove/src/x.rs", source)];
            let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
            let workspace = Workspace::from_texts(texts.to_vec()).expect("it parses");
            check(&workspace).iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(found("[lib]\ntest = false\n\n[dependencies]\n"), [2]);
        assert_eq!(found("[lib]\ndoctest = false\n[[bin]]\ntest = false\n"), [0; 0]);
    }
}
