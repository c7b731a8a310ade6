//! An image for containers with nothing in it but the static program: `cargo xtask package --container`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::container_trial;
use super::steps::{CRATE, install, text_of, write};
use crate::notices;

/// Makes a folder of the program and what else is in the image, builds the image with `podman` or `docker`, tries
/// it, and packs it for `podman load` and `docker load`; the path of that archive.
///
/// # Errors
/// There is neither of the two; what did not work.
pub fn make(root: &Path, program: &Path, place: &Path) -> io::Result<PathBuf> {
    let Some(engine) = engine() else {
        return Err(io::Error::other("there is neither podman nor docker here"));
    };
    let folder = lay_out(root, program, &place.join("container"))?;
    let image = format!("localhost/everleaf:{}", env!("CARGO_PKG_VERSION"));
    build(engine, root, &folder, &image)?;
    container_trial::run(engine, &image)?;
    let name = format!("everleaf-{}-x86_64-container.tar", env!("CARGO_PKG_VERSION"));
    save(engine, &image, place, &name)?;
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
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let to = folder.join("usr/share/doc/everleaf").join(licence);
        install(&root.join(licence), &to, 0o644)?;
    }
    let texts = folder.join("usr/share/doc/everleaf").join(notices::FILE);
    write(&texts, &notices::of(root, CRATE)?)?;
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

/// Writes the image into a compressed archive, with its check sum beside it.
fn save(engine: &str, image: &str, place: &Path, name: &str) -> io::Result<()> {
    let archive = place.join(name);
    match fs::remove_file(&archive) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    text_of(Command::new(engine).arg("save").arg("--output").arg(&archive).arg(image))?;
    text_of(Command::new("gzip").args(["-9", "-n", "--force"]).arg(&archive))?;
    let name = format!("{name}.gz");
    let sum = text_of(Command::new("sha256sum").arg(&name).current_dir(place))?;
    fs::write(place.join(format!("{name}.sha256")), sum)
}

#[cfg(test)]
mod tests {
    use super::*;

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
