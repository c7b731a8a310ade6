//! The Python package: `cargo xtask python` builds the wheel, and runs its tests; `cargo xtask python --free-threaded
//! [PROGRAM]` does so for a Python without the interpreter's lock, by default `python3.14t`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::notices;

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

/// Does what the arguments say.
pub fn run(root: &Path, arguments: &[String]) -> bool {
    let package = root.join("bindings/python");
    match arguments {
        [] => run_for_all(&package),
        [first, rest @ ..] if first == "--free-threaded" && rest.len() < 2 => {
            run_free_threaded(&package, rest.first().map_or("python3.14t", String::as_str))
        }
        _ => {
            eprintln!("xtask: usage: cargo xtask python [--free-threaded [PROGRAM]]");
            false
        }
    }
}

/// Builds a wheel for a free-threaded Python, in which the lock stays off, and runs the tests with it.
fn run_free_threaded(package: &Path, interpreter: &str) -> bool {
    let python = package.join("target/free-threaded/bin/python");
    let pip = ["-m", "pip", "install", "-q"];
    // Types do not depend on it, and tables are tested where their packages can be had.
    let tools = &TOOLS[..5];
    let installed =
        ["--force-reinstall", "--no-index", "-f", "target/free-threaded-wheel", "everleaf"];
    let build = ["-m", "maturin", "build", "--release", "--locked", "--no-default-features"];
    let to = ["--out", "target/free-threaded-wheel", "-i", "target/free-threaded/bin/python"];
    (python.exists()
        || step(package, interpreter.into(), &["-m", "venv", "target/free-threaded"]))
        && step(package, python.clone(), &[&pip[..], tools].concat())
        && licences(package)
        && step(package, python.clone(), &[&build[..], &to].concat())
        && step(package, python.clone(), &[&pip[..], &installed].concat())
        // Whatever is imported may turn the lock on again: this says that nothing does.
        && step(package, python.clone(), &["-X", "gil=0", "-c", IS_FREE])
        && step(package, python, &["-X", "gil=0", "-m", "pytest", "-q", "tests"])
}

const IS_FREE: &str = "import everleaf, sys; sys.exit(sys._is_gil_enabled())";

/// Builds the wheel, installs it in an environment of its own, checks its types, and runs its tests.
/// The wheel is left in `bindings/python/dist`.
fn run_for_all(package: &Path) -> bool {
    let environment = package.join("target/environment");
    let program = |name: &str| environment.join("bin").join(name);
    let python = program("python");
    (python.exists() || step(package, "python3".into(), &["-m", "venv", "target/environment"]))
        && step(package, python.clone(), &[&["-m", "pip", "install", "-q"], &TOOLS[..]].concat())
        && licences(package)
        && step(package, program("maturin"), &["build", "--release", "--locked", "--out", "dist"])
        && step(
            package,
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
        && step(package, program("mypy"), &["--strict", "python"])
        // The stub of the compiled part is what that part has.
        && step(
            package,
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
        && step(package, program("pyright"), &["--pythonpath", "target/environment/bin/python"])
        && step(package, python, &["-m", "pytest", "-q", "tests"])
}

/// Writes the licences of what is linked into the module, and our own, to where the wheel takes them from.
fn licences(package: &Path) -> bool {
    let root = package.parent().and_then(Path::parent).unwrap_or(package);
    let copied = ["LICENSE-MIT", "LICENSE-APACHE"]
        .iter()
        .try_for_each(|name| std::fs::copy(root.join(name), package.join(name)).map(drop));
    let written = copied.and_then(|()| {
        std::fs::write(package.join(notices::FILE), notices::of(package, "everleaf-python")?)
    });
    if let Err(error) = &written {
        eprintln!("xtask: no licences for the wheel: {error}");
    }
    written.is_ok()
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
