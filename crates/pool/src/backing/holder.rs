//! The lock on a pool file, and which process holds it.
//!
//! The lock is `flock(2)` on the open file: the kernel gives it up when the last descriptor is
//! closed, so also when the process is killed. Which one holds it is asked of `/proc/locks`. Where that
//! has no answer (another mount of `/proc`, a layered file system), the record that every writer
//! leaves in the file is believed if the process it names still runs and started at the recorded
//! time. A reader leaves no record: it must not write.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use everleaf_machine::OwnerProcess;

use crate::Holder;
use crate::layout::{HOLDER_OFFSET, HOLDER_SIZE};

/// What came of asking for the lock.
pub enum Lock {
    /// It is ours.
    Ours(Held),
    /// Others have it.
    Theirs(Vec<Holder>),
}

/// The lock, given up when dropped.
///
/// Given up by name, not only by closing: a process that another thread forks off this one has a
/// copy of the descriptor until it runs its program, and closing ours alone would leave the file
/// locked that long. Not so in a forked process that drops an inherited handle: the lock belongs to
/// the open file, which it shares with its parent, and would be gone for both.
pub struct Held {
    file: File,
    owner: OwnerProcess,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.owner.is_current() {
            // Cannot fail on an open file; closing follows in any case.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// How often the lock is asked for until two answers to the question which process has it agree.
const ATTEMPTS: u32 = 8;

/// Takes the lock, exclusively or shared with other readers, without waiting for its holder.
///
/// Asks again until the same holders are found twice: the lock may be given up meanwhile, and the
/// table of locks, which the kernel hands out in pieces, may change and lack a line.
pub fn lock(file: &File, exclusive: bool) -> std::io::Result<Lock> {
    let operation = if exclusive {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        match rustix::io::retry_on_intr(|| flock(file, operation)) {
            Ok(()) => {
                let (file, owner) = (file.try_clone()?, OwnerProcess::current());
                return Ok(Lock::Ours(Held { file, owner }));
            }
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error.into()),
        }
        let holders = holders(file);
        if !holders.is_empty() && holders == seen {
            break;
        }
        seen = holders;
    }
    Ok(Lock::Theirs(seen))
}

/// Leaves the record of this process in the file. Advice only: a failure is of no consequence.
pub fn leave_record(file: &File) {
    let pid = std::process::id();
    if let (Some(command), Some(start)) = (command_of(pid), start_of(pid)) {
        let record = encode(pid, start, command.as_bytes());
        let _ = file.write_all_at(&record, HOLDER_OFFSET);
    }
}

/// The processes that hold the lock on the file; empty if it cannot be found out.
fn holders(file: &File) -> Vec<Holder> {
    let Ok(status) = file.metadata() else { return Vec::new() };
    let table = lock_table();
    let (device, inode) = (status.dev(), status.ino());
    let major_minor = (rustix::fs::major(device), rustix::fs::minor(device));
    let mut pids = pids_in(&table, Some(major_minor), inode);
    if pids.is_empty() {
        pids.extend(recorded(file));
    }
    if pids.is_empty() {
        // A layered file system shows one device to `stat` and another in the table.
        pids = pids_in(&table, None, inode);
    }
    pids.sort_unstable();
    pids.dedup();
    let holder = |pid| Holder { pid, command: command_of(pid).unwrap_or_default() };
    pids.into_iter().map(holder).collect()
}

/// The kernel's table of locks; empty if there is none. Read in large pieces: the kernel keeps the
/// table still within a piece, and by small ones a line could be skipped.
fn lock_table() -> String {
    let Ok(mut file) = File::open("/proc/locks") else { return String::new() };
    let mut table = Vec::new();
    let mut piece = vec![0; 1 << 16];
    while let Ok(length) = file.read(&mut piece)
        && length > 0
    {
        table.extend_from_slice(&piece[..length]);
    }
    String::from_utf8_lossy(&table).into_owned()
}

/// Processes that hold an `flock` on the file in the kernel's table of locks, whose lines read
/// `1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF`.
fn pids_in(table: &str, device: Option<(u32, u32)>, inode: u64) -> Vec<u32> {
    let mut pids = Vec::new();
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // A line of a process that waits has an arrow as its second field and is not matched.
        let [_, "FLOCK", _, _, pid, place, ..] = fields[..] else { continue };
        let parts: Vec<&str> = place.split(':').collect();
        let [major, minor, number] = parts[..] else { continue };
        let same_device = device.is_none_or(|(a, b)| {
            u32::from_str_radix(major, 16) == Ok(a) && u32::from_str_radix(minor, 16) == Ok(b)
        });
        if let Ok(pid) = pid.parse::<u32>()
            && pid > 0
            && same_device
            && number.parse() == Ok(inode)
        {
            pids.push(pid);
        }
    }
    pids
}

