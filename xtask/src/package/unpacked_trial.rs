//! An image that was made is tried without an engine that runs containers, as root:
//! `cargo xtask package --container --unpacked`. What engines read of an image is read here: its layers are unpacked to
//! a folder, which becomes the root of a process that has the image's user, variables and command, and processes of its
//! own; its health check is run in the same way. The network is that of this machine, and the volume a folder of the
//! root.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::Client;
use super::container_trial::{PASSWORD, PORT, asks_for_the_password};
use super::steps::text_of;

/// Longer than any start and any end takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Runs a program in the root given first; the rest are words of `env` and `unshare`.
const ENTER: &str = "mount -t proc proc \"$0/proc\" && exec env -i \"$@\"";

/// Uses the server of an image, of which this is the archive that `save` wrote.
///
/// # Errors
/// What did not work.
pub fn run(archive: &Path) -> io::Result<()> {
    let folder = archive.with_extension("unpacked");
    let result = try_image(archive, &folder);
    // What is left of a trial that failed is shown by its name, and removed by the next.
    result.and_then(|()| fs::remove_dir_all(&folder))
}

fn try_image(archive: &Path, folder: &Path) -> io::Result<()> {
    if TcpListener::bind(("0.0.0.0", port()?)).is_err() {
        return Err(io::Error::other(format!("port {PORT} of the image is in use here")));
    }
    let image = Image::unpack(archive, folder)?;
    // Another address than 127.0.0.1: it listens on all, as the published port of a container needs.
    let address = format!("127.0.0.2:{PORT}");
    let mut server = image.start()?;
    asks_for_the_password(&address)?;
    image.is_healthy()?;
    server.signal("KILL")?;
    server.ended(None)?;

    let mut server = image.start()?;
    let mut client = Client::connect(&address)?;
    for (words, expected) in [(&["auth", PASSWORD][..], "OK"), (&["get", "oak"], "Quercus")] {
        let answer = client.ask(words)?;
        if answer != expected {
            return Err(io::Error::other(format!("it said {answer:?} to {words:?}")));
        }
    }
    server.signal("TERM")?;
    server.ended(Some(0))?;
    println!("the image's server was run in a root of its own, killed, run again, and stopped");
    Ok(())
}

fn port() -> io::Result<u16> {
    PORT.parse().map_err(io::Error::other)
}

/// What an image says of itself.
#[derive(Debug, PartialEq, Eq)]
struct Says {
    user: u32,
    group: u32,
    folder: String,
    /// The entry point, with the command behind it.
    command: Vec<String>,
    check: Vec<String>,
    variables: Vec<String>,
}

impl Says {
    /// Reads the configuration of an image.
    fn of(configuration: &Value) -> io::Result<Says> {
        let wrong = |what: &str| io::Error::other(format!("the image says no {what}"));
        let said = &configuration["config"];
        let words = |value: &Value| -> Vec<String> {
            let all = value.as_array().into_iter().flatten();
            all.filter_map(|word| word.as_str().map(String::from)).collect()
        };
        let user = said["User"].as_str().unwrap_or_default();
        let (user, group) = user.split_once(':').ok_or_else(|| wrong("user"))?;
        let number = |text: &str| text.parse().map_err(|_| wrong("user by number"));
        let (user, group) = (number(user)?, number(group)?);
        if user == 0 || group == 0 {
            return Err(wrong("other user than root"));
        }
        let check = words(&said["Healthcheck"]["Test"]);
        let check = match check.split_first() {
            Some((kind, check)) if kind == "CMD" && !check.is_empty() => check.to_vec(),
            _ => return Err(wrong("health check")),
        };
        let published = format!("{PORT}/tcp");
        if said["ExposedPorts"].get(published).is_none() {
            return Err(wrong("port"));
        }
        let folder = said["WorkingDir"].as_str().ok_or_else(|| wrong("folder"))?.to_string();
        if said["Volumes"].get(&folder).is_none() {
            return Err(wrong("volume"));
        }
        let command = [words(&said["Entrypoint"]), words(&said["Cmd"])].concat();
        Ok(Says { user, group, folder, command, check, variables: words(&said["Env"]) })
    }
}

/// An image in a folder.
struct Image {
    root: PathBuf,
    says: Says,
}

