//! What is in what we give away, for machines: `cargo xtask licences --sbom [PACKAGE]`, a bill of materials in the
//! format CycloneDX 1.5 (JSON), with the check sums of `Cargo.lock`. By default it is that of the program;
//! `everleaf-capi` is the C library, `everleaf-python` what is compiled in the wheel, `everleaf-module` the module of
//! Redis and Valkey.

use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The package whose program is described unless another one is named.
const PROGRAM: &str = "everleaf-cli";
/// What the platform is of what is described.
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Packages that are in a workspace of their own, and its folder.
const ELSEWHERE: [(&str, &str); 2] =
    [("everleaf-python", "bindings/python"), ("everleaf-module", "bindings/module")];

/// Prints that of a package.
pub fn print(root: &Path, package: Option<&String>) -> bool {
    let package = package.map_or(PROGRAM, String::as_str);
    let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == package);
    let folder = elsewhere.map_or_else(|| root.to_path_buf(), |(_, folder)| root.join(folder));
    let bill = of(&folder, package);
    let text = bill.and_then(|bill| serde_json::to_string_pretty(&bill).map_err(|e| e.to_string()));
    match text {
        Ok(text) => {
            println!("{text}");
            true
        }
        Err(error) => {
            eprintln!("xtask: no bill of materials: {error}");
            false
        }
    }
}

/// A bill, with the names that the format gives its fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bill {
    bom_format: &'static str,
    spec_version: &'static str,
    version: u32,
    metadata: Described,
    components: Vec<Component>,
    dependencies: Vec<Dependency>,
}

/// What the bill is of.
#[derive(Serialize)]
struct Described {
    component: Component,
}

#[derive(Serialize)]
struct Component {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "bom-ref")]
    reference: String,
    name: String,
    version: String,
    purl: String,
    licenses: [License; 1],
    /// None of a package of ours, which no registry has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hashes: Vec<Hash>,
}

#[derive(Serialize)]
struct License {
    expression: String,
}

#[derive(Serialize)]
struct Hash {
    alg: &'static str,
    content: String,
}

/// What one component needs, by references.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dependency {
    #[serde(rename = "ref")]
    reference: String,
    depends_on: Vec<String>,
}

/// The bill of a package of the workspace in a folder.
fn of(folder: &Path, package: &str) -> Result<Bill, String> {
    let lock = std::fs::read_to_string(folder.join("Cargo.lock")).map_err(|e| e.to_string())?;
    let metadata = metadata(folder)?;
    bill(&metadata, package, &linked(folder, &metadata, package)?, &checksums(&lock))
}

/// What `cargo metadata` says of the workspace in a folder.
pub fn metadata(root: &Path) -> Result<Value, String> {
    let said = told(root, &["metadata", "--format-version", "1", "--filter-platform", TARGET])?;
    serde_json::from_str(&said).map_err(|error| error.to_string())
}

/// What cargo says in a folder.
fn told(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(folder).args(arguments).arg("--locked");
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Names and versions of a package and of all that is linked into what it makes when it is built by itself. What
/// `cargo metadata` resolves has every feature that anything of the workspace asks for, tests included.
fn built(folder: &Path, package: &str) -> Result<BTreeSet<(String, String)>, String> {
    let edges = ["--edges", "normal", "--target", TARGET];
    let shown = ["--prefix", "none", "--format", "{p}"];
    let said = told(folder, &[&["tree", "--package", package][..], &edges, &shown].concat())?;
    // A name, a version behind a `v`, and perhaps a path or a remark.
    let parts = |line: &str| {
        let mut words = line.split(' ');
        Some((words.next()?.to_string(), words.next()?.strip_prefix('v')?.to_string()))
    };
    Ok(said.lines().filter_map(parts).collect())
}

/// The check sums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|line| line.strip_suffix('"')).map(String::from)
    };
    let found = lock.split("[[package]]").skip(1).filter_map(|block| {
        Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
    });
    found.collect()
}

const SHAPE: &str = "cargo metadata has another form";

/// The identities of a package and of all that is linked into what it makes.
pub fn linked<'m>(
    folder: &Path,
    metadata: &'m Value,
    package: &str,
) -> Result<BTreeSet<&'m str>, String> {
    let packages = metadata["packages"].as_array().ok_or(SHAPE)?;
    let built = built(folder, package)?;
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_string();
    let is_built = |one: &&Value| built.contains(&(text(one, "name"), text(one, "version")));
    let found: BTreeSet<&str> =
        packages.iter().filter(is_built).filter_map(|one| one["id"].as_str()).collect();
    // Each of them once, and none that is unknown.
    if found.len() == built.len() { Ok(found) } else { Err(SHAPE.to_string()) }
}

