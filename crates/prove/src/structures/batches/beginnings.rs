//! What the pools of the programs of batches hold at the beginning.

use everleaf_index::{BytesTree, Change, Session};

use super::{
    CROWD, G, LONE_FIRST, M, SPARE, SPARE_LONG, lone_key, moving_key, own_keys, swapping_keys,
    time_of,
};

/// Fills a pool until nothing more goes in, and makes a little room again.
pub(super) fn crowd(tree: &BytesTree<G, M>, session: &mut Session<M>) {
    let key = |number: u64| format!("crowd {number}").into_bytes();
    let put = |session: &mut Session<M>, number: u64| {
        tree.change(session, &Change::insert(&key(number), &CROWD))
    };
    let count = (0..).find(|number| put(session, *number).is_err()).expect("a pool has an end");
    for number in count.saturating_sub(5)..count {
        tree.change(session, &Change::remove(&key(number))).expect("it was put there");
    }
}

/// Fills a pool to the last record, and makes room for some that are as small as those of lone keys, which are there.
pub(super) fn fill(
    tree: &BytesTree<G, M>,
    other: &BytesTree<G, M>,
    session: &mut Session<M>,
    threads: usize,
) {
    let value = LONE_FIRST.to_le_bytes();
    let expiring = |key: &[u8], session: &mut Session<M>, tree: &BytesTree<G, M>| {
        tree.change(session, &Change::insert(key, &value).expiring(time_of(LONE_FIRST)))
    };
    for thread in 0..threads {
        expiring(&lone_key(thread), session, tree).expect("the pool is empty");
    }
    let spare = |number: u64| format!("spar {number}").into_bytes();
    for number in 0..SPARE {
        expiring(&spare(number), session, other).expect("the pool is empty");
    }
    // For batches that are lengthened.
    for number in 0..SPARE_LONG {
        let put = format!("long {number}").into_bytes();
        other.change(session, &Change::insert(&put, &CROWD[..150])).expect("the pool is empty");
    }
    let mut next = 0..;
    for size in (0..CROWD.len()).rev().step_by(4) {
        let mut put = |number: u64| {
            let key = format!("crowd {number}").into_bytes();
            other.change(session, &Change::insert(&key, &CROWD[..size]))
        };
        let _ = next.find(|number| put(*number).is_err());
    }
    for number in 0..SPARE {
        other.change(session, &Change::remove(&spare(number))).expect("it was put there");
    }
    for number in 0..SPARE_LONG {
        let key = format!("long {number}").into_bytes();
        other.change(session, &Change::remove(&key)).expect("it was put there");
    }
}

/// Puts the first of each thread's swapping keys.
pub(super) fn begin_swaps(tree: &BytesTree<G, M>, session: &mut Session<M>, threads: usize) {
    for thread in 0..threads {
        let put = &swapping_keys(thread)[0];
        tree.change(session, &Change::insert(put, b"here")).expect("the pool is empty");
    }
}

/// Puts all keys that move in the first tree, and with them the own keys of the second thread in both: then two
/// threads have filled its leaf.
pub(super) fn begin_moves(
    tree: &BytesTree<G, M>,
    other: &BytesTree<G, M>,
    session: &mut Session<M>,
    threads: usize,
) {
    let value = LONE_FIRST.to_le_bytes();
    let mut put = |tree: &BytesTree<G, M>, key: &[u8], expiry_ms| {
        let put = Change::insert(key, &value).expiring(expiry_ms);
        tree.change(session, &put).expect("the pool is empty");
    };
    (0..threads).for_each(|thread| put(tree, &moving_key(thread), 0));
    let [first, second] = own_keys(1);
    put(tree, &first, time_of(LONE_FIRST));
    put(other, &second, time_of(LONE_FIRST));
}
