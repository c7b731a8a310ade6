//! P-Skiplist with a damaged link.

use everleaf_designs::PSkiplist;
use everleaf_index::{CreateMode, OrderedIndex, Pool, PoolOptions, SingleTreePool};

use super::common::open;

/// Recovery mended what it met before it had seen the list to its end: behind a damaged link that was a record of
/// somebody else, and the pool was refused all the same.
#[test]
fn a_list_with_a_damaged_link_is_refused_as_it_was() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pool");
    let first_key = 0x5EED_0000_0000_0000_u64;
    {
        let single = open::<PSkiplist>(&path, CreateMode::New);
        let mut session = single.heap().session().expect("a free session");
        for key in 0..50 {
            single.tree().insert(&mut session, first_key + key, key).expect("room");
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
