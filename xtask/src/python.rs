//! The Python package: `cargo xtask python` builds the wheel, and runs its tests.

use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS: [&str; 11] = [
    "maturin>=1.9,<2",
    "pytest",
    "hypothesis",
    "sortedcontainers",
    "numpy",
    "pandas",
    "pyarrow",
    "mypy",
    "pyright",
    "pandas-stubs",
    "pyarrow-stubs",
];

/// Builds the wheel, installs it in an environment of its own, checks its types, and runs its tests.
/// The wheel is left in `bindings/python/dist`.
pub fn run(root: &Path) -> bool {
    let package = root.join("bindings/python");
    let environment = package.join("target/environment");
    let program = |name: &str| environment.join("bin").join(name);
    let python = program("python");
    (python.exists() || step(&package, "python3".into(), &["-m", "venv", "target/environment"]))
        && step(&package, python.clone(), &[&["-m", "pip", "install", "-q"], &TOOLS[..]].concat())
        && step(&package, program("maturin"), &["build", "--release", "--out", "dist"])
        && step(
            &package,
            python.clone(),
            &[
                "-m",
                "pip",
                "install",
                "-q",
                "--force-reinstall",
                "--no-index",
                "-f",
                "dist",
                "everleaf",
            ],
        )
        && step(&package, program("mypy"), &["--strict", "python"])
        // The stub of the compiled part is what that part has.
        && step(
            &package,
            python.clone(),
            &[
                "-m",
                "mypy.stubtest",
                "--ignore-disjoint-bases",
                "--allowlist",
                "tests/stubtest.txt",
                "everleaf._everleaf",
            ],
        )
        && step(&package, program("pyright"), &["--pythonpath", "target/environment/bin/python"])
        && step(&package, python, &["-m", "pytest", "-q", "tests"])
}

/// Runs a program on our terminal; says so if it cannot be started.
fn step(folder: &Path, program: PathBuf, arguments: &[&str]) -> bool {
    println!("$ {} {}", program.display(), arguments.join(" "));
    match Command::new(&program).current_dir(folder).args(arguments).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("xtask: cannot start {}: {error}", program.display());
            false
        }
    }
}
