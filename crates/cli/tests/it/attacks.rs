//! Attacks on the promise that a file is there as a whole or not at all, and that it is for its owner alone:
//! a limit on the size of files, and the widest umask.

use crate::common::Place;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const KEYS: usize = 2_000;

fn filled() -> Place {
    let place = Place::empty();
    place.run(["create", "pool", "--quiet"]).succeeded();
    let lines: String =
        (0..KEYS).map(|key| format!("{key:06}\t{}\n", "v".repeat(key % 900))).collect();
    let _ = place.run_with(["load", "pool", "-", "--quiet"], lines.as_bytes()).succeeded();
    place
}

/// Runs the program in a shell that does something first.
fn run_behind(place: &Place, first: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{first}; exec \"$0\" \"$@\""), crate::PROGRAM]).args(arguments);
    command.current_dir(place.path(".")).stdin(Stdio::null()).env_remove("EVERLEAF_POOL");
    command.output().expect("there is a shell")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("readable").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

fn count(place: &Place, pool: &str) -> usize {
    assert!(place.run(["check", pool]).succeeded().starts_with("sound: "), "{pool}");
    place.run(["scan", pool, "--count"]).succeeded().trim().parse().expect("a number")
}

/// The system lets no file grow beyond a size, and kills who tries, or says so.
#[test]
fn a_limit_on_the_size_of_files_leaves_no_half_of_one() {
    let place = filled();
    place.run(["backup", "pool", "copy", "--quiet"]).succeeded();
    let whole = place.run(["scan", "pool"]).succeeded();
    for trap in ["trap '' XFSZ", "true"] {
        // In blocks of 512 bytes: the pools have a megabyte and more.
        for blocks in [0, 1, 8, 300, 1000, 2040] {
            let limit = format!("{trap}; ulimit -c 0; ulimit -f {blocks}");
            for arguments in [
                &["backup", "pool", "made"][..],
                &["restore", "copy", "made"],
                &["repair", "pool", "made"],
                &["export", "pool", "-o", "made"],
                &["create", "made"],
            ] {
                let ended = run_behind(&place, &limit, arguments);
                let what = format!("{limit}: {arguments:?}: {ended:?}");
                assert_ne!(ended.status.code(), Some(101), "{what}");
                let is_made = place.path("made").exists();
                assert_eq!(is_made, ended.status.success(), "{what}");
                if is_made {
                    match arguments[0] {
                        "export" => assert_eq!(String::from_utf8_lossy(&place.read("made")), whole),
                        "create" => assert_eq!(count(&place, "made"), 0, "{what}"),
                        _ => assert_eq!(count(&place, "made"), KEYS, "{what}"),
                    }
                    std::fs::remove_file(place.path("made")).expect("there");
                }
                // The next removes what is left of one that was killed.
                place.run([arguments, &["--quiet"]].concat()).succeeded();
                std::fs::remove_file(place.path("made")).expect("it is made");
                assert_eq!(names(&place.path(".")), ["copy", "pool"], "{what}");
            }
            let ended = run_behind(&place, &limit, &["compact", "copy", "--quiet"]);
            assert_ne!(ended.status.code(), Some(101), "{limit}: {ended:?}");
            assert_eq!(count(&place, "copy"), KEYS, "{limit}");
        }
    }
}

/// All files below a folder.
fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        found.push(path.clone());
        if path.is_dir() {
            files(&path, found);
        }
    }
}

/// The umask takes nothing away: what is made is for its owner alone all the same, also what later lives
/// make, and what is put aside.
#[test]
fn with_no_umask_everything_is_for_its_owner_alone() {
    let place = Place::empty();
    let run = |arguments: &[&str]| {
        let ended = run_behind(&place, "umask 000", arguments);
        assert!(ended.status.success(), "{arguments:?}: {ended:?}");
    };
    run(&["create", "pool", "--durability", "power"]);
    run(&["put", "pool", "key", "value"]);
    for _ in 0..3 {
        run(&["snapshot", "pool"]);
    }
    run(&["compact", "pool"]);
    run(&["backup", "pool", "copy"]);
    run(&["repair", "copy", "repaired"]);
    run(&["restore", "copy", "restored"]);
    run(&["export", "pool", "-o", "pairs.csv"]);
    // Something that is no pool is kept, and the pool is rebuilt from its log.
    place.write("pool", "no pool at all");
    std::fs::set_permissions(place.path("pool"), std::fs::Permissions::from_mode(0o600))
        .expect("ours");
    run(&["put", "pool", "other", "value"]);
    assert!(place.path("pool.no-pool").exists());
    let mut found = vec![];
    files(&place.path("."), &mut found);
    assert!(found.len() > 10, "{found:?}");
    for path in found {
        let mode = path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}
