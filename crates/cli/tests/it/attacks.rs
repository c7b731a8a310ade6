//! Attacks on the promise that a file is there as a whole or not at all, and that it is for its owner alone:
//! a limit on the size of files, the widest umask, and pipes that come to lie where files were.

use crate::common::PoolFolder;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const KEYS: usize = 2_000;

fn filled() -> PoolFolder {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--quiet"]).succeeded();
    let lines: String =
        (0..KEYS).map(|key| format!("{key:06}\t{}\n", "v".repeat(key % 900))).collect();
    let _ = place.run_with(["load", "pool", "-", "--quiet"], lines.as_bytes()).succeeded();
    place
}

/// Runs the program in a shell that does something first.
fn run_behind(place: &PoolFolder, first: &str, arguments: &[&str]) -> Output {
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

fn count(place: &PoolFolder, pool: &str) -> usize {
    assert!(place.run(["check", pool]).succeeded().starts_with("sound: "), "{pool}");
    place.run(["scan", pool, "--count"]).succeeded().trim().parse().expect("a number")
}

/// The system lets no file grow beyond a size, and kills a process that tries, or says so.
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
    let place = PoolFolder::empty();
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

/// Runs the program, which has two minutes.
/// Of a umask that takes the owner's permissions the pool had them taken, and could not be opened again.
#[test]
fn a_umask_takes_nothing_from_the_owner() {
    let place = filled();
    for line in ["create new", "backup pool copy", "export pool -o out.tsv"] {
        let words: Vec<&str> = line.split(' ').collect();
        let output = run_behind(&place, "umask 0777", &words);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        let made = words[words.len() - 1];
        let mode = std::fs::metadata(place.path(made)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o600, 0o600, "{line}: {mode:o}");
    }
}

fn run_for_long(place: &PoolFolder, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["120", crate::PROGRAM]).args(arguments);
    command.current_dir(place.path(".")).stdin(Stdio::null()).env_remove("EVERLEAF_POOL");
    let ended = command.output().expect("there is such a program");
    assert!(!matches!(ended.status.code(), None | Some(101 | 124)), "{arguments:?}: {ended:?}");
    ended
}

fn put_pipe_at(path: &Path) {
    std::fs::remove_file(path).expect("there");
    let made = Command::new("mkfifo").arg(path).status().expect("there is such a program");
    assert!(made.success());
}

/// What was lost: a program that read a pool whose log had a pipe in the place of `identity`, `generation`, `reached`
/// or `settings` waited for ever, as did `repair` of a pipe.
#[test]
fn a_pipe_in_the_place_of_a_file_is_waited_for_by_nobody() {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--durability", "power"]).succeeded();
    place.run(["put", "pool", "key", "value", "--quiet"]).succeeded();
    let log = names(&place.path("pool.log"));
    assert!(log.len() >= 5, "{log:?}");
    for name in log {
        for is_lost in [false, true] {
            let copied = Command::new("sh")
                .args(["-c", "rm -rf other && mkdir other && cp -a pool pool.log other"])
                .current_dir(place.path("."))
                .status();
            assert!(copied.expect("there is a shell").success());
            if is_lost {
                std::fs::remove_file(place.path("other/pool")).expect("there");
            }
            put_pipe_at(&place.path(&format!("other/pool.log/{name}")));
            for command in ["get", "check", "create", "snapshot", "get"] {
                let arguments = [command, "other/pool", "key"];
                let count = if command == "get" { 3 } else { 2 };
                let ended = run_for_long(&place, &arguments[..count]);
                if command == "get" && ended.status.success() {
                    assert_eq!(ended.stdout, b"value", "{name}, {is_lost}: {ended:?}");
                }
            }
        }
    }
    put_pipe_at(&place.path("pool"));
    assert!(!run_for_long(&place, &["repair", "pool", "repaired"]).status.success());
    assert_eq!(names(&place.path(".")), ["other", "pool", "pool.log"]);
}

/// What was lost: the pool. `export pool -o pool` put the text in its place and ended with success, and so did an
/// export over any other pool, open or not.
#[test]
fn an_export_takes_the_place_of_no_pool() {
    let place = filled();
    place.run(["backup", "pool", "copy", "--quiet"]).succeeded();
    std::fs::hard_link(place.path("pool"), place.path("hard")).expect("room");
    std::os::unix::fs::symlink("pool", place.path("link")).expect("room");
    // A pool of which the first header is damaged is one all the same.
    let mut damaged = place.read("copy");
    damaged[..64].fill(0);
    place.write("damaged", damaged);
    for to in ["pool", "hard", "link", "copy", "damaged"] {
        let before = place.read(to);
        let ended = place.run(["export", "pool", "-o", to]);
        assert_eq!(ended.code, 4, "{to}: {}", ended.err);
        assert!(ended.err.contains("is an Everleaf pool"), "{}", ended.err);
        assert_eq!(place.read(to), before, "{to}");
    }
    assert_eq!(count(&place, "pool"), KEYS);
    place.write("pairs.tsv", "old");
    place.run(["export", "pool", "-o", "pairs.tsv", "--quiet"]).succeeded();
    assert!(place.read("pairs.tsv").len() > KEYS);
}
