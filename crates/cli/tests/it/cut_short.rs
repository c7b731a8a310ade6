//! What a command says of a pool whose process died within a batch.
//!
//! What was lost: a damaged record of such a batch was told by no command, and the batch was forgotten behind the first
//! one.

use crate::common::PoolFolder;

#[path = "../../../store/tests/processes/damage/cut_short.rs"]
mod maker;

/// A pool in which a batch was cut short that lets `key` and `other` expire, and the record of `key` is damaged.
fn place() -> PoolFolder {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "key", "a value that will be damaged"]).succeeded();
    place.run(["put", "pool", "other", "value"]).succeeded();
    maker::leave_batch(&place.path("pool"), &[b"key", b"other"], 1 << 42);
    maker::damage(&place.path("pool"), b"will be damaged");
    place
}

#[test]
fn what_a_cut_batch_could_not_do_is_said_once_also_quietly() {
    for quiet in [None, Some("--quiet"), Some("--json")] {
        let place = place();
        let put = ["put", "pool", "third", "value"];
        let ended = place.run(put.into_iter().chain(quiet));
        assert_eq!(ended.code, 0, "{}", ended.err);
        let said = "a batch that was cut short could not be finished where there is damage: ";
        let begins = match quiet {
            Some("--json") => format!("{{\"remark\":\"{said}"),
            _ => format!("{}: {said}", crate::NAME),
        };
        assert!(ended.err.starts_with(&begins), "{}", ended.err);
        assert!(ended.err.contains("'key'"), "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
        // It is done, and forgotten.
        assert_eq!(place.run(put).succeeded(), "replaced\n");
        assert_eq!(place.run(["get", "pool", "other"]).succeeded(), "value");
        let damaged = place.run(["get", "pool", "key"]);
        assert!(damaged.code != 0 && damaged.err.contains("'key'"), "{}", damaged.err);
    }
}

/// What was lost: the whole pool. Of a batch with a right sum and a key longer than any can be, each opening said no
/// more than what the longest key is, and so did the repair.
#[test]
fn a_batch_with_a_key_that_is_too_long_is_damage() {
    let place = PoolFolder::with_pool();
    place.run(["put", "pool", "key", "value", "--quiet"]).succeeded();
    maker::leave_batch(&place.path("pool"), &[&vec![b'k'; (64 << 10) + 1]], 1 << 42);
    let told = place.run(["put", "pool", "other", "value"]).failed(4);
    assert!(told.contains("damaged"), "{told}");
    let repaired = place.run(["repair", "pool", "made"]);
    assert_eq!(repaired.code, 1, "damage was found: {}", repaired.err);
    assert_eq!(place.run(["get", "made", "key"]).succeeded(), "value");
    assert!(place.run(["check", "made"]).succeeded().starts_with("sound: "));
}
