//! A package that was made is tried: installed in a root of its own, started as its unit says, killed, and
//! started again.

use super::client;
use super::steps::text_of;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Installs the package, and uses its server.
///
/// # Errors
/// What did not work.
pub fn run(package: &Path) -> io::Result<()> {
    let root = package.with_extension("root");
    match fs::remove_dir_all(&root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    install(package, &root)?;
    let words = started_by(&root.join("usr/lib/systemd/system/everleaf.service"))?;
    use_server(&root, &words)?;
    println!("the package was installed, its server started, killed, and started again");
    fs::remove_dir_all(&root)
}

/// Uses the server of a program that needs nothing beside it, in a root that has nothing else.
///
/// # Errors
/// What did not work.
pub fn run_program(program: &Path, root: &Path) -> io::Result<()> {
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(root.join("var/lib/everleaf"))?;
    fs::copy(program, root.join("everleaf"))?;
    use_server(root, &["/everleaf".to_string(), "serve".to_string()])?;
    println!("the static program's server was started, killed, and started again");
    fs::remove_dir_all(root)
}

/// Starts the server, stores a key, kills it, starts it again, and finds the key.
fn use_server(root: &Path, words: &[String]) -> io::Result<()> {
    let mut server = Server::start(root, words)?;
    client::expect(&server.address, &["set", "paris", "2102650"], "OK")?;
    server.kill()?;
    let mut server = Server::start(root, words)?;
    client::expect(&server.address, &["get", "paris"], "2102650")?;
    server.kill()
}

/// Installs the package below a folder, with dpkg and its scripts.
fn install(package: &Path, root: &Path) -> io::Result<()> {
    let database = root.join("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(database.join(folder))?;
    }
    fs::write(database.join("status"), "")?;
    let mut dpkg = Command::new("dpkg");
    // What it depends on is outside of this root; its scripts see by DPKG_ROOT that they are not at home.
    dpkg.args([
        "--force-not-root",
        "--force-script-chrootless",
        "--force-depends",
        "--log=/dev/null",
    ]);
    dpkg.arg(format!("--root={}", root.display())).arg("--install").arg(package);
    text_of(&mut dpkg)?;
    fs::create_dir_all(root.join("var/lib/everleaf"))
}

/// The command line that the unit starts.
///
/// # Errors
/// There is no unit, or it starts nothing.
pub fn started_by(unit: &Path) -> io::Result<Vec<String>> {
    let text = fs::read_to_string(unit)?;
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart="));
    let line = line.ok_or_else(|| io::Error::other("the unit starts nothing"))?;
    Ok(line.split_whitespace().map(String::from).collect())
}

/// A server that was started from the root.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts what the unit starts, with the root before each path; its pool and port are told on the command
    /// line, which counts before the configuration.
    fn start(root: &Path, words: &[String]) -> io::Result<Self> {
        let below = |path: &str| root.join(path.trim_start_matches('/'));
        let (program, arguments) = words.split_first().expect("a command has a program");
        let arguments = arguments.iter().map(|word| match word.starts_with('/') {
            true => below(word),
            false => PathBuf::from(word),
        });
        let mut command = Command::new(below(program));
        command.args(arguments).arg(below("/var/lib/everleaf/everleaf.pool")).args(["--port", "0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().expect("it is piped");
        for line in BufReader::new(stderr).lines() {
            let line = line?;
            if let Some(rest) = line.strip_prefix("everleaf: ready on ") {
                let address = rest.split(',').next().unwrap_or_default().to_string();
                return Ok(Self { child, address });
            }
            println!("{line}");
        }
        child.wait()?;
        Err(io::Error::other("the server ended before it was ready"))
    }

    /// Ends it as `kill -9` does.
    fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It was killed already, unless something went wrong before.
        let _ = self.kill();
    }
}
