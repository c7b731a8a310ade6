//! The module of Redis and Valkey: `cargo xtask module` builds it, and runs its tests in live servers.

use std::path::Path;
use std::process::{Command, Stdio};

/// Servers that the tests start: each that is there.
const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];

/// Builds the module in `bindings/module/target/release` and tests it in each server that is installed; installs
/// nothing. Arguments are those of `cargo test`.
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
    let mut servers = SERVERS.into_iter().filter(|server| is_there(server));
    cargo(&folder, &["build", "--release", "--locked"], None)
        && cargo(
            &folder,
            &["clippy", "--release", "--all-targets", "--locked", "--", "-D", "warnings"],
            None,
        )
        && servers.all(|server| cargo(&folder, &test, Some(server)))
}

/// The packages of Debian that have what is not on this machine.
fn missing() -> Vec<&'static str> {
    let mut packages = Vec::new();
    if !SERVERS.into_iter().any(is_there) {
        // Or valkey-server and valkey-tools, where Debian has them.
        packages.extend(["redis-server", "redis-tools"]);
    }
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
