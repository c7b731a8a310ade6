//! A salvage that fails or is cut short.
//!
//! What was lost: the salvage changed the log before the pool was made from it, and then the disk was full. The log
//! did not look damaged any more, so the next opening, which nobody had asked to salvage anything, made a pool without
//! the acknowledged writes behind the damage and said nothing.

use std::path::Path;
use std::sync::{Arc, Mutex};

use everleaf_log::simulated::{Faults, SimulatedDisk};
use everleaf_log::{Disk, DiskFile};

use super::world::{folder, options};
use crate::{Error, Store};

const KEYS: u32 = 54;

/// The log of a store whose process was killed, with a damaged byte in the middle of its last segment. The pool is
/// lost, and nothing says how far the log had reached.
fn damaged(folder: &Path, mutant: Option<&'static str>) -> SimulatedDisk {
    let disk = SimulatedDisk::new(Faults::default(), 1);
    let store = options(&disk).open(folder.join("first")).expect("it opens");
    for number in 0..KEYS {
        let _ = store.default_map().put(number.to_be_bytes(), number.to_le_bytes()).expect("room");
    }
    let left = disk.copied(1);
    drop(store);
    let disk = left;
    disk.set_faults(Faults { mutants: mutant.into_iter().collect(), ..Faults::default() });
    let segments = disk.names().into_iter().filter(|name| name.starts_with("log-"));
    let last = segments.max().expect("there is one");
    let file = Disk::open(&disk, &last).expect("there");
    let middle = file.size().expect("open") / 2 / 4096 * 4096;
    assert_eq!(file.write_at(&[0xA5], middle + 60).expect("it works"), 1);
    file.sync_data().expect("it works");
    disk
}

/// How many keys there are, which must be the first.
fn prefix(store: &Store) -> u32 {
    let count = store.default_map().len() as u32;
    for number in 0..count {
        let value = store.default_map().get(number.to_be_bytes()).expect("readable");
        assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]), "key {number} of {count}");
    }
    count
}

fn is_refused(disk: &SimulatedDisk, pool: &Path) -> bool {
    match options(disk).open(pool).map(drop) {
        Err(Error::Corrupt(text)) => text.contains("--salvage-log"),
        _ => false,
    }
}

/// Lets every operation of the disk fail from one on, for each of them; then the next opening is refused, and
/// one that salvages has the rest and says so. Returns whether that is so.
fn next_is_told(mutant: Option<&'static str>) -> bool {
    let (mut failed, mut is_right) = (0, true);
    for refused in 0.. {
        let folder = folder();
        let disk = damaged(folder.path(), mutant);
        let pool = folder.path().join("pool");
        let mut operations = 0;
        disk.set_hook(move |disk| {
            operations += 1;
            if operations > refused {
                disk.set_faults(Faults { error_one_in: 1, ..disk.faults() });
            }
        });
        let opened = options(&disk).salvage_log(true).open(&pool);
        disk.clear_hook();
        disk.set_faults(Faults::default());
        if let Ok(store) = opened {
            assert!((1..KEYS).contains(&prefix(&store)));
            break;
        }
        failed += 1;
        let is_made = pool.exists();
        is_right &= is_made || is_refused(&disk, &pool);
        let store = options(&disk).salvage_log(true).open(&pool).expect("there is room again");
        let told = store.rebuilt().map_or(0, |rebuilt| rebuilt.damages.len());
        is_right &= (1..KEYS).contains(&prefix(&store)) && (is_made || told > 0);
        drop(store);
        // It is an ordinary log now.
        let left = folder.path().join("left");
        is_right &= options(&disk.crashed(3)).open(left).is_ok_and(|left| prefix(&left) > 0);
    }
    assert!(failed > 5, "{failed}");
    is_right
}

#[test]
fn a_salvage_that_fails_is_not_taken_for_a_whole_log() {
    assert!(next_is_told(None));
    assert!(!next_is_told(Some("store.salvages_unmarked")), "the bug is not found");
}

/// Loses the power before each operation of a salvage: what is left is refused unless it is asked for, as long as
/// the salvage had not come to its end.
fn cut_is_told(mutant: Option<&'static str>) -> bool {
    let folder = folder();
    let disk = damaged(folder.path(), mutant);
    // Each with whether the salvage was under way, or had not begun.
    let images = Arc::new(Mutex::new(vec![]));
    let taken = images.clone();
    let mut was_marked = false;
    disk.set_hook(move |disk| {
        let is_marked = disk.names().iter().any(|name| name == "salvaging");
        let is_over = was_marked && !is_marked;
        was_marked |= is_marked;
        let mut images = taken.lock().expect("nobody panicked");
        images.extend((0..3).map(|seed| (disk.crashed(seed), is_over)));
    });
    let store = options(&disk).salvage_log(true).open(folder.path().join("pool"));
    let left = prefix(&store.expect("a part is whole"));
    disk.clear_hook();
    let images = std::mem::take(&mut *images.lock().expect("nobody panicked"));
    let (mut over, mut is_right) = (0, true);
    for (number, (image, is_over)) in images.into_iter().enumerate() {
        image.set_faults(Faults::default());
        over += u32::from(is_over);
        let pool = folder.path().join(format!("left-{number}"));
        is_right &= is_over || is_refused(&image, &pool);
        let store = options(&image).salvage_log(true).open(&pool).expect("it can be salvaged");
        is_right &= prefix(&store) == left;
    }
    assert!(over > 0 || mutant.is_some(), "the salvage comes to its end");
    is_right
}

#[test]
fn a_salvage_that_loses_the_power_is_not_taken_for_a_whole_log() {
    assert!(cut_is_told(None));
    assert!(!cut_is_told(Some("store.salvages_unmarked")), "the bug is not found");
}
