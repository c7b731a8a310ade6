//! A file that is complete or not there: written beside its place, then named.

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use everleaf::Error;
use everleaf::new_file::{NewFile, followed};
use everleaf::regular_file::{is_pool, open_regular};
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// Bytes gathered before they are written.
const BUFFER_SIZE: usize = 256 << 10;

/// A file being written. Dropped before [`TargetFile::finish`], it leaves nothing behind. A new file is
/// for its owner alone.
pub struct TargetFile {
    /// What the user calls it.
    name: PathBuf,
    /// What gets the name; `None` for a device or a pipe, written directly.
    new: Option<NewFile>,
    writer: BufWriter<File>,
}

impl TargetFile {
    /// Starts the file `name`; one that is there stays as it is until the new one is complete.
    pub fn create(name: &Path) -> Result<Self, Failure> {
        let refuse = |error| refusal(name, &error);
        let special = match fs::metadata(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            found => !found.map_err(refuse)?.is_file(),
        };
        if !special && is_pool_at(name)? {
            let text = format!(
                "{} is an Everleaf pool, which is not replaced: choose another path",
                name.display()
            );
            return Err(Failure::new(ExitCode::Pool, text));
        }
        if !special && is_in_log(name).map_err(refuse)? {
            let text = format!(
                "{} is in the folder of the log of a pool, of which nothing is replaced: choose another path",
                name.display()
            );
            return Err(Failure::new(ExitCode::Pool, text));
        }
        let (new, file) = if special {
            (None, File::options().write(true).open(name).map_err(refuse)?)
        } else {
            let new = NewFile::beside(name).map_err(|error| match error {
                Error::Io(_, error) => refuse(error),
                error => error.into(),
            })?;
            let file = new.create().map_err(refuse)?;
            (Some(new), file)
        };
        let writer = BufWriter::with_capacity(BUFFER_SIZE, file);
        Ok(Self { name: name.to_path_buf(), new, writer })
    }

    /// Where to write.
    pub fn writer(&mut self) -> &mut impl Write {
        &mut self.writer
    }

    /// The sentence for an error of [`TargetFile::writer`].
    pub fn failure(&self, error: &io::Error) -> Failure {
        refusal(&self.name, error)
    }

    /// Brings everything to the disk and gives the file its name.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| self.failure(&error))?;
        match self.new {
            Some(new) => Ok(new.replace()?),
            None => Ok(()),
        }
    }
}

/// Whether there is a pool. What cannot be read may be one.
fn is_pool_at(name: &Path) -> Result<bool, Failure> {
    match File::open(name).and_then(|file| is_pool(&file)) {
        Ok(is_pool) => Ok(is_pool),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => {
            let name = name.display();
            let why = "it cannot be read, and may be a pool, which is not replaced";
            Err(Failure::io(&format!("cannot write {name}: {why}"), &error))
        }
    }
}

/// Whether a file of this name is in the folder of a log, or would be.
fn is_in_log(name: &Path) -> io::Result<bool> {
    let place = followed(name)?;
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = match fs::canonicalize(folder.unwrap_or(Path::new("."))) {
        // What is not there is told when the file is made.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let identity = folder.join("identity");
    let is_named = folder.extension().is_some_and(|it| it == "log") && identity.exists();
    Ok(is_named || is_identity(&identity))
}

/// Whether a file says whose log it lies beside, in 32 digits: the folder may have any name, behind a link.
fn is_identity(file: &Path) -> bool {
    let mut digits = [0; 32];
    let read = open_regular(file).and_then(|mut file| file.read_exact(&mut digits));
    read.is_ok() && digits.iter().all(u8::is_ascii_hexdigit)
}

fn refusal(name: &Path, error: &io::Error) -> Failure {
    Failure::io(&format!("cannot write {}", name.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_file_stays_until_the_new_one_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "old").unwrap();
        let mut dropped = TargetFile::create(&path).unwrap();
        dropped.writer().write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let mut target = TargetFile::create(&path).unwrap();
        target.writer().write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        target.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    /// What was replaced by text: the segment of a log, which was damaged from then on.
    #[test]
    fn nothing_in_the_folder_of_a_log_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let options = everleaf::Options::new().create(true).durability(everleaf::Durability::Power);
        options.open(path("p")).unwrap().close().unwrap();
        std::os::unix::fs::symlink("p.log/identity", path("link")).unwrap();
        let refuses = |names: &[&str]| {
            for name in names {
                let failure = TargetFile::create(&path(name)).err().unwrap();
                let message = failure.message;
                assert!(message.contains("the log of a pool"), "{name}: {message}");
            }
        };
        let names = ["p.log/identity", "p.log/new", "p.log/../p.log/identity", "link"];
        refuses(&names);
        // On another disk.
        fs::rename(path("p.log"), path("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", path("p.log")).unwrap();
        refuses(&names);
        refuses(&["elsewhere/identity", "elsewhere/new"]);
        fs::create_dir(path("other.log")).unwrap();
        TargetFile::create(&path("other.log/text")).unwrap();
        TargetFile::create(&path("p.log.txt")).unwrap();
    }

    #[test]
    fn a_device_is_written_directly_and_an_absent_folder_is_named() {
        let mut target = TargetFile::create(Path::new("/dev/null")).unwrap();
        target.writer().write_all(b"gone").unwrap();
        target.finish().unwrap();
        let failure = TargetFile::create(Path::new("/nowhere/file")).err().unwrap();
        assert!(failure.message.starts_with("cannot write /nowhere/file: "), "{}", failure.message);
    }
}