impl Image {
    /// Unpacks the archive of an image, and its layers.
    fn unpack(archive: &Path, folder: &Path) -> io::Result<Image> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (parts, root) = (folder.join("parts"), folder.join("root"));
        fs::create_dir_all(&parts)?;
        fs::create_dir_all(root.join("proc"))?;
        let unpack = |from: &Path, to: &Path| {
            let mut tar = Command::new("tar");
            tar.args(["--extract", "--preserve-permissions", "--numeric-owner", "--same-owner"]);
            text_of(tar.arg("--file").arg(from).arg("--directory").arg(to)).map(drop)
        };
        let read = |path: &str| -> io::Result<Value> {
            serde_json::from_slice(&fs::read(parts.join(path))?).map_err(io::Error::other)
        };
        unpack(archive, &parts)?;
        let manifest = read("manifest.json")?;
        let says = Says::of(&read(manifest[0]["Config"].as_str().unwrap_or_default())?)?;
        for layer in manifest[0]["Layers"].as_array().into_iter().flatten() {
            unpack(&parts.join(layer.as_str().unwrap_or_default()), &root)?;
        }
        Ok(Image { root, says })
    }

    /// A program in the root of the image, as its user.
    fn inside(&self, words: &[String]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", ENTER]);
        command.arg(&self.root).args(&self.says.variables);
        command.arg(format!("EVERLEAF_REQUIREPASS={PASSWORD}")).arg("unshare");
        command.arg("--root").arg(&self.root).args(["--wd", &self.says.folder]);
        command.args(["--setgid", &self.says.group.to_string()]);
        command.args(["--setuid", &self.says.user.to_string(), "--"]).args(words);
        command
    }

    /// Starts what the image says by itself, with the password of the guide, and waits until it answers.
    fn start(&self) -> io::Result<Server> {
        let child = self.inside(&self.says.command).stdin(Stdio::null()).spawn()?;
        let mut server = Server { child };
        let end = Instant::now() + PATIENCE;
        while self.is_healthy().is_err() {
            if let Some(ended) = server.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended: {ended}")));
            }
            if Instant::now() > end {
                return Err(io::Error::other("the server is not ready"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(server)
    }

    /// Runs the health check of the image.
    fn is_healthy(&self) -> io::Result<()> {
        text_of(&mut self.inside(&self.says.check)).map(drop)
    }
}

/// A server of the image, which goes away.
struct Server {
    child: Child,
}

impl Server {
    /// Sends a signal to the server, which is the child of `unshare`.
    fn signal(&self, name: &str) -> io::Result<()> {
        let parent = self.child.id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
        match children.split_whitespace().collect::<Vec<_>>()[..] {
            [server] => text_of(Command::new("kill").args(["-s", name, server])).map(drop),
            _ => Err(io::Error::other("there is no server any more")),
        }
    }

    /// Waits for its end, with this code if one is given.
    fn ended(&mut self, code: Option<i32>) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait()? {
                Some(status) if code.is_none() || status.code() == code => return Ok(()),
                Some(status) => return Err(io::Error::other(format!("it ended with {status}"))),
                None if Instant::now() > end => return Err(io::Error::other("it does not end")),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, unless something went wrong before.
        let _ = self.signal("KILL");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_lacks_something_is_not_run() {
        let whole = serde_json::json!({"config": {
            "User": "65532:65532", "WorkingDir": "/data", "Volumes": {"/data": {}},
            "ExposedPorts": {"6399/tcp": {}}, "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/everleaf"], "Cmd": ["serve"],
            "Healthcheck": {"Test": ["CMD", "/usr/bin/everleaf", "ping"]},
        }});
        let says = Says::of(&whole).unwrap();
        assert_eq!((says.user, says.group, says.folder.as_str()), (65_532, 65_532, "/data"));
        assert_eq!(says.command, ["/usr/bin/everleaf", "serve"]);
        assert_eq!(says.check, ["/usr/bin/everleaf", "ping"]);
        for (key, wrong) in [
            ("User", "0:0".into()),
            ("User", "65532:0".into()),
            ("User", Value::Null),
            ("Healthcheck", Value::Null),
            ("ExposedPorts", Value::Null),
            ("Volumes", Value::Null),
            ("WorkingDir", "/other".into()),
        ] {
            let mut other = whole.clone();
            other["config"][key] = wrong;
            assert!(Says::of(&other).is_err(), "{key}: {other}");
        }
    }
}
