//! Opening: what is refused, with what words, and what an open pool is like.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Scratch, create, edit_header, edit_session, open, open_read_only};
use everleaf_machine::Ordering;
use everleaf_pool::layout::{SESSION_OFFSETS, SIZE_GRANULE, SIZE_MIN};
use everleaf_pool::{CreateMode, DATA_START, Domain, FileName, Pool, PoolError, PoolOptions, Seal};

/// What was not noticed: a file that was removed or replaced while it was open.
#[test]
fn what_becomes_of_the_name_of_an_open_file_can_be_seen() {
    let scratch = Scratch::new();
    let (path, moved) = (scratch.path.as_path(), scratch.path.with_extension("moved"));
    drop(create(path).unwrap());
    let pool = open(path).unwrap();
    assert_eq!(pool.file_name(), FileName::Kept);
    fs::rename(path, &moved).unwrap();
    assert_eq!(pool.file_name(), FileName::Kept, "it was moved");
    fs::write(path, "another").unwrap();
    assert_eq!(pool.file_name(), FileName::Displaced);
    fs::rename(&moved, path).unwrap();
    assert_eq!(pool.file_name(), FileName::Kept);
    fs::write(&moved, "another").unwrap();
    fs::hard_link(path, path.with_extension("linked")).unwrap();
    fs::rename(&moved, path).unwrap();
    assert_eq!(pool.file_name(), FileName::Displaced);
    fs::rename(path, &moved).unwrap();
    fs::rename(path.with_extension("linked"), path).unwrap();
    fs::rename(&moved, path).unwrap();
    assert_eq!(pool.file_name(), FileName::Replaced);
    fs::remove_file(path).unwrap();
    assert_eq!(pool.file_name(), FileName::Removed);
    fs::create_dir(path).unwrap();
    assert_eq!(pool.file_name(), FileName::Removed);
    drop(pool);
    fs::remove_dir(path).unwrap();
    // Also by a new one.
    let pool = create(path).unwrap();
    assert_eq!(pool.file_name(), FileName::Kept);
    let pool_of_memory = Pool::in_memory(SIZE_MIN, SIZE_MIN, Domain::Eadr).unwrap();
    assert_eq!(pool_of_memory.file_name(), FileName::Kept);
    fs::remove_file(path).unwrap();
    assert_eq!(pool.file_name(), FileName::Removed);
}

#[test]
fn a_created_pool_is_opened_again_with_what_was_stored() {
    let scratch = Scratch::new();
    let pool = create(&scratch.path).unwrap();
    let uuid = pool.uuid();
    assert!(pool.was_clean());
    assert_eq!((pool.size(), pool.max_size()), (1 << 20, 64 << 30));
    assert_eq!(pool.path(), Some(scratch.path.as_path()));
    pool.word(DATA_START).store(0x1234, Ordering::Release);
    pool.create_root("users", 2, 77).unwrap();
    assert_eq!(pool.next_id().unwrap(), 1);
    pool.set_clean().unwrap();
    drop(pool);

    let pool = open(&scratch.path).unwrap();
    assert!(pool.was_clean());
    assert_eq!(pool.uuid(), uuid);
    assert_eq!(pool.word(DATA_START).load(Ordering::Acquire), 0x1234);
    let root = pool.root("users").unwrap();
    assert_eq!((root.kind, root.value), (2, 77));
    assert_eq!(pool.next_id().unwrap(), 2);
    drop(pool);
    assert!(!open(&scratch.path).unwrap().was_clean(), "dropped without a clean mark");
}

