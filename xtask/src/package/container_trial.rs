//! An image that was made is tried: run as the guide says, as its user, killed, stopped amid writes, and given volumes
//! it cannot use.

use std::io;
use std::net::TcpListener;
use std::process::Command;

use super::client::{self, Client};
use super::steps::text_of;

/// Seconds that a server may take to be ready, and to stop.
const SECONDS: &str = "60";
/// Where the image's server listens besides.
const SOCKET: &str = "/data/everleaf.sock";
/// The port of the image's own configuration, and the password that the guide gives.
pub const PORT: &str = "6399";
pub const PASSWORD: &str = "secret";
/// What an image of a program, run with volumes and arguments it cannot use, is to end with.
const NOT_ENDED: &str = "it did not end as it should";

/// Uses the server of an image.
///
/// # Errors
/// What did not work.
pub fn run(engine: &str, image: &str) -> io::Result<()> {
    let volume = Volume::create(engine)?;
    let container = Container::start_as_it_is(engine, image, &volume)?;
    container.is_not_root()?;
    container.is_healthy()?;
    asks_for_the_password(&container.address)?;
    drop(container);

    let container = Container::start(engine, image, &volume)?;
    client::expect(&container.address, &["get", "oak"], "Quercus")?;
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
        "the image's server was run as the guide says, killed, and run again; {acknowledged} writes were \
         acknowledged before it was stopped amid them, and are there; what it cannot use was refused"
    );
    Ok(())
}

/// A client from outside, which has no password at first, and then puts a key.
///
/// # Errors
/// It was served without the password, or not with it.
pub fn asks_for_the_password(address: &str) -> io::Result<()> {
    let refused = Client::connect(address)?.ask(&["ping"]);
    match &refused {
        Err(error) if error.to_string().contains("NOAUTH") => {}
        _ => return Err(io::Error::other(format!("without the password it said {refused:?}"))),
    }
    let mut client = Client::connect(address)?;
    for words in [&["auth", PASSWORD][..], &["set", "oak", "Quercus"]] {
        let answer = client.ask(words)?;
        if answer != "OK" {
            return Err(io::Error::other(format!("it said {answer:?} to {words:?}")));
        }
    }
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
    /// Starts what the image says by itself, in a network of its own, with the flags of the guide.
    fn start_as_it_is(engine: &'a str, image: &str, volume: &Volume<'_>) -> io::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let published = format!("{}:{PORT}", address.port());
        let password = format!("EVERLEAF_REQUIREPASS={PASSWORD}");
        let mut command = Command::new(engine);
        command.args(["run", "--detach", "--publish", &published, "--volume", &volume.mount()]);
        let id = text_of(command.args(["--env", &password, image]))?.trim().to_string();
        let container = Container { engine, id, address: address.to_string() };
        container.tell("exec", &[])?;
        Ok(container)
    }

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
            // By the socket, which is there whatever the network is.
            command.args(["/usr/bin/everleaf", "ping", SOCKET, "--wait", SECONDS]);
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
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", pid.trim()));
        let found = users_inside(&read("status")?, &read("uid_map")?);
        match found.as_deref() {
            Some(users) if !users.contains(&0) => Ok(()),
            _ => Err(io::Error::other(format!("the server runs as root: {found:?}"))),
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

/// The users of a process (`/proc/PID/status`) as it sees them itself: an engine that is not run by root shows the root
/// of a container as the user who runs the engine (`/proc/PID/uid_map`). Nothing: that cannot be told.
fn users_inside(status: &str, map: &str) -> Option<Vec<u64>> {
    let numbers = |line: &str| {
        let parsed: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        parsed.ok()
    };
    let users = numbers(status.lines().find_map(|line| line.strip_prefix("Uid:"))?)?;
    let ranges = map.lines().map(numbers).collect::<Option<Vec<_>>>()?;
    let inside = |user: u64| {
        ranges.iter().find_map(|range| match range[..] {
            [first, outside, count] if (outside..outside + count).contains(&user) => {
                Some(first + (user - outside))
            }
            _ => None,
        })
    };
    let users: Option<Vec<u64>> = users.into_iter().map(inside).collect();
    users.filter(|users| !users.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The root of a container passed for another user, where the engine was not run by root.
    #[test]
    fn the_root_of_a_container_is_known_by_its_own_number() {
        let status = |user: u32| format!("Name:\teverleaf\nUid:\t{user}\t{user}\t{user}\t{user}\n");
        let rootless = "         0       1001          1\n         1     100000      65536\n";
        let whole = "         0          0 4294967295\n";
        for (user, map, expected) in [
            (1001, rootless, Some(0)),
            (100_000 + 65_531, rootless, Some(65_532)),
            (0, whole, Some(0)),
            (65_532, whole, Some(65_532)),
            (5, rootless, None),
        ] {
            assert_eq!(
                users_inside(&status(user), map),
                expected.map(|user| vec![user; 4]),
                "{user}"
            );
        }
        assert_eq!(users_inside("", whole), None);
        assert_eq!(users_inside("Uid:\n", whole), None);
    }
}
