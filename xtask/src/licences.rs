//! The licences of everything that is not ours: `cargo xtask licences`.
//!
//! A licence that is not in the list is refused until somebody has read it; so is a dependency that says none.
//! `--list` prints name, version and licence of all of them, tab-separated; `--sbom [PACKAGE]` what
//! `sbom.rs` says, and `--texts [PACKAGE]` what `notices.rs` does.

use crate::{notices, sbom};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Licences that everything may have: they ask for no more than to be named.
const ALLOWED: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Licences that a tool of the tests may have, which is in no program that we give away: the tool, its
/// licence.
const TOOLS: [(&str, &str); 1] = [("cbindgen", "MPL-2.0")];

/// The workspaces whose dependencies are looked at.
const MANIFESTS: [&str; 3] =
    ["Cargo.toml", "bindings/python/Cargo.toml", "bindings/module/Cargo.toml"];

/// Whether all licences are known; with `--list` they are also printed.
pub fn run(root: &Path, arguments: &[String]) -> bool {
    match arguments {
        [first, rest @ ..] if first == "--sbom" => return sbom::print(root, rest.first()),
        [first, rest @ ..] if first == "--texts" => return notices::print(root, rest.first()),
        _ => {}
    }
    let is_listed = arguments.iter().any(|argument| argument == "--list");
    let mut refused = 0;
    for manifest in MANIFESTS {
        let Some(packages) = packages(&root.join(manifest)) else { return false };
        for Package { name, version, licence } in &packages {
            if is_listed {
                println!("{name}\t{version}\t{licence}");
            }
            if !is_allowed(name, licence) {
                eprintln!("xtask: {name} {version}, of {manifest}, has the licence `{licence}`");
                refused += 1;
            }
        }
        if !is_listed {
            println!("{manifest}: {} dependencies", packages.len());
        }
    }
    if refused > 0 {
        eprintln!(
            "xtask: read the licences above; those that are fine go into xtask/src/licences.rs"
        );
    }
    refused == 0
}

/// A dependency.
struct Package {
    name: String,
    version: String,
    licence: String,
}

/// The dependencies that are not ours, by name.
fn packages(manifest: &Path) -> Option<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
        .arg(manifest);
    command.args(["--filter-platform", "x86_64-unknown-linux-gnu"]);
    let output = command.output().map_err(|error| eprintln!("xtask: {command:?}: {error}")).ok()?;
    if !output.status.success() {
        eprintln!("xtask: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).ok()?;
    let outside =
        metadata["packages"].as_array()?.iter().filter(|package| !package["source"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let mut packages: Vec<Package> = outside
        .map(|package| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: text(&package["license"]),
        })
        .collect();
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Some(packages)
}

fn is_allowed(name: &str, licence: &str) -> bool {
    TOOLS.contains(&(name, licence)) || is_choice_allowed(licence)
}

/// Whether an expression of licences leaves a choice of known ones: `A OR B`, older `A/B`, `A AND B`, with
/// parentheses.
fn is_choice_allowed(licence: &str) -> bool {
    let licence = licence.replace('/', " OR ");
    let parts = |separator| split(&licence, separator);
    match (parts(" OR "), parts(" AND ")) {
        (choices, _) if choices.len() > 1 => choices.into_iter().any(is_choice_allowed),
        (_, needed) if needed.len() > 1 => needed.into_iter().all(is_choice_allowed),
        _ => match licence.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(inner) => is_choice_allowed(inner),
            None => ALLOWED.contains(&licence.trim()),
        },
    }
}

/// The parts between separators that are not in parentheses.
fn split<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= start && text[at..].starts_with(separator) => {
                parts.push(&text[start..at]);
                start = at + separator.len();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_allowed_if_there_is_a_known_choice() {
        for licence in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "(GPL-3.0 AND MIT) OR Zlib",
        ] {
            assert!(is_allowed("x", licence), "{licence}");
        }
        for licence in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Zlib) AND GPL-3.0", "MPL-2.0"] {
            assert!(!is_allowed("x", licence), "{licence}");
        }
        assert!(is_allowed("cbindgen", "MPL-2.0"));
    }
}
