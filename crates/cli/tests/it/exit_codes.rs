//! Each class of error has its code and says what to do. (Codes 2 and 3: `help.rs`, `loading.rs`.)

use crate::common::{Ended, PoolFolder, size_of};
use std::fs::OpenOptions;
use std::process::{Command, Stdio};

#[test]
fn a_pool_that_is_not_there_is_code_4() {
    let place = PoolFolder::empty();
    for arguments in [
        &["get", "none", "a"][..],
        &["put", "none", "a", "b"],
        &["del", "none", "a"],
        &["scan", "none"],
        &["export", "none"],
        &["stat", "none"],
        &["check", "none"],
        &["maps", "none"],
        &["load", "none", "-"],
        &["serve", "none", "--port", "0", "--create-if-missing", "no"],
    ] {
        let sentence = place.run(arguments).failed(4);
        assert!(sentence.contains("none") && sentence.contains("create"), "{sentence}");
        assert!(!place.path("none").exists(), "{arguments:?} creates nothing");
    }
}

#[test]
fn what_cannot_be_created_is_named_with_the_remedy() {
    let place = PoolFolder::empty();
    let sentence = place.run(["create", "pool", "--max-size", "100K"]).failed(6);
    assert!(
        sentence.contains("maximum size 128 KiB is too small for pool pool")
            && sentence.contains("needs 512 KiB")
            && sentence.contains("--max-size"),
        "{sentence}"
    );
    let sentence = place.run(["create", "no/folder/pool"]).failed(7);
    assert!(sentence.contains("create the folder no/folder first"), "{sentence}");
    let sentence = place.run(["create", "pool", "--size", "2M", "--max-size", "1M"]).failed(2);
    assert!(sentence.contains("--size 2 MiB is above --max-size 1 MiB"), "{sentence}");
    let sentence = place.run(["create", "pool", "--max-size", "64T"]).failed(2);
    assert!(sentence.contains("one has 1 TiB at most"), "{sentence}");
    let sentence = place.run(["restore", "copy", "pool"]).failed(4);
    assert!(sentence.contains("there is no backup at copy"), "{sentence}");
}

/// A log that may not grow was code 7, unless the system's signal ended the process before it could say anything.
#[test]
fn a_log_that_may_not_grow_is_code_6() {
    // In blocks of 512 bytes: the pool fits, and a segment of the log does not.
    for trap in ["trap '' XFSZ", "true"] {
        let place = PoolFolder::empty();
        let script = format!("{trap}; ulimit -c 0; ulimit -f 20000; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, crate::PROGRAM, "create", "pool", "--durability", "power"]);
        command.current_dir(place.path(".")).env_remove("EVERLEAF_POOL");
        let output = command.output().expect("there is a shell");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{trap}: {told}");
        assert!(told.contains("raise the limit on file sizes"), "{told}");
        let left = std::fs::read_dir(place.path(".")).expect("a folder").count();
        assert_eq!(left, 0, "neither the pool nor its log is there");
    }
}

/// The backup for the standard output was made beside the pool, and nowhere else.
#[test]
fn a_backup_to_the_standard_output_needs_one_folder_to_write_in() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "a", "1"]).succeeded();
    // In the way of the file beside the pool, for which nobody has the place then.
    place.write(".pool.stream-0.everleaf-new", "of somebody else");
    let mut command = place.command(["backup", "pool", "-"]);
    let output = command.env("TMPDIR", "/none/such").output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(7) && told.contains("TMPDIR"), "{told}");
    std::fs::create_dir(place.path("room")).expect("room");
    let mut command = place.command(["backup", "pool", "-"]);
    let output = command.env("TMPDIR", place.path("room")).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place.write("copy", output.stdout);
    assert_eq!(place.run(["get", "copy", "a"]).succeeded(), "1");
    assert_eq!(std::fs::read_dir(place.path("room")).expect("there").count(), 0);
}

