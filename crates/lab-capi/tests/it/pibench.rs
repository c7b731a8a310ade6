//! The wrapper for PiBench over every design, by a program that uses it as PiBench does.

#![allow(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use everleaf_lab_designs::designs;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The static library beside this test program.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a test is a program");
    let path = program.parent().expect("it lies in a folder").join("libeverleaf_lab_capi.a");
    assert!(path.exists(), "{} was built with the tests", path.display());
    path
}

/// Compiles the program; says so if there is no compiler.
fn compile(to: &Path) -> bool {
    let has = Command::new("g++").arg("--version").stdout(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        println!("skipped: there is no g++ on this machine");
        return false;
    }
    let store = folder().join("../capi");
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1"]);
    for include in [folder().join("include"), store.join("include"), store.join("tests/c/pibench")]
    {
        command.arg("-I").arg(include);
    }
    command.arg(folder().join("tests/c/mixes.cpp")).arg(library());
    command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(to);
    let output = command.output().expect("g++ is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

fn run(program: &Path, design: &str, is_ordered: bool, threads: u32) {
    let scratch = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program);
    let order = if is_ordered { "ordered" } else { "hashed" };
    command.arg(design).arg(scratch.path().join("pool")).arg(threads.to_string()).arg(order);
    let output = command.output().expect("it starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{design}, {threads} threads: {} {told}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n", "{design}: {told}");
}

#[test]
fn mixes_through_the_wrapper_are_right_in_every_design() {
    let scratch = tempfile::tempdir().expect("a folder");
    let program = scratch.path().join("mixes");
    if !compile(&program) {
        return;
    }
    for design in designs() {
        run(&program, design.name, design.is_ordered, 1);
        // Two designs are kept as they were published, with what goes wrong between threads.
        if design.caveat.is_none() {
            run(&program, design.name, design.is_ordered, 3);
        }
    }
}

#[test]
fn the_shared_library_has_the_store_and_the_designs() {
    let has = Command::new("readelf").arg("--version").stdout(Stdio::null()).status();
    if !has.is_ok_and(|status| status.success()) {
        println!("skipped: there is no readelf on this machine");
        return;
    }
    let read = |flag: &str| {
        let path = library().with_extension("so");
        let output =
            Command::new("readelf").args([flag, "-W"]).arg(path).output().expect("readelf");
        String::from_utf8(output.stdout).expect("text")
    };
    let symbols = read("--dyn-syms");
    for name in ["el_index_open", "el_store_open", "el_last_error"] {
        assert!(symbols.lines().any(|line| line.ends_with(&format!(" {name}"))), "{name}");
    }
    let number = everleaf_capi::entry::el_abi_version();
    assert!(read("-d").contains(&format!("[libeverleaf_lab.so.{number}]")));
}
