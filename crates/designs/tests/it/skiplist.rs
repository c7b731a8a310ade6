//! P-Skiplist as the other designs are tested.

use everleaf_designs::PSkiplist;
use everleaf_designs::skiplist::variant::{
    Buffered, BufferedUnlogged, Cached, OutOfPlace, OutOfPlaceUnlogged, Small, Standard, Variant,
    Whole, WholeUnlogged,
};
use everleaf_index::{CreateMode, IndexError, OrderedIndex, Pool, PoolOptions, SingleTreePool};

use super::common::{closed, one_thread, open, reopened, shared};

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
fn variants_agree_with_a_btreemap() {
    one_thread::<PSkiplist<Cached>>(3000, 15_000);
    one_thread::<PSkiplist<Buffered>>(3000, 15_000);
    one_thread::<PSkiplist<OutOfPlace>>(3000, 15_000);
    one_thread::<PSkiplist<Whole>>(3000, 15_000);
    one_thread::<PSkiplist<Small<3, 1>>>(300, 6_000);
    one_thread::<PSkiplist<Small<2, 3>>>(40, 6_000);
    one_thread::<PSkiplist<Small<3, 7>>>(300, 6_000);
}

#[test]
fn variants_survive_being_closed_and_opened() {
    reopened::<PSkiplist<Cached>>();
    reopened::<PSkiplist<Buffered>>();
    reopened::<PSkiplist<Whole>>();
    reopened::<PSkiplist<Small<2, 3>>>();
}

#[test]
fn threads_share_the_variants() {
    shared::<PSkiplist<Cached>>(300, 5_000);
    shared::<PSkiplist<Whole>>(300, 5_000);
    shared::<PSkiplist<Small<3, 1>>>(60, 5_000);
    shared::<PSkiplist<Small<3, 7>>>(60, 5_000);
}

#[test]
fn variants_without_a_log_keep_what_a_closed_pool_had() {
    closed::<PSkiplist<BufferedUnlogged>>();
    closed::<PSkiplist<OutOfPlaceUnlogged>>();
    closed::<PSkiplist<WholeUnlogged>>();
}

#[test]
fn a_list_opened_read_only_is_searched_and_scanned() {
    read_only::<Standard>();
    read_only::<Cached>();
    read_only::<Buffered>();
    read_only::<Whole>();
}

fn read_only<V: Variant>() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let open = |read_only| {
        let create = if read_only { CreateMode::Never } else { CreateMode::IfMissing };
        let options = PoolOptions { read_only, create, ..PoolOptions::default() };
        let pool = Pool::open(&path, &options).expect("a pool");
        SingleTreePool::<PSkiplist<V>>::open(pool, 1).expect("a list")
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

/// Recovery mended what it met before it had seen the list to its end: behind a damaged link that was a record of
/// somebody else, and the pool was refused all the same.
#[test]
fn a_list_with_a_damaged_link_is_refused_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let first_key = 0x5EED_0000_0000_0000_u64;
    {
        let solo = open::<PSkiplist>(&path, CreateMode::New);
        let mut session = solo.heap().session().expect("a free session");
        for key in 0..50 {
            solo.tree().insert(&mut session, first_key + key, key).expect("room");
        }
    }
    let mut damaged = std::fs::read(&path).expect("readable");
    let place = |bytes: &[u8], key: u64| {
        let key = (first_key + key).to_le_bytes();
        bytes.windows(8).position(|word| word == key).expect("there")
    };
    // Behind the key is a word that recovery sets right, and the link is two words in front of it.
    let (state, link) = (place(&damaged, 3) + 8, place(&damaged, 40) - 16);
    damaged[state + 1] ^= 2;
    damaged[link..link + 8].copy_from_slice(&40_u64.to_le_bytes());
    std::fs::write(&path, &damaged).expect("room");
    let pool = Pool::open(&path, &PoolOptions::default()).expect("the pool itself is whole");
    let error = SingleTreePool::<PSkiplist>::open(pool, 1).err().expect("damage is refused");
    assert!(error.to_string().contains("no node of a list"), "{error}");
    let after = std::fs::read(&path).expect("readable");
    for at in [state, link] {
        assert_eq!(after[at - 64..at + 64], damaged[at - 64..at + 64], "byte {at}");
    }
}
