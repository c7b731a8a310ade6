//! What was packed is used in a clean Debian: `cargo xtask debian PACKAGE WHEEL PREFIX`.
//!
//! The Debian is a root of its own, made by `mmdebstrap`, or unpacked from an archive (`--root`). In it the package
//! of the program is installed, and its server started as the unit says: by the unit's command line, as a user
//! without rights, the file system read-only but for its state, and told by `NOTIFY_SOCKET` that it is ready.
//! Then a key is put with `redis-cli`, the server killed and started again; the wheel is installed with `pip`, and
//! a notebook run by Jupyter; a program in C is compiled with what `pkg-config` says, and run.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const USAGE: &str =
    "usage: cargo xtask debian PACKAGE.deb WHEEL.whl PREFIX [--root ARCHIVE.tar], as root";

/// What is in the root besides a minimal Debian: what a user of each of the three has.
const INCLUDED: &str = "ca-certificates,redis-tools,python3-venv,gcc,libc6-dev,pkg-config";
const SUITE: &str = "bookworm";
/// Longer than any start takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// The user that the server runs as: one of those that systemd makes for a `DynamicUser`.
const USER: u32 = 61_184;
const STATE: &str = "var/lib/everleaf";
/// Where the server says that it is ready.
const SOCKET: &str = "run/notify";

/// Runs a shell line in the root given first, with a process table and devices of its own.
const ENTER: &str = "mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && \
    exec chroot \"$0\" env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 sh -ec \"$1\"";
/// Runs a service in the root given first, as the user given second: nothing can be written to but its state.
const SERVE: &str = "mount --bind \"$0\" \"$0\" && mount -t proc proc \"$0/proc\" && \
    mount --bind \"$0/var/lib/everleaf\" \"$0/var/lib/everleaf\" && mount -o remount,bind,ro \"$0\" && \
    root=$0 user=$1 && shift && exec chroot \"$root\" setpriv --reuid \"$user\" --regid \"$user\" --clear-groups \
    --no-new-privs --bounding-set=-all --inh-caps=-all \
    env -i NOTIFY_SOCKET=/run/notify PATH=/usr/bin:/bin \
    sh -ec 'umask 0077; cd /var/lib/everleaf; exec \"$@\"' service \"$@\"";

/// Uses a package, a wheel, and a C library that `cargo xtask capi PREFIX` has installed.
pub fn run(repository: &Path, arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (package, wheel, prefix, archive) = match words[..] {
        [package, wheel, prefix] => (package, wheel, prefix, None),
        [package, wheel, prefix, "--root", archive] => (package, wheel, prefix, Some(archive)),
        _ => {
            eprintln!("xtask: {USAGE}");
            return false;
        }
    };
    let made = Made { package: package.into(), wheel: wheel.into(), prefix: prefix.into() };
    match is_root().and_then(|()| made.check()).and_then(|()| try_all(repository, &made, archive)) {
        Ok(()) => true,
        Err(error) => {
            eprintln!("xtask: in a clean Debian: {error}");
            false
        }
    }
}

/// Refuses a user who may neither mount nor change the root.
fn is_root() -> io::Result<()> {
    match fs::metadata("/proc/self")?.uid() {
        0 => Ok(()),
        _ => Err(io::Error::other("it takes the rights of root")),
    }
}

/// What is used.
struct Made {
    package: PathBuf,
    wheel: PathBuf,
    prefix: PathBuf,
}

impl Made {
    fn check(&self) -> io::Result<()> {
        let description = self.prefix.join("lib/pkgconfig/everleaf.pc");
        for (path, end) in
            [(&self.package, ".deb"), (&self.wheel, ".whl"), (&description, "everleaf.pc")]
        {
            if !path.to_string_lossy().ends_with(end) || !path.is_file() {
                return Err(io::Error::other(format!("{} is no such file", path.display())));
            }
        }
        Ok(())
    }
}

fn try_all(repository: &Path, made: &Made, archive: Option<&str>) -> io::Result<()> {
    let folder = TemporaryFolder::create()?;
    let root = folder.0.as_path();
    make_root(root, archive)?;
    let inside = |line: &str| run_inside(root, line);

    // The package.
    fs::copy(&made.package, root.join("tmp/everleaf.deb"))?;
    inside("apt-get install -y --no-install-recommends /tmp/everleaf.deb && everleaf --version")?;
    use_service(root)?;
    println!("the package: installed, its service used, killed, and started again");

    // The wheel.
    let name = made.wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    fs::copy(&made.wheel, root.join("tmp").join(&name))?;
    let notebook = repository.join("bindings/python/examples/first.ipynb");
    fs::copy(notebook, root.join("tmp/first.ipynb"))?;
    inside("python3 -m venv /opt/venv && /opt/venv/bin/pip install -q nbclient ipykernel")?;
    inside(&format!("/opt/venv/bin/pip install -q --no-index /tmp/{name}"))?;
    inside(
        "cd /tmp && PATH=/opt/venv/bin:$PATH /opt/venv/bin/jupyter-execute --inplace first.ipynb",
    )?;
    let ran = fs::read_to_string(root.join("tmp/first.ipynb"))?;
    for shown in ["keys are there again", "image/svg+xml"] {
        if !ran.contains(shown) {
            return Err(io::Error::other(format!("the notebook does not show {shown}")));
        }
    }
    println!("the wheel: installed with pip, and the notebook run");

    // The C library.
    let mut copy = Command::new("cp");
    copy.args(["--recursive", "--no-dereference"]);
    copy.args(["lib", "include"].map(|part| made.prefix.join(part)));
    status_of(copy.arg(root.join("usr/local")))?;
    for name in ["first.c", "first.sh"] {
        fs::copy(repository.join("crates/capi/c").join(name), root.join("tmp").join(name))?;
    }
    let printed = inside("ldconfig && cd /tmp && sh -e first.sh")?;
    if printed != "oak is Quercus\nash: Fraxinus\noak: Quercus\n" {
        return Err(io::Error::other(format!("the program in C printed {printed}")));
    }
    println!("the C library: a program compiled with pkg-config, and run");
    Ok(())
}

