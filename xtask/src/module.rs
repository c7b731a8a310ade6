//! The module of Redis and Valkey: `cargo xtask module` builds it, and runs its tests in live servers.

use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that the tests start, and the package of Debian that has each.
const PROGRAMS: [(&str, &str); 2] =
    [("redis-server", "redis-server"), ("redis-cli", "redis-tools")];
/// A server that is tested as well if it is there.
const OTHER_SERVER: &str = "valkey-server";

/// Builds the module in `bindings/module/target/release` and tests it; installs nothing. Arguments are those
/// of `cargo test`.
pub fn run(root: &Path, arguments: &[String]) -> bool {
    let missing = missing();
    if !missing.is_empty() {
        eprintln!(
            "xtask: the module needs what is not here: apt-get install {}",
            missing.join(" ")
        );
        return false;
    }
    let folder = root.join("bindings/module");
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let test = [&["test", "--release", "--locked"], words.as_slice()].concat();
    let others = if is_there(OTHER_SERVER) { &[Some(OTHER_SERVER)][..] } else { &[] };
    cargo(&folder, &["build", "--release", "--locked"], None)
        && cargo(
            &folder,
            &["clippy", "--release", "--all-targets", "--locked", "--", "-D", "warnings"],
            None,
        )
        && std::iter::once(&None).chain(others).all(|server| cargo(&folder, &test, *server))
}

/// The packages of Debian that have what is not on this machine.
fn missing() -> Vec<&'static str> {
    let mut packages: Vec<_> = PROGRAMS
        .iter()
        .filter(|(program, _)| !is_there(program))
        .map(|(_, package)| *package)
        .collect();
    if !has_libclang() {
        packages.push("libclang-dev");
    }
    packages
}

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Whether the generator of the server's functions will find the C compiler's library and headers.
fn has_libclang() -> bool {
    let named = std::env::var_os("LIBCLANG_PATH").is_some();
    let versions = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut folders = versions.map(|entry| entry.path()).filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("llvm"))
    });
    named || folders.any(|folder| folder.join("lib/libclang.so").exists())
}

fn cargo(folder: &Path, arguments: &[&str], server: Option<&str>) -> bool {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    println!(
        "$ cargo {}{}",
        arguments.join(" "),
        server.map_or(String::new(), |s| format!(" # {s}"))
    );
    let mut command = Command::new(program);
    command.current_dir(folder).args(arguments);
    if let Some(server) = server {
        command.env("EVERLEAF_SERVER", server);
    }
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("xtask: cannot start cargo: {error}");
            false
        }
    }
}
