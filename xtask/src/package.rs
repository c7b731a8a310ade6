//! The Debian package of the program: `cargo xtask package`; and a static program in an archive:
//! `cargo xtask package --static`; or that program in an image: `cargo xtask package --container [--unpacked]`.
//!
//! The package is made with `dpkg-deb` and not by cargo-deb: the manual pages and completions come from the program
//! itself, which therefore runs between building and packing, and `dpkg-deb` is wherever the package can be used.

mod archive;
mod client;
mod container;
mod container_trial;
#[cfg(test)]
mod installed;
mod steps;
mod trial;
mod unpacked_trial;

pub use archive::TARGET;
pub use trial::started_by;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::notices;
use steps::{COMPLETIONS, CRATE, DIFFERENCES, install, open_to_all, text_of, write};

const USAGE: &str =
    "usage: cargo xtask package [--static | --container | --container --unpacked] [--debug]";

/// Where the files of the package are, from the root of the workspace.
const FILES: &str = "crates/cli/packaging";
/// The scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Builds the program, packs it, and tries the package in a root of its own. The package is left in the
/// target folder, with its check sum beside it.
pub fn run(root: &Path, arguments: &[String]) -> bool {
    let Some((what, is_release)) = chosen(arguments) else {
        eprintln!("xtask: {USAGE}");
        return false;
    };
    let is_static = what != What::Debian;
    let Some(program) = build(root, is_release, is_static) else { return false };
    let packed = place_of_packages(&program, is_static).and_then(|place| match what {
        What::Archive => archive::make(root, &program, &place),
        What::Container | What::Unpacked => {
            let stripped = archive::stripped(&program, &place)?;
            let made = container::make(root, &stripped, &place, what == What::Unpacked);
            fs::remove_file(&stripped)?;
            made
        }
        What::Debian => {
            let package = pack(root, &program, &place, is_release)?;
            trial::run(&package)?;
            Ok(package)
        }
    });
    match packed {
        Ok(package) => {
            println!("{}", package.display());
            true
        }
        Err(error) => {
            eprintln!("xtask: no package: {error}");
            false
        }
    }
}

/// What the program is packed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A package for Debian.
    Debian,
    /// An archive with the static program.
    Archive,
    /// An image with the static program.
    Container,
    /// The same, tried without an engine that runs it.
    Unpacked,
}

/// What the arguments ask for, and whether of a program that is optimised.
fn chosen(arguments: &[String]) -> Option<(What, bool)> {
    let (mut what, mut is_release) = (None, true);
    for argument in arguments {
        match argument.as_str() {
            "--debug" if is_release => is_release = false,
            "--static" if what.is_none() => what = Some(What::Archive),
            "--container" if what.is_none() => what = Some(What::Container),
            "--unpacked" if what == Some(What::Container) => what = Some(What::Unpacked),
            _ => return None,
        }
    }
    Some((what.unwrap_or(What::Debian), is_release))
}

/// Builds the program; its path.
fn build(root: &Path, is_release: bool, is_static: bool) -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["build", "--locked", "-p", "everleaf-cli"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    if is_release {
        command.arg("--release");
    }
    if is_static {
        command.args(["--target", TARGET]);
    }
    let output = command.stderr(Stdio::inherit()).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut programs = messages
        .filter_map(|message: serde_json::Value| message["executable"].as_str().map(PathBuf::from));
    programs.find(|program| program.ends_with("everleaf"))
}

/// The folder `package` in the target folder.
fn place_of_packages(program: &Path, is_static: bool) -> io::Result<PathBuf> {
    // What is compiled for another target is in a folder of that name.
    let target = program
        .ancestors()
        .nth(if is_static { 3 } else { 2 })
        .ok_or_else(|| io::Error::other("no target folder"))?;
    let place = target.join("package");
    fs::create_dir_all(&place)?;
    Ok(place)
}

