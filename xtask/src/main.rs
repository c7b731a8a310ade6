//! Everleaf's own scripts, in the project's language: `cargo xtask <command>`.
//!
//! Continuous integration runs nothing else, so what passes here passes there.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a script talks on its terminal")]

mod budget;
mod building;
mod capi;
mod command;
mod dashboard;
mod debian;
mod designs;
mod guide;
mod house;
mod instructions;
mod jobs;
mod lanes;
mod licences;
mod module;
mod mutate;
mod notices;
mod package;
mod packed;
mod program_size;
mod programs;
mod publish;
mod python;
mod sbom;
mod servers;
mod silence;
mod summary;
mod tidy;
mod tiers;
mod versus;
#[cfg(test)]
mod workflows;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
Everleaf's scripts.

usage: cargo xtask <command> [arguments]

  test    the tests of all crates but those of the published designs, and where their time went;
          `test -p PACKAGE` those of a crate; with other arguments they are those of `cargo test`;
          `test --record` sets the budget
  landing the tests of the published designs, those that only landings need, and the searches go on
          from where `test` ends; `landing --record` sets the budget; with EVERLEAF_BUDGET=fails in
          the environment more CPU seconds than the budget has are a failure of both, otherwise they
          are told
  checks  everything else but sim and long, in this order
  fmt     checks the formatting; `fmt --fix` writes it
  tidy    the style rules that clippy cannot check; `tidy --update` writes what is
          generated and lowers the ratchet
  figures lines, files, circles, test programs, public items, replaced words, as a table;
          `figures PATH` beside those of another checkout, such as `git worktree add` makes
  house   that table with what the tiers took, before and now: `house OLDER_CHECKOUT [--update]`;
          `house --read LOG` keeps what a log of commands behind `/usr/bin/time -v` says
  product the program `everleaf` is built without the research, and has at most 10 MB, stripped
  static  the library compiles for a static program, of another C library; left out if rustup has not
          installed that target
  lint    clippy on all targets, warnings are errors
  doc     the documentation, warnings are errors
  licences  the licences of all dependencies are known; `licences --list` prints them,
          `licences --sbom [PACKAGE]` the bill of materials of the program, or of the C library,
          the wheel, the module (CycloneDX)
  ci      test, landing and checks; one line of totals at the end
  capi    installs the C library below a folder, with `--lab` that of all designs, too;
          `capi header` writes the headers anew; `capi fuzz SECONDS` lets libFuzzer attack it,
          with `--lab` the designs, and `capi random COUNT` so many random programs under sanitizers
  package makes the Debian package, installs it in a root of its own, and starts it there;
          `package --static` an archive with a program that needs nothing beside it,
          `package --container` an image for podman and docker with that program, which it tries,
          with `--unpacked` as root without them
  crates  packs all crates that are published, and compiles each from its packed files
  packed  installs the program from the packed files of its crates, as `cargo install` does from
          a registry, and tries it; `packed --debug` compiles faster
  semver  compares the library's interface, with what it hands on of other crates, with that of a commit:
          `semver COMMIT`
  tagged  whether a tag is that of the version that is here: `tagged TAG`
  guide   makes a book of the guide and of the pages that it leads to, with mdBook, and follows
          every link in it
  debian  uses package, wheel and C library in a clean Debian: `debian PACKAGE WHEEL PREFIX`
  python  builds the wheel of the Python package, and runs its tests; `python --free-threaded [PROGRAM]`
          for a Python without its lock
  module  builds the module of Redis and Valkey, and runs its tests in live servers
  sim     long searches on the simulated machine and of replies, and a share of mutate; `sim 3600` for an
          hour each
  mutate  bugs by rule: every flush, ordering, check and bound in turn is changed in a copy of the sources,
          and the prover looks for it: `mutate list`, `mutate build`, `mutate run --sample 40 --cpu 20`
  long    the long runs of the other crates: kills, damage, crashes, differences from Redis; hours
  versus  what operations cost with two builds, turn by turn:
          `versus BEFORE AFTER [rounds [keys [ROW ..]]]`, each a folder with `everleaf`, for a quiet machine
  instructions  how many instructions operations take with two builds, by valgrind:
          `instructions BEFORE AFTER [keys [ROW ..]]`, on any machine
  servers  Everleaf's server beside Redis and Valkey: `servers FOLDER [PART ..]`, for a quiet machine,
          but for its part `processor`
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = workspace_root();
    let Some((command, rest)) = arguments.split_first() else {
        print!("{USAGE}");
        return ExitCode::from(2);
    };
    let passed = match command.as_str() {
        "ci" => jobs::ci(&root),
        "checks" => jobs::checks(&root),
        "product" => jobs::product(&root),
        "static" => jobs::with_static_library(&root),
        "fmt" => jobs::fmt(&root, rest),
        "lint" => jobs::lint(&root),
        "test" => tiers::test(&root, rest),
        "landing" => tiers::landing(&root, rest),
        "doc" => jobs::doc(&root),
        "tidy" => jobs::tidy(&root, rest),
        "capi" => capi::run(&root, rest),
        "licences" => licences::run(&root, rest),
        "package" => package::run(&root, rest),
        "crates" => publish::crates(&root),
        "packed" => packed::run(&root, rest),
        "semver" => publish::semver(&root, rest),
        "tagged" => publish::tagged(rest),
        "guide" => guide::run(&root),
        "debian" => debian::run(&root, rest),
        "python" => python::run(&root, rest),
        "module" => module::run(&root, rest),
        "figures" => figures(&root, rest),
        "house" => house::run(&root, rest),
        "mutate" => mutate::run(&root, rest),
        "sim" => jobs::sim(&root, rest),
        "long" => jobs::long(&root, rest),
        "versus" => versus::run(rest),
        "instructions" => instructions::run(rest),
        "servers" => servers::run(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            true
        }
        unknown => {
            eprintln!("xtask: there is no command `{unknown}`\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether a program is here that a test needs; says so if it is not, which is a failure where everything was
/// installed, as in continuous integration.
#[cfg(test)]
fn is_here(program: &str) -> bool {
    const ALL_PROGRAMS: &str = "EVERLEAF_TEST_ALL_PROGRAMS";
    let is_here = std::process::Command::new(program).arg("--version").output().is_ok();
    if !is_here {
        assert!(std::env::var_os(ALL_PROGRAMS).is_none(), "{ALL_PROGRAMS}: there is no {program}");
        println!("skipped: there is no {program} here");
    }
    is_here
}

/// The numbers of this checkout behind those of others.
fn figures(root: &Path, others: &[String]) -> bool {
    let others = others.iter().map(Path::new);
    tidy::figures::run(&others.chain([root]).collect::<Vec<_>>())
}

/// The folder that holds the workspace's `Cargo.toml`.
fn workspace_root() -> PathBuf {
    // Cargo says at run time where the package lies; the path of the build serves a program that
    // was started by hand.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().expect("the package lies in a folder of the workspace").to_path_buf()
}
