//! The C interface: its header, and its installation.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::notices;

const USAGE: &str = "usage: cargo xtask capi header | cargo xtask capi PREFIX [--lab] [--debug] | \
                     cargo xtask capi fuzz SECONDS [--lab] [--debug] | \
                     cargo xtask capi random COUNT [--debug]";

/// Where the library is installed that programs of bytes attack, and what they leave.
const ATTACKED: &str = "target/c-interface";

/// The number of the binary interface, which the shared library has in its name.
const ABI: &str = "0";

/// A library that is installed.
struct Library {
    /// The crate it is made of.
    package: &'static str,
    /// The names of its files as they are built, and as they are installed, without their endings.
    built: &'static str,
    name: &'static str,
    /// What pkg-config says of it.
    description: &'static str,
    /// Its headers, below `crates`.
    headers: &'static [&'static str],
}

const STORE: Library = Library {
    package: "everleaf-capi",
    built: "libeverleaf_capi",
    name: "everleaf",
    description: "An ordered key-value store in one file",
    headers: &["capi/include/everleaf.h", "capi/include/everleaf.hpp"],
};

/// Has all that the other one has.
const LAB: Library = Library {
    package: "everleaf-lab-capi",
    built: "libeverleaf_lab_capi",
    name: "everleaf_lab",
    description: "Ordered indexes of integers in all tree designs of Everleaf",
    headers: &[
        "capi/include/everleaf.h",
        "capi/include/everleaf.hpp",
        "lab-capi/include/everleaf_lab.h",
    ],
};

/// `cargo xtask capi header` writes the headers anew; `cargo xtask capi PREFIX` installs libraries,
/// headers and the description for pkg-config below a folder, with `--lab` those of all designs, too;
/// `cargo xtask capi fuzz SECONDS` and `cargo xtask capi random COUNT` attack it by programs made of bytes, `fuzz` with
/// `--lab` the other one.
pub fn run(root: &Path, arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["header"] => write_headers(root),
        ["fuzz", number, ref flags @ ..] if are_known(flags) => {
            let (library, what) =
                if flags.contains(&"--lab") { (&LAB, "fuzz-lab") } else { (&STORE, "fuzz") };
            let prefix = root.join(ATTACKED);
            build_counted(root, library, &prefix, !flags.contains(&"--debug"))
                && attack(root, &prefix, what, number)
        }
        ["random", number, ref flags @ ..] if flags.is_empty() || flags == ["--debug"] => {
            let prefix = root.join(ATTACKED);
            install(root, &STORE, &prefix, flags.is_empty())
                && attack(root, &prefix, "random", number)
        }
        [prefix, ref flags @ ..] if !prefix.starts_with('-') && are_known(flags) => {
            let is_release = !flags.contains(&"--debug");
            let mut libraries = vec![&STORE];
            if flags.contains(&"--lab") {
                libraries.push(&LAB);
            }
            libraries.iter().all(|library| install(root, library, Path::new(prefix), is_release))
        }
        _ => {
            eprintln!("xtask: {USAGE}");
            false
        }
    }
}

fn are_known(flags: &[&str]) -> bool {
    flags.iter().all(|flag| ["--lab", "--debug"].contains(flag))
}

/// Runs programs made of bytes against the library below a folder (`crates/capi/fuzz/run.sh`).
fn attack(root: &Path, prefix: &Path, what: &str, number: &str) -> bool {
    let mut command = Command::new(root.join("crates/capi/fuzz/run.sh"));
    command.arg(prefix).args([what, number]);
    command.status().is_ok_and(|status| status.success())
}

/// Lets the compiler count in the library which edges are gone through, as `cargo fuzz` does, for libFuzzer of clang 11
/// or newer. One unit for code generation, so that the list of counters is that of their places.
const COUNTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
                       -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                       -Cllvm-args=-sanitizer-coverage-pc-table -Ccodegen-units=1 -Cdebug-assertions=yes";