/// Packs the program into a folder; the path of the package.
fn pack(root: &Path, program: &Path, place: &Path, is_stripped: bool) -> io::Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    let architecture = text_of(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    let tree = place.join("tree");
    match fs::remove_dir_all(&tree) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    lay_out(root, program, &tree, is_stripped)?;
    let needed = newest_glibc(&fs::read(tree.join("usr/bin/everleaf"))?);
    let control = tree.join("DEBIAN");
    fs::create_dir_all(&control)?;
    fs::write(control.join("control"), description(version, architecture, needed, size(&tree)?))?;
    fs::write(control.join("conffiles"), "/etc/everleaf.toml\n")?;
    for script in SCRIPTS {
        install(&root.join(FILES).join(script), &control.join(script), 0o755)?;
    }
    open_to_all(&tree)?;
    let name = format!("everleaf_{version}_{architecture}.deb");
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "--build"]).arg(&tree).arg(place.join(&name));
    text_of(&mut command)?;
    let sum = text_of(Command::new("sha256sum").arg(&name).current_dir(place))?;
    fs::write(place.join(format!("{name}.sha256")), sum)?;
    fs::remove_dir_all(&tree)?;
    Ok(place.join(name))
}

/// Puts everything that is installed where it will be.
fn lay_out(root: &Path, program: &Path, tree: &Path, is_stripped: bool) -> io::Result<()> {
    let installed = tree.join("usr/bin/everleaf");
    install(program, &installed, 0o755)?;
    if is_stripped {
        text_of(Command::new("strip").arg("--strip-debug").arg(&installed))?;
    }
    let files = root.join(FILES);
    install(&files.join("everleaf.toml"), &tree.join("etc/everleaf.toml"), 0o644)?;
    let unit = tree.join("usr/lib/systemd/system/everleaf.service");
    install(&files.join("everleaf.service"), &unit, 0o644)?;
    for (shell, path) in COMPLETIONS {
        let script = text_of(Command::new(&installed).args(["completions", shell]))?;
        write(&tree.join(path), &script)?;
    }
    let pages = tree.join("usr/share/man/man1");
    text_of(Command::new(&installed).arg("man").arg(&pages))?;
    for page in fs::read_dir(&pages)? {
        compress(&page?.path())?;
    }
    let doc = tree.join("usr/share/doc/everleaf");
    install(&root.join("CHANGELOG.md"), &doc.join("changelog"), 0o644)?;
    compress(&doc.join("changelog"))?;
    install(&root.join(DIFFERENCES), &doc.join("redis-differences.md"), 0o644)?;
    write(&doc.join(notices::FILE), &notices::of(root, CRATE)?)?;
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"];
    let texts: io::Result<Vec<String>> =
        licences.iter().map(|name| fs::read_to_string(root.join(name))).collect();
    let begin = "Everleaf is licensed under MIT or Apache 2.0, as you like.";
    let others = format!("The licences of what is linked into it are in {}.", notices::FILE);
    write(&doc.join("copyright"), &format!("{begin}\n{others}\n\n{}", texts?.join("\n\n")))
}

/// Replaces a file by its compressed form, which has no date in it.
fn compress(path: &Path) -> io::Result<()> {
    text_of(Command::new("gzip").args(["-9", "-n"]).arg(path)).map(drop)
}

/// KiB of the files below a folder.
fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += match metadata.is_dir() {
            true => size(&entry.path())? * 1024,
            false => metadata.len(),
        };
    }
    Ok(bytes.div_ceil(1024))
}

