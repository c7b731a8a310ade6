//! What is demanded of the workflows of continuous integration, which cannot be run here.

const CI: &str = include_str!("../../.github/workflows/ci.yml");
const NIGHTLY: &str = include_str!("../../.github/workflows/nightly.yml");
const RELEASE: &str = include_str!("../../.github/workflows/release.yml");

/// The jobs of a workflow, each with its lines.
fn jobs(workflow: &str) -> Vec<(&str, Vec<&str>)> {
    let (_, jobs) = workflow.split_once("\njobs:\n").expect("a workflow has jobs");
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in jobs.lines() {
        match (line.strip_prefix("  ").and_then(|line| line.strip_suffix(':')), found.last_mut()) {
            (Some(name), _) if !name.starts_with(' ') => found.push((name, Vec::new())),
            (_, Some((_, lines))) => lines.push(line.trim()),
            (_, None) => {}
        }
    }
    found
}

/// The words behind a command, wherever it stands.
fn behind<'a>(workflow: &'a str, command: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    let found = workflow.split(command).skip(1);
    found.map(|rest| rest.lines().next().unwrap_or_default().split_whitespace().collect())
}

/// A tag of another version made a release of that name with the packages of this one.
#[test]
fn a_release_begins_with_its_version() {
    let jobs = jobs(RELEASE);
    assert!(jobs.len() > 5, "{jobs:?}");
    for (name, lines) in jobs {
        match name {
            "version" => {
                assert!(lines.contains(&"- run: cargo xtask tagged \"$GITHUB_REF_NAME\""));
            }
            _ => assert!(lines.contains(&"needs: version"), "{name} does not wait for it"),
        }
    }
}

/// What is packed was built by a tag alone: what had broken it was found when a release was made.
#[test]
fn what_a_release_packs_is_packed_every_night() {
    for words in behind(RELEASE, "cargo xtask package") {
        let found = behind(NIGHTLY, "cargo xtask package").any(|other| other == words);
        assert!(found, "cargo xtask package {words:?}");
    }
}

/// The newest version of a tool may ask for a compiler that is newer than the pinned one.
#[test]
fn tools_that_are_installed_have_a_version() {
    let all = [CI, NIGHTLY, RELEASE].into_iter().flat_map(|it| behind(it, "run: cargo install "));
    let all: Vec<_> = all.collect();
    assert!(all.len() > 2, "{all:?}");
    for words in all {
        let (_, version) = words[0].split_once('@').unwrap_or_default();
        assert!(version.split('.').count() == 3 && words.contains(&"--locked"), "{words:?}");
    }
}

#[test]
fn what_is_called_is_a_command_of_ours() {
    let all = [CI, NIGHTLY, RELEASE].into_iter().flat_map(|it| behind(it, "cargo xtask "));
    for words in all {
        let name = words[0].trim_end_matches('`');
        // Of a matrix there is a list.
        let is_known = name == "${{" || crate::USAGE.contains(&format!("\n  {name} "));
        assert!(is_known, "{words:?}");
    }
}
