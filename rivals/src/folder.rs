//! Folders that go away, and what is in them.

use std::path::{Path, PathBuf};

use everleaf_bench::BenchError;
use tempfile::TempDir;

/// A new folder, removed with everything in it.
pub struct Folder {
    folder: TempDir,
}

impl Folder {
    /// In `parent`, with a name that begins with `name`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new_in(parent: &Path, name: &str) -> Result<Self, BenchError> {
        let folder = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(parent);
        let refused =
            |error| BenchError::Io(format!("cannot make a folder in {}", parent.display()), error);
        Ok(Folder { folder: folder.map_err(refused)? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Bytes of the blocks that all files in a folder have, whatever their lengths say.
///
/// # Errors
/// The folder cannot be read.
pub fn bytes_on_disk(folder: &Path) -> Result<u64, BenchError> {
    let refused = |error| BenchError::Io(format!("cannot read {}", folder.display()), error);
    let mut bytes = 0;
    let mut folders: Vec<PathBuf> = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            // A file that a background thread has just removed counts for nothing.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                bytes += std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_in_all_folders_and_holes_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new_in(parent.path(), "rival").unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        std::fs::write(folder.path().join("inner/file"), vec![1; 100_000]).unwrap();
        let sparse = std::fs::File::create(folder.path().join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        let bytes = bytes_on_disk(folder.path()).unwrap();
        assert!((100_000..1_000_000).contains(&bytes), "{bytes}");
        drop(folder);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
