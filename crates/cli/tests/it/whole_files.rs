//! A command that makes a file is killed before each of its system calls that changes something: the
//! file is there as a whole or not at all, and the next run makes it and removes what was left.
//!
//! What was lost: a `repair` that was killed left a pool with a part of the keys under the final name,
//! which `check` called sound. A `create` left a pool that could not be checked.
//!
//! The commands are traced (`ptrace`); where the system does not allow that, nothing is tested.

use crate::common::PoolFolder;
use crate::traced::kill_before;

const KEYS: usize = 40;
/// Of so many changes one is tried, and the others at landings.
const EVERY: usize = 4;

/// Kills a command, whose result is the file `made`, before some of its changes, from this one.
/// `is_whole` judges what is there under the name.
fn kill(from: usize, arguments: &[&str], made: &str, old: bool, is_whole: impl Fn(&PoolFolder)) {
    kill_and_repeat(from, arguments, made, old, &is_whole, &is_whole);
}

/// As [`kill`]; `is_sound` judges what is there behind the kill, and `is_whole` behind the next run.
fn kill_and_repeat(
    from: usize,
    arguments: &[&str],
    made: &str,
    old: bool,
    is_sound: &dyn Fn(&PoolFolder),
    is_whole: &dyn Fn(&PoolFolder),
) {
    let first = PoolFolder::with_pool();
    let lines: String = (0..KEYS).map(|key| format!("{key:04}\tvalue {key}\n")).collect();
    first.run_with(["load", "pool", "-", "--quiet"], lines.as_bytes()).succeeded();
    for at in (from..).step_by(EVERY) {
        let place = PoolFolder::empty();
        place.write("pool", first.read("pool"));
        place.write("lines.tsv", &lines);
        let Some(killed) = kill_before(&mut place.command(arguments), at) else { return };
        if !killed {
            assert!(at > 10, "{arguments:?} changes something");
            return;
        }
        assert!(!old || place.path(made).exists(), "{arguments:?} at {at}: the old one is there");
        let is_there = place.path(made).exists();
        if is_there {
            is_sound(&place);
        }
        let again = place.run(arguments);
        match is_there && !old {
            // It has done it, and was killed behind that.
            true => assert!(again.code == 0 || again.code == 4, "{arguments:?} at {at}"),
            false => assert_eq!(again.code, 0, "{arguments:?} at {at}: {}", again.err),
        }
        is_whole(&place);
        if again.code == 0 {
            let names = std::fs::read_dir(place.path(".")).expect("a folder");
            let left = names.map(|name| name.expect("readable").file_name().into_string());
            let left: Vec<String> = left.map(|name| name.expect("text")).collect();
            let is_known = |name: &String| ["pool", "lines.tsv", made].contains(&name.as_str());
            assert!(left.iter().all(is_known), "{arguments:?} at {at} leaves {left:?}");
        }
    }
}

fn has_all(place: &PoolFolder, pool: &str) {
    let checked = place.run(["check", pool]).succeeded();
    assert!(checked.starts_with("sound: "), "{checked}");
    assert_eq!(place.run(["scan", pool, "--count"]).succeeded(), format!("{KEYS}\n"));
}

#[test]
fn a_killed_repair_leaves_no_pool_that_lacks_keys() {
    kill_repair(0);
}

fn kill_repair(from: usize) {
    kill(from, &["repair", "pool", "made"], "made", false, |place| has_all(place, "made"));
}

#[test]
fn a_killed_backup_is_there_as_a_whole_or_not_at_all() {
    kill_backup(0);
}

fn kill_backup(from: usize) {
    kill(from, &["backup", "pool", "made"], "made", false, |place| has_all(place, "made"));
}

#[test]
fn a_killed_restore_is_there_as_a_whole_or_not_at_all() {
    kill_restore(0);
}

fn kill_restore(from: usize) {
    kill(from, &["restore", "pool", "made"], "made", false, |place| has_all(place, "made"));
}

/// What was reported as loaded stays, so it may have a part of the lines; the next run has them all.
#[test]
fn a_killed_load_leaves_a_sound_pool_and_can_be_repeated() {
    kill_load(0);
}

fn kill_load(from: usize) {
    let load = ["load", "made", "lines.tsv", "--create", "--quiet"];
    let is_sound = |place: &PoolFolder| {
        assert!(place.run(["check", "made"]).succeeded().starts_with("sound: "));
    };
    let is_whole = |place: &PoolFolder| has_all(place, "made");
    kill_and_repeat(from, &load, "made", false, &is_sound, &is_whole);
}

