//! An image that was made is tried: run as its user, killed, stopped amid writes, and given volumes it cannot use.

use std::io;
use std::net::TcpListener;
use std::process::Command;

use super::client::{self, Client};
use super::steps::text_of;

/// Seconds that a server may take to be ready, and to stop.
const SECONDS: &str = "60";
/// What an image of a program, run with volumes and arguments it cannot use, is to end with.
const NOT_ENDED: &str = "it did not end as it should";

/// Uses the server of an image.
///
/// # Errors
/// What did not work.
pub fn run(engine: &str, image: &str) -> io::Result<()> {
    let volume = Volume::create(engine)?;
    let container = Container::start(engine, image, &volume)?;
    container.is_not_root()?;
    container.is_healthy()?;
    client::expect(&container.address, &["set", "paris", "2102650"], "OK")?;
    container.tell("kill", &["--signal", "KILL"])?;
    container.waited("137")?;
    drop(container);

    let container = Container::start(engine, image, &volume)?;
    client::expect(&container.address, &["get", "paris"], "2102650")?;
    let acknowledged = container.stop_amid_writes()?;
    drop(container);

    let container = Container::start(engine, image, &volume)?;
    let mut client = Client::connect(&container.address)?;
    for number in 0..acknowledged {
        let number = number.to_string();
        let found = client.ask(&["get", &format!("key:{number}")])?;
        if found != number {
            return Err(io::Error::other(format!(
                "key:{number} was acknowledged, and is {found:?}"
            )));
        }
    }
    drop(container);
    refuses(engine, image, &volume)?;
    println!(
        "the image's server was run, killed, and run again; {acknowledged} writes were acknowledged before \
         it was stopped amid them, and are there; what it cannot use was refused"
    );
    Ok(())
}

/// What cannot work is told, and ends the container with a code that is not 0.
fn refuses(engine: &str, image: &str, volume: &Volume) -> io::Result<()> {
    let mount = volume.mount();
    let read_only = format!("{mount}:ro");
    let serve = ["serve", "--config", "/etc/everleaf.toml"];
    let cases: [(&str, Vec<&str>, Vec<&str>); 4] = [
        ("a volume that cannot be written to", vec!["--volume", &read_only], serve.to_vec()),
        (
            "a volume of another user",
            vec!["--volume", &mount, "--user", "12345:12345"],
            serve.to_vec(),
        ),
        (
            "an unknown option",
            vec!["--volume", &mount],
            [&serve[..], &["--no-such-option"]].concat(),
        ),
        (
            "a configuration that is not there",
            vec!["--volume", &mount],
            vec!["serve", "--config", "/none"],
        ),
    ];
    for (what, flags, words) in cases {
        let mut command = Command::new(engine);
        command.args(["run", "--rm", "--network", "host"]).args(flags).arg(image).args(words);
        let output = command.output()?;
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // 125 to 127 are the engine's own: then the program was not run at all.
        let code = output.status.code().unwrap_or(0);
        let line = told.lines().find(|line| line.contains("everleaf:") || line.contains("error:"));
        match line {
            Some(line) if (1..125).contains(&code) => println!("{what}: code {code}: {line}"),
            _ => return Err(io::Error::other(format!("{what}: code {code}: {NOT_ENDED}: {told}"))),
        }
    }
    Ok(())
}

/// A volume that goes away.
struct Volume<'a> {
    engine: &'a str,
    name: String,
}

impl<'a> Volume<'a> {
    fn create(engine: &'a str) -> io::Result<Self> {
        let name = format!("everleaf-trial-{}", std::process::id());
        text_of(Command::new(engine).args(["volume", "create", &name]))?;
        Ok(Volume { engine, name })
    }

    fn mount(&self) -> String {
        format!("{}:/data", self.name)
    }
}

impl Drop for Volume<'_> {
    fn drop(&mut self) {
        // If it stays, its name says whose it is.
        let _ = text_of(Command::new(self.engine).args(["volume", "rm", "--force", &self.name]));
    }
}