/// Builds the static library with counters into the folder of libFuzzer, with its headers. Assertions are checked in
/// it: a panic becomes a code that the programs do not expect.
fn build_counted(root: &Path, library: &Library, prefix: &Path, is_release: bool) -> bool {
    let folder = prefix.join("fuzz");
    // A target that is named keeps the flags from build scripts and macros, which have no libFuzzer to be linked with.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = cargo(root);
    command.args([
        "rustc",
        "-p",
        library.package,
        "--lib",
        "--crate-type",
        "staticlib",
        "--target",
        &target,
    ]);
    command.arg("--target-dir").arg(folder.join("target"));
    if is_release {
        command.arg("--release");
    }
    command.env("RUSTFLAGS", COUNTED).env("CARGO_PROFILE_RELEASE_LTO", "off");
    let profile = if is_release { "release" } else { "debug" };
    let built =
        folder.join("target").join(target).join(profile).join(format!("{}.a", library.built));
    command.status().is_ok_and(|status| status.success())
        && fs::copy(built, folder.join(format!("lib{}.a", library.name))).is_ok()
        && copy_headers(root, library, prefix).is_ok()
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn write_headers(root: &Path) -> bool {
    let mut command = cargo(root);
    command.args(["test", "-p", STORE.package, "-p", LAB.package, "--test", "it"]);
    command.arg("the_committed_header").env("EVERLEAF_UPDATE_HEADER", "1");
    command.status().is_ok_and(|status| status.success())
}

fn install(root: &Path, library: &Library, prefix: &Path, is_release: bool) -> bool {
    let Some(built) = build(root, library, is_release) else { return false };
    match copy(root, library, &built, prefix) {
        Ok(()) => {
            println!("installed {} below {}", library.name, prefix.display());
            true
        }
        Err(error) => {
            eprintln!("xtask: cannot install below {}: {error}", prefix.display());
            false
        }
    }
}

/// Builds a library, and says in which folder it is.
fn build(root: &Path, library: &Library, is_release: bool) -> Option<PathBuf> {
    let mut command = cargo(root);
    command.args(["build", "--locked", "-p", library.package]);
    command.args(["--message-format", "json-render-diagnostics"]);
    if is_release {
        command.arg("--release");
    }
    let output = command.stderr(std::process::Stdio::inherit()).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let files =
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut names =
        files.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    let file = format!("/{}.so", library.built);
    let found = names.find(|name| name.as_str().is_some_and(|name| name.ends_with(&file)))?;
    Path::new(found.as_str()?).parent().map(Path::to_path_buf)
}

fn copy(root: &Path, library: &Library, built: &Path, prefix: &Path) -> io::Result<()> {
    let lib = prefix.join("lib");
    let pkgconfig = lib.join("pkgconfig");
    fs::create_dir_all(&pkgconfig)?;
    let (version, name) = (env!("CARGO_PKG_VERSION"), library.name);
    let full = format!("lib{name}.so.{version}");
    let archive = built.join(format!("{}.a", library.built));
    link(&archive, name, &lib.join(&full))?;
    for link in [format!("lib{name}.so.{ABI}"), format!("lib{name}.so")] {
        match fs::remove_file(lib.join(&link)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => symlink(&full, lib.join(&link))?,
        }
    }
    fs::copy(&archive, lib.join(format!("lib{name}.a")))?;
    copy_headers(root, library, prefix)?;
    let doc = prefix.join("share/doc").join(name);
    fs::create_dir_all(&doc)?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root.join(licence), doc.join(licence))?;
    }
    fs::write(doc.join(notices::FILE), notices::of(root, library.package)?)?;
    fs::write(pkgconfig.join(format!("{name}.pc")), description(library, version))
}

fn copy_headers(root: &Path, library: &Library, prefix: &Path) -> io::Result<()> {
    let include = prefix.join("include");
    fs::create_dir_all(&include)?;
    for header in library.headers {
        let file = header.rsplit('/').next().unwrap_or(header);
        fs::copy(root.join("crates").join(header), include.join(file))?;
    }
    Ok(())
}