/// The bill of a package in which these are linked, from what `cargo metadata` says.
fn bill(
    metadata: &Value,
    package: &str,
    seen: &BTreeSet<&str>,
    sums: &BTreeMap<(String, String), String>,
) -> Result<Bill, String> {
    let packages = metadata["packages"].as_array().ok_or(SHAPE)?;
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or(SHAPE)?;
    let by_id: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let found = packages.iter().find(|one| one["name"] == package);
    let found = found.ok_or_else(|| format!("there is no package {package}"))?;
    let edges: BTreeMap<&str, Vec<&str>> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, needed(node)))).collect();

    let start = found["id"].as_str().ok_or(SHAPE)?;
    let kind = if package == PROGRAM { "application" } else { "library" };
    let reference = |id: &str| {
        let package = by_id[id];
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        format!("pkg:cargo/{}@{}", text("name"), text("version"))
    };
    let component = |id: &str, kind: &'static str| {
        let package = by_id[id];
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_string();
        let sum = sums.get(&(text("name"), text("version")));
        Component {
            kind,
            reference: reference(id),
            name: text("name"),
            version: text("version"),
            purl: reference(id),
            licenses: [License { expression: text("license").replace('/', " OR ") }],
            hashes: sum
                .map(|sum| Hash { alg: "SHA-256", content: sum.clone() })
                .into_iter()
                .collect(),
        }
    };
    let dependency = |id: &&str| {
        let on = edges[id].iter().filter(|other| seen.contains(*other));
        Dependency {
            reference: reference(id),
            depends_on: on.map(|other| reference(other)).collect(),
        }
    };
    let others = seen.iter().filter(|id| **id != start);
    Ok(Bill {
        bom_format: "CycloneDX",
        spec_version: "1.5",
        version: 1,
        metadata: Described { component: component(start, kind) },
        components: others.map(|id| component(id, "library")).collect(),
        dependencies: seen.iter().map(dependency).collect(),
    })
}

/// The packages that are in a program which has this one: no tools of its build or tests.
fn needed(node: &Value) -> Vec<&str> {
    let is_linked = |dependency: &&Value| {
        dependency["dep_kinds"]
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let dependencies = node["deps"].as_array().into_iter().flatten().filter(is_linked);
    dependencies.filter_map(|dependency| dependency["pkg"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_in_the_bill_and_each_part_has_its_sum() {
        let root = crate::workspace_root();
        let bill = |package| serde_json::to_value(of(&root, package).unwrap()).unwrap();
        let (program, library) = (bill(PROGRAM), bill("everleaf-capi"));
        let components = |bill: &Value| bill["components"].as_array().unwrap().clone();
        let has = |bill: &Value, name: &str| components(bill).iter().any(|one| one["name"] == name);
        for (bill, name, kind) in
            [(&program, PROGRAM, "application"), (&library, "everleaf-capi", "library")]
        {
            let component = &bill["metadata"]["component"];
            assert_eq!(
                (&component["name"], &component["type"]),
                (&Value::from(name), &Value::from(kind))
            );
            // What only tests and builds use is in nothing that we give away.
            assert!(has(bill, "everleaf") && !has(bill, "proptest") && !has(bill, "cbindgen"));
        }
        // What was wrong: what tests of other packages switch on was listed as linked.
        for bill in [&program, &library] {
            assert!(!has(bill, "corosensei"));
            assert!(!format!("{:?}", bill["dependencies"]).contains("corosensei"));
        }
        assert!(!has(&library, "tempfile"));
        assert!(has(&program, "everleaf-server") && has(&program, "rustls"));
        assert!(!has(&library, "everleaf-server") && !has(&library, "rustls"));
        assert!(of(&root, "no-such-package").is_err());
        for component in [components(&program), components(&library)].concat() {
            let is_ours = component["name"].as_str().unwrap().starts_with("everleaf");
            let sum = component["hashes"][0]["content"].as_str().unwrap_or_default();
            assert_eq!(sum.len(), if is_ours { 0 } else { 64 }, "{component}");
            assert_ne!(component["licenses"][0]["expression"], "", "{component}");
        }
    }
}
