//! How large the program is that users get: `everleaf`, stripped, has at most 10 MB.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::cargo;

/// Bytes of the stripped program, at most (docs/results/house.md).
const SIZE_MAX: u64 = 10_000_000;

/// Builds the program as users get it, and refuses one that is larger.
pub fn is_small_enough(root: &Path, package: &str) -> bool {
    match stripped_size(root, package) {
        Ok(size) => judged(size),
        Err(error) => {
            eprintln!("xtask: cannot tell how large the stripped program is: {error}");
            false
        }
    }
}

/// Says how large the program is, and whether that is small enough.
fn judged(size: u64) -> bool {
    println!("the program, stripped: {size} bytes, of {SIZE_MAX} at most");
    if size > SIZE_MAX {
        eprintln!("xtask: it is too large by {} bytes", size - SIZE_MAX);
    }
    size <= SIZE_MAX
}

fn stripped_size(root: &Path, package: &str) -> io::Result<u64> {
    let arguments = ["build", "--release", "--locked", "-p", package];
    let mut command = cargo(root, &arguments);
    command.args(["--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other("it does not compile"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let program = program_in(&text).ok_or_else(|| io::Error::other("cargo names no program"))?;
    // Beside it: nobody else writes there while cargo's lock is not held, and the name is ours.
    let copy = format!("{program}.stripped");
    let status = Command::new("strip").args(["-o", &copy, &program]).status()?;
    if !status.success() {
        return Err(io::Error::other("strip failed"));
    }
    let size = fs::metadata(&copy)?.len();
    fs::remove_file(&copy)?;
    Ok(size)
}

/// The program that cargo says it has built.
fn program_in(messages: &str) -> Option<String> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut programs = messages
        .filter_map(|message: serde_json::Value| message["executable"].as_str().map(str::to_owned));
    programs.find(|program| Path::new(program).ends_with("everleaf"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_larger_is_refused() {
        assert!(judged(SIZE_MAX));
        assert!(!judged(SIZE_MAX + 1));
    }

    #[test]
    fn the_program_is_found_among_the_messages_of_cargo() {
        let messages = "{\"executable\":null}\nnot JSON\n{\"executable\":\"/t/release/everleaf-lab\"}\n\
                        {\"executable\":\"/t/release/everleaf\"}\n";
        assert_eq!(program_in(messages).as_deref(), Some("/t/release/everleaf"));
        assert_eq!(program_in("{\"executable\":null}\n"), None);
    }
}
