//! Programs in C and C++, by whatever compilers are here: linked with the static library as it is, with
//! the address and undefined behaviour sanitizers, and under valgrind. What is missing is said and left
//! out, or is a failure where nothing is to be missing; what the programs do is also done by the tests in Rust.

#![allow(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::text;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The static library beside this test program.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a test is a program");
    let path = program.parent().expect("it lies in a folder").join("libeverleaf_capi.a");
    assert!(path.exists(), "{} was built with the tests", path.display());
    path
}

/// What makes a missing program a failure: where everything was installed, as in continuous integration.
const ALL_PROGRAMS: &str = "EVERLEAF_TEST_ALL_PROGRAMS";

/// Says what is left out, and why.
fn leave_out(why: &str) {
    assert!(std::env::var_os(ALL_PROGRAMS).is_none(), "{ALL_PROGRAMS}: {why}");
    println!("skipped: {why}");
}

/// Whether a program is here; says so if it is not.
fn is_here(program: &str) -> bool {
    let output = Command::new(program).arg("--version").output();
    let is_here = output.is_ok_and(|output| output.status.success());
    if !is_here {
        leave_out(&format!("there is no {program} on this machine"));
    }
    is_here
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(shown(&output.stdout)),
        false => Err(format!("{command:?}: {}\n{}", output.status, shown(&output.stderr))),
    }
}

/// Compiles a source with everything that warns.
fn compile(compiler: &str, source: &str, more: &[&str], to: &Path) -> Result<String, String> {
    let standard = if source.ends_with(".cpp") { "-std=c++17" } else { "-std=c99" };
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-D_GNU_SOURCE"]);
    command.args(more).arg("-I").arg(folder().join("include")).arg(folder().join(source));
    command.arg(library()).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(to);
    run(&mut command)
}

/// Compiles and runs a program in each of the ways that are possible here.
fn try_all(compilers: &[&str], source: &str, expected: &str) {
    const SANITIZERS: &str = "-fsanitize=address,undefined";
    let scratch = tempfile::tempdir().expect("a folder");
    for compiler in compilers.iter().filter(|compiler| is_here(compiler)) {
        for (index, flags) in
            [&["-O1"][..], &[SANITIZERS, "-fno-sanitize-recover=all"]].iter().enumerate()
        {
            let program = scratch.path().join(format!("{compiler}{index}"));
            let built = compile(compiler, source, flags, &program);
            if let Err(text) = &built
                && index == 1
                && (text.contains("asan") || text.contains("ubsan"))
            {
                // Those of clang are in a package of their own, libclang-rt-dev of Debian.
                leave_out(&format!("{compiler} has no sanitizers here"));
                continue;
            }
            built.expect("it compiles without a warning");
            let pool = scratch.path().join(format!("{compiler}{index}.pool"));
            assert_eq!(run(Command::new(&program).arg(&pool)).expect("it runs"), expected);
        }
    }
}

const IN_C: &[&str] = &["gcc", "clang"];
const IN_CPP: &[&str] = &["g++", "clang++"];
const TREES: &str = "oak is Quercus\nash: Fraxinus\noak: Quercus\n";

#[test]
fn a_program_in_c_runs_under_the_sanitizers() {
    try_all(IN_C, "tests/c/use.c", "fine\n");
}

#[test]
fn bad_arguments_from_c_are_refused_under_the_sanitizers() {
    try_all(IN_C, "tests/c/abuse.c", "fine\n");
}

#[test]
#[ignore = "guards a landing"]
fn landing_a_program_in_cpp_runs_under_the_sanitizers() {
    try_all(IN_CPP, "tests/c/use.cpp", "fine\n");
}