/// Makes the root, with what is included.
fn make_root(root: &Path, archive: Option<&str>) -> io::Result<()> {
    match archive {
        Some(archive) => status_of(Command::new("tar").arg("-C").arg(root).args(["-xf", archive]))?,
        None => {
            let mut command = Command::new("mmdebstrap");
            command.args(["--variant=minbase", "--include", INCLUDED, SUITE]);
            status_of(command.arg(root))?;
        }
    }
    // Names are resolved and certificates trusted as outside.
    for file in ["etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"] {
        let (from, to) = (Path::new("/").join(file), root.join(file));
        if from.is_file() {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

/// Starts the service, stores a key, kills the server, starts it again, and finds the key.
fn use_service(root: &Path) -> io::Result<()> {
    let state = root.join(STATE);
    fs::create_dir_all(&state)?;
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700))?;
    std::os::unix::fs::chown(&state, Some(USER), Some(USER))?;
    let words = crate::package::started_by(&root.join("usr/lib/systemd/system/everleaf.service"))?;
    let service = Service::start(root, &words)?;
    let ask = |service: &Service, words: &str| {
        run_inside(root, &format!("redis-cli -p {} {words}", service.port))
    };
    let expect = |told: String, expected: &str| match told.trim() == expected {
        true => Ok(()),
        false => Err(io::Error::other(format!("redis-cli printed {told}"))),
    };
    expect(ask(&service, "set paris 2102650")?, "OK")?;
    service.kill()?;
    let service = Service::start(root, &words)?;
    expect(ask(&service, "get paris")?, "2102650")?;
    service.kill()
}

/// The server, as the unit starts it.
struct Service {
    child: Child,
    port: u16,
}

impl Service {
    fn start(root: &Path, words: &[String]) -> io::Result<Self> {
        let path = root.join(SOCKET);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        // A port that is free here: the network is the one of this machine.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = own_mounts(SERVE, root);
        command.arg(USER.to_string()).args(words).args(["--port", &port.to_string()]);
        let mut service = Service { child: command.stdin(Stdio::null()).spawn()?, port };
        let mut told = [0; 4096];
        loop {
            match socket.recv(&mut told) {
                Ok(size)
                    if told[..size].split(|byte| *byte == b'\n').any(|line| line == b"READY=1") =>
                {
                    return Ok(service);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let ended = service.child.try_wait()?;
                    let why = format!("the service is not ready ({ended:?}): {error}");
                    return Err(io::Error::other(why));
                }
            }
        }
    }

    /// Ends it by `kill -9`.
    fn kill(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        // The server is the child of `unshare`; it would outlive that, since a process that changes its user is no
        // longer told of its parent's death.
        let parent = self.child.id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
        for server in children.split_whitespace() {
            status_of(Command::new("kill").args(["-s", "KILL", server]))?;
        }
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It was killed already, unless something went wrong before.
        let _ = self.end();
    }
}

/// A command with mounts and processes of its own, which runs a script about a root.
fn own_mounts(script: &str, root: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", script]);
    command.arg(root);
    command
}

/// Runs a shell line in the root; what it printed.
fn run_inside(root: &Path, line: &str) -> io::Result<String> {
    println!("$ {line}");
    let output = own_mounts(ENTER, root).arg(line).stderr(Stdio::inherit()).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            println!("{}", String::from_utf8_lossy(&output.stdout));
            Err(io::Error::other(format!("{line}: {}", output.status)))
        }
    }
}

fn status_of(command: &mut Command) -> io::Result<()> {
    let status = command.status();
    let status = status.map_err(|error| io::Error::other(format!("{command:?}: {error}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{command:?}: {status}"))),
    }
}

/// A folder of which nothing is mounted outside of `unshare`; it goes away.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn create() -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("everleaf-debian-{}", std::process::id()));
        fs::create_dir(&folder)?;
        // Others than root look into it.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        Ok(TemporaryFolder(folder))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // If it stays, its name says whose it is.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_refused_before_anything_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            fs::write(folder.path().join(name), "").unwrap();
            folder.path().join(name)
        };
        let (package, wheel, prefix) = (path("a.deb"), path("a.whl"), folder.path().join("usr"));
        fs::create_dir_all(prefix.join("lib/pkgconfig")).unwrap();
        let made = Made { package, wheel, prefix };
        let told = made.check().unwrap_err().to_string();
        assert!(told.ends_with("lib/pkgconfig/everleaf.pc is no such file"), "{told}");
        fs::write(made.prefix.join("lib/pkgconfig/everleaf.pc"), "").unwrap();
        made.check().unwrap();
        let swapped = Made { package: made.wheel, wheel: made.package, prefix: made.prefix };
        assert!(swapped.check().unwrap_err().to_string().ends_with("a.whl is no such file"));
    }
}
