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

/// What makes a missing program a failure: where everything was installed, as in continuous integration.
const ALL_PROGRAMS: &str = "EVERLEAF_TEST_ALL_PROGRAMS";

/// Whether a program is here; says so if it is not.
fn is_here(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let is_here = command.status().is_ok();
    if !is_here {
        assert!(std::env::var_os(ALL_PROGRAMS).is_none(), "{ALL_PROGRAMS}: there is no {program}");
        println!("skipped: there is no {program} on this machine");
    }
    is_here
}

/// A program that loads the libraries for PiBench, and both of those as `run.sh` compiles them.
struct Compiled {
    scratch: tempfile::TempDir,
}

impl Compiled {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        let prefix = scratch.path().join("usr");
        install(&prefix);
        let interface = folder().join("../capi/tests/c/pibench");
        let compile = |source: &str, arguments: &[&str], to: &str| {
            let mut command = Command::new("g++");
            command.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-I"]);
            command.arg(&interface).arg("-I").arg(prefix.join("include"));
            command.arg(folder().join(source)).args(arguments);
            command.arg("-o").arg(scratch.path().join(to));
            let output = command.output().expect("g++ is there");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        let libraries = prefix.join("lib").display().to_string();
        let path = format!("-Wl,-rpath,{libraries}");
        let shared = ["-fPIC", "-shared", "-L", &libraries, &path, "-leverleaf_lab"];
        compile("../capi/pibench/everleaf_wrapper.cpp", &shared, "store.so");
        compile("pibench/everleaf_lab_wrapper.cpp", &shared, "design.so");
        compile("tests/c/mixes.cpp", &["-ldl", "-lpthread"], "mixes");
        Compiled { scratch }
    }

