//! Files of a crate that use each other in a circle: none of them can be read without all others.

use std::collections::{BTreeMap, BTreeSet};

use super::source::SourceFile;
use super::workspace::Workspace;

/// Files of one crate that use each other, by whatever way.
pub struct Circle {
    /// The name of the crate.
    pub of: String,
    /// Their modules, sorted; the root is empty.
    pub files: Vec<String>,
}

/// The circles above two files, of all crates.
pub fn circles(workspace: &Workspace) -> Vec<Circle> {
    let mut crates: BTreeMap<String, BTreeMap<String, &SourceFile>> = BTreeMap::new();
    for file in &workspace.files {
        if let (Some(name), Some(module)) = (file.crate_of_source(), module_of(&file.path)) {
            crates.entry(name.to_string()).or_default().insert(module, file);
        }
    }
    let circles_in = |(name, modules): (&String, &BTreeMap<String, &SourceFile>)| {
        let uses =
            |(module, file): (&String, &&SourceFile)| (module.clone(), uses(module, file, modules));
        let found = circles_of(&modules.iter().map(uses).collect());
        let circle = |files| Circle { of: name.clone(), files };
        found.into_iter().map(circle).collect::<Vec<_>>()
    };
    crates.iter().flat_map(circles_in).collect()
}

/// The path of the module that a source file holds: `a::b`; empty for the root.
fn module_of(path: &str) -> Option<String> {
    let inside = path.split_once("/src/")?.1.strip_suffix(".rs")?;
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    Some(if matches!(inside, "lib" | "main") { String::new() } else { inside.replace('/', "::") })
}

/// The modules of the same crate that a file names, outside of tests.
fn uses(
    module: &str,
    file: &SourceFile,
    modules: &BTreeMap<String, &SourceFile>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let Some(rust) = &file.rust else { return found };
    let above = module.rsplit_once("::").map_or("", |(above, _)| above);
    for (index, line) in rust.lines.iter().enumerate() {
        if rust.is_test_line(index + 1) {
            continue;
        }
        for (start, base) in [("crate::", ""), ("super::", above)] {
            for (at, _) in line.code.match_indices(start) {
                let path = &line.code[at + start.len()..];
                if let Some(target) = resolve(base, path, modules).filter(|target| target != module)
                {
                    found.insert(target);
                }
            }
        }
    }
    found
}

/// The longest module that a path leads to.
fn resolve(base: &str, path: &str, modules: &BTreeMap<String, &SourceFile>) -> Option<String> {
    let (mut target, mut best) = (base.to_string(), None);
    for segment in path.split("::") {
        let name: String =
            segment.chars().take_while(|sign| sign.is_alphanumeric() || *sign == '_').collect();
        target = if target.is_empty() { name.clone() } else { format!("{target}::{name}") };
        if !modules.contains_key(&target) {
            break;
        }
        best = Some(target.clone());
        if name.len() < segment.len() {
            break;
        }
    }
    best
}

/// The circles above two in a graph.
fn circles_of(uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for target in uses.get(module).into_iter().flatten() {
                if seen.insert(target) {
                    next.push(target);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|module| (module, reached(module))).collect();
    let mut circles = BTreeSet::new();
    for (module, targets) in &reach {
        let circle: BTreeSet<_> = targets
            .iter()
            .filter(|target| reach.get(*target).is_some_and(|back| back.contains(module)))
            .collect();
        if circle.len() > 2 {
            circles.insert(circle);
        }
    }
    let names = |circle: &BTreeSet<&&String>| circle.iter().map(|name| name.to_string()).collect();
    circles.iter().map(names).collect()
}
