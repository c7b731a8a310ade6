//! Trees opened again after a crash and after a clean end.

use std::fs;
use std::path::Path;
use std::time::Duration;

use everleaf_bench::calibrate::Chase;
use everleaf_lab_designs::openings::{PREFIX, openings, remove_left_over};
use everleaf_lab_designs::resumption::{resumptions, served};

#[test]
fn both_kinds_of_opening_are_timed_and_nothing_is_lost() {
    let mut chase = Chase::new(1 << 16);
    for design in ["nbtree", "fast-fair", "fptree"] {
        let openings = openings(design, 3000, 2, &mut chase).unwrap();
        assert_eq!((openings.crashed.len(), openings.clean.len()), (2, 2), "{design}");
        assert!(openings.crashed.iter().chain(&openings.clean).all(|seconds| *seconds > 0.0));
        assert_eq!(openings.crashed_misses.len(), 2, "{design}");
    }
}

#[test]
fn folders_of_runs_that_are_gone_are_removed_and_no_others() {
    let parent = tempfile::tempdir().unwrap();
    // No process has a number as large as this.
    let gone = format!("{PREFIX}4294967295-abc");
    let own = format!("{PREFIX}{}-abc", std::process::id());
    let names = [gone.as_str(), own.as_str(), "everleaf-lab-abc", "other-4294967295-abc"];
    for name in names {
        fs::create_dir(parent.path().join(name)).unwrap();
    }
    fs::write(parent.path().join(&gone).join("recovery.pool"), "data").unwrap();
    remove_left_over(parent.path());
    for name in names {
        let is_kept = name != gone || !Path::new("/proc/self").exists();
        assert_eq!(parent.path().join(name).exists(), is_kept, "{name}");
    }
}

#[test]
fn a_tree_serves_while_its_buffers_are_restored() {
    let ways = [
        ("sptree-buffered", false),
        ("sptree-checkpointed", false),
        ("sptree-checkpointed", true),
        ("sptree-plain", false),
    ];
    for (design, at_once) in ways {
        let served = served(design, at_once, 20_000, Duration::from_millis(5), 10).unwrap();
        // Opening has replayed a plain log.
        assert_eq!(served.left > 100, design != "sptree-plain", "{design}: {served:?}");
        assert!(served.log_bytes > 0 && !served.restored.is_zero(), "{design}: {served:?}");
        assert!(served.lookups.is_sorted() && served.lookups.len() == 10, "{design}: {served:?}");
        let before_first = served.first.as_millis() as usize / 5;
        assert!(served.lookups[..before_first.min(10)].iter().all(|count| *count == 0));
        // On a busy machine all may be restored before the first lookup, or behind the last slice.
        let rates = [served.rate_before, served.rate_behind];
        let is_rated = rates.iter().any(|rate| *rate > 0.0);
        assert!(is_rated || served.lookups[9] < 2, "{design}: {served:?}");
    }
    assert!(served("fast-fair", false, 10, Duration::from_millis(1), 1).is_err());
}

#[test]
fn an_opening_finds_the_log_that_was_left() {
    for design in ["sptree", "sptree-buffered", "sptree-checkpointed", "sptree-plain"] {
        let made = resumptions(design, false, 3000, 2).unwrap();
        assert_eq!(made.len(), 2, "{design}");
        let has_log = made.iter().all(|one| one.log_bytes > 0);
        assert_eq!(has_log, design != "sptree", "{design}: {made:?}");
        assert!(made.iter().all(|one| one.opening > 0.0), "{design}: {made:?}");
        assert!(made.iter().all(|one| one.write > 0.0), "{design}: {made:?}");
    }
}

#[test]
fn an_opening_at_once_leaves_the_leaves() {
    for at_once in [false, true] {
        let made = resumptions("sptree-checkpointed", at_once, 20_000, 2).unwrap();
        assert_eq!(made.len(), 2);
        assert!(made.iter().all(|one| (one.unknown > 100) == at_once), "{at_once}: {made:?}");
    }
}
