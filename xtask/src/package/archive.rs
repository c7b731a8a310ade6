//! The program as one static file in an archive, for Linux machines of any distribution:
//! `cargo xtask package --static`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::FILES;
use super::steps::{COMPLETIONS, CRATE, DIFFERENCES, install, open_to_all, text_of, write};
use super::trial;
use crate::notices;

/// What the program is compiled for: its C library is a part of it.
pub const TARGET: &str = "x86_64-unknown-linux-musl";
/// Bytes of an ELF program header, and the type of the one that names an interpreter.
const HEADER_SIZE: usize = 56;
const INTERPRETER: u32 = 3;

/// Packs a static program with its manual pages, completions, configuration, unit and licences; tries what was packed;
/// the path of the archive.
///
/// # Errors
/// The program asks for an interpreter, so it is not static; what did not work.
pub fn make(root: &Path, program: &Path, place: &Path) -> io::Result<PathBuf> {
    is_static(program)?;
    let name = format!("everleaf-{}-x86_64-linux", env!("CARGO_PKG_VERSION"));
    let tree = place.join(&name);
    match fs::remove_dir_all(&tree) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let installed = tree.join("bin/everleaf");
    install(program, &installed, 0o755)?;
    text_of(Command::new("strip").arg(&installed))?;
    lay_out(root, &installed, &tree)?;
    trial::run_program(&installed, &place.join("static-trial"))?;
    let archive = place.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--owner=0", "--group=0", "--sort=name", "--directory"]);
    text_of(tar.arg(place).arg("--file").arg(&archive).arg(&name))?;
    let file = format!("{name}.tar.gz");
    let sum = text_of(Command::new("sha256sum").arg(&file).current_dir(place))?;
    fs::write(place.join(format!("{file}.sha256")), sum)?;
    fs::remove_dir_all(&tree)?;
    Ok(archive)
}

/// Puts what is packed besides the program into a folder.
fn lay_out(root: &Path, installed: &Path, tree: &Path) -> io::Result<()> {
    for (shell, path) in COMPLETIONS {
        let script = text_of(Command::new(installed).args(["completions", shell]))?;
        let file = Path::new(path).file_name().expect("a completion has a name");
        write(&tree.join("completions").join(file), &script)?;
    }
    text_of(Command::new(installed).arg("man").arg(tree.join("man")))?;
    for (file, folder) in [("everleaf.toml", "etc"), ("everleaf.service", "systemd")] {
        install(&root.join(FILES).join(file), &tree.join(folder).join(file), 0o644)?;
    }
    for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", DIFFERENCES] {
        install(&root.join(file), &tree.join(file), 0o644)?;
    }
    write(&tree.join(notices::FILE), &notices::of(root, CRATE)?)?;
    open_to_all(tree)
}

/// A copy of a static program without what only debuggers read; its path.
///
/// # Errors
/// It is not static; what did not work.
pub fn stripped(program: &Path, place: &Path) -> io::Result<PathBuf> {
    is_static(program)?;
    let copy = place.join("everleaf");
    install(program, &copy, 0o755)?;
    text_of(Command::new("strip").arg(&copy))?;
    Ok(copy)
}

/// Refuses a program that asks for an interpreter.
fn is_static(program: &Path) -> io::Result<()> {
    match asks_for_interpreter(&fs::read(program)?) {
        Some(false) => Ok(()),
        _ => Err(io::Error::other(format!("{} is not a static program", program.display()))),
    }
}

/// Whether a program for Linux on 64 bits names an interpreter, as one does that is linked with shared
/// libraries. `None`: it is no such program.
fn asks_for_interpreter(program: &[u8]) -> Option<bool> {
    if program.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let number = |at: usize, size: usize| {
        let bytes = program.get(at..at.checked_add(size)?)?;
        let mut whole = [0; 8];
        whole[..size].copy_from_slice(bytes);
        usize::try_from(u64::from_le_bytes(whole)).ok()
    };
    let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    if size != HEADER_SIZE {
        return None;
    }
    for index in 0..count {
        let kind = number(start.checked_add(index * size)?, 4)?;
        if kind == INTERPRETER as usize {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// The unit was said to be in the archive, and was not.
    #[test]
    fn an_archive_has_what_a_service_needs_for_all_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let installed = folder.path().join("bin/everleaf");
        write(&installed, super::super::tests::PROGRAM).unwrap();
        fs::set_permissions(&installed, fs::Permissions::from_mode(0o700)).unwrap();
        lay_out(&crate::workspace_root(), &installed, folder.path()).unwrap();
        for (path, mode) in [
            ("bin/everleaf", 0o755),
            ("man", 0o755),
            ("man/everleaf.1", 0o644),
            ("completions/_everleaf", 0o644),
            ("etc/everleaf.toml", 0o644),
            ("systemd/everleaf.service", 0o644),
            ("LICENSE-MIT", 0o644),
            // As the server's errors name it.
            ("docs/redis-differences.md", 0o644),
            (notices::FILE, 0o644),
        ] {
            let found = fs::metadata(folder.path().join(path)).map(|it| it.permissions().mode());
            assert_eq!(found.map(|mode| mode & 0o777).ok(), Some(mode), "{path}");
        }
    }

    #[test]
    fn a_program_with_shared_libraries_is_told_from_a_static_one() {
        // This test is a program with shared libraries.
        let program = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(asks_for_interpreter(&program), Some(true));
        let mut other = program.clone();
        let start = u64::from_le_bytes(other[32..40].try_into().unwrap()) as usize;
        let count = usize::from(u16::from_le_bytes([other[56], other[57]]));
        for index in 0..count {
            // A note, which is of no importance.
            if other[start + index * HEADER_SIZE] == INTERPRETER as u8 {
                other[start + index * HEADER_SIZE] = 4;
            }
        }
        assert_eq!(asks_for_interpreter(&other), Some(false));
        assert_eq!(asks_for_interpreter(&other[..start + 3]), None);
        assert_eq!(asks_for_interpreter(b"#!/bin/sh\n"), None);
    }
}
