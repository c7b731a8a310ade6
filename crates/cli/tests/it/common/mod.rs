//! Runs the real binary in a temporary directory.
#![allow(dead_code, reason = "each test file uses its part of this module")]

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A temporary directory, with a pool called `pool` in it once a test creates one.
pub struct PoolFolder {
    dir: tempfile::TempDir,
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("readable");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => {
                std::fs::create_dir(&to).expect("room");
                copy_files(&from, &to);
            }
            false => drop(std::fs::copy(&from, &to).expect("room")),
        }
    }
}

/// How a run ended.
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// The standard output.
    pub out: Vec<u8>,
    /// The standard error.
    pub err: String,
}

impl PoolFolder {
    /// An empty directory.
    pub fn empty() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory can be made") }
    }

    /// A directory with an empty pool.
    pub fn with_pool() -> Self {
        let place = Self::empty();
        place.run(["create", "pool"]).succeeded();
        place
    }

    /// A directory with the same files, and the same folders of files.
    pub fn copy(&self) -> Self {
        let copy = Self::empty();
        copy_files(self.dir.path(), copy.dir.path());
        copy
    }

    /// The path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file in the directory.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("the directory can be written");
    }

    /// Reads a file in the directory.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("the file is there")
    }

    /// A command that runs in the directory, free of what the environment says.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        command.env_remove("EVERLEAF_POOL").env_remove("EVERLEAF_REQUIREPASS");
        command
    }

    /// Runs to the end without input.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Ended {
        self.command(arguments).output().expect("the binary runs").into()
    }

    /// Runs to the end with this input.
    pub fn run_with<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Ended {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut stdin = child.stdin.take().expect("it is piped");
        std::thread::scope(|scope| {
            // The child may stop reading early; that is for the test to judge.
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output().expect("the binary ends").into()
        })
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it was not killed by a signal"),
            out: output.stdout,
            err: String::from_utf8(output.stderr).expect("errors are UTF-8"),
        }
    }
}

impl Ended {
    /// The output of a run that must have succeeded without a word on the standard error.
    pub fn succeeded(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""));
        self.text()
    }

    /// The error sentence of a run that must have failed with this code.
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}", self.err);
        let sentence = self.err.strip_prefix(crate::NAME).expect("errors name the program");
        let sentence = sentence.strip_prefix(": ").expect("a colon follows");
        assert!(!sentence.contains("panicked"), "{sentence}");
        sentence.trim_end().to_string()
    }

    /// The output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// The output as one JSON document.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.err, "");
        serde_json::from_slice(&self.out).expect("the output is JSON")
    }
}

/// The size of a file.
pub fn size_of(path: &Path) -> u64 {
    std::fs::metadata(path).expect("the file is there").len()
}
