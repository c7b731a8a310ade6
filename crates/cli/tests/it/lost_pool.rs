//! A pool whose file is removed, or replaced, and what is told of one that was rebuilt.

use crate::common::PoolFolder;
use crate::serving::Serving;

/// What was lost at an orderly end: all that a server had whose pool was removed, or replaced, with a sentence that
/// named a command of the server that had just ended.
#[test]
fn a_server_that_has_lost_its_pool_saves_it_when_it_ends() {
    for is_replaced in [false, true] {
        let place = PoolFolder::empty();
        let serving = Serving::start(&place, &["pool", "--durability", "process"]);
        serving.ask("SET key value\r\n", "+OK\r\n");
        std::fs::remove_file(place.path("pool")).expect("it is there");
        if is_replaced {
            place.write("pool", "another file");
            place.write("pool.saved", "of somebody else");
        }
        serving.signal("TERM");
        let ended = serving.end();
        assert_eq!(ended.code, 7, "{}", ended.err);
        let name = if is_replaced { "pool.saved-2" } else { "pool.saved" };
        let last = ended.err.lines().last().expect("a line");
        assert!(
            last.contains("(1 key) is saved as ") && last.contains(&format!("{name}:")),
            "{last}"
        );
        assert_eq!(place.run(["get", name, "key"]).succeeded(), "value");
        assert!(place.run(["check", name]).code == 0, "{name}");
        if is_replaced {
            assert_eq!(place.read("pool"), b"another file");
            assert_eq!(place.read("pool.saved"), b"of somebody else");
        }
    }
}

/// What was lost: the same, where a log lay beside the first name for it, or somebody made a file of that name.
#[test]
fn a_pool_is_saved_under_the_next_name_if_one_is_refused() {
    let place = PoolFolder::empty();
    place.run(["create", "pool.saved", "--durability", "power", "--quiet"]).succeeded();
    std::fs::remove_file(place.path("pool.saved")).expect("it is there");
    let serving = Serving::start(&place, &["pool", "--durability", "process"]);
    serving.ask("SET key value\r\n", "+OK\r\n");
    // As one that is being made.
    let made = place.path(".pool.saved-2.everleaf-new");
    std::fs::create_dir(&made).expect("room");
    let held = std::fs::File::open(&made).expect("it is there");
    held.lock().expect("nobody has it");
    std::fs::remove_file(place.path("pool")).expect("it is there");
    serving.signal("TERM");
    let ended = serving.end();
    assert_eq!(ended.code, 7, "{}", ended.err);
    assert!(
        ended.err.contains("is saved as ") && ended.err.contains("pool.saved-3:"),
        "{}",
        ended.err
    );
    assert_eq!(place.run(["get", "pool.saved-3", "key"]).succeeded(), "value");
}

/// What was lost: all that a server had whose log was removed with its pool, as by `rm -r` of their folder's contents.
#[test]
fn a_server_that_has_lost_pool_and_log_saves_it_when_it_ends() {
    for durability in ["interval", "power"] {
        let place = PoolFolder::empty();
        let serving = Serving::start(&place, &["pool", "--durability", durability]);
        serving.ask("SET key value\r\n", "+OK\r\n");
        std::fs::remove_file(place.path("pool")).expect("it is there");
        std::fs::remove_dir_all(place.path("pool.log")).expect("it is there");
        serving.signal("TERM");
        let ended = serving.end();
        assert_eq!(ended.code, 7, "{durability}: {}", ended.err);
        assert!(ended.err.contains("is saved as "), "{durability}: {}", ended.err);
        assert_eq!(place.run(["get", "pool.saved", "key"]).succeeded(), "value");
    }
}

/// What was lost: the same, where its folder was removed as well: there is nothing beside it then.
#[test]
fn a_server_that_has_lost_its_folder_saves_its_pool_elsewhere() {
    let place = PoolFolder::empty();
    for folder in ["data", "temporary"] {
        std::fs::create_dir(place.path(folder)).expect("room");
    }
    let mut command = place.command(["serve", "--port", "0", "data/pool"]);
    command.env("TMPDIR", place.path("temporary"));
    let serving = Serving::spawn(&mut command);
    serving.ask("SET key value\r\n", "+OK\r\n");
    std::fs::remove_dir_all(place.path("data")).expect("it is there");
    serving.signal("TERM");
    let ended = serving.end();
    assert_eq!(ended.code, 7, "{}", ended.err);
    assert!(ended.err.contains("temporary/pool.saved:"), "{}", ended.err);
    assert_eq!(place.run(["get", "temporary/pool.saved", "key"]).succeeded(), "value");
}