#[test]
fn a_program_without_memory_is_told() {
    if !is_here("g++") {
        return;
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let program = scratch.path().join("memory");
    compile("g++", "tests/c/memory.cpp", &["-O1"], &program).expect("it compiles");
    let mut failed = vec![];
    for what in ["iterator", "view-iterator", "view", "bounds", "seek", "scan", "names"] {
        let pool = scratch.path().join(what);
        let said = run(Command::new(&program).arg(&pool).arg(what));
        if said.as_deref() != Ok("fine\n") {
            failed.push((what, said));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Its ranges are those of the library, too.
#[test]
fn a_program_in_newer_cpp_runs() {
    if !is_here("g++") {
        return;
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let program = scratch.path().join("use");
    compile("g++", "tests/c/use.cpp", &["-std=c++20"], &program).expect("it compiles");
    let output = run(Command::new(&program).arg(scratch.path().join("pool"))).expect("it runs");
    assert_eq!(output, "fine\n");
}

#[test]
fn the_wrapper_for_pibench_runs() {
    if !is_here("g++") {
        return;
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let program = scratch.path().join("pibench");
    let stand_in = format!("-I{}", folder().join("tests/c/pibench").display());
    compile("g++", "tests/c/pibench.cpp", &[&stand_in], &program).expect("it compiles");
    let pool = scratch.path().join("pool");
    assert_eq!(run(Command::new(&program).arg(&pool)).expect("it runs"), "fine\n");
}

#[test]
#[ignore = "guards a landing"]
fn landing_the_examples_run_under_the_sanitizers() {
    try_all(IN_C, "c/first.c", TREES);
    try_all(IN_CPP, "c/first.cpp", &format!("{TREES}done\nrefused\n"));
}

/// The guide has the commands; they run as if the library of these tests had been installed.
#[test]
fn the_commands_for_the_first_program_run() {
    if !is_here("cc") || !is_here("pkg-config") {
        return;
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let here = scratch.path();
    for name in ["first.c", "first.sh"] {
        std::fs::copy(folder().join("c").join(name), here.join(name)).expect("it is copied");
    }
    let number = everleaf_capi::entry::el_abi_version();
    for name in ["libeverleaf.so".to_string(), format!("libeverleaf.so.{number}")] {
        let shared = library().with_extension("so");
        std::os::unix::fs::symlink(shared, here.join(name)).expect("a link");
    }
    let include = folder().join("include");
    let description = format!(
        "Name: everleaf\nDescription: here\nVersion: 0\nCflags: -I{}\nLibs: -L{} -leverleaf\n",
        include.display(),
        here.display()
    );
    std::fs::write(here.join("everleaf.pc"), description).expect("it is written");
    let mut shell = Command::new("sh");
    shell.args(["-e", "first.sh"]).current_dir(here);
    shell.env("PKG_CONFIG_PATH", here).env("LD_LIBRARY_PATH", here);
    assert_eq!(run(&mut shell).expect("it runs"), TREES);
}

#[test]
#[ignore = "guards a landing"]
fn landing_valgrind_finds_nothing() {
    if !is_here("valgrind") {
        return;
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let transfer = format!("{TREES}done\nrefused\n");
    for (compiler, source, expected) in [
        ("gcc", "tests/c/use.c", "fine\n"),
        ("gcc", "c/first.c", TREES),
        ("g++", "tests/c/use.cpp", "fine\n"),
        ("g++", "c/first.cpp", transfer.as_str()),
    ] {
        if !is_here(compiler) {
            continue;
        }
        let program = scratch.path().join(source.replace('/', "."));
        compile(compiler, source, &["-O1"], &program).expect("it compiles");
        let mut command = Command::new("valgrind");
        command.args([
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ]);
        command.arg(&program).arg(program.with_extension("pool"));
        match run(&mut command) {
            Ok(output) => assert_eq!(output, expected, "{source}"),
            Err(told) if told.contains("unrecognised instruction") => {
                leave_out("valgrind does not know an instruction of this machine");
            }
            Err(told) => panic!("{told}"),
        }
    }
}

#[test]
fn the_shared_library_exports_the_interface_and_has_its_name() {
    let path = library().with_extension("so");
    if !is_here("readelf") {
        return;
    }
    let symbols = run(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(&path)).expect("ELF");
    let ours = symbols.lines().filter(|line| line.contains(" el_")).count();
    assert!(ours > 50, "{ours} functions");
    let dynamic = run(Command::new("readelf").args(["-d", "-W"]).arg(&path)).expect("ELF");
    let number = everleaf_capi::entry::el_abi_version();
    assert!(dynamic.contains(&format!("[libeverleaf.so.{number}]")), "{dynamic}");
    assert_eq!(text(everleaf_capi::entry::el_last_error()), "", "nothing failed in this thread");
}