/// `--json` chose no format, and the standard output had TSV; keys alone were written so that `load` passed one over.
#[test]
fn an_export_for_machines_is_json_and_loses_no_key() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "", "of the empty key"]).succeeded();
    place.run(["put", "pool", "a", "1"]).succeeded();
    let lines = place.run(["export", "pool", "--json"]).succeeded();
    let pairs: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("it is an object")).collect();
    assert!(pairs.len() == 2 && pairs[1]["key"] == "a" && pairs[1]["value"] == "1", "{lines}");
    assert!(
        place.run(["export", "pool", "--json", "--format", "tsv"]).succeeded().contains("a\t1")
    );
    let sentence = place.run(["export", "pool", "--keys-only"]).failed(7);
    assert!(sentence.contains("the empty key") && sentence.contains("jsonl"), "{sentence}");
    place.run(["export", "pool", "--keys-only", "--format", "csv"]).succeeded();
    place.run(["del", "pool", ""]).succeeded();
    assert_eq!(place.run(["export", "pool", "--keys-only"]).succeeded(), "a\n");
}

#[test]
fn a_pool_that_is_there_is_not_created_again() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "a", "1"]).succeeded();
    assert!(place.run(["create", "pool"]).failed(4).contains("exists"));
    assert_eq!(place.run(["get", "pool", "a"]).succeeded(), "1");
}

#[test]
fn a_foreign_file_is_code_4_and_stays_as_it_is() {
    let place = PoolFolder::empty();
    let text = "just some text\n".repeat(10_000);
    place.write("file", &text);
    for arguments in [&["scan", "file"][..], &["put", "file", "a", "b"], &["check", "file"]] {
        let sentence = place.run(arguments).failed(4);
        assert!(sentence.contains("file"), "{sentence}");
    }
    assert_eq!(place.read("file"), text.as_bytes());
}

#[test]
fn a_truncated_pool_is_code_4() {
    let place = PoolFolder::with_pool();
    place.run_with(["load", "pool", "-"], b"a\t1\nb\t2\n").succeeded();
    let size = size_of(&place.path("pool"));
    let file = OpenOptions::new().write(true).open(place.path("pool")).unwrap();
    file.set_len(size / 2).unwrap();
    place.run(["get", "pool", "a"]).failed(4);
    file.set_len(3).unwrap();
    place.run(["get", "pool", "a"]).failed(4);
}

#[test]
fn a_pool_in_use_is_code_5() {
    let place = PoolFolder::with_pool();
    let store = everleaf::Options::new().open(place.path("pool")).unwrap();
    for arguments in [&["put", "pool", "a", "1"][..], &["get", "pool", "a"], &["check", "pool"]] {
        let sentence = place.run(arguments).failed(5);
        assert!(sentence.contains("pool"), "{sentence}");
    }
    store.close().unwrap();
    place.run(["put", "pool", "a", "1"]).succeeded();
}

#[test]
fn a_full_pool_is_code_6_and_keeps_what_was_acknowledged() {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--size", "16M", "--max-size", "16M"]).succeeded();
    let value = "v".repeat(1000);
    let input: String = (0..64_000).map(|key| format!("{key:06}\t{value}\n")).collect();
    let ended = place.run_with(["load", "pool", "-", "--threads", "1", "--json"], input.as_bytes());
    assert_eq!(ended.code, 6, "{}", ended.err);
    let report: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
    let lines = report["lines"].as_u64().unwrap();
    assert!(lines > 0 && lines < 64_000, "{report}");
    let error: serde_json::Value = serde_json::from_str(&ended.err).unwrap();
    let sentence = error["error"].as_str().unwrap();
    assert!(sentence.starts_with(&format!("stdin:{}: ", lines + 1)), "{sentence}");
    assert_eq!(place.run(["scan", "pool", "--count"]).succeeded(), format!("{lines}\n"));
    assert_eq!(place.run(["get", "pool", "000000"]).succeeded(), value);
    assert_eq!(place.run(["del", "pool", "000000"]).succeeded(), "removed 1\n");
}

#[test]
fn what_the_system_refuses_is_code_7() {
    let place = PoolFolder::with_pool();
    place.write("file", "");
    assert!(place.run(["create", "file/pool"]).failed(7).contains("file/pool"));
    assert!(place.run(["load", "pool", "/tmp", "--format", "tsv"]).failed(7).contains("/tmp"));
}

#[test]
fn a_full_disk_under_the_output_is_code_6() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "a", "1"]).succeeded();
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else { return };
    let output = place.command(["scan", "pool"]).stdout(full).output().unwrap();
    assert!(Ended::from(output).failed(6).contains("cannot write the output"));
    let sentence = place.run(["export", "pool", "--output", "/dev/full"]).failed(6);
    assert!(sentence.starts_with("cannot write /dev/full: "), "{sentence}");
}

