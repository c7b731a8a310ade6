//! Commands that have too few file descriptors, or that one system call is refused: what they say they did is done, and
//! what they did not do costs nothing.

use crate::common::{Ended, PoolFolder};
#[cfg(target_arch = "x86_64")]
use crate::traced::refuse;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// What a program ends with that cannot be loaded.
const NOT_LOADED: i32 = 127;
/// More descriptors than any of these commands has open at a time.
const ENOUGH: usize = 24;

/// A pool whose process was killed, with a key in it.
fn killed(durability: &str) -> PoolFolder {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--durability", durability, "--quiet"]).succeeded();
    place.run(["put", "pool", "old", "value", "--quiet"]).succeeded();
    let mut command = place.command(["load", "pool", "-", "--quiet"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the binary runs");
    // It waits for its input, and has the pool. A test that looked by opening it would keep it from that.
    let inode = format!(":{} ", std::fs::metadata(place.path("pool")).expect("there").ino());
    let has_lock = || std::fs::read_to_string("/proc/locks").expect("Linux").contains(&inode);
    while !has_lock() {
        assert!(child.try_wait().expect("it is ours").is_none(), "it ended without the pool");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    place
}

/// Runs the program with so few descriptors.
fn run_with(place: &PoolFolder, descriptors: usize, arguments: &[&str]) -> Ended {
    let mut command = Command::new("sh");
    let first = format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"");
    command.args(["-c", &first, crate::PROGRAM]).args(arguments);
    command.current_dir(place.path(".")).stdin(Stdio::null()).env_remove("EVERLEAF_POOL");
    command.output().expect("there is a shell").into()
}

/// What was lost: a pool whose process was killed. A process that had no descriptor left for the kernel's boot id took
/// every boot for another one: the pool was refused as after a crash of the machine, by the one that opened it and, if
/// that one died, by all later ones.
#[test]
fn too_few_descriptors_are_not_taken_for_a_crash_of_the_machine() {
    too_few_descriptors_cost_nothing("process", 3..14);
}

#[test]
#[ignore = "guards a landing"]
fn landing_too_few_descriptors_cost_nothing() {
    for durability in ["process", "interval", "power"] {
        too_few_descriptors_cost_nothing(durability, 3..ENOUGH);
    }
}

fn too_few_descriptors_cost_nothing(durability: &str, limits: std::ops::Range<usize>) {
    let first = killed(durability);
    for descriptors in limits {
        let place = first.copy();
        for arguments in [&["get", "pool", "old"][..], &["put", "pool", "new", "value"]] {
            let ended = run_with(&place, descriptors, arguments);
            let what = format!("{durability}, {descriptors}: {arguments:?}: {}", ended.err);
            assert!(matches!(ended.code, 0 | 7 | NOT_LOADED), "{what}");
            assert!(!ended.err.contains("started anew"), "{what}");
            let limit = format!("(`ulimit -n`, which is {descriptors} now)");
            assert!(ended.code != 7 || ended.err.contains(&limit), "{what}");
            if ended.code == 0 {
                place.run(["get", "pool", arguments[2]]).succeeded();
            }
        }
        assert_eq!(place.run(["get", "pool", "old"]).succeeded(), "value");
        assert!(place.run(["check", "pool"]).succeeded().starts_with("sound: "));
    }
}

/// What nobody was told: where the system does not tell its boots apart, the death of the process that has the pool
/// looks like a crash of the machine.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_system_that_does_not_tell_its_boots_is_warned_of_once() {
    let place = PoolFolder::with_pool();
    let mut warned = 0;
    for at in 0.. {
        let mut put = place.command(["put", "pool", "key", "value"]);
        let ended = refuse(&mut put, &[libc::SYS_openat], at..at + 1, libc::EACCES);
        let Some(ended) = ended else {
            // Processes cannot be traced here.
            if at == 0 { return } else { break }
        };
        let count = ended.err.matches("the system does not say when it was started").count();
        assert!(count == 0 || count == 1 && ended.code == 0, "{at}: {}", ended.err);
        warned += count;
    }
    assert_eq!(warned, 1, "the file of the boot is opened once");
    place.run(["put", "pool", "key", "value"]).succeeded();
}

/// What was left: the folder in which a new pool is made, if it could not be locked.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_folder_that_cannot_be_locked_does_not_stay() {
    let mut refused = 0;
    for call in [libc::SYS_flock, libc::SYS_chmod] {
        for at in 0.. {
            let place = PoolFolder::empty();
            let mut create = place.command(["create", "pool", "--quiet"]);
            let Some(ended) = refuse(&mut create, &[call], at..at + 1, libc::ENOLCK) else {
                // Processes cannot be traced here.
                if at == 0 { return } else { break }
            };
            refused += usize::from(ended.code != 0);
            let names: Vec<_> = std::fs::read_dir(place.path("."))
                .expect("a folder")
                .map(|entry| entry.expect("there").file_name())
                .filter(|name| name != "pool")
                .collect();
            assert!(names.is_empty(), "{call}, {at}: {names:?} stayed: {}", ended.err);
        }
    }
    assert!(refused >= 2, "neither permissions nor a lock of the folder were refused");
}

