//! Backup, restore, compaction, repair, upgrade and snapshots from the command line.

use crate::common::PoolFolder;

fn filled() -> PoolFolder {
    let place = PoolFolder::with_pool();
    let lines: String =
        (0..500).map(|number| format!("key:{number:03}\tvalue {number}\n")).collect();
    place.write("lines.tsv", lines);
    place.run(["load", "pool", "lines.tsv", "--quiet"]).succeeded();
    place
}

#[test]
fn a_backup_is_restored_and_a_stream_is_one_too() {
    let place = filled();
    let out = place.run(["backup", "pool", "copy"]).succeeded();
    assert!(out.starts_with("backed up 500 keys of 1 map to copy, "), "{out}");
    assert!(place.run(["backup", "pool", "copy"]).failed(4).contains("exists already"));
    let out = place.run(["restore", "copy", "second"]).succeeded();
    assert!(out.starts_with("restored 500 keys of 1 map to second, "), "{out}");
    assert_eq!(place.run(["get", "second", "key:007"]).succeeded(), "value 7");
    let stream = place.run(["backup", "pool", "-"]);
    assert_eq!(stream.code, 0, "{}", stream.err);
    place.write("streamed", &stream.out);
    place.run(["restore", "streamed", "third"]).succeeded();
    assert_eq!(place.run(["get", "third", "key:499"]).succeeded(), "value 499");
    let json = place.run(["backup", "pool", "fourth", "--json"]).succeeded();
    assert!(json.contains("\"keys\":500"), "{json}");
}

#[test]
fn compaction_upgrade_and_snapshots_say_what_they_did() {
    let place = filled();
    let out = place.run(["compact", "pool"]).succeeded();
    assert!(out.starts_with("compacted 500 keys of 1 map to pool, "), "{out}");
    let out = place.run(["upgrade", "pool"]).succeeded();
    let new = "keys that expire and batches and expiries in words of their own and batches that change \
               expiries alone and runs of elements in lists";
    assert_eq!(out, format!("pool now has {new}\n"));
    assert_eq!(place.run(["upgrade", "pool"]).succeeded(), "pool is up to date\n");
    assert!(place.run(["snapshot", "pool"]).failed(7).contains("has no log"));
    assert_eq!(place.run(["get", "pool", "key:123"]).succeeded(), "value 123");
}

#[test]
fn a_repair_lists_what_it_dropped() {
    let place = filled();
    place.run(["repair", "pool", "whole"]).succeeded();
    let mut bytes = place.read("pool");
    let wanted = b"value 321";
    let at = bytes.windows(wanted.len()).position(|window| window == wanted).expect("there");
    bytes[at] ^= 1;
    place.write("pool", &bytes);
    let ended = place.run(["repair", "pool", "fixed"]);
    assert!(ended.text().contains("check sum"), "{}", ended.text());
    assert!(ended.text().contains("kept 499 keys"), "{}", ended.text());
    assert!(ended.failed(1).contains("1 part of "));
    assert_eq!(place.read("pool"), bytes, "the damaged pool was touched");
    assert_eq!(place.run(["get", "fixed", "key:320"]).succeeded(), "value 320");
}

/// Makes the pool one with a log, by a server that is ended at once.
fn with_log(place: &PoolFolder) {
    let server = place.command(["serve", "pool", "--durability", "power", "--port", "0", "--json"]);
    let mut server = { server }.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut ready = String::new();
    let out = server.stdout.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut ready)
        .expect("it is ready");
    server.kill().expect("it can be killed");
    server.wait().expect("it ends");
}

#[test]
fn a_load_is_in_the_log_and_a_snapshot_shortens_it() {
    let place = filled();
    with_log(&place);
    let lines: String = (0..3000).map(|number| format!("new:{number:04}\t{number}\n")).collect();
    place.write("new.tsv", lines);
    let out = place.run(["load", "pool", "new.tsv"]).succeeded();
    assert!(out.starts_with("loaded 3000 lines: 3000 new keys"), "{out}");
    std::fs::remove_file(place.path("pool")).expect("it was there");
    let refused = place.run(["get", "pool", "new:2999"]).failed(4);
    assert!(refused.contains("open it for writing"), "{refused}");
    assert_eq!(place.run(["put", "pool", "one more", "1", "--quiet"]).succeeded(), "");
    assert_eq!(place.run(["get", "pool", "new:2999"]).succeeded(), "2999");
    assert_eq!(place.run(["get", "pool", "key:123"]).succeeded(), "value 123");
    let out = place.run(["snapshot", "pool"]).succeeded();
    assert!(out.starts_with("wrote a snapshot of 3501 keys"), "{out}");
}

#[test]
fn commands_that_rebuild_a_pool_say_so_unless_quiet() {
    let place = filled();
    with_log(&place);
    place.write("more.tsv", "more\t1\n");
    let commands = [
        &["put", "pool", "key:001", "new"][..],
        &["del", "pool", "key:002"],
        &["load", "pool", "more.tsv"],
        &["snapshot", "pool"],
    ];
    for command in commands {
        for flag in ["", "--quiet", "--json"] {
            std::fs::remove_file(place.path("pool")).expect("it was there");
            let flags = (!flag.is_empty()).then_some(flag);
            let ended = place.run(command.iter().copied().chain(flags));
            // The second time the key is not there any more.
            let is_gone = command[0] == "del" && !flag.is_empty();
            assert_eq!(ended.code, i32::from(is_gone), "{command:?} {flag}: {}", ended.err);
            let says = ended.err.contains("rebuilt it from 500 keys of a snapshot");
            assert_eq!(says, flag.is_empty(), "{command:?} {flag}: {}", ended.err);
            assert!(!ended.err.contains('\r'), "a bar though nobody sees it: {}", ended.err);
        }
    }
    for command in ["compact", "upgrade"] {
        for flag in ["", "--quiet", "--json"] {
            std::fs::remove_file(place.path("pool")).expect("it was there");
            let flags = (!flag.is_empty()).then_some(flag);
            let ended = place.run([command, "pool"].into_iter().chain(flags));
            assert_eq!(ended.code, 0, "{command} {flag}: {}", ended.err);
            let says = ended.err.contains("rebuilt it from 500 keys of a snapshot");
            assert_eq!(says, flag.is_empty(), "{command} {flag}: {}", ended.err);
        }
    }
    assert_eq!(place.run(["get", "pool", "key:001"]).succeeded(), "new");
    assert_eq!(place.run(["get", "pool", "more"]).succeeded(), "1");
}

/// What was lost: a pool was put in the place of one that was lost, beside its log, from which alone it would have been
/// rebuilt.
#[test]
fn an_import_makes_no_pool_beside_a_log() {
    let place = filled();
    with_log(&place);
    std::fs::remove_file(place.path("pool")).expect("it was there");
    // Before the source is looked at.
    let refused = place.run(["import", "none.rdb", "pool"]).failed(7);
    assert!(refused.contains("pool.log") && refused.contains("move the log away"), "{refused}");
    std::os::unix::fs::symlink("pool", place.path("link")).expect("a link");
    let refused = place.run(["import", "none.rdb", "link"]);
    assert!(refused.code != 0 && !place.path("pool").exists(), "{}", refused.err);
    assert_eq!(place.run(["put", "pool", "one more", "1", "--quiet"]).succeeded(), "");
    assert_eq!(place.run(["get", "pool", "key:123"]).succeeded(), "value 123");
}
