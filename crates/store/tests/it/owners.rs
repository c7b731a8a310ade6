//! Whose files are that root makes for the pool of another user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::{Durability, Options, Store};

/// A user and a group that own nothing else.
const OWNER: (u32, u32) = (12345, 12346);

/// Everything in a folder and below, and whose it is.
fn owners(folder: &Path) -> Vec<(String, (u32, u32))> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("readable");
        let status = entry.metadata().expect("it is there");
        found.push((entry.path().display().to_string(), (status.uid(), status.gid())));
        if status.is_dir() {
            found.extend(owners(&entry.path()));
        }
    }
    found
}

fn assert_all_are_the_owners(folder: &Path, when: &str) {
    for (name, owner) in owners(folder) {
        assert_eq!(owner, OWNER, "{when}: {name}");
    }
}

/// Root maintained the pool of a service's user: the files that this added to the log were root's, and the service
/// could not read its own log any more.
#[test]
fn what_root_adds_to_a_users_pool_is_the_users() {
    let folder = tempfile::tempdir().expect("a folder");
    if chown(folder.path(), Some(OWNER.0), Some(OWNER.1)).is_err() {
        eprintln!("not tried: only root can give files away");
        return;
    }
    let path = folder.path().join("pool");
    let open = || Options::new().create(true).durability(Durability::Power).open(&path);
    Options::new().create(true).open(&path).expect("it opens").close().expect("it closes");
    chown(&path, Some(OWNER.0), Some(OWNER.1)).expect("we are root");
    let store = open().expect("a log is added");
    store.default_map().put("a", "1").expect("room");
    assert_all_are_the_owners(folder.path(), "a pool that is given a log");
    store.snapshot().expect("room");
    store.close().expect("it closes");
    assert_all_are_the_owners(folder.path(), "a snapshot");
    Store::compact(&path, |_| {}).expect("room");
    assert_all_are_the_owners(folder.path(), "a compaction");
    fs::remove_file(&path).expect("the pool is lost");
    let store = open().expect("it is rebuilt");
    assert_eq!(store.default_map().len(), 1);
    store.default_map().put("b", "2").expect("room");
    store.close().expect("it closes");
    assert_all_are_the_owners(folder.path(), "a pool that is rebuilt from the log");
}

/// What root restored into the folder of a service's user, as the server had advised, was root's: the service could not
/// open it, and did not start any more. Where others may write as well, and of a backup, nothing is given away.
#[test]
fn what_root_makes_in_a_users_folder_is_the_users() {
    let (folder, around) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
    let around = around.expect("a folder");
    if chown(around.path(), Some(OWNER.0), Some(OWNER.1)).is_err() {
        eprintln!("not tried: only root can give files away");
        return;
    }
    let owner = |name: &str| {
        let found = fs::metadata(around.path().join(name)).expect("there");
        assert_eq!(found.mode() & 0o777, 0o600, "{name}");
        (found.uid(), found.gid())
    };
    let own = fs::metadata(folder.path()).map(|it| (it.uid(), it.gid())).expect("there");
    let (pool, place) = (folder.path().join("pool"), |name: &str| around.path().join(name));
    let options = || Options::new().create(true);
    let store = options().open(&pool).expect("it opens");
    store.default_map().put("a", "1").expect("room");
    store.backup(place("backup"), |_| {}).expect("room");
    store.close().expect("it closes");
    assert_eq!(owner("backup"), own);
    Store::restore(&pool, place("restored"), |_| {}).expect("room");
    Store::repair(&pool, place("repaired")).expect("readable");
    options().open(place("new")).expect("room").close().expect("it closes");
    for name in ["restored", "repaired", "new"] {
        assert_eq!(owner(name), OWNER, "{name}");
    }
    fs::set_permissions(around.path(), fs::Permissions::from_mode(0o777)).expect("we are root");
    Store::restore(&pool, place("among others"), |_| {}).expect("room");
    assert_eq!(owner("among others"), own);
}

/// Root gave the new folder of a log away by its name. The user who owned the folder around put a link in its place in
/// between, and got whatever that led to.
#[test]
fn who_puts_a_link_in_place_of_a_new_log_is_given_nothing() {
    let (folder, victim) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (path, log) = (folder.path().join("pool"), folder.path().join("pool.log"));
    Options::new().create(true).open(&path).expect("it opens").close().expect("it closes");
    if chown(&path, Some(OWNER.0), Some(OWNER.1)).is_err() {
        eprintln!("not tried: only root can give files away");
        return;
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed: nothing but the end is told.
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                if fs::rename(&log, folder.path().join(format!("aside-{number}"))).is_ok() {
                    let _ = symlink(victim.path(), &log);
                }
            }
        });
        for _ in 0..30 {
            let _ = Options::new().durability(Durability::Power).open(&path);
            // What is there by now, if it is the link.
            let _ = fs::remove_file(&log);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let found = fs::metadata(victim.path()).expect("there");
    assert_ne!((found.uid(), found.gid()), OWNER);
}