/// A container of the image; it goes away.
struct Container<'a> {
    engine: &'a str,
    id: String,
    address: String,
}

impl<'a> Container<'a> {
    /// Starts a server in the network of this machine, on a port that is free, and waits until it answers.
    fn start(engine: &'a str, image: &str, volume: &Volume<'_>) -> io::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let port = address.port().to_string();
        let mut command = Command::new(engine);
        command.args(["run", "--detach", "--network", "host", "--volume", &volume.mount(), image]);
        command.args(["serve", "--config", "/etc/everleaf.toml", "--bind", "127.0.0.1"]);
        let id = text_of(command.args(["--port", &port]))?.trim().to_string();
        let container = Container { engine, id, address: address.to_string() };
        container.tell("exec", &[])?;
        Ok(container)
    }

    /// Lets the engine do something with the container; what it prints.
    fn tell(&self, what: &str, flags: &[&str]) -> io::Result<String> {
        let mut command = Command::new(self.engine);
        command.arg(what).args(flags).arg(&self.id);
        if what == "exec" {
            command.args(["/usr/bin/everleaf", "ping", &self.address, "--wait", SECONDS]);
        }
        text_of(&mut command).map_err(|error| {
            let logs = Command::new(self.engine).args(["logs", &self.id]).output();
            let logs = logs.map(|logs| String::from_utf8_lossy(&logs.stderr).into_owned());
            io::Error::other(format!("{error}\n{}", logs.unwrap_or_default()))
        })
    }

    /// Its processes are those of the image's user.
    fn is_not_root(&self) -> io::Result<()> {
        let pid = self.tell("inspect", &["--format", "{{.State.Pid}}"])?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()))?;
        let users = status.lines().find(|line| line.starts_with("Uid:")).unwrap_or_default();
        match users.split_whitespace().skip(1).any(|user| user == "0") || users.is_empty() {
            true => Err(io::Error::other(format!("the server runs as root: {users}"))),
            false => Ok(()),
        }
    }

    /// The image's own check, as the engine runs it.
    fn is_healthy(&self) -> io::Result<()> {
        if self.engine == "podman" {
            let mut command = Command::new(self.engine);
            return text_of(command.args(["healthcheck", "run", &self.id])).map(drop);
        }
        // Docker runs it by itself, and has no command for it.
        let ends = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let told = self.tell("inspect", &["--format", "{{.State.Health.Status}}"])?;
            match told.trim() {
                "healthy" => return Ok(()),
                "starting" if std::time::Instant::now() < ends => {
                    std::thread::sleep(std::time::Duration::from_millis(200));
                }
                other => return Err(io::Error::other(format!("its health is {other}"))),
            }
        }
    }

    /// Waits for its end, and compares its code.
    fn waited(&self, code: &str) -> io::Result<()> {
        let told = self.tell("wait", &[])?;
        match told.trim() == code {
            true => Ok(()),
            false => Err(io::Error::other(format!("it ended with {}, not {code}", told.trim()))),
        }
    }

    /// Stops it while a client writes; how many writes were acknowledged.
    fn stop_amid_writes(&self) -> io::Result<u64> {
        const BEFORE: u64 = 1000;
        let mut client = Client::connect(&self.address)?;
        let mut number = 0;
        let write = |client: &mut Client, number: u64| {
            let word = number.to_string();
            client.ask(&["set", &format!("key:{word}"), &word]).map(drop)
        };
        while number < BEFORE {
            write(&mut client, number)?;
            number += 1;
        }
        let stopped = std::thread::scope(|scope| {
            let stopper = scope.spawn(|| self.tell("stop", &["--time", SECONDS]));
            while write(&mut client, number).is_ok() {
                number += 1;
            }
            stopper.join()
        });
        stopped.map_err(|_| io::Error::other("the thread that stops it panicked"))??;
        match number > BEFORE {
            true => self.waited("0").map(|()| number),
            false => Err(io::Error::other("it was stopped before anything was written")),
        }
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        // If it stays, the engine lists it.
        let _ = text_of(Command::new(self.engine).args(["rm", "--force", &self.id]));
    }
}
