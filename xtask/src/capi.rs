//! The C interface: its header, and its installation.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask capi header | cargo xtask capi PREFIX [--debug]";

/// The number of the binary interface, which the shared library has in its name.
const ABI: &str = "0";

/// `cargo xtask capi header` writes `everleaf.h` anew; `cargo xtask capi PREFIX` installs libraries,
/// headers and the description for pkg-config below a folder.
pub fn run(root: &Path, arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["header"] => write_header(root),
        [prefix] if !prefix.starts_with('-') => install(root, Path::new(prefix), true),
        [prefix, "--debug"] => install(root, Path::new(prefix), false),
        _ => {
            eprintln!("xtask: {USAGE}");
            false
        }
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn write_header(root: &Path) -> bool {
    let mut command = cargo(root);
    command.args(["test", "-p", "everleaf-capi", "--test", "it", "the_committed_header"]);
    command.env("EVERLEAF_UPDATE_HEADER", "1");
    command.status().is_ok_and(|status| status.success())
}

fn install(root: &Path, prefix: &Path, is_release: bool) -> bool {
    let Some(built) = build(root, is_release) else { return false };
    match copy(root, &built, prefix) {
        Ok(()) => {
            println!("installed below {}", prefix.display());
            true
        }
        Err(error) => {
            eprintln!("xtask: cannot install below {}: {error}", prefix.display());
            false
        }
    }
}

/// Builds the libraries, and says in which folder they are.
fn build(root: &Path, is_release: bool) -> Option<PathBuf> {
    let mut command = cargo(root);
    command.args(["build", "-p", "everleaf-capi", "--message-format", "json-render-diagnostics"]);
    if is_release {
        command.arg("--release");
    }
    let output = command.stderr(std::process::Stdio::inherit()).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let files =
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut names =
        files.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    let library = names
        .find(|name| name.as_str().is_some_and(|name| name.ends_with("/libeverleaf_capi.so")))?;
    Path::new(library.as_str()?).parent().map(Path::to_path_buf)
}

fn copy(root: &Path, built: &Path, prefix: &Path) -> io::Result<()> {
    let (lib, include) = (prefix.join("lib"), prefix.join("include"));
    let pkgconfig = lib.join("pkgconfig");
    fs::create_dir_all(&pkgconfig)?;
    fs::create_dir_all(&include)?;
    let version = env!("CARGO_PKG_VERSION");
    let full = format!("libeverleaf.so.{version}");
    fs::copy(built.join("libeverleaf_capi.so"), lib.join(&full))?;
    for name in [format!("libeverleaf.so.{ABI}"), "libeverleaf.so".to_string()] {
        match fs::remove_file(lib.join(&name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(&full, lib.join(&name))?,
        }
    }
    fs::copy(built.join("libeverleaf_capi.a"), lib.join("libeverleaf.a"))?;
    for header in ["everleaf.h", "everleaf.hpp"] {
        fs::copy(root.join("crates/capi/include").join(header), include.join(header))?;
    }
    let prefix = fs::canonicalize(prefix)?;
    let description = description(&prefix.to_string_lossy(), version);
    fs::write(pkgconfig.join("everleaf.pc"), description)
}

/// What pkg-config is told.
fn description(prefix: &str, version: &str) -> String {
    format!(
        "prefix={prefix}\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\n\
         Name: everleaf\n\
         Description: An ordered key-value store in one file\n\
         Version: {version}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -leverleaf\n\
         Libs.private: -lpthread -ldl -lm\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_is_installed_by_the_names_of_its_interface() {
        let folder = tempfile::tempdir().unwrap();
        let (built, prefix) = (folder.path().join("built"), folder.path().join("usr"));
        fs::create_dir(&built).unwrap();
        for name in ["libeverleaf_capi.so", "libeverleaf_capi.a"] {
            fs::write(built.join(name), name).unwrap();
        }
        let root = crate::workspace_root();
        // Twice: what an older version left is replaced.
        copy(&root, &built, &prefix).unwrap();
        copy(&root, &built, &prefix).unwrap();
        let read = |name: &str| fs::read_to_string(prefix.join(name)).unwrap();
        assert_eq!(read(&format!("lib/libeverleaf.so.{ABI}")), "libeverleaf_capi.so");
        assert_eq!(read("lib/libeverleaf.a"), "libeverleaf_capi.a");
        assert!(read("include/everleaf.h").contains(&format!("#define EL_ABI_VERSION {ABI}\n")));
        assert!(read("lib/pkgconfig/everleaf.pc").contains("Libs: -L${libdir} -leverleaf\n"));
    }
}