#[test]
fn a_new_pool_leaves_one_file_of_its_exact_size_for_its_owner() {
    let scratch = Scratch::new();
    let options = PoolOptions {
        create: CreateMode::IfMissing,
        initial_size_bytes: 300_000,
        max_size_bytes: 1 << 30,
        ..PoolOptions::default()
    };
    let pool = Pool::open(&scratch.path, &options).unwrap();
    assert_eq!(scratch.names(), ["test.pool"]);
    let status = fs::metadata(&scratch.path).unwrap();
    assert_eq!(status.len(), 5 * SIZE_GRANULE);
    assert_eq!((pool.size(), pool.max_size()), (5 * SIZE_GRANULE, 1 << 30));
    assert_eq!(status.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_pool_has_the_smallest_size_at_least() {
    let scratch = Scratch::new();
    let options = PoolOptions {
        create: CreateMode::New,
        initial_size_bytes: 0,
        max_size_bytes: 1,
        ..PoolOptions::default()
    };
    let pool = Pool::open(&scratch.path, &options).unwrap();
    assert_eq!((pool.size(), pool.max_size()), (SIZE_MIN, SIZE_MIN));
}

#[test]
fn a_larger_maximum_is_kept_and_a_smaller_one_ignored() {
    let scratch = Scratch::new();
    let open = |create, max_size_bytes| {
        let options = PoolOptions { create, max_size_bytes, ..PoolOptions::default() };
        Pool::open(&scratch.path, &options).unwrap().max_size()
    };
    assert_eq!(open(CreateMode::New, 1 << 30), 1 << 30);
    assert_eq!(open(CreateMode::Never, 1 << 25), 1 << 30);
    assert_eq!(open(CreateMode::Never, 1 << 31), 1 << 31);
    assert_eq!(open(CreateMode::Never, 0), 1 << 31);
}

#[test]
fn a_missing_pool_is_missing_and_creation_does_not_overwrite() {
    let scratch = Scratch::new();
    let error = open(&scratch.path).unwrap_err();
    assert!(matches!(error, PoolError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("test.pool"), "{error}");
    fs::write(&scratch.path, "precious").unwrap();
    let error = create(&scratch.path).unwrap_err();
    assert!(matches!(error, PoolError::Exists { .. }), "{error}");
    assert_eq!(fs::read(&scratch.path).unwrap(), b"precious");
}

#[test]
fn creation_in_a_missing_directory_is_refused() {
    let error = create(Path::new("/nonexistent-directory/a.pool")).unwrap_err();
    assert!(matches!(error, PoolError::Io { .. }), "{error}");
    assert!(error.to_string().contains("/nonexistent-directory/a.pool"), "{error}");
}

#[test]
fn foreign_and_empty_files_are_refused_and_left_alone() {
    let scratch = Scratch::new();
    for text in [&b"x"[..], b"EVERLEA", b"SQLite format 3\0", &[0; 200_000], &[0xFF; 200_000]] {
        fs::write(&scratch.path, text).unwrap();
        for create in [CreateMode::Never, CreateMode::IfMissing] {
            let options = PoolOptions { create, ..PoolOptions::default() };
            let error = Pool::open(&scratch.path, &options).unwrap_err();
            assert!(matches!(error, PoolError::Foreign { .. }), "{error}");
        }
        assert_eq!(fs::read(&scratch.path).unwrap(), text);
    }
    fs::write(&scratch.path, "").unwrap();
    let error = open(&scratch.path).unwrap_err();
    assert!(matches!(error, PoolError::Empty { .. }), "{error}");
}

#[test]
fn a_pool_cut_short_anywhere_is_refused() {
    let scratch = Scratch::with_pool();
    let whole = fs::read(&scratch.path).unwrap();
    let lengths = [1, 8, 9, 127, 128, 300, 4095, 4096, 5000, 8192, 70_000, DATA_START as usize];
    for length in lengths.into_iter().chain([whole.len() - 1]) {
        fs::write(&scratch.path, &whole[..length]).unwrap();
        let error = open(&scratch.path).unwrap_err();
        match length {
            ..8 => assert!(matches!(error, PoolError::Foreign { .. }), "{length}: {error}"),
            _ => {
                assert!(matches!(error, PoolError::Truncated { .. }), "{length}: {error}");
                assert!(error.to_string().contains(&format!("({length} and ")), "{error}");
            }
        }
    }
    fs::write(&scratch.path, &whole).unwrap();
    open(&scratch.path).unwrap();
}

#[test]
fn a_size_beyond_the_file_is_not_believed() {
    let scratch = Scratch::with_pool();
    for size in [(1_u64 << 20) + SIZE_GRANULE, 1 << 62, u64::MAX / SIZE_GRANULE * SIZE_GRANULE] {
        edit_session(&scratch.path, |bytes| bytes[8..16].copy_from_slice(&size.to_le_bytes()));
        let error = open(&scratch.path).unwrap_err();
        assert!(matches!(error, PoolError::Truncated { needed, .. } if needed == size), "{error}");
    }
}

#[test]
fn an_absurd_maximum_is_refused_in_words() {
    let scratch = Scratch::with_pool();
    let max = (isize::MAX as u64) / SIZE_GRANULE * SIZE_GRANULE;
    edit_header(&scratch.path, |bytes| bytes[72..80].copy_from_slice(&max.to_le_bytes()));
    let error = open(&scratch.path).unwrap_err();
    assert!(matches!(error, PoolError::AddressSpace { .. }), "{error}");
}

#[test]
fn a_newer_format_and_an_unknown_feature_are_refused() {
    let scratch = Scratch::with_pool();
    edit_header(&scratch.path, |bytes| bytes[8] = 2);
    let error = open(&scratch.path).unwrap_err();
    assert!(matches!(error, PoolError::NewerFormat { version: 2, .. }), "{error}");
    assert!(error.to_string().contains("use a newer Everleaf"), "{error}");
    // The last bit of all, so that this test goes on to fail for a feature nobody knows.
    edit_header(&scratch.path, |bytes| (bytes[8], bytes[23]) = (1, 128));
    let error = open(&scratch.path).unwrap_err();
    assert!(
        matches!(error, PoolError::UnknownFeatures { features, .. } if features == 1 << 63),
        "{error}"
    );
    edit_header(&scratch.path, |bytes| bytes[23] = 0);
    open(&scratch.path).unwrap();
}

#[test]
fn what_is_no_file_is_refused() {
    let scratch = Scratch::new();
    let is_refused = |path: &Path, read_only| {
        let options =
            PoolOptions { create: CreateMode::IfMissing, read_only, ..PoolOptions::default() };
        let error = Pool::open(path, &options).unwrap_err();
        assert!(matches!(error, PoolError::NotAFile { .. }), "{}: {error}", path.display());
    };
    for read_only in [false, true] {
        is_refused(scratch.directory.path(), read_only);
        is_refused(Path::new("/dev/null"), read_only);
    }
    let pipe = scratch.directory.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    is_refused(&pipe, false);
    is_refused(&pipe, true);
}

#[test]
fn a_file_this_user_may_not_write_is_refused() {
    // A kernel file without a way to be written refuses even the superuser.
    let path = Path::new("/sys/kernel/uevent_seqnum");
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return;
    }
    let error = open(path).unwrap_err();
    assert!(matches!(error, PoolError::Permission { read_only: false, .. }), "{error}");
}

#[test]
fn a_reader_changes_nothing_and_can_change_nothing() {
    let scratch = Scratch::new();
    let pool = create(&scratch.path).unwrap();
    pool.create_root("users", 1, 5).unwrap();
    drop(pool);
    let before = fs::read(&scratch.path).unwrap();
    let modified = fs::metadata(&scratch.path).unwrap().modified().unwrap();
    let pool = open_read_only(&scratch.path).unwrap();
    assert!(pool.is_read_only() && !pool.was_clean());
    let root = pool.root("users").unwrap();
    assert_eq!((root.value, pool.roots().len()), (5, 1));
    let refused = |result: Result<(), PoolError>| {
        assert!(matches!(result, Err(PoolError::ReadOnly { .. })), "{result:?}");
    };
    refused(pool.create_root("more", 1, 1).map(drop));
    refused(pool.set_root_value(root.index, 5, 6));
    refused(pool.remove_root(root.index));
    refused(pool.next_id().map(drop));
    refused(pool.grow(1 << 21).map(drop));
    refused(pool.set_clean());
    drop(pool);
    assert_eq!(fs::read(&scratch.path).unwrap(), before);
    assert_eq!(fs::metadata(&scratch.path).unwrap().modified().unwrap(), modified);
}

#[test]
fn a_reader_does_not_create() {
    let scratch = Scratch::new();
    let options =
        PoolOptions { create: CreateMode::IfMissing, read_only: true, ..PoolOptions::default() };
    let error = Pool::open(&scratch.path, &options).unwrap_err();
    assert!(matches!(error, PoolError::ReadOnly { .. }), "{error}");
    assert!(!scratch.path.exists());
}

/// What was refused: a pool whose close was cut short before its mark, and which then grew and was killed. It had the
/// seal of the close in force, and what the seal did not know.
#[test]
fn the_seal_of_a_close_that_was_cut_short_is_never_in_force() {
    let scratch = Scratch::with_pool();
    let seal = Seal { leaves: 3, keys: 99, sum: 77, roots: 5 };
    open(&scratch.path).unwrap().set_seal(seal).unwrap();
    let pool = open(&scratch.path).unwrap();
    assert!(!pool.was_clean());
    pool.end_seal();
    pool.grow(pool.size() + 1).unwrap();
    drop(pool);
    assert_eq!(open(&scratch.path).unwrap().seal(), None);
}

#[test]
fn the_domain_is_detected_or_as_ordered() {
    let scratch = Scratch::with_pool();
    for domain in Domain::ALL {
        let options = PoolOptions { domain: Some(domain), ..PoolOptions::default() };
        let pool = Pool::open(&scratch.path, &options).unwrap();
        assert_eq!(pool.medium().domain(), domain);
        assert_eq!(pool.medium().needs_flush(), domain == Domain::Adr);
        pool.create_root(domain.name(), 1, 1).unwrap();
        pool.next_id().unwrap();
    }
    let pool = open(&scratch.path).unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    assert!(mounts.contains("dax") || pool.medium().domain() == Domain::Process);
    assert_eq!(pool.roots().len(), 3);
}

/// Gives the session of the file another boot of the system, or another count of the devices.
fn another_boot(path: &Path) {
    edit_session(path, |bytes| bytes[24..40].fill(0x5A));
}

#[test]
fn a_pool_in_use_at_a_machine_crash_is_trusted_only_on_demand() {
    let scratch = Scratch::new();
    create(&scratch.path).unwrap().create_root("users", 1, 1).unwrap();
    another_boot(&scratch.path);
    for read_only in [false, true] {
        let options = PoolOptions { read_only, ..PoolOptions::default() };
        let error = Pool::open(&scratch.path, &options).unwrap_err();
        assert!(matches!(error, PoolError::MachineCrashed { .. }), "{error}");
        for remedy in ["`everleaf repair`", "--trust-after-machine-crash"] {
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }
    let trusting = PoolOptions { trust_after_machine_crash: true, ..PoolOptions::default() };
    let pool = Pool::open(&scratch.path, &trusting).unwrap();
    assert!(!pool.was_clean() && pool.root("users").is_some());
    drop(pool);
    open(&scratch.path).unwrap();
}

#[test]
fn a_pool_closed_cleanly_outlives_the_machine() {
    let scratch = Scratch::with_pool();
    another_boot(&scratch.path);
    assert!(open(&scratch.path).unwrap().was_clean());
    another_boot(&scratch.path);
    let error = open(&scratch.path).unwrap_err();
    assert!(matches!(error, PoolError::MachineCrashed { .. }), "the clean mark stayed: {error}");
}

#[test]
fn a_disk_does_not_outlive_the_machine_by_being_called_memory() {
    let scratch = Scratch::with_pool();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if mounts.contains("dax") {
        println!("skipped: the file may be on persistent memory");
        return;
    }
    let line = PoolOptions { domain: Some(Domain::Adr), ..PoolOptions::default() };
    drop(Pool::open(&scratch.path, &line).unwrap());
    another_boot(&scratch.path);
    let error = Pool::open(&scratch.path, &line).unwrap_err();
    assert!(matches!(error, PoolError::MachineCrashed { .. }), "{error}");
}

#[test]
fn a_session_copy_left_behind_by_a_crash_is_brought_up_to_date() {
    let scratch = Scratch::new();
    let pool = create(&scratch.path).unwrap();
    let before = fs::read(&scratch.path).unwrap();
    pool.grow(2 << 20).unwrap();
    drop(pool);
    // As if the crash had come between the two copies: the second still has the old size.
    let mut bytes = fs::read(&scratch.path).unwrap();
    let stale = SESSION_OFFSETS[0] as usize;
    bytes[stale..stale + 64].copy_from_slice(&before[stale..stale + 64]);
    fs::write(&scratch.path, &bytes).unwrap();
    assert_eq!(open(&scratch.path).unwrap().size(), 2 << 20);
    let bytes = fs::read(&scratch.path).unwrap();
    let copies = SESSION_OFFSETS.map(|offset| &bytes[offset as usize..offset as usize + 64]);
    assert_eq!(copies[0], copies[1]);
}

/// To ask whose pool a pipe is waited for a process that writes into it.
#[test]
fn a_pipe_has_no_number_and_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    assert_eq!(everleaf_pool::uuid_of(&path), None);
}
