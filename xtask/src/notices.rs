//! The licence texts of what is linked into a program or library of ours: `cargo xtask licences --texts [PACKAGE]`.
//! Most of these licences ask that their text goes with binaries: it is in every package that we make.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use crate::sbom;

/// The file with the texts, in a package. By this name the wheel takes it along, too.
pub const FILE: &str = "LICENCES-THIRD-PARTY";

/// How the names of files with licences begin, in small letters.
const NAMES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// Prints the texts for a package of the workspace; by default the program.
pub fn print(root: &Path, package: Option<&String>) -> bool {
    match of(root, package.map_or("everleaf-cli", String::as_str)) {
        Ok(text) => {
            print!("{text}");
            true
        }
        Err(error) => {
            eprintln!("xtask: no licence texts: {error}");
            false
        }
    }
}

/// All that is linked into what this package makes, and the texts of its licences, each once.
///
/// # Errors
/// `folder` has no workspace with this package, or a text cannot be read.
pub fn of(folder: &Path, package: &str) -> io::Result<String> {
    let metadata = sbom::metadata(folder).map_err(io::Error::other)?;
    let linked = sbom::linked(folder, &metadata, package).map_err(io::Error::other)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let others = packages.filter(|one| {
        !one["source"].is_null() && one["id"].as_str().is_some_and(|id| linked.contains(id))
    });
    let (mut works, mut texts) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    for work in others {
        let found = texts_of(work)?;
        works.push((named(work), word(work, "license").replace('/', " OR "), found.is_empty()));
        for text in found {
            texts.entry(text).or_default().push(named(work));
        }
    }
    works.sort();
    Ok(page(package, &works, &texts))
}

fn word<'v>(work: &'v Value, key: &str) -> &'v str {
    work[key].as_str().unwrap_or_default()
}

fn named(work: &Value) -> String {
    format!("{} {}", word(work, "name"), word(work, "version"))
}

/// The files beside its manifest that have a licence or notice.
fn texts_of(work: &Value) -> io::Result<Vec<String>> {
    let manifest = Path::new(word(work, "manifest_path"));
    let folder = manifest.parent().ok_or_else(|| io::Error::other("a manifest has a folder"))?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        // Not what only lists or checks licences.
        let is_text = !name.ends_with(".toml") && !name.ends_with(".html");
        if is_text && NAMES.iter().any(|begin| name.starts_with(begin)) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let text = |path| Ok(String::from_utf8_lossy(&fs::read(path)?).trim().replace("\r\n", "\n"));
    files.into_iter().map(text).collect()
}

/// The works, and each text with the works it is for.
fn page(
    package: &str,
    works: &[(String, String, bool)],
    texts: &BTreeMap<String, Vec<String>>,
) -> String {
    let mut page = format!(
        "What is linked into {package} besides Everleaf itself: the standard library of Rust (MIT OR \
         Apache-2.0), and these works, whose licences follow.\n\n"
    );
    for (name, licence, has_no_text) in works {
        let remark = if *has_no_text { "; its package has no text of it" } else { "" };
        page += &format!("{name}: {licence}{remark}\n");
    }
    for (text, names) in texts {
        page += &format!("\n{}\n{}\n\n{text}\n", "-".repeat(80), names.join(", "));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packages had only our own two licences.
    #[test]
    fn the_texts_of_all_linked_works_are_there() {
        let root = crate::workspace_root();
        for package in ["everleaf-cli", "everleaf-capi"] {
            let text = of(&root, package).unwrap();
            let (list, texts) = text.split_once(&"-".repeat(80)).unwrap();
            let works: Vec<&str> = list.lines().skip(2).filter(|line| !line.is_empty()).collect();
            // What both have: the library has little else.
            for name in ["rustix ", "linux-raw-sys ", "crc32c ", "lz4_flex "] {
                assert!(works.iter().any(|work| work.starts_with(name)), "{list}");
            }
            assert!(texts.contains("Permission is hereby granted"), "{package}");
            assert!(!list.contains("everleaf-store") && !list.contains("proptest "), "{list}");
            assert!(!list.contains("corosensei "), "{list}");
            assert_eq!(list.contains("tempfile "), package == "everleaf-cli", "{list}");
            for work in works {
                let (name, licence) = work.split_once(": ").unwrap();
                assert!(!licence.is_empty(), "{work}");
                let has_text = !licence.contains("has no text");
                let is_named = |line: &str| line.split(", ").any(|one| one == name);
                assert_eq!(texts.lines().any(is_named), has_text, "{work}");
            }
        }
    }
}
