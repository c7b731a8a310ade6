//! Which log the header of a pool names: behind the power that it names none that lacks what was acknowledged.

use std::panic::catch_unwind;
use std::path::Path;

use everleaf_log::Disk;
use everleaf_log::simulated::{Faults, SimulatedDisk};

use super::world::{folder, options};
use crate::wal::simulated::crashes::damaging;
use crate::wal::simulated::read_start;
use crate::{Durability, Error, Store};

fn disk() -> SimulatedDisk {
    SimulatedDisk::new(Faults::default(), 1)
}

fn open(path: &Path, disk: &SimulatedDisk) -> crate::Result<Store> {
    options(disk).open(path)
}

/// Leaves of a pool what the loss of power leaves: it is torn.
fn lose_power(path: &Path, store: Store) {
    let image = path.with_extension("image");
    std::fs::copy(path, &image).expect("room");
    drop(store);
    std::fs::rename(&image, path).expect("there");
    let file = std::fs::File::options().write(true).open(path).expect("there");
    file.set_len(file.metadata().expect("there").len() - 4096).expect("room");
}

/// Refuses the first change of the disk behind the making of a file of this name.
fn refuse_writing(disk: &SimulatedDisk, name: &'static str) -> std::sync::mpsc::Receiver<()> {
    let (tell, told) = std::sync::mpsc::channel();
    let mut is_over = false;
    disk.set_hook(move |disk| {
        let is_now = !is_over && disk.names().iter().any(|found| found == name);
        if is_now {
            is_over = true;
            tell.send(()).expect("somebody wants to know");
        }
        disk.set_faults(Faults { error_one_in: u32::from(is_now), ..Faults::default() });
    });
    told
}

/// The log of a pool was away at one start, and its generation could not be written beside the new one: the pool went
/// on naming the old log, and was rebuilt from it when the power had failed and the log was back, without what had been
/// acknowledged since.
#[test]
fn a_new_log_without_its_generation_is_named_all_the_same() {
    let (folder, away, new) = (folder(), disk(), disk());
    let path = folder.path().join("pool");
    let store = open(&path, &away).expect("it opens");
    store.default_map().put("before", "value").expect("room");
    store.close().expect("it closes");
    let told = refuse_writing(&new, "generation.new");
    let store = open(&path, &new).expect("it is only evidence");
    new.clear_hook();
    told.try_recv().expect("its writing was refused");
    assert!(!new.names().contains(&"generation".to_string()), "{:?}", new.names());
    store.default_map().put("since", "value").expect("room");
    lose_power(&path, store);
    let error = open(&path, &away).map(drop).expect_err("it is not its log any more");
    assert!(matches!(&error, Error::Corrupt(text) if text.contains("not the one")), "{error}");
}

/// A pool with more than its log, which had lost the file that says so, was rebuilt: the log said that it has all
/// before the pool was kept, and a process that died in between left nothing by which the next would keep it.
#[test]
fn a_pool_is_kept_before_its_log_says_that_it_has_all() {
    let (folder, disk) = (folder(), disk());
    let (path, kept) = (folder.path().join("pool"), folder.path().join("pool.replaced"));
    let interval = Durability::Interval(std::time::Duration::from_secs(3600));
    let store = options(&disk).durability(interval).open(&path).expect("it opens");
    store.default_map().put("key", "value").expect("room");
    lose_power(&path, store);
    Disk::remove(&disk, "settings").expect("there");
    let (tell, told) = std::sync::mpsc::channel();
    disk.set_hook(move |disk| {
        let settings = read_start(disk, "settings", 100).unwrap_or_default();
        if settings.split(|byte| *byte == b' ').nth(1) == Some(b"0") {
            tell.send(kept.exists()).expect("somebody wants to know");
        }
    });
    let store = options(&disk).open(&path).expect("it is rebuilt");
    disk.clear_hook();
    assert!(store.rebuilt().expect("it was").kept.is_some());
    let told: Vec<bool> = told.try_iter().collect();
    assert!(!told.is_empty() && told.iter().all(|is_kept| *is_kept), "{told:?}");
}

/// Each safeguard by which a pool is not rebuilt from another log, or from an older copy of its own.
#[test]
fn a_pool_that_is_made_from_another_log_is_found() {
    for mutant in ["store.log_unnamed", "store.generation_unnamed", "store.rebuilds_from_any"] {
        let found = (0..60).find(|number| catch_unwind(|| damaging(*number, &[mutant])).is_err());
        let number = found.unwrap_or_else(|| panic!("{mutant} is not found"));
        println!("{mutant}: found by run {number}");
        let _ = damaging(number, &[]);
    }
}
