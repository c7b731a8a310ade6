//! The program from packed files: `cargo xtask packed`. What `cargo install everleaf-cli` would get from the registry,
//! before it is there.
//!
//! All crates that are published are packed, those that the program needs are unpacked, and the program is
//! installed from there, with the `Cargo.lock` that was packed with it. That lock names the registry as the source of
//! our crates, which it is not yet: so the unpacked ones take its place (`[patch]`), and their lines in the lock
//! lose the source. Nothing else is different, and nothing of the workspace can be reached: a file that
//! was not packed is missing here.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::publish;

const USAGE: &str = "usage: cargo xtask packed [--debug]";
/// The package of the program, and its program.
const PACKAGE: &str = "everleaf-cli";
const PROGRAM: &str = "everleaf";

/// Packs, installs and tries the program.
pub fn run(root: &Path, arguments: &[String]) -> bool {
    let is_debug = match arguments {
        [] => false,
        [flag] if flag == "--debug" => true,
        _ => {
            eprintln!("xtask: {USAGE}");
            return false;
        }
    };
    match install(root, is_debug).and_then(|program| attempt(&program)) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("xtask: {error}");
            false
        }
    }
}

/// Where the installed program is.
fn install(root: &Path, is_debug: bool) -> io::Result<PathBuf> {
    let target = target_folder(root)?;
    let packages = target.join("package");
    // What an earlier run left must not pass for what is packed now.
    for old in packed_files(&packages)? {
        fs::remove_file(old)?;
    }
    run_command(publish::packing(root)?.args(["--no-verify", "--allow-dirty"]))?;

    // Below a folder of this name Cargo looks for no workspace around a package.
    let place = packages.join("unpacked");
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(&place)?,
    }
    for file in packed_files(&packages)? {
        run_command(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(&place))?;
    }
    let folder = |name: &str| place.join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
    let lock = folder(PACKAGE).join("Cargo.lock");
    let (text, ours) = without_sources(&fs::read_to_string(&lock)?, |name| folder(name).is_dir());
    fs::write(&lock, text)?;

    let mut command = cargo(&place);
    command.args(["install", "--locked"]).arg("--path").arg(folder(PACKAGE));
    command.arg("--root").arg(place.join("root"));
    if is_debug {
        command.arg("--debug");
    }
    for name in ours.iter().filter(|name| *name != PACKAGE) {
        let path = folder(name).display().to_string();
        command.arg("--config").arg(format!("patch.crates-io.{name}.path={path:?}"));
    }
    run_command(&mut command)?;
    Ok(place.join("root/bin").join(PROGRAM))
}

/// Uses the installed program: it says its version, and a value that was put is there.
fn attempt(program: &Path) -> io::Result<()> {
    let version = output(Command::new(program).arg("--version"))?;
    let expected = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    if !version.starts_with(&expected) {
        return Err(io::Error::other(format!("it says {version:?}, not {expected:?}")));
    }
    let pool = program.with_file_name("trial.pool");
    let _ = fs::remove_file(&pool);
    run_command(Command::new(program).arg("create").arg(&pool))?;
    run_command(Command::new(program).arg("put").arg(&pool).args(["key", "value"]))?;
    let value = output(Command::new(program).arg("get").arg(&pool).arg("key"))?;
    run_command(Command::new(program).arg("check").arg(&pool))?;
    fs::remove_file(&pool)?;
    if value.trim_end() != "value" {
        return Err(io::Error::other(format!("the value is {value:?}")));
    }
    println!("{}: {}", program.display(), version.trim_end());
    Ok(())
}

/// A lock file in which the packages that `is_ours` knows have neither a source nor a check sum, as those of
/// a `[patch]` have none; and their names.
fn without_sources(lock: &str, is_ours: impl Fn(&str) -> bool) -> (String, BTreeSet<String>) {
    let (mut text, mut ours, mut inside) = (String::new(), BTreeSet::new(), false);
    for line in lock.lines() {
        if line.starts_with("[[") {
            inside = false;
        } else if let Some(name) = line.strip_prefix("name = ") {
            let name = name.trim_matches('"');
            inside = is_ours(name);
            if inside {
                ours.insert(name.to_string());
            }
        }
        if inside && (line.starts_with("source = ") || line.starts_with("checksum = ")) {
            continue;
        }
        text.push_str(line);
        text.push('\n');
    }
    (text, ours)
}

/// The packed crates in a folder, if it is there.
fn packed_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        entries => entries?,
    };
    let paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == "crate")).collect())
}

/// Where Cargo leaves what it makes.
fn target_folder(root: &Path) -> io::Result<PathBuf> {
    let mut command = cargo(root);
    let text = output(command.args(["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&text).map_err(io::Error::other)?;
    let folder = metadata["target_directory"].as_str();
    folder
        .map(PathBuf::from)
        .ok_or_else(|| io::Error::other("cargo metadata names no target folder"))
}

fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    command
}

fn run_command(command: &mut Command) -> io::Result<()> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("it failed: {command:?}"))),
    }
}

fn output(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(io::Error::other),
        false => Err(io::Error::other(format!("it failed: {command:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_packages_lose_their_source() {
        let lock = "version = 4\n\n[[package]]\nname = \"clap\"\nsource = \"registry\"\nchecksum = \"1\"\n\n\
                    [[package]]\nname = \"everleaf\"\nversion = \"0.1.0\"\nsource = \"registry\"\nchecksum = \"2\"\n\
                    dependencies = [\n \"clap\",\n]\n\n[[package]]\nname = \"z\"\nsource = \"registry\"\n";
        let (text, ours) = without_sources(lock, |name| name == "everleaf");
        let expected = lock.replace("source = \"registry\"\nchecksum = \"2\"\n", "");
        assert_eq!(text, expected);
        assert_eq!(ours.into_iter().collect::<Vec<_>>(), ["everleaf"]);
    }
}
