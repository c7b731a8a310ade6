//! The files that tidy looks at.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::source::{SourceFile, is_test_attribute};

/// All text files of the workspace.
pub struct Workspace {
    /// The files, sorted by path.
    pub files: Vec<SourceFile>,
    /// Every path of the workspace, files and folders, for links.
    pub paths: BTreeSet<String>,
}

impl Workspace {
    /// Reads every file that git knows or would add, or, outside a repository, every file.
    ///
    /// # Errors
    /// A sentence for each file that cannot be read or parsed.
    pub fn load(root: &Path) -> Result<Self, Vec<String>> {
        let mut texts = Vec::new();
        let mut others = Vec::new();
        let mut errors = Vec::new();
        for path in list(root) {
            match std::fs::read(root.join(&path)) {
                Ok(bytes) => match String::from_utf8(bytes) {
                    Ok(text) => texts.push((path, text)),
                    Err(_) => others.push(path),
                },
                // Deleted, but not yet in git's eyes.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => errors.push(format!("{path}: cannot be read: {error}")),
            }
        }
        match Self::from_texts(texts) {
            Ok(mut workspace) if errors.is_empty() => {
                for path in others {
                    add_path(&mut workspace.paths, &path);
                }
                Ok(workspace)
            }
            Ok(_) => Err(errors),
            Err(more) => {
                errors.extend(more);
                Err(errors)
            }
        }
    }

    /// A workspace of the given files.
    ///
    /// # Errors
    /// A sentence for each Rust file that does not parse.
    pub fn from_texts(texts: Vec<(String, String)>) -> Result<Self, Vec<String>> {
        let mut files = Vec::new();
        let mut errors = Vec::new();
        for (path, text) in texts {
            match SourceFile::new(&path, text) {
                Ok(file) => files.push(file),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let mut paths = BTreeSet::new();
        for file in &files {
            add_path(&mut paths, &file.path);
        }
        let mut workspace = Workspace { files, paths };
        workspace.mark_test_modules();
        Ok(workspace)
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A file whose `mod` declaration is test code is test code itself.
    fn mark_test_modules(&mut self) {
        let mut test_paths = Vec::new();
        for file in &self.files {
            let Some(rust) = &file.rust else { continue };
            for item in &rust.ast.items {
                if let syn::Item::Mod(module) = item
                    && module.content.is_none()
                    && module.attrs.iter().any(is_test_attribute)
                {
                    test_paths.push(format!("{}/{}", module_folder(&file.path), module.ident));
                }
            }
        }
        for file in &mut self.files {
            let is_test = test_paths.iter().any(|path| {
                file.path == format!("{path}.rs") || file.path.starts_with(&format!("{path}/"))
            });
            if let (true, Some(rust)) = (is_test, &mut file.rust) {
                rust.is_test_file = true;
            }
        }
    }
}

/// The folder in which the modules declared by the file at `path` lie.
fn module_folder(path: &str) -> &str {
    for suffix in ["/mod.rs", "/lib.rs", "/main.rs", ".rs"] {
        if let Some(folder) = path.strip_suffix(suffix) {
            return folder;
        }
    }
    path
}

fn add_path(paths: &mut BTreeSet<String>, path: &str) {
    paths.insert(path.to_string());
    for (at, _) in path.match_indices('/') {
        paths.insert(path[..at].to_string());
    }
}

fn list(root: &Path) -> Vec<String> {
    let git = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output();
    if let Ok(output) = git
        && output.status.success()
        && !output.stdout.is_empty()
    {
        let names = String::from_utf8_lossy(&output.stdout);
        return names.split('\0').filter(|name| !name.is_empty()).map(String::from).collect();
    }
    let mut found = Vec::new();
    walk(root, "", &mut found);
    found
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "target" || name == ".git" {
            continue;
        }
        let path = format!("{prefix}{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), &format!("{path}/"), found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_declared_for_tests_is_test_code_with_its_folder() {
        let text = |path: &str, text: &str| (path.to_string(), text.to_string());
        let workspace = Workspace::from_texts(vec![
            text("crates/a/src/lib.rs", "#[cfg(test)]\nmod oracle;\nmod product;\n"),
            text("crates/a/src/oracle.rs", "mod deep;"),
            text("crates/a/src/oracle/deep.rs", ""),
            text("crates/a/src/product.rs", ""),
        ])
        .unwrap();
        let is_test =
            |path: &str| workspace.file(path).unwrap().rust.as_ref().unwrap().is_test_file;
        assert!(is_test("crates/a/src/oracle.rs") && is_test("crates/a/src/oracle/deep.rs"));
        assert!(!is_test("crates/a/src/product.rs") && !is_test("crates/a/src/lib.rs"));
        assert!(workspace.paths.contains("crates/a/src"));
    }

    #[test]
    fn a_folder_without_git_is_walked() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("target")).unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("target/x.rs"), "").unwrap();
        std::fs::write(folder.path().join("a/b/y.md"), "").unwrap();
        let mut found = Vec::new();
        walk(folder.path(), "", &mut found);
        assert_eq!(found, ["a/b/y.md"]);
    }
}