/// Links the shared library from the static one, with symbols that have a version: programs that were linked with it
/// ask for `el_get@EVERLEAF_0`, and are refused when they start by a library of another interface. Cargo's own
/// shared library has none, because the compiler's list of symbols cannot be joined with one of versions.
fn link(archive: &Path, name: &str, to: &Path) -> io::Result<()> {
    let versions = to.with_extension("map");
    fs::write(&versions, format!("EVERLEAF_{ABI} {{\n    global: el_*;\n    local: *;\n}};\n"))?;
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-shared", "-Wl,--whole-archive"]).arg(archive).arg("-Wl,--no-whole-archive");
    command.arg(format!("-Wl,--version-script={}", versions.display()));
    command.arg(format!("-Wl,-soname,lib{name}.so.{ABI}"));
    // What is called within the library stays within, and nothing is left to be found elsewhere.
    command.args(["-Wl,--gc-sections,-Bsymbolic-functions", "-Wl,-z,defs,-z,relro,-z,now"]);
    let output = command.args(["-lpthread", "-ldl", "-lm", "-o"]).arg(to).output();
    let output = output.map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
    fs::remove_file(&versions)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// What pkg-config is told. The folder of the description says where the rest is, so that all of it can be moved.
fn description(library: &Library, version: &str) -> String {
    let Library { name, description, .. } = library;
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\n\
         Name: {name}\n\
         Description: {description}\n\
         Version: {version}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -l{name}\n\
         Libs.private: -lpthread -ldl -lm\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program prints that must succeed.
    fn told(command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// libFuzzer would choose bytes blindly, and say that all went well.
    #[test]
    fn a_library_without_counters_is_not_fuzzed() {
        let folder = tempfile::tempdir().unwrap();
        let script = crate::workspace_root().join("crates/capi/fuzz/run.sh");
        let told = || {
            let output =
                Command::new(&script).arg(folder.path()).args(["fuzz", "1"]).output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (code, text) = told();
        assert!(code == Some(2) && text.contains("has no counters"), "{code:?} {text}");
        fs::write(folder.path().join("fuzz/libeverleaf.a"), "!<arch>\n").unwrap();
        let (code, text) = told();
        assert!(code == Some(2) && text.contains("has no counters"), "{code:?} {text}");
    }

    #[test]
    fn what_was_built_is_installed_by_the_names_of_its_interface() {
        if !["cc", "ar", "readelf"].into_iter().all(crate::is_here) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (built, prefix) = (folder.path().join("built"), folder.path().join("usr"));
        fs::create_dir(&built).unwrap();
        let source = "int el_get(void) { return 7; }\nint inner(void) { return 8; }\n";
        fs::write(built.join("a.c"), source).unwrap();
        told(Command::new("cc").args(["-fPIC", "-c", "a.c"]).current_dir(&built));
        for name in ["libeverleaf_capi.a", "libeverleaf_lab_capi.a"] {
            told(Command::new("ar").args(["rc", name, "a.o"]).current_dir(&built));
        }
        let root = crate::workspace_root();
        // Twice: what an older version left is replaced.
        copy(&root, &STORE, &built, &prefix).unwrap();
        copy(&root, &STORE, &built, &prefix).unwrap();
        copy(&root, &LAB, &built, &prefix).unwrap();
        let read = |name: &str| fs::read_to_string(prefix.join(name)).unwrap();
        let symbols = |name: &str| {
            let path = prefix.join("lib").join(name);
            told(Command::new("readelf").args(["--dyn-syms", "--dynamic", "-W"]).arg(path))
        };
        let store = symbols(&format!("libeverleaf.so.{ABI}"));
        assert!(store.contains(&format!(" el_get@@EVERLEAF_{ABI}\n")), "{store}");
        assert!(
            store.contains(&format!("[libeverleaf.so.{ABI}]")) && !store.contains("inner"),
            "{store}"
        );
        let archive = |name: &str| fs::read(prefix.join("lib").join(name)).unwrap();
        assert_eq!(archive("libeverleaf.a"), fs::read(built.join("libeverleaf_capi.a")).unwrap());
        assert_eq!(fs::read_dir(prefix.join("lib")).unwrap().count(), 9);
        assert!(read("include/everleaf.h").contains(&format!("#define EL_ABI_VERSION {ABI}\n")));
        assert!(read("lib/pkgconfig/everleaf.pc").contains("Libs: -L${libdir} -leverleaf\n"));
        assert!(symbols("libeverleaf_lab.so").contains(&format!("[libeverleaf_lab.so.{ABI}]")));
        assert!(read("include/everleaf_lab.h").contains("el_index_open("));
        let texts = read("share/doc/everleaf/LICENCES-THIRD-PARTY");
        assert!(texts.contains("Permission is hereby granted"), "{texts}");
        let lab = read("lib/pkgconfig/everleaf_lab.pc");
        assert!(lab.contains("Libs: -L${libdir} -leverleaf_lab\n"));
    }
}