/// The newest version of the C library of which the program asks for a symbol: 2.N.
fn newest_glibc(program: &[u8]) -> u32 {
    const BEGIN: &[u8] = b"GLIBC_2.";
    let found = program.windows(BEGIN.len()).enumerate().filter(|(_, window)| *window == BEGIN);
    let numbers = found.filter_map(|(at, _)| {
        let digits = program[at + BEGIN.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        let digits: Vec<u8> = digits.take(3).copied().collect();
        String::from_utf8_lossy(&digits).parse().ok()
    });
    numbers.max().unwrap_or(0)
}

/// The maintainer has no address until there is a public place of the sources; a packager puts their own.
fn description(version: &str, architecture: &str, glibc: u32, size: u64) -> String {
    format!(
        "Package: everleaf\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The Everleaf developers <everleaf@localhost>\n\
         Depends: libc6 (>= 2.{glibc}), libgcc-s1\n\
         Suggests: redis-tools\n\
         Installed-Size: {size}\n\
         Section: database\n\
         Priority: optional\n\
         Description: persistent ordered key-value store\n \
          Ordered maps of keys and values in one file, which survive the death of the\n \
          process at any instruction; on the command line, and as a server that speaks\n \
          the protocol of Redis.\n"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// What the package is made with, instead of the program: a script that does what packing asks for.
    pub(super) const PROGRAM: &str = "#!/bin/sh\n# GLIBC_2.4 GLIBC_2.34 GLIBC_2.17\numask 077\ncase $1 in\n\
        man) mkdir -p \"$2\"; echo page > \"$2/everleaf.1\" ;;\n\
        completions) echo \"completions of $2\" ;;\nesac\n";

    #[test]
    fn a_package_has_everything_in_its_place() {
        if !crate::is_here("dpkg-deb") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let root = crate::workspace_root();
        let package = pack(&root, &program, folder.path(), false).unwrap();
        let contents = text_of(Command::new("dpkg-deb").arg("--contents").arg(&package)).unwrap();
        for (mode, path) in [
            ("-rwxr-xr-x root/root", "./usr/bin/everleaf"),
            // The program makes them with the umask of whom it is run by.
            ("drwxr-xr-x root/root", "./usr/share/man/man1/"),
            ("-rw-r--r-- root/root", "./etc/everleaf.toml"),
            ("-rw-r--r-- root/root", "./usr/lib/systemd/system/everleaf.service"),
            ("-rw-r--r-- root/root", "./usr/share/man/man1/everleaf.1.gz"),
            ("-rw-r--r-- root/root", "./usr/share/zsh/vendor-completions/_everleaf"),
            ("-rw-r--r-- root/root", "./usr/share/doc/everleaf/copyright"),
            ("-rw-r--r-- root/root", "./usr/share/doc/everleaf/redis-differences.md"),
            ("-rw-r--r-- root/root", "./usr/share/doc/everleaf/LICENCES-THIRD-PARTY"),
        ] {
            let is_line = |line: &str| line.starts_with(mode) && line.ends_with(path);
            assert!(contents.lines().any(is_line), "{path}\n{contents}");
        }
        let control = text_of(Command::new("dpkg-deb").arg("--field").arg(&package)).unwrap();
        assert!(control.contains("Depends: libc6 (>= 2.34), libgcc-s1\n"), "{control}");
        let name = package.file_name().unwrap().to_string_lossy().into_owned();
        let sum = fs::read_to_string(folder.path().join(format!("{name}.sha256"))).unwrap();
        assert!(sum.trim_end().ends_with(&name), "{sum}");
    }

    #[test]
    fn one_thing_is_packed_at_a_time() {
        let of = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(String::from).collect();
            chosen(&words)
        };
        assert_eq!(of(""), Some((What::Debian, true)));
        assert_eq!(of("--debug"), Some((What::Debian, false)));
        assert_eq!(of("--static"), Some((What::Archive, true)));
        assert_eq!(of("--debug --container"), Some((What::Container, false)));
        assert_eq!(of("--container --unpacked"), Some((What::Unpacked, true)));
        for wrong in [
            "--static --container",
            "--unpacked",
            "--static --unpacked",
            "--debug --debug",
            "--help",
            "container",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_newest_c_library_is_that_of_the_highest_number() {
        assert_eq!(newest_glibc(b"GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE"), 34);
        assert_eq!(newest_glibc(b"static"), 0);
    }
}
