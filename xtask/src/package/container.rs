//! An image for containers with nothing in it but the static program: `cargo xtask package --container`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::steps::{CRATE, DIFFERENCES, install, text_of, write};
use super::{container_trial, unpacked_trial};
use crate::notices;

/// Makes a folder of the program and what else is in the image, builds the image with `podman` or `docker`, tries
/// it, and packs it for `podman load` and `docker load`; the path of that archive. Where neither of the two can run a
/// container, it is tried `unpacked`.
///
/// # Errors
/// There is neither of the two; what did not work.
pub fn make(root: &Path, program: &Path, place: &Path, unpacked: bool) -> io::Result<PathBuf> {
    let Some(engine) = engine() else {
        return Err(io::Error::other("there is neither podman nor docker here"));
    };
    let folder = lay_out(root, program, &place.join("container"))?;
    let image = format!("localhost/everleaf:{}", env!("CARGO_PKG_VERSION"));
    build(engine, root, &folder, &image)?;
    if !unpacked {
        container_trial::run(engine, &image)?;
    }
    let name = format!("everleaf-{}-x86_64-container.tar", env!("CARGO_PKG_VERSION"));
    let archive = place.join(&name);
    save(engine, &image, &archive)?;
    if unpacked {
        unpacked_trial::run(&archive)?;
    }
    pack(place, &name)?;
    fs::remove_dir_all(&folder)?;
    Ok(place.join(format!("{name}.gz")))
}

/// What builds and runs containers here.
pub fn engine() -> Option<&'static str> {
    ["podman", "docker"].into_iter().find(|engine| {
        let mut command = Command::new(engine);
        command.arg("version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // The program `docker` without its daemon is of no use, and says so.
        command.status().is_ok_and(|status| status.success())
    })
}

/// Lays out what the image is built from.
pub fn lay_out(root: &Path, program: &Path, folder: &Path) -> io::Result<PathBuf> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let installed = folder.join("usr/bin/everleaf");
    install(program, &installed, 0o755)?;
    install(&root.join("packaging/container.toml"), &folder.join("etc/everleaf.toml"), 0o644)?;
    let doc = folder.join("usr/share/doc/everleaf");
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        install(&root.join(licence), &doc.join(licence), 0o644)?;
    }
    install(&root.join(DIFFERENCES), &doc.join("redis-differences.md"), 0o644)?;
    write(&doc.join(notices::FILE), &notices::of(root, CRATE)?)?;
    fs::create_dir(folder.join("data"))?;
    Ok(folder.to_path_buf())
}

/// Builds the image.
pub fn build(engine: &str, root: &Path, folder: &Path, image: &str) -> io::Result<()> {
    let mut command = Command::new(engine);
    command.arg("build");
    if engine == "podman" {
        // Its own format has no health checks.
        command.args(["--format", "docker"]);
    }
    command.arg("--file").arg(root.join("packaging/Containerfile"));
    text_of(command.args(["--tag", image]).arg(folder)).map(drop)
}

/// Writes the image into an archive.
fn save(engine: &str, image: &str, archive: &Path) -> io::Result<()> {
    match fs::remove_file(archive) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    text_of(Command::new(engine).arg("save").arg("--output").arg(archive).arg(image)).map(drop)
}

/// Compresses the archive, with its check sum beside it.
fn pack(place: &Path, name: &str) -> io::Result<()> {
    text_of(Command::new("gzip").args(["-9", "-n", "--force"]).arg(place.join(name)))?;
    let name = format!("{name}.gz");
    let sum = text_of(Command::new("sha256sum").arg(&name).current_dir(place))?;
    fs::write(place.join(format!("{name}.sha256")), sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also where nothing can build an image.
    #[test]
    fn an_image_runs_what_is_laid_out_for_it() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        fs::write(&program, "a program").unwrap();
        let root = crate::workspace_root();
        let folder = lay_out(&root, &program, &place.path().join("container")).unwrap();
        let file = fs::read_to_string(root.join("packaging/Containerfile")).unwrap();
        let said = |key: &str| {
            let found = file.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
            found.unwrap_or_else(|| panic!("the file of the image says nothing of {key}"))
        };
        let words = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap();
        let is_laid_out = |path: &str| folder.join(path.trim_start_matches('/')).exists();
        assert_eq!(said("FROM "), "scratch");
        let (user, _) = said("USER ").split_once(':').unwrap();
        assert!(user.parse::<u32>().unwrap() > 0, "a number that is not root's: {user}");
        let (_, check) = said("HEALTHCHECK ").split_once("CMD ").unwrap();
        let (entry, serve) = (words(said("ENTRYPOINT ")), words(said("CMD ")));
        let page = "/usr/share/doc/everleaf/redis-differences.md";
        for path in
            [&entry[0], &words(check)[0], &serve[2], said("VOLUME "), said("WORKDIR "), page]
        {
            assert!(is_laid_out(path), "{path}");
        }
        let configuration = fs::read_to_string(folder.join("etc/everleaf.toml")).unwrap();
        assert!(
            configuration.contains(&format!("port = {}\n", said("EXPOSE "))),
            "{configuration}"
        );
    }

    #[test]
    fn an_image_is_built_of_nothing_for_a_user_that_is_not_root() {
        let Some(engine) = engine() else {
            println!("not run: there is neither podman nor docker here");
            return;
        };
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        // It is not run, only packed.
        fs::write(&program, "a program").unwrap();
        let root = crate::workspace_root();
        let folder = lay_out(&root, &program, &place.path().join("container")).unwrap();
        let image = format!("localhost/everleaf-test-{}:latest", std::process::id());
        build(engine, &root, &folder, &image).unwrap();
        let inspected = text_of(Command::new(engine).args(["image", "inspect", &image]));
        let removed = text_of(Command::new(engine).args(["image", "rm", &image]));
        let told: serde_json::Value = serde_json::from_str(&inspected.unwrap()).unwrap();
        removed.unwrap();
        let config = &told[0]["Config"];
        assert_eq!(config["User"], "65532:65532", "{told}");
        assert!(config["Volumes"]["/data"].is_object(), "{told}");
        let check = told[0].get("HealthCheck").or_else(|| told[0].get("Healthcheck"));
        let check = check.unwrap_or(&config["Healthcheck"])["Test"].to_string();
        // The socket that is asked is the one of the configuration, and both are in the volume.
        let socket = "/data/everleaf.sock";
        assert!(check.contains(socket), "{told}");
        let text = fs::read_to_string(folder.join("etc/everleaf.toml")).unwrap();
        assert!(text.contains(&format!("unixsocket = \"{socket}\"")), "{text}");
    }
}