/// The process of the record in the file, if it runs.
fn recorded(file: &File) -> Option<u32> {
    let mut record = [0; HOLDER_SIZE as usize];
    file.read_exact_at(&mut record, HOLDER_OFFSET).ok()?;
    let (pid, start) = decode(&record)?;
    (start_of(pid) == Some(start)).then_some(pid)
}

/// The name of a process's command, without characters that would upset a terminal.
fn command_of(pid: u32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let text = String::from_utf8_lossy(&text);
    Some(text.trim_end().escape_debug().to_string())
}

/// When a process started, in clock ticks after boot: the 22nd field of its status line, counted
/// behind the command, which may contain anything.
fn start_of(pid: u32) -> Option<u64> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, behind) = text.rsplit_once(')')?;
    behind.split_whitespace().nth(19)?.parse().ok()
}

fn encode(pid: u32, start: u64, command: &[u8]) -> [u8; HOLDER_SIZE as usize] {
    let mut record = [0; HOLDER_SIZE as usize];
    record[0..4].copy_from_slice(&pid.to_le_bytes());
    record[8..16].copy_from_slice(&start.to_le_bytes());
    let length = command.len().min(16);
    record[16..16 + length].copy_from_slice(&command[..length]);
    let checksum = checksum(&record);
    record[4..8].copy_from_slice(&checksum.to_le_bytes());
    record
}

fn decode(record: &[u8; HOLDER_SIZE as usize]) -> Option<(u32, u64)> {
    let number = |at: usize| {
        let bytes = record[at..at + 4].try_into().expect("a range of four");
        u32::from_le_bytes(bytes)
    };
    let start = u64::from(number(12)) << 32 | u64::from(number(8));
    (number(4) == checksum(record)).then_some((number(0), start))
}

fn checksum(record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&record[8..32]), &record[0..4])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        1: POSIX  ADVISORY  WRITE 10 fe:00:131 0 EOF\n\
        2: FLOCK  ADVISORY  WRITE 11 fe:00:131 0 EOF\n\
        2: -> FLOCK  ADVISORY  WRITE 12 fe:00:131 0 EOF\n\
        3: FLOCK  ADVISORY  READ 13 fe:01:131 0 EOF\n\
        4: FLOCK  ADVISORY  READ 0 fe:00:131 0 EOF\n\
        5: FLOCK\n";

    #[test]
    fn holders_are_found_in_the_table_of_locks() {
        assert_eq!(pids_in(TABLE, Some((0xfe, 0)), 131), [11]);
        assert_eq!(pids_in(TABLE, Some((0xfe, 1)), 131), [13]);
        assert_eq!(pids_in(TABLE, None, 131), [11, 13]);
        assert_eq!(pids_in(TABLE, Some((0xfe, 0)), 132), [0; 0]);
    }

    #[test]
    fn a_lock_of_this_process_is_found_and_refused_to_itself() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "x").unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let (first, second) = (open(), open());
        let Lock::Ours(held) = lock(&first, true).unwrap() else { panic!("nobody has it") };
        for exclusive in [true, false] {
            let Lock::Theirs(holders) = lock(&second, exclusive).unwrap() else {
                panic!("two exclusive locks")
            };
            assert_eq!(holders[0].pid, std::process::id());
            assert!(!holders[0].command.is_empty());
        }
        // Given up although the file stays open.
        drop(held);
        let together = [lock(&second, false).unwrap(), lock(&open(), false).unwrap()];
        assert!(together.iter().all(|lock| matches!(lock, Lock::Ours(_))));
        drop(first);
    }

    #[test]
    fn a_record_is_believed_only_while_its_process_runs() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert_eq!(recorded(&file), None);
        leave_record(&file);
        assert_eq!(recorded(&file), Some(std::process::id()));
        // The same number, but another process: it started at another time.
        let pid = std::process::id();
        let other = encode(pid, start_of(pid).unwrap() + 1, b"other");
        file.write_all_at(&other, HOLDER_OFFSET).unwrap();
        assert_eq!(recorded(&file), None);
        file.write_all_at(&[7; 64], HOLDER_OFFSET).unwrap();
        assert_eq!(recorded(&file), None);
    }
}
