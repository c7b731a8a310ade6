//! P-Skiplist as the other designs are tested.

use everleaf_designs::PSkiplist;
use everleaf_designs::skiplist::variant::Small;
use everleaf_index::{CreateMode, IndexError, OrderedIndex, Pool, PoolOptions, SingleTreePool};

use super::hybrid_trees::{one_thread, reopened, shared};

#[test]
fn agrees_with_a_btreemap() {
    one_thread::<PSkiplist>(3000, 30_000);
    one_thread::<PSkiplist>(40, 8_000);
}

#[test]
fn agrees_with_a_btreemap_on_few_levels() {
    one_thread::<PSkiplist<Small<1>>>(40, 8_000);
    one_thread::<PSkiplist<Small<3>>>(300, 8_000);
}

#[test]
fn survives_being_closed_and_opened() {
    reopened::<PSkiplist>();
}

#[test]
fn threads_share_it() {
    shared::<PSkiplist>(300, 10_000);
    shared::<PSkiplist<Small<2>>>(30, 5_000);
}

#[test]
fn a_list_opened_read_only_is_searched_and_scanned() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let open = |read_only| {
        let create = if read_only { CreateMode::Never } else { CreateMode::IfMissing };
        let options = PoolOptions { read_only, create, ..PoolOptions::default() };
        let pool = Pool::open(&path, &options).expect("a pool");
        SingleTreePool::<PSkiplist>::open(pool, 1).expect("a list")
    };
    {
        let solo = open(false);
        let mut session = solo.heap().session().expect("a free session");
        for key in 0..1000 {
            solo.tree().insert(&mut session, key * 3, key).expect("room");
        }
        solo.tree().remove(&mut session, 600).expect("no space needed");
    }
    let solo = open(true);
    let mut session = solo.heap().session().expect("a free session");
    for key in 0..1000 {
        let value = Some(key).filter(|key| *key != 200);
        assert_eq!(solo.tree().get(&mut session, key * 3).expect("get"), value);
        assert_eq!(solo.tree().get(&mut session, key * 3 + 1).expect("get"), None);
    }
    let (mut up, mut down) = (vec![], vec![]);
    solo.tree().scan(&mut session, 599, 2, &mut up).expect("scan");
    solo.tree().scan_back(&mut session, 602, 2, &mut down).expect("scan");
    assert_eq!((up, down), (vec![(603, 201), (606, 202)], vec![(597, 199), (594, 198)]));
    assert!(matches!(solo.tree().insert(&mut session, 1, 1), Err(IndexError::ReadOnly)));
}
