//! What is kept of maps for views.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::{Error, Options, Store};

/// How many maps something is kept of: such as were made with their pairs, and such as could not be saved.
fn maps_of(store: &Store) -> [usize; 2] {
    let views = &store.shared().views;
    let (born, unsaved) = (views.new_maps.list.lock().expect("whole"), views.unsaved.lock());
    // Relaxed: one thread.
    assert_eq!(views.new_maps.count.load(Ordering::Relaxed), born.len());
    // Relaxed: one thread.
    assert_eq!(views.has_unsaved.load(Ordering::Relaxed), !unsaved.is_empty());
    [born.len(), unsaved.len()]
}

/// Changes a byte of this value in the file of a pool that is open.
fn damage(path: &Path, value: &[u8]) {
    let pool = std::fs::read(path).expect("there");
    let at = pool.windows(value.len()).position(|bytes| bytes == value).expect("there");
    let file = std::fs::File::options().write(true).open(path).expect("there");
    file.write_all_at(&[value[0] ^ 1], at as u64).expect("room");
}

/// What was lost: memory, and time. What was kept of maps went when no view was open. With views that overlap it grew
/// by a tree for each map that was loaded, or emptied with a damaged record, and each get of a view looked through all
/// of it.
#[test]
fn what_views_keep_of_maps_goes_with_those_that_need_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let options = Options::new().create(true).max_size_bytes(1 << 26).sweep(false);
    let store = options.open(&path).expect("it opens");
    let emptied = store.map("emptied").expect("room");
    let mut older = store.view().expect("a view");
    for round in 0..20 {
        let _ = store.drop_map("loaded").expect("writable");
        let loaded = store.load_map("loaded", [(b"key", b"value")]).expect("room");
        let value = format!("precious, of round {round}");
        assert!(!emptied.put(b"key", &value).expect("room"));
        let between = store.view().expect("a view");
        damage(&path, value.as_bytes());
        emptied.clear().expect("writable");
        assert!(!emptied.put(b"key", "new").expect("room"));
        let newer = store.view().expect("a view");
        emptied.clear().expect("writable");
        assert_eq!(older.map(&loaded).get(b"key").expect("readable"), None);
        assert_eq!(older.map(&loaded).iter().count(), 0);
        assert_eq!(between.map(&loaded).iter().count(), 1);
        let told = between.map(&emptied).get(b"key");
        assert!(matches!(told, Err(Error::Corrupt(_))), "{told:?}");
        let now = newer.map(&emptied).get(b"key").expect("it was saved");
        assert_eq!(now.expect("it was there"), b"new");
        assert_eq!(maps_of(&store), [1, 1], "round {round}");
        older = newer;
        assert_eq!(maps_of(&store), [0, 1], "round {round}: the view in between is open");
        drop(between);
        assert_eq!(maps_of(&store), [0, 0], "round {round}");
    }
    drop(older);
    assert_eq!(store.statistics().view_bytes, 0);
}
