//! What is published: the crates, and the promise of the library's version number.

use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The crates whose interfaces are promised: the library, and those of which it hands parts on as its own
/// (`pub use`). The tool looks at what a crate defines, and not at what it hands on.
const PROMISED: [&str; 6] = [
    "everleaf",
    "everleaf-index",
    "everleaf-log",
    "everleaf-alloc",
    "everleaf-pool",
    "everleaf-machine",
];

/// `cargo xtask crates`: packs all crates that are published, and compiles each from its packed files.
pub fn crates(root: &Path) -> bool {
    match packing(root) {
        Ok(mut command) => run(&mut command),
        Err(error) => {
            eprintln!("xtask: what is published is not known: {error}");
            false
        }
    }
}

/// The command that packs all crates that are published, and no others.
///
/// # Errors
/// Cargo does not say which they are.
pub fn packing(root: &Path) -> io::Result<Command> {
    let mut command = cargo(root);
    command.args(["package", "--workspace", "--locked"]);
    for name in unpublished(root)? {
        command.args(["--exclude", &name]);
    }
    Ok(command)
}

/// The packages of the workspace that are published nowhere (`publish = false`).
fn unpublished(root: &Path) -> io::Result<Vec<String>> {
    let is_kept = |package: &Value| package["publish"].as_array().is_some_and(Vec::is_empty);
    let packages = packages(root)?;
    let kept = packages.iter().filter(|package| is_kept(package));
    Ok(kept.filter_map(|package| package["name"].as_str().map(String::from)).collect())
}

/// What Cargo says of the packages of the workspace.
fn packages(root: &Path) -> io::Result<Vec<Value>> {
    let output = cargo(root).args(["metadata", "--no-deps", "--format-version=1"]).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(io::Error::other)?;
    let packages = metadata["packages"].as_array().cloned();
    packages.ok_or_else(|| io::Error::other("cargo metadata names no packages"))
}

/// `cargo xtask semver COMMIT`: whether what is promised breaks what its version promises, compared with
/// that of a commit. It needs `cargo-semver-checks`.
pub fn semver(root: &Path, arguments: &[String]) -> bool {
    let [commit] = arguments else {
        eprintln!("xtask: usage: cargo xtask semver COMMIT");
        return false;
    };
    let mut command = cargo(root);
    command.args(["semver-checks", "--baseline-rev", commit]);
    for package in PROMISED {
        command.args(["--package", package]);
    }
    // Without the feature `simulated`, which is for our own tests and promises nothing.
    run(command.arg("--default-features"))
}

/// `cargo xtask tagged TAG`: whether a tag is that of the version that is here.
pub fn tagged(arguments: &[String]) -> bool {
    let [tag] = arguments else {
        eprintln!("xtask: usage: cargo xtask tagged TAG");
        return false;
    };
    let is_ours = is_tag_of(tag, env!("CARGO_PKG_VERSION"));
    if !is_ours {
        eprintln!("xtask: the tag is {tag}, and the version {}", env!("CARGO_PKG_VERSION"));
    }
    is_ours
}

fn is_tag_of(tag: &str, version: &str) -> bool {
    tag.strip_prefix('v') == Some(version)
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs a program on our terminal; says so if it cannot be started.
fn run(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("xtask: cannot start {command:?}: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The jobs use the pinned compiler: with that they show what `rust-version` promises.
    #[test]
    fn the_pinned_compiler_is_the_oldest_that_is_promised() {
        let pinned = include_str!("../../rust-toolchain.toml");
        let promised = concat!(env!("CARGO_PKG_RUST_VERSION"), ".0");
        assert!(pinned.contains(&format!("channel = \"{promised}\"")), "{pinned}");
    }

    /// Two crates of tests were packed with the others, and would have been kept for a release.
    #[test]
    fn what_is_not_published_is_not_packed() {
        let root = crate::workspace_root();
        let mut found = unpublished(&root).unwrap();
        found.sort_unstable();
        assert_eq!(found, ["everleaf-designs-tests", "everleaf-index-tests", "xtask"]);
        let shown = format!("{:?}", packing(&root).unwrap());
        for name in found {
            assert!(shown.contains(&format!("\"--exclude\" \"{name}\"")), "{shown}");
        }
    }

    /// The packed crates named two licences and had the text of neither.
    #[test]
    fn what_is_published_has_the_text_of_its_licences() {
        let root = crate::workspace_root();
        let (mut published, kept) = (0, unpublished(&root).unwrap());
        for package in packages(&root).unwrap() {
            let name = package["name"].as_str().unwrap().to_string();
            if kept.contains(&name) {
                continue;
            }
            published += 1;
            let manifest = Path::new(package["manifest_path"].as_str().unwrap()).to_path_buf();
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                let text = std::fs::read(manifest.with_file_name(licence)).unwrap_or_default();
                assert_eq!(text, std::fs::read(root.join(licence)).unwrap(), "{name}: {licence}");
            }
        }
        assert!(published > 15, "{published}");
    }

    /// The crates of ours of which a crate hands something on.
    fn handed_on(root: &Path, folder: &str) -> BTreeSet<String> {
        let text = std::fs::read_to_string(root.join(folder).join("src/lib.rs")).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("pub use everleaf_"));
        let names = lines.filter_map(|rest| rest.split("::").next());
        names.map(|name| format!("everleaf-{}", name.replace('_', "-"))).collect()
    }

    /// A new variant of a type that the library hands on from another crate was seen by nothing.
    #[test]
    fn all_that_the_library_hands_on_is_compared() {
        let root = crate::workspace_root();
        let (mut next, mut seen) = (vec!["everleaf".to_string()], BTreeSet::new());
        while let Some(name) = next.pop() {
            let folder = match name.strip_prefix("everleaf-") {
                Some(folder) => format!("crates/{folder}"),
                None => "crates/store".to_string(),
            };
            if seen.insert(name) {
                next.extend(handed_on(&root, &folder));
            }
        }
        assert!(seen.contains("everleaf-index") && seen.contains("everleaf-log"), "{seen:?}");
        assert_eq!(seen, PROMISED.map(String::from).into());
    }

    #[test]
    fn a_release_is_made_of_the_tag_of_its_version_only() {
        assert!(is_tag_of("v0.1.0", "0.1.0"));
        for other in ["v0.2.0", "0.1.0", "v0.1.0-rc1", "v0.1", ""] {
            assert!(!is_tag_of(other, "0.1.0"), "{other}");
        }
    }
}
