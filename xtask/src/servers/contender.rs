//! Servers that are compared: how each is started, and what it takes.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server by its program.
pub struct Contender {
    pub name: &'static str,
    pub version: String,
    program: PathBuf,
    is_ours: bool,
    /// Event loops of ours; none for as many as it has by itself.
    threads: Option<u32>,
}

impl Contender {
    /// Everleaf first, then those that are installed.
    pub fn all(folder: &Path, threads: Option<u32>) -> Result<Vec<Contender>, String> {
        let ours = folder.join("everleaf");
        if !ours.is_file() {
            return Err(format!("there is no {}: build it first", ours.display()));
        }
        let programs = [
            ("Everleaf", ours, true),
            ("Redis", "redis-server".into(), false),
            ("Valkey", "valkey-server".into(), false),
        ];
        let contenders: Vec<Contender> = programs
            .into_iter()
            .filter_map(|(name, program, is_ours)| {
                let told = Command::new(&program).arg("--version").output().ok()?;
                let told = String::from_utf8_lossy(&told.stdout).into_owned();
                let version = told.split_whitespace().find_map(|word| word.strip_prefix("v="));
                let version = version.or(told.split_whitespace().nth(1)).unwrap_or_default();
                let version = version.to_string();
                Some(Contender { name, version, program, is_ours, threads })
            })
            .collect();
        match contenders.len() {
            0 | 1 => Err("nobody is there to compare with: install redis-server".into()),
            _ => Ok(contenders),
        }
    }

    /// Starts it without data; with TLS if the files of [`certificates`] are in the folder.
    pub fn start(&self, folder: &Path) -> Result<Server, String> {
        self.start_with(folder, "process")
    }

    /// The same with a durability, if it is Everleaf's.
    pub fn start_with(&self, folder: &Path, durability: &str) -> Result<Server, String> {
        let (port, tls_port) = (free_port()?, free_port()?);
        let certificate = folder.join("server.crt");
        let has_tls = certificate.is_file();
        let mut command = Command::new(&self.program);
        if self.is_ours {
            command.arg("serve").arg(folder.join(format!("{port}.pool")));
            command.args(["--durability", durability, "--port", &port.to_string()]);
            command.args(self.threads.map(|count| format!("--threads={count}")));
        } else {
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
            command.args(["--appendonly", "no", "--dir"]).arg(folder);
        }
        if has_tls {
            command.args(["--tls-port", &tls_port.to_string(), "--tls-cert-file"]);
            command.arg(&certificate).arg("--tls-key-file").arg(folder.join("server.key"));
            command.args(if self.is_ours { &[][..] } else { &["--tls-auth-clients", "no"] });
            if !self.is_ours {
                command.arg("--tls-ca-cert-file").arg(&certificate);
            }
        }
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.map_err(|error| format!("{}: {error}", self.name))?;
        let server = Server { child, port, tls_port, folder: folder.to_path_buf() };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if start.elapsed() > PATIENCE {
                return Err(format!("{} does not come up", self.name));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

fn free_port() -> Result<u16, String> {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| error.to_string())
}

/// A certificate of its own for `localhost`, and its key.
pub fn certificates(folder: &Path) -> Result<(), String> {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]);
    command.args([
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
    ]);
    command
        .arg("-keyout")
        .arg(folder.join("server.key"))
        .arg("-out")
        .arg(folder.join("server.crt"));
    let made =
        command.stderr(Stdio::null()).status().map_err(|error| format!("openssl: {error}"))?;
    if made.success() { Ok(()) } else { Err(format!("openssl: {made}")) }
}

/// A running server; killed when it goes.
pub struct Server {
    child: Child,
    pub port: u16,
    pub tls_port: u16,
    folder: PathBuf,
}

impl Server {
    /// Nanoseconds that all its threads have had of the processors.
    pub fn processor_ns(&self) -> Result<f64, String> {
        let folder = format!("/proc/{}/task", self.child.id());
        let tasks = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
        let of_task = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0)
        };
        Ok(tasks.filter_map(|task| Some(of_task(task.ok()?))).sum())
    }

    /// MiB of a field of the process's status: `RssAnon`, `VmRSS`.
    pub fn memory_mib(&self, field: &str) -> Result<f64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| format!("{path} has no {field}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The next begins without data; what cannot be removed is removed with the folder.
        let pool = self.folder.join(format!("{}.pool", self.port));
        let _ = fs::remove_file(&pool);
        let _ = fs::remove_dir_all(pool.with_extension("pool.log"));
    }
}

/// A folder that goes with this.
pub struct Folder(pub PathBuf);

impl Folder {
    /// One in memory, so that no disk takes part: where temporary files are, or in `/dev/shm`.
    pub fn new() -> Result<Folder, String> {
        let mounts = fs::read_to_string("/proc/mounts").map_err(|error| error.to_string())?;
        let places = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
        let place = places.iter().find(|place| is_in_memory(place, &mounts));
        let place = place.ok_or_else(|| {
            let [first, second] = places.each_ref().map(|place| place.display());
            format!(
                "neither {first} nor {second} is in memory (tmpfs), and a disk would be measured, too: set TMPDIR to a \
                 folder that is"
            )
        })?;
        Folder::inside(place)
    }

    /// One in another folder.
    pub fn inside(folder: &Path) -> Result<Folder, String> {
        let path = folder.join(format!("everleaf-servers-{}", std::process::id()));
        // What an earlier run left that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

/// Whether a folder is in a file system that is kept in memory, by the list of what is mounted.
fn is_in_memory(folder: &Path, mounts: &str) -> bool {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    let found = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        folder.starts_with(point).then_some((point.len(), kind))
    });
    // The last of those at one place hides the others.
    let innermost = found.max_by_key(|(length, _)| *length);
    innermost.is_some_and(|(_, kind)| matches!(kind, "tmpfs" | "ramfs"))
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is removed by the next.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where `/tmp` is on a disk, the kernel wrote the pool that was measured back to it meanwhile.
    #[test]
    fn what_is_measured_is_in_memory_and_on_no_disk() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\ntmpfs /shm tmpfs rw 0 0\n/dev/vdb /shm/disk xfs rw 0 0\n";
        let of = |path: &str| is_in_memory(Path::new(path), mounts);
        assert!(of("/shm") && of("/shm/a/b"));
        assert!(!of("/") && !of("/nowhere/tmp") && !of("/shm/disk/a") && !of("/shmall"));
        assert!(!is_in_memory(Path::new("/shm"), ""));
        if let Ok(folder) = Folder::new() {
            let mounts = fs::read_to_string("/proc/mounts").unwrap();
            assert!(is_in_memory(&folder.0, &mounts), "{}", folder.0.display());
        }
    }
}
