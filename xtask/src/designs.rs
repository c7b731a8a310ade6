//! The packages of the published designs: `everleaf-designs`, and all that depend on it, as Cargo knows them. They take
//! the compiler the longest and change seldom, so they are built and tested at landings, and not everyday.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::command::{cargo, shown};

/// The package that has the designs.
const DESIGNS: &str = "everleaf-designs";

/// The packages of the workspace, by whether they need the designs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packages {
    /// Those that have or use designs.
    pub of_designs: BTreeSet<String>,
    /// All others.
    pub others: BTreeSet<String>,
    /// The folders of the former, as the names of their examples begin.
    pub folders: BTreeSet<String>,
}

impl Packages {
    /// Those of the workspace below a root.
    ///
    /// # Errors
    /// A sentence if Cargo does not tell.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut command = cargo(root, &["metadata", "--no-deps", "--format-version=1"]);
        let output = command.output().map_err(|error| format!("{}: {error}", shown(&command)))?;
        let metadata: Result<Value, _> = serde_json::from_slice(&output.stdout);
        let packages = metadata.ok().and_then(|all| Self::of(&all));
        packages.ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("{}: it tells of no packages that need {DESIGNS}: {said}", shown(&command))
        })
    }

    /// Those that `cargo metadata` names. A dependency is one of whatever kind: the tests of a package that are built
    /// with designs are, too. None if it has another form, or names no designs.
    fn of(metadata: &Value) -> Option<Self> {
        let mut others = Vec::new();
        for package in metadata["packages"].as_array()? {
            let needs = package["dependencies"].as_array()?.iter();
            let needs: BTreeSet<&str> = needs.filter_map(|need| need["name"].as_str()).collect();
            others.push((package["name"].as_str()?, needs));
        }
        let mut found = BTreeSet::from([DESIGNS]);
        loop {
            let count = found.len();
            let user = |(_, needs): &&(&str, BTreeSet<&str>)| !needs.is_disjoint(&found);
            let users: Vec<&str> = others.iter().filter(user).map(|(name, _)| *name).collect();
            found.extend(users);
            if found.len() == count {
                break;
            }
        }
        let names = |are_found: bool| {
            let names = others.iter().map(|(name, _)| *name);
            names.filter(|name| found.contains(name) == are_found).map(String::from).collect()
        };
        let root = metadata["workspace_root"].as_str()?;
        let folder = |package: &Value| {
            let manifest = package["manifest_path"].as_str()?.strip_prefix(root)?;
            Some(manifest.strip_prefix('/')?.strip_suffix("Cargo.toml")?.to_string())
        };
        let is_found =
            |package: &&Value| package["name"].as_str().is_some_and(|n| found.contains(n));
        let folders = metadata["packages"].as_array()?.iter().filter(is_found).map(folder);
        let folders = folders.collect::<Option<_>>()?;
        let packages = Self { of_designs: names(true), others: names(false), folders };
        packages.of_designs.contains(DESIGNS).then_some(packages)
    }

    /// The arguments that leave the designs out of the workspace.
    pub fn without_designs(&self) -> Vec<String> {
        let excluded = self.of_designs.iter().flat_map(|name| ["--exclude", name.as_str()]);
        ["--workspace"].into_iter().chain(excluded).map(String::from).collect()
    }
}

/// The packages that `cargo xtask` itself is made of.
///
/// # Errors
/// A sentence if Cargo does not tell.
pub fn of_scripts(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut command = cargo(root, &["tree", "--locked", "-p", env!("CARGO_PKG_NAME")]);
    command.args(["-e", "normal,build", "--prefix", "none", "--format", "{p}"]);
    let output = command.output().map_err(|error| format!("{}: {error}", shown(&command)))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.split(' ').next()).map(String::from);
    let names: BTreeSet<String> = names.filter(|name| !name.is_empty()).collect();
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() && !names.is_empty() {
        true => Ok(names),
        false => Err(format!("{}: {said}", shown(&command))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy;
    use serde_json::json;

    fn here() -> Packages {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        Packages::read(root).unwrap()
    }

    #[test]
    fn users_of_users_and_of_tests_need_the_designs() {
        let package = |name: &str, needs: &[&str]| {
            let needs: Vec<_> = needs.iter().map(|need| json!({"name": need})).collect();
            let manifest = format!("/everleaf/crates/{name}/Cargo.toml");
            json!({"name": name, "dependencies": needs, "manifest_path": manifest})
        };
        let all = [
            package("e", &["d", "rand"]),
            package("d", &["everleaf-designs"]),
            package("everleaf-designs", &["a"]),
            package("a", &["rand"]),
        ];
        let metadata = |all: &[Value]| json!({"packages": all, "workspace_root": "/everleaf"});
        let packages = Packages::of(&metadata(&all)).unwrap();
        let wanted = ["d", "e", "everleaf-designs"].map(String::from);
        assert_eq!(packages.of_designs, BTreeSet::from(wanted));
        assert_eq!(packages.others, BTreeSet::from(["a".to_string()]));
        let last = ["--exclude", "everleaf-designs"].map(String::from);
        assert!(packages.without_designs().ends_with(&last));
        let folders = ["crates/d/", "crates/e/", "crates/everleaf-designs/"];
        assert_eq!(packages.folders, BTreeSet::from(folders.map(String::from)));
        assert_eq!(Packages::of(&metadata(&all[3..])), None, "no designs");
    }

    /// What the product is made of needs no designs, and so is tested everyday.
    #[test]
    fn the_product_is_tested_everyday() {
        let Packages { of_designs, others, .. } = here();
        for name in ["everleaf", "everleaf-cli", "everleaf-capi", "everleaf-prove", "xtask"] {
            assert!(others.contains(name), "{name}: {of_designs:?}");
        }
        let research = tidy::RESEARCH.map(|folder| format!("everleaf-{folder}"));
        let beside = "everleaf-designs-tests";
        let unknown = |name: &&String| !research.contains(*name) && *name != beside;
        assert_eq!(of_designs.iter().filter(unknown).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    #[test]
    fn scripts_are_made_of_few_packages() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let scripts = of_scripts(root).unwrap();
        assert!(["xtask", "serde_json", "syn"].iter().all(|name| scripts.contains(*name)));
        assert!(!scripts.contains("everleaf") && !scripts.contains("tempfile"), "{scripts:?}");
    }

    /// What Cargo builds of packages, for tests: each with its features.
    fn features(choice: &[String]) -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let start = ["tree", "--locked", "-e", "normal,dev,build", "--prefix", "none"];
        let mut command = cargo(root, &start);
        let output = command.args(["--format", "{p} {f}"]).args(choice).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| line.trim_end_matches(" (*)").trim_end().to_string()).collect()
    }

    /// A package that the tests of the designs need with other features would be built again for them, and all that
    /// depends on it: `everleaf-index` was, with `simulated` and without.
    #[test]
    fn what_both_tiers_need_is_built_once() {
        let packages = here();
        let everyday = features(&packages.without_designs());
        let landing = features(&["--workspace".to_string()]);
        let changed: Vec<_> = everyday.difference(&landing).collect();
        assert!(changed.is_empty(), "built with other features at landings: {changed:#?}");
        assert!(everyday.len() > 100 && landing.len() > everyday.len());
    }
}
