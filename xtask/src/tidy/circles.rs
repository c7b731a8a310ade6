//! Files of a crate that use each other in a circle: none of them can be read without all others.
//!
//! A file uses another one if it names something of it, by whatever path: `crate::`, `self::`, `super::`, a group of
//! `use`, a module that it brought in. A name that a module only passes on (`pub use`) counts for the file that has
//! it. What a file takes from those above it (`a::b` from `a`, or from the root) counts like the rest: a reader who
//! wants to read the file above has to read this one first, and this one is not to be understood without the one
//! above.

use std::collections::{BTreeMap, BTreeSet};

use super::names::{Names, Path, join};
use super::source::SourceFile;
use super::workspace::Workspace;

/// Files of one crate that use each other, by whatever way.
pub struct Circle {
    /// The folder of the crate.
    pub of: String,
    /// Their modules, sorted, and which of the others each uses; the root is empty.
    pub files: BTreeMap<String, Vec<String>>,
}

/// The circles above two files, of all crates: bindings, `xtask` and the rivals, too.
pub fn circles(workspace: &Workspace) -> Vec<Circle> {
    circles_by(workspace, &|target, module| target != module)
}

/// The same without what files use of those above them in their folders.
pub fn circles_beside_folders(workspace: &Workspace) -> Vec<Circle> {
    circles_by(workspace, &|target, module| !is_around(target, module))
}

/// The circles of those uses, from the first file by the second, that `counts`.
fn circles_by(workspace: &Workspace, counts: &dyn Fn(&str, &str) -> bool) -> Vec<Circle> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for file in &workspace.files {
        if let (Some(name), Some(module)) = (file.package_of_source(), module_of(&file.path)) {
            crates.entry(name.to_string()).or_default().add(module, file);
        }
    }
    let circles_in = |(name, modules): (&String, &Modules)| {
        let circle = |files| Circle { of: name.clone(), files };
        circles_of(&modules.uses(counts)).into_iter().map(circle).collect::<Vec<_>>()
    };
    crates.iter().flat_map(circles_in).collect()
}

/// The path of the module that a source file holds: `a::b`; empty for the root.
fn module_of(path: &str) -> Option<String> {
    let inside = path.split_once("/src/")?.1.strip_suffix(".rs")?;
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    Some(if matches!(inside, "lib" | "main") { String::new() } else { inside.replace('/', "::") })
}

/// The module around one.
fn above(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(above, _)| above)
}

/// Whether a module is around another one, or is it.
fn is_around(outer: &str, inner: &str) -> bool {
    outer.is_empty() || inner == outer || inner.starts_with(&format!("{outer}::"))
}

/// Longer chains of re-exports are not followed.
const DEPTH_MAX: usize = 16;

/// The modules of a crate.
#[derive(Default)]
struct Modules {
    files: BTreeSet<String>,
    paths: BTreeMap<String, Vec<Path>>,
    imports: BTreeMap<(String, String), Vec<String>>,
    globs: Vec<Path>,
    definitions: BTreeSet<(String, String)>,
}

impl Modules {
    fn add(&mut self, module: String, file: &SourceFile) {
        if let Some(rust) = &file.rust {
            let names = Names::read(&module, &file.text, &|line| rust.is_test_line(line));
            self.imports.extend(names.imports);
            self.globs.extend(names.globs);
            self.definitions.extend(names.definitions);
            self.paths.entry(module.clone()).or_default().extend(names.paths);
        }
        self.files.insert(module);
    }

    /// What each file uses, of what counts.
    fn uses(&self, counts: &dyn Fn(&str, &str) -> bool) -> BTreeMap<String, BTreeSet<String>> {
        let uses = |(module, paths): (&String, &Vec<Path>)| {
            let targets = paths.iter().filter_map(|path| {
                let target = self.find(&path.module, &path.segments, 0)?;
                let target = self.file_of(target);
                counts(&target, module).then_some(target)
            });
            (module.clone(), targets.collect())
        };
        self.paths.iter().map(uses).collect()
    }

    /// The file that a module is in.
    fn file_of(&self, mut module: String) -> String {
        while !module.is_empty() && !self.files.contains(&module) {
            module = above(&module).to_string();
        }
        module
    }

    /// The module that has what a path leads to, as seen from a module; none if that is another crate's.
    fn find(&self, from: &str, path: &[String], depth: usize) -> Option<String> {
        let (first, rest) = path.split_first().filter(|_| depth < DEPTH_MAX)?;
        match first.as_str() {
            "crate" => self.walk(String::new(), rest, depth),
            "self" => self.walk(from.to_string(), rest, depth),
            "super" => self.walk(above(from).to_string(), rest, depth),
            name if self.files.contains(&join(from, name)) => {
                self.walk(join(from, name), rest, depth)
            }
            name => {
                let import = self.imports.get(&(from.to_string(), name.to_string()))?;
                // `use a;` means a crate, or a module that the branch above has found.
                let is_itself = import.len() == 1 && import[0] == *name;
                let path = [import.as_slice(), rest].concat();
                (!is_itself).then(|| self.find(from, &path, depth + 1))?
            }
        }
    }

    /// As far as a path leads from a module.
    fn walk(&self, mut module: String, path: &[String], depth: usize) -> Option<String> {
        for (index, name) in path.iter().enumerate() {
            let inside = join(&module, name);
            if name == "super" {
                module = above(&module).to_string();
            } else if self.files.contains(&inside) {
                module = inside;
            } else {
                let passed_on = self.passed_on(&module, &path[index..], depth);
                return Some(passed_on.unwrap_or(module));
            }
        }
        Some(module)
    }

    /// The module that has what this one only passes on.
    fn passed_on(&self, module: &str, path: &[String], depth: usize) -> Option<String> {
        let (name, rest) = path.split_first().filter(|_| depth < DEPTH_MAX)?;
        if let Some(import) = self.imports.get(&(module.to_string(), name.clone())) {
            return self.find(module, &[import.as_slice(), rest].concat(), depth + 1);
        }
        let globs = self.globs.iter().filter(|glob| glob.module == module);
        let mut inside = globs.filter_map(|glob| {
            let source = self.find(module, &glob.segments, depth + 1)?;
            let is_defined = self.definitions.contains(&(source.clone(), name.clone()));
            self.passed_on(&source, path, depth + 1).or(is_defined.then_some(source))
        });
        inside.next()
    }
}

/// The circles above two in a graph.
fn circles_of(uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeMap<String, Vec<String>>> {
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
        let circle: BTreeSet<&String> = targets
            .iter()
            .copied()
            .filter(|target| reach.get(target).is_some_and(|back| back.contains(module)))
            .collect();
        if circle.len() > 2 {
            circles.insert(circle);
        }
    }
    let within = |circle: &BTreeSet<&String>| {
        let used = |module: &String| {
            uses[module].iter().filter(|target| circle.contains(target)).cloned().collect()
        };
        circle.iter().map(|module| (module.to_string(), used(module))).collect()
    };
    circles.iter().map(within).collect()
}