#[test]
fn with_json_every_error_is_an_object() {
    let place = PoolFolder::with_pool();
    for (arguments, code) in [
        (&["get", "pool", "none", "--json"][..], 1),
        (&["frobnicate", "--json"], 2),
        (&["get", "pool", "--json"], 2),
        (&["--json", "scan", "none"], 4),
        (&["--json", "load", "pool", "none.tsv"], 7),
    ] {
        let ended = place.run(arguments);
        assert_eq!(ended.code, code, "{}", ended.err);
        let error: serde_json::Value = serde_json::from_str(&ended.err).unwrap();
        assert_eq!(error["code"], code);
        assert!(error["error"].as_str().unwrap().len() > 10);
    }
}

/// A path that is no UTF-8 had no JSON: `check` printed no report at all.
#[test]
fn a_check_of_a_folder_that_is_no_text_has_its_report() {
    use std::os::unix::ffi::OsStrExt;
    let place = PoolFolder::empty();
    let folder = place.path(".").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&folder).expect("any name will do");
    let pool = folder.join("pool");
    let run = |words: &[&str]| {
        let mut command = place.command([words[0]]);
        Ended::from(command.arg(&pool).args(&words[1..]).output().expect("it runs"))
    };
    run(&["create", "--durability", "power"]).succeeded();
    std::fs::write(folder.join("pool.log/damaged-log-0000000000000003"), "what was put aside")
        .expect("room");
    let report = run(&["check", "--json"]).json();
    let aside = report["put_aside"][0].as_str().expect("a path");
    assert!(aside.ends_with("/pool.log/damaged-log-0000000000000003"), "{aside}");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_in_silence() {
    let place = PoolFolder::with_pool();
    let value = "v".repeat(100);
    let input: String = (0..50_000).map(|key| format!("{key}\t{value}\n")).collect();
    place.run_with(["load", "pool", "-"], input.as_bytes()).succeeded();
    for (arguments, code) in [
        (&["scan", "pool"][..], 0),
        (&["scan", "pool", "--json"], 0),
        // A copy in part is none.
        (&["export", "pool"], 7),
        (&["export", "pool", "--format", "csv"], 7),
        (&["export", "pool", "--format", "resp"], 7),
        (&["backup", "pool", "-"], 7),
    ] {
        let mut command = place.command(arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // More than a pipe holds is still to be written when its reader goes away.
        drop(child.stdout.take());
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.err);
        assert_eq!(ended.err.contains("went away before its end"), code == 7, "{}", ended.err);
        assert_eq!(ended.err.is_empty(), code == 0, "{}", ended.err);
    }
}

/// A reader that went away made of a damaged pool one that is sound, if what is damaged takes more than a pipe holds.
#[test]
fn a_damaged_pool_is_told_also_when_the_reader_goes_away() {
    let place = PoolFolder::with_pool();
    let input: String = (0..3_000).map(|key| format!("{key}\t{}\n", "MARK".repeat(30))).collect();
    place.run_with(["load", "pool", "-"], input.as_bytes()).succeeded();
    let mut bytes = std::fs::read(place.path("pool")).unwrap();
    let marks: Vec<usize> =
        (0..bytes.len() - 4).filter(|at| &bytes[*at..at + 4] == b"MARK").collect();
    marks.iter().for_each(|at| bytes[*at] = b'N');
    std::fs::write(place.path("pool"), bytes).unwrap();
    for arguments in
        [&["check", "pool"][..], &["check", "pool", "--json"], &["repair", "pool", "new"]]
    {
        let mut command = place.command(arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!(ended.code, 1, "{arguments:?}: {}", ended.err);
    }
}

/// What was wrong: a closed standard output was not told from an empty one, and everything ended with 0.
#[test]
fn what_is_printed_to_a_closed_output_is_code_7() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "a", "1"]).succeeded();
    let run = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" {line} >&-"), crate::PROGRAM]);
        command.current_dir(place.path(".")).env_remove("EVERLEAF_POOL");
        Ended::from(command.stdin(Stdio::null()).output().expect("there is a shell"))
    };
    for line in [
        "get pool a",
        "scan pool",
        "scan pool --count",
        "export pool",
        "export pool --format resp",
        "export pool -o file",
        "backup pool -",
        "backup pool copy",
        "stat pool",
        "check pool",
        "maps pool",
        "create other",
        "del pool a",
        "man",
        "completions bash",
        "--help",
        "get --help",
        "--version",
    ] {
        let sentence = run(line).failed(7);
        assert!(sentence.contains("cannot write the output"), "{line}: {sentence}");
    }
    // A command that has nothing to say is not asked, and the null device takes everything.
    assert_eq!(run("put pool b 2 --quiet").code, 0);
    for mode in [(false, true), (true, true)] {
        let null = OpenOptions::new().read(mode.0).write(mode.1).open("/dev/null").expect("there");
        let status = place.command(["scan", "pool"]).stdout(null).status().expect("it runs");
        assert!(status.success());
    }
}