#[test]
fn a_killed_compaction_leaves_the_old_pool_or_the_new() {
    kill_compaction(0);
}

fn kill_compaction(from: usize) {
    kill(from, &["compact", "pool"], "pool", true, |place| has_all(place, "pool"));
}

#[test]
fn a_killed_export_is_there_as_a_whole_or_not_at_all() {
    kill_export(0);
}

fn kill_export(from: usize) {
    kill(from, &["export", "pool", "-o", "made.tsv"], "made.tsv", false, |place| {
        let text = String::from_utf8(place.read("made.tsv")).expect("text");
        assert_eq!(text.lines().count(), KEYS);
    });
}

#[test]
fn a_killed_create_leaves_a_pool_that_can_be_checked() {
    kill_create(0);
}

#[test]
#[ignore = "guards a landing"]
fn landing_the_other_kills_leave_files_as_a_whole_or_not_at_all() {
    for kill in [
        kill_repair,
        kill_backup,
        kill_restore,
        kill_load,
        kill_compaction,
        kill_export,
        kill_create,
    ] {
        (1..EVERY).for_each(kill);
    }
}

fn kill_create(from: usize) {
    kill(from, &["create", "made", "--quiet"], "made", false, |place| {
        assert!(place.run(["check", "made"]).succeeded().starts_with("sound: 0 keys"));
    });
}

/// What was lost: what a pool keeps from others. With umask 022 anybody could read the folder of its log and the files
/// there.
#[test]
fn what_a_command_makes_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--durability", "power", "--quiet"]).succeeded();
    place.run(["put", "pool", "key", "value"]).succeeded();
    place.run(["snapshot", "pool", "--quiet"]).succeeded();
    place.run(["backup", "pool", "copy", "--quiet"]).succeeded();
    place.run(["export", "pool", "-o", "pairs.tsv", "--quiet"]).succeeded();
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    };
    for name in ["pool", "copy", "pairs.tsv"] {
        assert_eq!(mode(&place.path(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&place.path("pool.log")), 0o700);
    let files = std::fs::read_dir(place.path("pool.log")).expect("a folder");
    let files: Vec<_> = files.map(|file| file.expect("readable").path()).collect();
    assert!(files.len() > 3, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// What was lost: `export -o FILE` replaced a link that led to nothing, so what it was to lead to was never made.
#[test]
fn every_command_that_makes_a_file_makes_what_a_link_leads_to() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "key", "value"]).succeeded();
    std::fs::create_dir(place.path("there")).expect("room");
    for arguments in [
        &["export", "pool", "-o", "link"][..],
        &["backup", "pool", "link"],
        &["restore", "pool", "link"],
        &["repair", "pool", "link"],
        &["create", "link"],
        &["load", "link", "pairs.tsv", "--create"],
    ] {
        place.write("pairs.tsv", "key\tvalue\n");
        std::os::unix::fs::symlink("there/made", place.path("link")).expect("room");
        // Twice for those that replace or open what is there.
        let is_new = matches!(arguments[0], "backup" | "restore" | "repair" | "create");
        for round in 0..2 {
            let ended = place.run(arguments);
            let expected = if is_new && round == 1 { 4 } else { 0 };
            assert_eq!(ended.code, expected, "{arguments:?}: {}", ended.err);
            assert!(place.path("link").is_symlink(), "{arguments:?}");
            let made = place.path("there/made").symlink_metadata().expect("it is made there");
            assert!(made.is_file() && made.len() > 0, "{arguments:?}");
            let names = std::fs::read_dir(place.path("there")).expect("a folder").count();
            assert_eq!(names, 1, "{arguments:?} leaves something else");
        }
        std::fs::remove_file(place.path("there/made")).expect("there");
        std::fs::remove_file(place.path("link")).expect("there");
    }
    // A pool that is written anew stays where the link leads.
    std::fs::rename(place.path("pool"), place.path("there/made")).expect("room");
    std::os::unix::fs::symlink("there/made", place.path("link")).expect("room");
    place.run(["compact", "link", "--quiet"]).succeeded();
    assert!(place.path("link").is_symlink());
    assert_eq!(place.run(["get", "there/made", "key"]).succeeded(), "value");
}
