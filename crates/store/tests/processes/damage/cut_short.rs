//! A pool whose process died within a batch, and in which a record was damaged since: for the tests of the store and of
//! the command line.

use std::path::Path;

use everleaf_index::{Change, Pool, PoolOptions, Trees, journal};

/// Leaves a batch in the journal of a pool that nobody has open: as if its process had died in it, before it let each
/// of these keys of the default map expire at this time (milliseconds since 1970).
pub fn leave_batch(pool: &Path, keys: &[&[u8]], expiry_ms: u64) {
    let options = PoolOptions { max_size_bytes: 1 << 26, ..PoolOptions::default() };
    let opened = Pool::open(pool, &options).expect("it opens");
    let trees: Trees = Trees::open(opened, 1).expect("it is sound");
    let map = trees.find_bytes_tree("default").expect("it is one of bytes").expect("it is there");
    let mut session = trees.heap().session().expect("one is free");
    let id = map.id(&mut session).expect("it is there");
    // How many changes; of each the tree, the sizes (only the expiry changes), the time, and the key.
    let mut body = (keys.len() as u32).to_le_bytes().to_vec();
    for key in keys {
        let sizes = [id, key.len() as u32, u32::MAX - 1].map(u32::to_le_bytes);
        body.extend([&sizes.concat(), &expiry_ms.to_le_bytes()[..], key].concat());
    }
    drop(session);
    enter_batch(&trees, &body);
    trees.close().expect("it closes");
}

/// Enters the changes of a batch, behind their number, in the journal of a pool.
pub fn enter_batch(trees: &Trees, changes: &[u8]) {
    let batch = [&crc32c(changes).to_le_bytes()[..], changes].concat();
    let journal = trees.bytes_tree(journal::NAME).expect("room");
    let mut session = trees.heap().session().expect("one is free");
    let _ = journal.change(&mut session, &Change::upsert(&[0, 5], &batch)).expect("room");
}

/// Changes a bit of the first of these bytes in a file, which has them once.
pub fn damage(file: &Path, text: &[u8]) {
    let mut bytes = std::fs::read(file).expect("readable");
    let mut found = (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text));
    let at = found.next().expect("it is there");
    assert_eq!(found.next(), None, "it is there once");
    bytes[at] ^= 1;
    std::fs::write(file, bytes).expect("writable");
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ ((sum & 1) * 0x82F6_3B78))
    })
}
