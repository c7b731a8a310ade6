//! What is published: the crates, and the promise of the library's version number.

use std::path::Path;
use std::process::Command;

/// The crate whose interface is promised.
const LIBRARY: &str = "everleaf";

/// `cargo xtask crates`: packs all crates that are published, and compiles each from its packed files.
pub fn crates(root: &Path) -> bool {
    let mut command = cargo(root);
    command.args(["package", "--workspace", "--locked", "--exclude", env!("CARGO_PKG_NAME")]);
    run(&mut command)
}

/// `cargo xtask semver COMMIT`: whether the interface of the library breaks what its version promises, compared with
/// that of a commit. It needs `cargo-semver-checks`.
pub fn semver(root: &Path, arguments: &[String]) -> bool {
    let [commit] = arguments else {
        eprintln!("xtask: usage: cargo xtask semver COMMIT");
        return false;
    };
    let mut command = cargo(root);
    command.args(["semver-checks", "--package", LIBRARY, "--baseline-rev", commit]);
    // Without the feature `simulated`, which is for our own tests and promises nothing.
    run(command.arg("--default-features"))
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs a program on our terminal; says so if it cannot be started.
fn run(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("xtask: cannot start {command:?}: {error}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    /// The jobs use the pinned compiler: with that they show what `rust-version` promises.
    #[test]
    fn the_pinned_compiler_is_the_oldest_that_is_promised() {
        let pinned = include_str!("../../rust-toolchain.toml");
        let promised = concat!(env!("CARGO_PKG_RUST_VERSION"), ".0");
        assert!(pinned.contains(&format!("channel = \"{promised}\"")), "{pinned}");
    }
}
