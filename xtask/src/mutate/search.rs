//! Runs the program of the copy: one search of a structure with one site switched on.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The program of the copy.
pub struct Program(pub PathBuf);

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Searched {
    /// What was wrong, if something was.
    pub found: Option<String>,
    pub schedules: u64,
    pub seconds: f64,
    /// The sites that were met, and how often, if that was asked for; else the one that is on, if it made a
    /// difference.
    pub met: Vec<(usize, u64)>,
}

/// A search that takes so many times its budget does not end, if it takes so many seconds more.
const PATIENCE: (f64, u64) = (2.0, 8);
/// KiB that a search may ask for: what asks for more was to ask for less.
const MEMORY: u64 = 8 << 20;

impl Program {
    /// The names of all structures.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn structures(&self) -> Result<Vec<String>, String> {
        let out = Command::new(&self.0).output().map_err(|error| self.wrong(&error))?;
        Ok(String::from_utf8_lossy(&out.stdout).lines().map(str::to_string).collect())
    }

    /// Searches a structure for so many CPU seconds, with this site switched on; without one, the sites that are
    /// met are noted.
    ///
    /// # Errors
    /// It cannot be started, or says what nobody understands.
    pub fn search(
        &self,
        structure: &str,
        seconds: f64,
        seed: u64,
        site: Option<usize>,
    ) -> Result<Searched, String> {
        let site = site.map_or("met".to_string(), |site| site.to_string());
        // By processor time, since the machine may be busy or stand still.
        let limit = (seconds * PATIENCE.0).ceil() as u64 + PATIENCE.1;
        let script =
            format!("ulimit -c 0; ulimit -t {limit}; ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(&self.0);
        command.args([structure, &seconds.to_string(), &seed.to_string(), &site]);
        let out = command.stderr(Stdio::null()).output().map_err(|error| self.wrong(&error))?;
        if let Some(signal) = out.status.signal() {
            // The limit kills when asking to end was not heard.
            let found = match signal {
                9 | 24 => "the search does not end".to_string(),
                _ => format!("signal {signal} ended the process"),
            };
            return Ok(Searched { found: Some(found), schedules: 0, seconds: 0.0, met: vec![] });
        }
        let said: Option<Value> = serde_json::from_slice(&out.stdout).ok();
        match said.filter(|_| out.status.success()) {
            Some(said) => Ok(Searched::of(&said)),
            // Outside of the machine a panic ends the process.
            None if out.status.code() == Some(101) => {
                let found = Some("a panic ended the process".to_string());
                Ok(Searched { found, schedules: 0, seconds: 0.0, met: vec![] })
            }
            None => Err(format!("{} has ended with {}", self.0.display(), out.status)),
        }
    }

    fn wrong(&self, error: &std::io::Error) -> String {
        format!("cannot start {}: {error}", self.0.display())
    }
}

impl Searched {
    fn of(said: &Value) -> Searched {
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_string();
        let met = said["met"].as_array().into_iter().flatten();
        let pair = |one: &Value| Some((one[0].as_u64()? as usize, one[1].as_u64()?));
        let message: String = without_line(&text("message")).chars().take(100).collect();
        Searched {
            found: said["kind"]
                .is_string()
                .then(|| format!("{}: {message} ({})", text("kind"), text("program"))),
            schedules: said["schedules"].as_u64().unwrap_or_default(),
            seconds: said["seconds"].as_f64().unwrap_or_default(),
            met: met.filter_map(pair).collect(),
        }
    }
}

/// A message without the line of the source where it comes from, which changes with every edit.
fn without_line(message: &str) -> String {
    let parts: Vec<&str> = message.splitn(4, ':').collect();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match parts.as_slice() {
        [file, line, column, rest] if is_number(line) && is_number(column) => {
            format!("{file}:{rest}")
        }
        _ => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A program that does what the script says.
    fn program(folder: &tempfile::TempDir, script: &str) -> Program {
        let path = folder.path().join("rule");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Program(path)
    }

    #[test]
    fn messages_have_no_lines() {
        assert_eq!(without_line("panicked at a.rs:12:9: so: it"), "panicked at a.rs: so: it");
        assert_eq!(without_line("key 10: lost: 2: it"), "key 10: lost: 2: it");
    }

    #[test]
    fn what_a_search_says_and_how_it_ends_are_understood() {
        let folder = tempfile::tempdir().expect("a folder");
        let search = |script: &str| program(&folder, script).search("a", 0.5, 1, Some(7));
        let found =
            search(r#"echo '{"kind":"lost","message":"'$1$4'","program":"p","schedules":3}'"#);
        let found = found.expect("it says so");
        assert_eq!(found.found.as_deref(), Some("lost: a7 (p)"));
        assert_eq!(found.schedules, 3);
        let nothing = search(r#"echo '{"kind":null,"met":[[1,3],[4,1]]}'"#).expect("it says so");
        assert_eq!((nothing.found, nothing.met), (None, vec![(1, 3), (4, 1)]));
        let signal = search("kill -SEGV $$").expect("it is found").found;
        assert_eq!(signal.as_deref(), Some("signal 11 ended the process"));
        let panic = search("exit 101").expect("it is found").found;
        assert_eq!(panic.as_deref(), Some("a panic ended the process"));
        assert!(search("exit 3").is_err());
    }
}
