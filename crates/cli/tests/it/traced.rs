//! Commands that are traced (`ptrace`) and killed before one of their system calls, or refused one.

#[cfg(target_arch = "x86_64")]
use crate::common::Ended;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The system calls that change something outside of the process, or say that it is done.
fn is_change(number: i64) -> bool {
    let mut changes = vec![
        libc::SYS_openat,
        libc::SYS_write,
        libc::SYS_pwrite64,
        libc::SYS_fallocate,
        libc::SYS_ftruncate,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_flock,
        libc::SYS_linkat,
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_mkdirat,
        libc::SYS_fchmod,
        libc::SYS_exit_group,
    ];
    #[cfg(target_arch = "x86_64")]
    changes.extend([
        libc::SYS_open,
        libc::SYS_link,
        libc::SYS_unlink,
        libc::SYS_rename,
        libc::SYS_mkdir,
        libc::SYS_rmdir,
    ]);
    changes.contains(&number)
}

/// The number of the system call that the process is about to do; `None` behind one.
fn call_of(pid: i32) -> Option<i64> {
    // PTRACE_GET_SYSCALL_INFO: a byte that is 1 before a call, and the number at byte 24.
    let mut info = [0_u8; 88];
    // SAFETY: the kernel writes at most the length that it is told, into memory of ours.
    let size = unsafe { libc::ptrace(0x420e, pid, info.len(), info.as_mut_ptr()) };
    let number = info[24..32].try_into().expect("eight bytes");
    (size > 24 && info[0] == 1).then(|| i64::from_ne_bytes(number))
}

/// Goes on to the next system call, or from it; false if the process has ended.
fn step(pid: i32) -> bool {
    step_or_end(pid).is_none()
}

/// As [`step`]; the status of a process that has ended.
fn step_or_end(pid: i32) -> Option<i32> {
    let mut status = -1;
    // SAFETY: a request without memory, about a child that stands still.
    if unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, 0) } != 0 {
        return Some(status);
    }
    // SAFETY: the status is ours.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    (waited != pid || !libc::WIFSTOPPED(status)).then_some(status)
}

/// Starts a command that stands still before its first instruction; `None` if that is not allowed.
fn traced(command: &mut Command) -> Option<Child> {
    let trace_me = || {
        // SAFETY: a system call without memory.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec there is that system call and nothing else.
    unsafe { command.pre_exec(trace_me) };
    let child = command.spawn().ok()?;
    let (pid, mut status) = (child.id() as i32, 0);
    // SAFETY: the status is ours.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    // So that the kernel tells stops at system calls from others.
    // SAFETY: a request without memory, about a child that stands still.
    let set = unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::PTRACE_O_TRACESYSGOOD) };
    (waited == pid && libc::WIFSTOPPED(status) && set == 0).then_some(child)
}

/// The file that a call which brings a file to the disk is about; `None` if it is another call, or behind one.
fn synced_file(pid: i32) -> Option<PathBuf> {
    let mut info = [0_u8; 88];
    // SAFETY: the kernel writes at most the length that it is told, into memory of ours.
    let size = unsafe { libc::ptrace(0x420e, pid, info.len(), info.as_mut_ptr()) };
    let word = |at: usize| i64::from_ne_bytes(info[at..at + 8].try_into().expect("eight bytes"));
    let is_entry = size > 32 && info[0] == 1;
    let syncs = is_entry && [libc::SYS_fsync, libc::SYS_fdatasync].contains(&word(24));
    syncs.then(|| std::fs::read_link(format!("/proc/{pid}/fd/{}", word(32))).ok())?
}

/// Runs a command until `is_over`, and kills it there. Returns whether it brought this file to the disk before; `None`
/// if processes cannot be traced here.
pub fn syncs_before(
    command: &mut Command,
    file: &Path,
    is_over: impl Fn() -> bool,
) -> Option<bool> {
    let mut child = traced(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let pid = child.id() as i32;
    let mut synced = false;
    while step(pid) {
        if is_over() {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
            return Some(synced);
        }
        synced |= synced_file(pid).is_some_and(|found| found == file);
    }
    panic!("it ended before");
}

/// Runs a command and kills it before its change number `at`; whether it came so far. `None` if
/// processes cannot be traced here.
pub fn kill_before(command: &mut Command, at: usize) -> Option<bool> {
    let mut child = traced(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let (pid, mut count) = (child.id() as i32, 0);
    while step(pid) {
        if !call_of(pid).is_some_and(is_change) {
            continue;
        }
        if count == at {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
            return Some(true);
        }
        count += 1;
    }
    Some(false)
}

/// Runs a command whose main thread is refused the calls of these numbers among those named, with this error of the
/// system. How it ended, if it came so far; otherwise, and where processes cannot be traced so, `None`.
#[cfg(target_arch = "x86_64")]
pub fn refuse(
    command: &mut Command,
    calls: &[i64],
    refused: std::ops::Range<usize>,
    error: i32,
) -> Option<Ended> {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{ExitStatus, Output};
    // What it says is short, and fits into the pipes.
    let mut child = traced(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let (pid, mut count) = (child.id() as i32, 0);
    let status = loop {
        if let Some(status) = step_or_end(pid) {
            break status;
        }
        if !call_of(pid).is_some_and(|call| calls.contains(&call)) {
            continue;
        }
        if refused.contains(&count) {
            // No call has this number, so that the kernel does nothing.
            change_registers(pid, |registers| registers.orig_rax = u64::MAX);
            assert!(step(pid), "it comes back from the call");
            change_registers(pid, |registers| registers.rax = i64::from(-error).cast_unsigned());
        }
        count += 1;
    };
    let (mut stdout, mut stderr) = (vec![], vec![]);
    child.stdout.take()?.read_to_end(&mut stdout).expect("a pipe of ours");
    child.stderr.take()?.read_to_end(&mut stderr).expect("a pipe of ours");
    (count > refused.start)
        .then(|| Output { status: ExitStatus::from_raw(status), stdout, stderr }.into())
}

#[cfg(target_arch = "x86_64")]
fn change_registers(pid: i32, change: impl FnOnce(&mut libc::user_regs_struct)) {
    let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: the kernel writes all of the registers of a child that stands still into memory of ours.
    let got = unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0, registers.as_mut_ptr()) };
    assert_eq!(got, 0, "it stands still");
    // SAFETY: they were just written.
    let mut registers = unsafe { registers.assume_init() };
    change(&mut registers);
    // SAFETY: the kernel reads them.
    let set = unsafe { libc::ptrace(libc::PTRACE_SETREGS, pid, 0, &raw const registers) };
    assert_eq!(set, 0, "it stands still");
}