/// What stayed: `create x/` made `x`, and could not open it; and a log that cannot be made left a pool that has none.
#[test]
fn a_pool_that_cannot_be_created_as_a_whole_is_not_there() {
    let place = PoolFolder::empty();
    let names = || {
        let entries = std::fs::read_dir(place.path(".")).expect("a folder");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("readable").file_name()).collect();
        names.sort();
        names
    };
    for name in ["x/", "x/.", "./x//"] {
        let sentence = place.run(["create", name]).failed(7);
        assert!(sentence.contains("as that of a folder"), "{name}: {sentence}");
        assert_eq!(names().len(), 0, "{name}: {:?}", names());
    }
    place.write("pool.log", "a file of somebody else");
    place.run(["create", "pool", "--durability", "power"]).failed(7);
    assert_eq!(names(), ["pool.log"]);
    assert_eq!(place.read("pool.log"), b"a file of somebody else");
    std::fs::remove_file(place.path("pool.log")).expect("it is there");
    place.run(["create", "pool"]).succeeded();
    for line in ["backup pool y/", "export pool -o y/", "repair pool y/", "restore pool y/"] {
        place.run(line.split(' ')).failed(7);
        assert_eq!(names(), ["pool"], "{line}");
    }
}

#[test]
fn a_damaged_collection_is_code_1_and_named() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "a", "1"]).succeeded();
    let store = everleaf::Options::new().open(place.path("pool")).unwrap();
    let members = store.map("server.members").unwrap();
    members.put(b"\0\0\0\0\0\0\0\0mark", [7; 16]).unwrap();
    members.put([9; 20], "").unwrap();
    drop(members);
    store.close().unwrap();
    let sentence = place.run(["check", "pool"]).failed(1);
    assert!(sentence.contains("1 problem in the collections of"), "{sentence}");
    // Beside a damaged copy of what is kept twice they are checked all the same.
    let mut bytes = place.read("pool");
    bytes[20] ^= 0x40;
    place.write("pool", &bytes);
    let sentence = place.run(["check", "pool"]).failed(1);
    assert!(sentence.contains("1 problem in the collections of"), "{sentence}");
}

/// What was not told: the other copy serves, so `check` said "sound".
#[test]
fn a_damaged_copy_of_what_is_kept_twice_is_code_1() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "a", "1"]).succeeded();
    // Of the header, the session record, the counter of ids and the seal; then of their second copies.
    let first = [20, 256 + 20, 512 + 1, 768 + 9];
    for offset in first.into_iter().chain(first.map(|offset| 4096 + offset)) {
        let mut bytes = place.read("pool");
        bytes[offset] ^= 0x40;
        place.write("pool", &bytes);
        let checked = place.run(["check", "pool"]);
        assert!(checked.text().contains(" of the two copies of "), "{offset}: {}", checked.text());
        checked.failed(1);
        assert_eq!(place.read("pool"), bytes, "a check changes nothing");
        let report = place.run(["check", "pool", "--json"]).text();
        let report: serde_json::Value = serde_json::from_str(&report).expect("the output is JSON");
        assert_eq!(report["damaged_copies"].as_array().expect("a list").len(), 1, "{report}");
        assert_eq!(
            (&report["problems"], &report["sound"]),
            (&serde_json::json!([]), &false.into())
        );
        let copy = format!("restored-{offset}");
        place.run(["restore", "pool", &copy]).succeeded();
        assert!(place.run(["check", &copy]).succeeded().starts_with("sound"), "byte {offset}");
        place.run(["put", "pool", "a", "2"]).succeeded();
        assert!(place.run(["check", "pool"]).succeeded().starts_with("sound"), "byte {offset}");
    }
}
