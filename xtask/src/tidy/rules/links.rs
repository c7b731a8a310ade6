//! Links in Markdown lead somewhere: the file exists, and so does the heading.

use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "links", may_be_debt: false, check };

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in workspace.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in links(&file.text) {
            if let Some(message) = problem(workspace, &file.path, target) {
                findings.push(finding(&RULE, &file.path, line, message));
            }
        }
    }
    findings
}

/// What is wrong with a link from the file at `path`, if anything.
fn problem(workspace: &Workspace, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (to_file, heading) = target.split_once('#').unwrap_or((target, ""));
    let to_path = if to_file.is_empty() { path.to_string() } else { resolve(path, to_file)? };
    if !workspace.paths.contains(&to_path) {
        return Some(format!("the link leads to {to_path}, which does not exist"));
    }
    if heading.is_empty() || !to_path.ends_with(".md") {
        return None;
    }
    let is_there =
        workspace.file(&to_path).is_some_and(|f| headings(&f.text).any(|h| h == heading));
    (!is_there).then(|| format!("{to_path} has no heading #{heading}"))
}

/// A relative path, seen from the file at `from`; the empty path if it leaves the workspace.
pub fn resolve(from: &str, to: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in to.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => {
                if parts.pop().is_none() {
                    return Some(String::new());
                }
            }
            name => parts.push(name),
        }
    }
    // The root itself is always there.
    if parts.is_empty() { None } else { Some(parts.join("/")) }
}

/// The targets of `[text](target)` outside code, with their lines.
pub fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in prose(text) {
        let mut rest = line;
        let mut in_code = false;
        while let Some(at) = rest.find(['`', ']']) {
            if rest[at..].starts_with('`') {
                in_code = !in_code;
            } else if !in_code
                && let Some(after) = rest[at + 1..].strip_prefix('(')
                && let Some(end) = after.find(')')
            {
                found.push((index, after[..end].split_whitespace().next().unwrap_or_default()));
            }
            rest = &rest[at + 1..];
        }
    }
    found
}

/// The lines outside fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_fence = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            return None;
        }
        (!in_fence).then_some((index + 1, line))
    })
}

/// The anchors of a page's headings, as the usual renderers make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            return None;
        }
        let kept = title.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::super::findings_in;
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        let page = "[a](b.md) [b](../README.md#two-words) [c](https://x.y/z)\n\
                    [d](missing.md)\n[e](../README.md#three)\n[f](#here-i-am)\n\
                    `[g](code.md)`\n```text\n[h](code.md)\n```\n# Here I am\n[i](../../out.md)\n";
        let files = [("docs/a.md", page), ("docs/b.md", ""), ("README.md", "## Two words\n")];
        let lines: Vec<usize> =
            findings_in(&RULE, &files).into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, [2, 3, 10]);
    }

    #[test]
    fn links_to_folders_are_fine() {
        let files = [("a.md", "[c](crates/x/) [d](./crates)\n"), ("crates/x/y.rs", "")];
        assert!(findings_in(&RULE, &files).is_empty());
    }
}