/// What was lost: a pool. Where it could not be looked at what is there, an export replaced it.
#[cfg(target_arch = "x86_64")]
#[test]
fn an_export_takes_the_place_of_no_pool_that_it_cannot_read() {
    let place = PoolFolder::with_pool();
    place.run(["create", "other", "--quiet"]).succeeded();
    place.run(["put", "other", "key", "value", "--quiet"]).succeeded();
    let before = place.read("other");
    for at in 0.. {
        let mut export = place.command(["export", "pool", "-o", "other"]);
        let refused = at..at + 1;
        let ended = refuse(&mut export, &[libc::SYS_openat], refused, libc::EACCES);
        let Some(ended) = ended else { break };
        assert!(matches!(ended.code, 4 | 7 | NOT_LOADED), "{at}: {}", ended.err);
        assert!(place.read("other") == before, "{at}: {}", ended.err);
    }
}

/// What was lost: keys, and nobody was told. What a bad disk did not give back was passed over, in a pool that was not
/// closed with code 0; and with one page of it all that was to be read together with it.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_repair_tells_what_it_cannot_read_and_takes_the_rest() {
    is_told_by_repair(&killed("process"), 2, 4);
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "guards a landing"]
fn landing_a_repair_tells_what_it_cannot_read_of_any_pool() {
    let closed = PoolFolder::with_pool();
    closed.run(["put", "pool", "old", "value", "--quiet"]).succeeded();
    for first in [closed, killed("process")] {
        is_told_by_repair(&first, 8, 12);
    }
}

/// As many readings are refused, at equal distances, and as many at the end.
#[cfg(target_arch = "x86_64")]
fn is_told_by_repair(first: &PoolFolder, spread: usize, last: usize) {
    let repair = |refused| {
        let place = first.copy();
        let mut repair = place.command(["repair", "pool", "made"]);
        let ended = refuse(&mut repair, &[libc::SYS_pread64], refused, libc::EIO);
        ended.map(|ended| (place, ended))
    };
    // How many readings there are. Most are of the directory; leaves and records come last.
    let (mut some, mut count) = (0_usize, 1_usize << 14);
    while some + 1 < count {
        let middle = some.midpoint(count);
        match repair(middle..middle + 1) {
            Some(_) => some = middle,
            None => count = middle,
        }
    }
    for at in (0..count).step_by(count / spread + 1).chain(count.saturating_sub(last)..count) {
        for calls in [1, 2] {
            let Some((place, ended)) = repair(at..at + calls) else { return };
            let what = format!("{at} of {count}, {calls}: {}{}", ended.text(), ended.err);
            let got = || place.run(["get", "made", "old"]);
            match ended.code {
                0 => assert_eq!(got().succeeded(), "value", "{what}"),
                NOT_LOADED => {}
                // The new one could not be read.
                7 => assert!(!place.path("made").exists(), "{what}"),
                1 => assert!(calls == 2 && ended.text().contains("cannot be read"), "{what}"),
                _ => panic!("{what}"),
            }
        }
    }
}

/// What was lost: the old file, though it was said that no new one could be written. Its folder was opened, to make the
/// new name durable, when that was there already; a process that has no descriptor left, or may not read the folder,
/// was refused that.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_could_not_be_made_for_want_of_a_descriptor_is_not_there() {
    let first = PoolFolder::with_pool();
    first.run(["put", "pool", "key", "value", "--quiet"]).succeeded();
    for arguments in [&["export", "pool", "-o", "made"][..], &["backup", "pool", "made"]] {
        is_made_or_is_not_there(&first, arguments);
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "guards a landing"]
fn landing_what_could_not_be_restored_or_repaired_is_not_there() {
    let first = PoolFolder::with_pool();
    first.run(["put", "pool", "key", "value", "--quiet"]).succeeded();
    for arguments in [["restore", "pool", "made"], ["repair", "pool", "made"]] {
        is_made_or_is_not_there(&first, &arguments);
    }
}

#[cfg(target_arch = "x86_64")]
fn is_made_or_is_not_there(first: &PoolFolder, arguments: &[&str]) {
    for at in 0.. {
        let place = first.copy();
        let refused = at..at + 1;
        let ended =
            refuse(&mut place.command(arguments), &[libc::SYS_openat], refused, libc::EMFILE);
        let Some(ended) = ended else { break };
        assert!(at < 1_000, "it ends");
        let is_made = place.path("made").exists();
        let what = format!("{arguments:?}, {at}: {}: {}", ended.code, ended.err);
        assert_eq!(is_made, ended.code == 0, "{what}");
        assert!(!ended.err.contains("panicked"), "{what}");
        if !is_made {
            place.run([arguments, &["--quiet"]].concat()).succeeded();
        }
    }
}

/// What was lost: acknowledged writes. What tells that a pool is an older copy, put back in its place, was taken
/// for absent if it could not be read.
#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "guards a landing"]
fn landing_an_older_copy_is_refused_whatever_cannot_be_read() {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--durability", "power", "--quiet"]).succeeded();
    place.write("older", place.read("pool"));
    place.run(["put", "pool", "key", "value", "--quiet"]).succeeded();
    place.write("pool", place.read("older"));
    assert!(place.run(["check", "pool"]).failed(4).contains("is older than its log"));
    // Two notes tell it, one read behind the other.
    for at in 0.. {
        let mut check = place.command(["check", "pool"]);
        let opens = [libc::SYS_openat, libc::SYS_open];
        let refused = refuse(&mut check, &opens, at..at + 2, libc::EMFILE);
        let Some(ended) = refused else { break };
        let what = format!("{at}: {}: {}", ended.code, ended.err);
        assert!(matches!(ended.code, 4 | 7 | NOT_LOADED), "{what}");
    }
}