    /// Runs the mixes of a library for some threads, and keys and values of some sizes; what was said if it ended
    /// with a failure.
    fn run(&self, library: &str, run: &Run<'_>, pool: &Path) -> Result<String, String> {
        let mut command = Command::new(self.scratch.path().join("mixes"));
        command.arg(self.scratch.path().join(library)).arg(pool).arg(run.threads.to_string());
        command.arg(run.kind);
        command.args([run.sizes.0, run.sizes.1].map(|size| size.to_string()));
        command.env("EVERLEAF_DESIGN", run.design);
        let output = command.output().expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("{run:?}: {} {told}", output.status)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    design: &'a str,
    /// What the program is told of it: `ordered`, `hashed` or `blind`.
    kind: &'a str,
    threads: u32,
    /// Bytes of a key and of a value.
    sizes: (usize, usize),
}

#[test]
fn mixes_through_the_wrappers_are_right() {
    if !is_here("g++") {
        return;
    }
    // Compiling takes longer than most of what follows.
    let compiled = Compiled::new();
    every_design_is_right(&compiled);
    the_store_is_right(&compiled);
    the_designs_refuse_what_is_no_integer(&compiled);
}

fn every_design_is_right(compiled: &Compiled) {
    let (mut runs, mut in_files) = (0, 0);
    for design in designs() {
        // Its name says that it writes without a look.
        let kind = match design.is_ordered {
            true if design.name.ends_with("-blind") => "blind",
            true => "ordered",
            false => "hashed",
        };
        // Some are kept as they were published, with what goes wrong between threads.
        let threads = if design.caveat.is_none() { &[1, 3][..] } else { &[1] };
        for threads in threads.iter().copied() {
            let run = Run { design: design.name, kind, threads, sizes: (8, 8) };
            let scratch = tempfile::tempdir().expect("a folder");
            let pool = scratch.path().join("pool");
            let mut said = compiled.run("design.so", &run, &pool);
            in_files += usize::from(said.is_ok());
            // A design of which nothing is in the pool refuses a file, and runs without one.
            if said
                .as_ref()
                .is_err_and(|told| told.contains("no contents that outlive the program"))
            {
                assert!(!pool.exists(), "{run:?}: refused, and left its file");
                said = compiled.run("design.so", &run, Path::new(""));
            }
            assert_eq!(said.as_deref(), Ok("fine\n"), "{run:?}");
            runs += 1;
        }
    }
    println!("{runs} runs, {in_files} of them in files that were opened once more");
    assert!(in_files > runs / 2, "{in_files} of {runs}");
}

fn the_store_is_right(compiled: &Compiled) {
    // Numbers, and byte strings as long as PiBench makes them.
    for sizes in [(8, 8), (8, 100), (16, 8), (32, 100), (128, 128)] {
        for threads in [1, 3] {
            let run = Run { design: "", kind: "ordered", threads, sizes };
            let scratch = tempfile::tempdir().expect("a folder");
            let said = compiled.run("store.so", &run, &scratch.path().join("pool"));
            assert_eq!(said.as_deref(), Ok("fine\n"), "{run:?}");
        }
    }
}

fn the_designs_refuse_what_is_no_integer(compiled: &Compiled) {
    for sizes in [(16, 8), (8, 100)] {
        let run = Run { design: "fast-fair", kind: "ordered", threads: 1, sizes };
        let said = compiled.run("design.so", &run, Path::new(""));
        assert!(said.is_err_and(|told| told.contains("--key_size 8 --value_size 8")), "{run:?}");
    }
}

#[test]
fn the_shared_library_has_the_store_and_the_designs() {
    if !is_here("readelf") {
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

/// A folder as `cargo xtask capi PREFIX --lab` leaves it, as far as programs are compiled with it.
fn install(prefix: &Path) {
    for folder in ["lib", "include"] {
        std::fs::create_dir_all(prefix.join(folder)).expect("a folder");
    }
    let store = folder().join("../capi/include");
    for header in [
        store.join("everleaf.h"),
        store.join("everleaf.hpp"),
        folder().join("include/everleaf_lab.h"),
    ] {
        let name = header.file_name().expect("a header has a name");
        std::fs::copy(&header, prefix.join("include").join(name)).expect("it is copied");
    }
    let number = everleaf_capi::entry::el_abi_version();
    for name in ["libeverleaf_lab.so".to_string(), format!("libeverleaf_lab.so.{number}")] {
        let shared = library().with_extension("so");
        std::os::unix::fs::symlink(shared, prefix.join("lib").join(name)).expect("a link");
    }
}

/// PiBench's source cannot be had in every place: what stands for it has its interface, options and output.
#[test]
#[ignore = "guards a landing"]
fn landing_the_script_runs_pibench_and_draws_what_it_says() {
    if !["cmake", "g++", "cc", "awk"].into_iter().all(is_here) {
        return;
    }
    // It is told as a part of the command line, and is no failure.
    let scratch = tempfile::Builder::new().prefix("failed-wrong-").tempdir().expect("a folder");
    let (source, prefix, out) =
        (scratch.path().join("source"), scratch.path().join("usr"), scratch.path().join("out"));
    std::fs::create_dir_all(source.join("include")).expect("a folder");
    let stand_in = folder().join("tests/c/stand-in");
    let header = folder().join("../capi/tests/c/pibench/tree_api.hpp");
    std::fs::copy(header, source.join("include/tree_api.hpp")).expect("it is copied");
    for name in ["CMakeLists.txt", "main.cpp"] {
        std::fs::copy(stand_in.join(name), source.join(name)).expect("it is copied");
    }
    install(&prefix);
    let run_saying = |designs: &[&str], says: Option<&str>| {
        let mut command = Command::new(folder().join("pibench/run.sh"));
        command.args([&source, &prefix, &out]).args(designs);
        command.env("RECORDS", "300").env("OPERATIONS", "300").env_remove("PIBENCH_OPTIONS");
        command.envs(says.map(|says| ("STAND_IN_SAYS", says)));
        let output = command.output().expect("it starts");
        let told = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&told).into_owned())
    };
    let run = |designs: &[&str]| run_saying(designs, None);
    let (code, told) = run(&["store", "fast-fair", "cceh"]);
    assert_eq!(code, Some(0), "{told}");
    let results = std::fs::read_to_string(out.join("results.tsv")).expect("results");
    let rows: Vec<Vec<&str>> =
        results.lines().skip(1).map(|row| row.split('\t').collect()).collect();
    // A hash index cannot scan.
    assert_eq!(rows.len(), 6 + 6 + 5, "{results}");
    for row in &rows {
        let rate: f64 = row[2].parse().expect("a number");
        assert!(rate > 0.0, "{row:?}");
    }
    let picture = std::fs::read_to_string(out.join("results.svg")).expect("a picture");
    assert_eq!(picture.matches("<rect").count(), rows.len(), "{picture}");
    assert!(picture.contains("fast-fair") && picture.trim_end().ends_with("</svg>"), "{picture}");

    // A run that ends well was counted although it said that its verification had failed.
    for says in [
        "Verification: FAILED\n",
        "verification failed for key 7\n",
        "\tFailed operations: 12\n",
        "0 failed, 1 mismatches\n",
        "Error: missing key 7\n",
        "0 errors, 3 missing\n",
        "key 7 not found\n",
    ] {
        let (code, told) = run_saying(&["store"], Some(says));
        assert_eq!(code, Some(1), "{says}: {told}");
        assert!(told.contains("store:reads"), "{told}");
    }

    // Nothing failed, of however many.
    for says in [
        "Failed: 0 of 300\n",
        "0 mismatches of 300, failed operations: 0\n",
        "0 errors, missing keys: 0\n",
    ] {
        let (code, told) = run_saying(&["store"], Some(says));
        assert_eq!(code, Some(0), "{says}: {told}");
    }

    // What fails is told by its name, and the others are made.
    let (code, told) = run(&["store", "no-such-design"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("no-such-design:reads") && !told.contains("store:reads"), "{told}");
    std::fs::remove_file(source.join("include/tree_api.hpp")).expect("it is removed");
    let (code, told) = run(&["store"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("is no source of PiBench"), "{told}");
}
