//! A byte of a value that has changed in the pool: each way to read or copy it tells, and each that does not look
//! is found.

use everleaf_log::simulated::{Faults, SimulatedDisk};

use super::world::{folder, options};
use crate::{Error, Options, Result};

const MARK: &[u8] = b"a value of which one byte is going to change";
const KEY: [u8; 1] = [40];

fn is_told<R>(read: Result<R>) -> bool {
    matches!(read, Err(Error::Corrupt(_)))
}

/// Whether everything that reads the damaged value with these options says so, and so does a backup.
fn is_told_by_all(mutant: Option<&'static str>, scans_verify: bool) -> bool {
    let faults = Faults { mutants: mutant.into_iter().collect(), ..Faults::default() };
    let (folder, disk) = (folder(), SimulatedDisk::new(faults, 1));
    let path = folder.path().join("pool");
    let store = options(&disk).open(&path).expect("it opens");
    for number in 0..100u8 {
        let value = if number == KEY[0] { MARK } else { b"another" };
        let _ = store.default_map().put([number], value).expect("room");
    }
    store.close().expect("it can be closed");
    let mut bytes = std::fs::read(&path).expect("readable");
    let place = bytes.windows(MARK.len()).position(|bytes| bytes == MARK).expect("it is there");
    bytes[place] ^= 1;
    std::fs::write(&path, &bytes).expect("writable");

    let verifying = |options: Options| options.verify_reads(true).verify_scans(scans_verify);
    let store = verifying(options(&disk)).open(&path).expect("it opens");
    let map = store.default_map();
    let (view, mut seen) = (store.view().expect("a view"), 0);
    let gets = [map.get(KEY), view.default_map().get(KEY)];
    let scans = [
        map.iter().collect::<Result<Vec<_>>>().map(drop),
        view.default_map().iter().collect::<Result<Vec<_>>>().map(drop),
        map.scan(..).for_each(|_, _| seen += 1),
        map.floor(KEY).map(drop),
    ];
    let copied = store.backup(folder.path().join("copy"), |_| {});
    let has_copy = folder.path().join("copy").exists();
    gets.into_iter().all(is_told)
        && scans.into_iter().all(|scan| is_told(scan) || !scans_verify)
        && is_told(copied)
        && !has_copy
}

/// What was lost: what was read and copied of a damaged value passed for what had been written.
#[test]
fn whatever_reads_a_changed_byte_tells_of_it() {
    for scans_verify in [true, false] {
        assert!(is_told_by_all(None, scans_verify));
        assert!(!is_told_by_all(Some("store.gets_unverified"), scans_verify), "not found");
    }
    assert!(!is_told_by_all(Some("store.scans_unverified"), true), "not found");
    assert!(!is_told_by_all(Some("store.copies_unverified"), false), "not found");
}