/// A user who lost a pool twice was told to restore what had been saved of the first, and how, but not that the new
/// pool has a log, with which that is refused.
#[test]
fn who_serves_a_new_pool_is_told_of_the_last_save_and_its_log() {
    let place = PoolFolder::empty();
    for (number, saved) in ["pool.backup", "pool.saved", "pool.saved-2"].into_iter().enumerate() {
        let value = number.to_string();
        place.run(["create", saved, "--quiet"]).succeeded();
        place.run(["put", saved, "key", &value, "--quiet"]).succeeded();
        let time =
            std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 + number as u64);
        let file = std::fs::File::options().append(true).open(place.path(saved)).expect("there");
        file.set_modified(time).expect("it is ours");
        let serving = Serving::start(&place, &["pool"]);
        let told = serving.before().to_string();
        serving.signal("TERM");
        assert_eq!(serving.end().code, 0);
        assert!(told.contains("move pool and pool.log away"), "{told}");
        assert!(told.contains(&format!("`everleaf restore {saved} pool`")), "{told}");
        std::fs::remove_file(place.path("pool")).expect("it is there");
        std::fs::remove_dir_all(place.path("pool.log")).expect("it is there");
        place.run(["restore", saved, "pool", "--quiet"]).succeeded();
        assert_eq!(place.run(["get", "pool", "key"]).succeeded(), value);
        std::fs::remove_file(place.path("pool")).expect("it is there");
    }
}

/// A supervisor starts the server of a lost pool with an empty one. Nobody was told that what was saved lies beside it.
#[test]
fn who_serves_a_new_pool_is_told_of_what_was_saved() {
    let place = PoolFolder::empty();
    let arguments = ["pool", "--durability", "process"];
    for (saved, is_told) in [("pool.saved", true), ("pool.backup", true), ("pool.other", false)] {
        let serving = Serving::start(&place, &arguments);
        assert!(!serving.before().contains("restore"), "{}", serving.before());
        serving.ask("SET key value\r\n", "+OK\r\n");
        serving.signal("TERM");
        assert_eq!(serving.end().code, 0);
        place.run(["backup", "pool", saved, "--quiet"]).succeeded();
        // With the pool there nothing is to be told.
        let serving = Serving::start(&place, &arguments);
        assert!(!serving.before().contains("restore"), "{}", serving.before());
        serving.signal("TERM");
        assert_eq!(serving.end().code, 0);
        std::fs::remove_file(place.path("pool")).expect("it is there");
        let serving = Serving::start(&place, &arguments);
        let told = serving.before().contains(&format!("everleaf restore {saved}"));
        assert_eq!(told, is_told, "{saved}: {}", serving.before());
        serving.signal("TERM");
        assert_eq!(serving.end().code, 0);
        for name in ["pool", saved] {
            std::fs::remove_file(place.path(name)).expect("it is there");
        }
    }
}

/// What `--json` did not tell: what a pool was rebuilt from, and where the file is that was there.
#[test]
fn a_rebuilt_pool_is_told_as_json_and_a_kept_file_always() {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--durability", "power", "--quiet"]).succeeded();
    place.run(["put", "pool", "key", "value", "--quiet"]).succeeded();
    for (option, kept) in [("--json", "pool.no-pool"), ("--quiet", "pool.no-pool-2")] {
        place.write("pool", "no pool");
        let ended = place.run(["put", "pool", "other", "value", option]);
        assert_eq!(ended.code, 0, "{}", ended.err);
        assert_eq!(place.read(kept), b"no pool");
        if option == "--quiet" {
            assert!(ended.err.contains(&format!("kept as {kept}:")), "{}", ended.err);
            continue;
        }
        let told: serde_json::Value = serde_json::from_str(&ended.err).expect("one object");
        let rebuilt = &told["rebuilt"];
        assert_eq!((&rebuilt["replayed"], &rebuilt["kept"]), (&1.into(), &kept.into()), "{told}");
        assert!(rebuilt["damages"].is_array() && rebuilt["skipped"].is_array(), "{told}");
    }
    // Where nothing was kept, `--quiet` is quiet.
    std::fs::remove_file(place.path("pool")).expect("it is there");
    place.run(["put", "pool", "third", "value", "--quiet"]).succeeded();
}

/// Of two commands that open a pool for a moment nobody was told that it was rebuilt, nor where the file is that was
/// there: the next rebuilding takes the place of that.
#[test]
fn a_pool_that_is_rebuilt_to_be_compacted_is_told_of() {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--durability", "power", "--quiet"]).succeeded();
    place.run(["put", "pool", "key", "value", "--quiet"]).succeeded();
    let mut number = 0;
    for command in ["compact", "upgrade"] {
        for option in ["--json", "--quiet"] {
            place.write("pool", "no pool");
            number += 1;
            let kept = match number {
                1 => "pool.no-pool".into(),
                _ => format!("pool.no-pool-{number}"),
            };
            let ended = place.run([command, "pool", option]);
            assert_eq!(ended.code, 0, "{}", ended.err);
            assert_eq!(place.read(&kept), b"no pool");
            if option == "--quiet" {
                assert!(ended.err.contains(&format!("kept as {kept}:")), "{}", ended.err);
                continue;
            }
            let told: serde_json::Value = serde_json::from_str(&ended.err).expect("one object");
            assert_eq!(told["rebuilt"]["kept"], kept, "{told}");
        }
    }
}
