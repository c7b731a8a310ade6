//! Openings after a kill, in turns: what the examples `tree_restart` of the index and `restart_at_once` of the store
//! share.
//!
//! Each step is a process of its own: this program again, with the name of the step behind its numbers. It says when it
//! is done, and is killed.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub type Failure = Box<dyn Error>;

/// What a child says that is to be killed.
const DONE: &str = "done";
/// The signal that no process can handle.
const SIGKILL: i32 = 9;

/// What a process is to do.
pub enum Step {
    /// Fill the pool.
    Fill,
    /// Open it, at once or all restored.
    Open { at_once: bool },
}

/// What the program was asked: `FOLDER [KEYS] [ROUNDS] [THREADS]`, and a step if it is a child.
pub struct Arguments {
    folder: PathBuf,
    rounds: u64,
    step: Option<String>,
    /// The file of the pool.
    pub path: PathBuf,
    pub keys: u64,
    /// Of those that restore before the pool is open.
    pub threads: u64,
}

impl Arguments {
    /// Reads them; the file of the pool has this name.
    pub fn read(name: &str) -> Result<Self, Failure> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let number = |index: usize, usual| match arguments.get(index) {
            Some(text) => text.parse::<u64>(),
            None => Ok(usual),
        };
        let folder = Path::new(arguments.first().ok_or("a folder is missing")?);
        Ok(Arguments {
            folder: folder.to_owned(),
            path: folder.join(name),
            keys: number(1, 1_000_000)?.max(1),
            rounds: number(2, 3)?,
            threads: number(3, 2)?,
            step: arguments.get(4).cloned(),
        })
    }

    /// What a child is to do; `None` in the program that was started by hand.
    pub fn step(&self) -> Option<Step> {
        self.step.as_deref().map(|step| match step {
            "fill" => Step::Fill,
            step => Step::Open { at_once: step == "at once" },
        })
    }

    /// Has the pool filled and killed, then opened and killed again and again: all restored and at once take turns at
    /// being first. The first opening is not counted, since it ends what the kill has left.
    pub fn run(&self) -> Result<(), Failure> {
        let _file = OwnFile::anew(self.path.clone())?;
        run_and_kill(self.child("fill")?)?;
        println!("{} keys; not counted:", self.keys);
        for round in 0..=self.rounds {
            let ways =
                if round % 2 == 0 { ["restored", "at once"] } else { ["at once", "restored"] };
            for step in ways.into_iter().take(if round == 0 { 1 } else { 2 }) {
                run_and_kill(self.child(step)?)?;
            }
            if round < self.rounds {
                println!("round {}:", round + 1);
            }
        }
        Ok(())
    }

    fn child(&self, step: &str) -> Result<Command, Failure> {
        let mut child = Command::new(std::env::current_exe()?);
        let numbers = [self.keys, self.rounds, self.threads].map(|number| number.to_string());
        child.arg(&self.folder).args(numbers).arg(step);
        Ok(child)
    }
}

/// The end of a child: says that it is done, and waits until it is killed.
pub fn wait_for_the_kill() -> ! {
    println!("{DONE}");
    loop {
        std::thread::park();
    }
}

/// The file of the pool, which goes when this is dropped.
struct OwnFile(PathBuf);

impl OwnFile {
    /// Nothing of an earlier run may be measured.
    fn anew(path: PathBuf) -> Result<Self, Failure> {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(OwnFile(path)),
        }
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs a child, prints what it says, and kills it when it is done.
fn run_and_kill(mut child: Command) -> Result<(), Failure> {
    let mut child = child.stdout(Stdio::piped()).spawn()?;
    let mut is_done = false;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            is_done = line == DONE;
            if is_done {
                break;
            }
            println!("{line}");
        }
    }
    child.kill()?;
    let status = child.wait()?;
    if is_done && status.signal() == Some(SIGKILL) {
        return Ok(());
    }
    Err(format!("a child ended by itself: {status}").into())
}
