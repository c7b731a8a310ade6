//! A process that changes its folder while it has a store open by a relative path.

use everleaf::{Durability, Options};

use crate::fork::in_child;

/// What was lost: the backup of `save` lay in the folder that the process had gone to, in place of another pool's, and
/// the one beside the pool stayed old.
#[test]
fn a_backup_lies_beside_its_pool_wherever_the_process_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = tempfile::tempdir().expect("a folder");
    let code = in_child(|| {
        std::env::set_current_dir(folder.path()).expect("it is there");
        let options = Options::new().create(true).max_size_bytes(1 << 26);
        let options = options.durability(Durability::Process);
        let store = options.open("a.pool").expect("it opens");
        std::env::set_current_dir(other.path()).expect("it is there");
        store.default_map().insert("key", "value").expect("room");
        assert_eq!(store.save().expect("room"), 1);
        store.close().expect("it closes");
    });
    assert_eq!(code, 0);
    assert_eq!(std::fs::read_dir(other.path()).expect("it is there").count(), 0);
    let backup = folder.path().join("a.pool.backup");
    let store = Options::new().read_only(true).open(backup).expect("it is there");
    assert_eq!(store.default_map().get("key").expect("sound").as_deref(), Some(&b"value"[..]));
}
