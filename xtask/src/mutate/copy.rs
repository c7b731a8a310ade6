//! The copy of the sources in which sites have switches, so that the product has none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::edits::apply;
use super::few;
use super::rules::sites_of;
use super::site::{Key, Site};

/// What is mutated.
const CRATES: [&str; 5] = ["pool", "alloc", "index", "designs", "log"];
/// Files that no search on a simulated machine runs: those of the operating system, the simulated disk, texts,
/// and what judges the structures themselves.
const LEFT_OUT: [&str; 10] = [
    "/tests.rs",
    "/tests/",
    "/check.rs",
    "/audit.rs",
    "/error.rs",
    "log/src/real_disk.rs",
    "log/src/simulated/",
    "pool/src/backing/",
    "pool/src/ownership.rs",
    "catalogue.rs",
];
/// Of the package that the program is added to.
const MANIFEST: &str = "crates/prove-designs/Cargo.toml";
const DEPENDENCIES: &str = "[dependencies]\n";
/// What the copy needs beside the crates.
const BESIDE: [&str; 4] = ["Cargo.toml", "Cargo.lock", "README.md", "rust-toolchain.toml"];

/// The sources, by their paths from the root, and the sites in them, which are numbered from 0.
pub struct Sources {
    pub root: PathBuf,
    files: BTreeMap<String, String>,
    pub sites: Vec<Site>,
}

/// The program that searches.
const PROGRAM: &str = include_str!("program.txt");
/// The library of its structures, as the program has it.
const LIBRARY: &str = "everleaf_prove_designs";

/// Where sites are in the files of the copy.
pub type Places = BTreeMap<String, Vec<(usize, Range<usize>)>>;

impl Sources {
    /// Reads the sources below a root.
    ///
    /// # Errors
    /// A sentence with the file that cannot be read.
    pub fn read(root: &Path) -> Result<Sources, String> {
        let mut files = BTreeMap::new();
        let mut sites = vec![];
        for name in CRATES {
            let mut paths = vec![];
            walk(&root.join("crates").join(name).join("src"), &mut paths)?;
            paths.sort();
            for path in paths {
                let name = name_of(root, &path);
                let is_rust = name.ends_with(".rs");
                if !is_rust || LEFT_OUT.iter().any(|part| name.contains(part)) {
                    continue;
                }
                let text = read(&path)?;
                sites.extend(sites_of(&name, &text).map_err(|error| format!("{name}: {error}"))?);
                files.insert(name, text);
            }
        }
        Ok(Sources { root: root.to_path_buf(), files, sites })
    }

    /// Where the copy is.
    pub fn tree(&self) -> PathBuf {
        self.root.join("target/mutate/tree")
    }

    /// The package that the program is added to.
    pub fn package(&self, structures: &[String]) -> Result<&'static str, String> {
        let [_, of_product] = few::LISTS;
        Ok(few::package(&read(&self.root.join(of_product))?, structures))
    }

    /// Writes the copy: what has not changed stays as old as it is. Sites that do not compile are left out.
    ///
    /// # Errors
    /// A sentence with the file.
    pub fn write(&self, left_out: &BTreeSet<Key>, structures: &[String]) -> Result<Places, String> {
        let tree = self.tree();
        let mut paths = vec![];
        for folder in ["crates", "xtask"] {
            walk(&self.root.join(folder), &mut paths)?;
        }
        paths.extend(BESIDE.map(|name| self.root.join(name)));
        let (mut written, mut places) = (BTreeSet::new(), Places::new());
        for path in paths {
            let name = name_of(&self.root, &path);
            let bytes = match self.files.get(&name) {
                Some(text) => {
                    let (text, of_file) = apply(text, &self.sites_in(&name, left_out));
                    places.insert(name.clone(), of_file);
                    text.into_bytes()
                }
                None if name == "crates/machine/src/lib.rs" => {
                    [read(&path)?.as_bytes(), b"\n#[doc(hidden)]\npub mod mutation;\n"].concat()
                }
                None if few::LISTS.contains(&name.as_str()) && !structures.is_empty() => {
                    few::only(&name, &read(&path)?, structures)?.into_bytes()
                }
                // What its program needs beside.
                None if name == MANIFEST => {
                    let needs = format!("{DEPENDENCIES}serde_json.workspace = true\n");
                    read(&path)?.replacen(DEPENDENCIES, &needs, 1).into_bytes()
                }
                None => fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?,
            };
            write(&tree.join(&name), &bytes)?;
            written.insert(tree.join(&name));
        }
        let package = self.package(structures)?;
        let folder = package.strip_prefix("everleaf-").unwrap_or(package);
        let own = [
            (
                "crates/machine/src/mutation.rs".to_string(),
                include_str!("switches.txt").to_string(),
            ),
            (
                format!("crates/{folder}/src/bin/rule.rs"),
                PROGRAM.replace(LIBRARY, &package.replace('-', "_")),
            ),
        ];
        for (name, text) in own {
            write(&tree.join(&name), text.as_bytes())?;
            written.insert(tree.join(name));
        }
        let mut there = vec![];
        walk(&tree.join("crates"), &mut there)?;
        for old in there.iter().filter(|path| !written.contains(*path)) {
            fs::remove_file(old).map_err(|error| format!("{}: {error}", old.display()))?;
        }
        Ok(places)
    }

    fn sites_in(&self, name: &str, left_out: &BTreeSet<Key>) -> Vec<(usize, &Site)> {
        let sites = self.sites.iter().enumerate();
        sites.filter(|(_, site)| site.key.file == name && !left_out.contains(&site.key)).collect()
    }
}

fn name_of(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let folder = path.parent().expect("a file is in a folder");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// All files below a folder.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let wrong = |error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        match path.is_dir() {
            true => walk(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::arguments;
    use super::*;

    #[test]
    fn the_rules_find_sites_in_all_of_the_code_and_leave_it_rust() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
        let sources = Sources::read(root).expect("the sources are there");
        assert!(sources.sites.len() > 600, "{} sites", sources.sites.len());
        let keys: BTreeSet<_> = sources.sites.iter().map(|site| &site.key).collect();
        assert_eq!(keys.len(), sources.sites.len(), "two sites have one name");
        let reasons = arguments::parse(arguments::KEPT, keys.into_iter());
        assert!(reasons.is_ok(), "{reasons:?}");
        for (name, text) in &sources.files {
            let sites = sources.sites_in(name, &BTreeSet::new());
            let (text, places) = apply(text, &sites);
            assert_eq!(places.len(), sites.len(), "{name}");
            assert!(syn::parse_file(&text).is_ok(), "{name} is no Rust any more");
        }
        for name in CRATES {
            let start = format!("crates/{name}/");
            assert!(sources.sites.iter().any(|site| site.key.file.starts_with(&start)), "{name}");
        }
    }
}
