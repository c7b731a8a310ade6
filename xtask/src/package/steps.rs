//! The steps that each kind of package is made of.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The crate of the program.
pub const CRATE: &str = "everleaf-cli";

/// The page that the server's errors about unknown commands name, from the root of the workspace.
pub const DIFFERENCES: &str = "docs/redis-differences.md";

/// The completions: the shell, and where it looks for them.
pub const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/everleaf"),
    ("zsh", "usr/share/zsh/vendor-completions/_everleaf"),
    ("fish", "usr/share/fish/vendor_completions.d/everleaf.fish"),
];

/// Copies a file, with its folders and these permissions.
pub fn install(from: &Path, to: &Path, mode: u32) -> io::Result<()> {
    fs::create_dir_all(to.parent().expect("it is in a folder"))?;
    fs::copy(from, to).map_err(|error| io::Error::other(format!("{}: {error}", from.display())))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))
}

/// Writes a file that everybody may read, with its folders.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().expect("it is in a folder"))?;
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

/// Lets everybody read what is below a folder, and run what its owner may: it may have been made with any umask.
pub fn open_to_all(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_to_all(&entry.path())?;
            continue;
        }
        let is_run = entry.metadata()?.permissions().mode() & 0o100 != 0;
        let mode = if is_run { 0o755 } else { 0o644 };
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Runs a program to its end; what it printed.
pub fn text_of(command: &mut Command) -> io::Result<String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| io::Error::other(format!("{shown}: {error}")))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(io::Error::other(format!("{shown}: {error}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
