//! Calls of cargo: how they are made, shown and counted.

use std::path::Path;
use std::process::Command;

use crate::programs;
use crate::summary::Totals;

/// A call of the cargo that called us, in a folder.
pub fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments);
    for (name, _) in std::env::vars_os() {
        if is_of_package(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command
}

/// Whether `cargo run` has set a variable to tell this program of its package. A build script that reads one of
/// them, as `ring` does, would run anew, and all that depends on it be compiled, whenever a cargo of ours
/// follows one that was called by hand.
fn is_of_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs a command, passes its standard output on line by line, and adds up its test results.
pub fn run_counting(command: Command, totals: &mut Totals) {
    let name = shown(&command);
    println!("$ {name}");
    let job = programs::Job { name, package: String::new(), command };
    let (_, counted, _) = programs::run(job, false, &mut programs::print_now);
    totals.add(counted);
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
    format!("cargo {}", arguments.join(" "))
}
