//! The bytes of a batch in the journal, whose layout is in the header of `journal.rs`.

use everleaf_alloc::Session;
use everleaf_machine::Machine;
use everleaf_machine::check_sum::crc32c;

use super::BatchOp;
use crate::api::error::IndexError;
use crate::bytes::change::{Change, What};
use crate::bytes::record::{KEY_SIZE_MAX, VALUE_SIZE_MAX};
use crate::bytes::tree::BytesTree;
use crate::geometry::Geometry;

const HEADER_SIZE: usize = 8;
const CHANGE_HEADER_SIZE: usize = 20;
/// The value length of a removal.
const REMOVED: u32 = u32::MAX;
/// The value length of a change of the expiry alone.
const EXPIRES: u32 = u32::MAX - 1;

/// The bytes of these changes.
pub(super) fn encode<'a, G: Geometry, M: Machine>(
    session: &mut Session<M>,
    operations: &[BatchOp<'a, G, M>],
) -> Result<Vec<u8>, IndexError> {
    let value = |operation: &BatchOp<'a, G, M>| operation.change.value();
    let size = |operation: &BatchOp<'a, G, M>| {
        let value_size = value(operation).map_or(0, <[u8]>::len);
        CHANGE_HEADER_SIZE + operation.change.key.len() + value_size
    };
    let size = HEADER_SIZE + operations.iter().map(size).sum::<usize>();
    if size > VALUE_SIZE_MAX {
        return Err(IndexError::BatchTooLarge(size));
    }
    let mut batch = Vec::with_capacity(size);
    batch.extend([0; 4]);
    batch.extend((operations.len() as u32).to_le_bytes());
    let mut last: Option<(&BytesTree<G, M>, u32)> = None;
    for operation in operations {
        let id = match last {
            Some((tree, id)) if std::ptr::eq(tree, operation.tree) => id,
            _ => operation.tree.id(session)?,
        };
        last = Some((operation.tree, id));
        append::<M>(&mut batch, id, &operation.change);
    }
    sum_up(&mut batch);
    Ok(batch)
}

/// Makes a batch so long, in bytes, or a little longer, by one of its removals, which is done once more each time.
pub(super) fn lengthen<G: Geometry, M: Machine>(
    session: &mut Session<M>,
    batch: &mut Vec<u8>,
    removal: &BatchOp<'_, G, M>,
    length: usize,
) -> Result<(), IndexError> {
    let id = removal.tree.id(session)?;
    let count = batch[4..HEADER_SIZE].try_into().expect("four bytes");
    let mut count = u32::from_le_bytes(count);
    while batch.len() < length {
        append::<M>(batch, id, &removal.change);
        count += 1;
    }
    batch[4..HEADER_SIZE].copy_from_slice(&count.to_le_bytes());
    sum_up(batch);
    Ok(())
}

fn append<M: Machine>(batch: &mut Vec<u8>, id: u32, change: &Change<'_>) {
    let Change { key, expiry_ms, .. } = *change;
    let value_length = match (change.what, change.value()) {
        (What::Expire, _) => EXPIRES,
        (_, Some(value)) if M::mutant("journal.short_lengths") => value.len() as u32 & 0xFFFF,
        (_, value) => value.map_or(REMOVED, |value| value.len() as u32),
    };
    let mut header = [0; CHANGE_HEADER_SIZE];
    header[..4].copy_from_slice(&id.to_le_bytes());
    header[4..8].copy_from_slice(&(key.len() as u32).to_le_bytes());
    header[8..12].copy_from_slice(&value_length.to_le_bytes());
    header[12..].copy_from_slice(&expiry_ms.to_le_bytes());
    batch.extend_from_slice(&header);
    batch.extend_from_slice(key);
    batch.extend_from_slice(change.value().unwrap_or_default());
}

fn sum_up(batch: &mut [u8]) {
    let sum = crc32c(&batch[4..]);
    batch[..4].copy_from_slice(&sum.to_le_bytes());
}

/// The changes of a batch in the journal, each behind the id of its tree: puts, removals and changes of expiries.
/// `None` if these are not the bytes of a batch.
pub fn decode(batch: &[u8]) -> Option<Vec<(u32, Change<'_>)>> {
    let (sum, rest) = batch.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*sum) != crc32c(rest) {
        return None;
    }
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut changes = vec![];
    for _ in 0..u32::from_le_bytes(*count) {
        let (tree, after) = rest.split_first_chunk::<4>()?;
        let (key, after) = after.split_first_chunk::<4>()?;
        let (value, after) = after.split_first_chunk::<4>()?;
        let (expiry, after) = after.split_first_chunk::<8>()?;
        let (key, after) = after.split_at_checked(u32::from_le_bytes(*key) as usize)?;
        if key.len() > KEY_SIZE_MAX {
            // None of ours, whatever its sum: no pool can have it.
            return None;
        }
        let (change, after) = match u32::from_le_bytes(*value) {
            REMOVED => (Change::remove(key), after),
            EXPIRES => (Change::expire(key, 0), after),
            length => {
                let (value, after) = after.split_at_checked(length as usize)?;
                (Change::upsert(key, value), after)
            }
        };
        let change = change.expiring(u64::from_le_bytes(*expiry));
        changes.push((u32::from_le_bytes(*tree), change));
        rest = after;
    }
    rest.is_empty().then_some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool_trees::trees::Trees;
    use everleaf_pool::{Domain, Pool};

    #[test]
    fn a_batch_is_read_as_written_and_no_flipped_bit_is_believed() {
        let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("t").expect("room");
        let mut session = trees.heap().session().expect("a session");
        let operations = [
            BatchOp::put(&tree, b"one", b"1", 7),
            BatchOp::put(&tree, b"", b"", 0),
            BatchOp::remove(&tree, b"gone"),
            BatchOp::expire(&tree, b"two", 8),
        ];
        let mut batch = encode(&mut session, &operations).expect("small");
        let id = tree.id(&mut session).expect("there");
        let read = decode(&batch).expect("whole");
        assert_eq!(read.len(), 4);
        for (written, operation) in read.iter().zip(&operations) {
            assert_eq!(*written, (id, operation.change()));
        }
        let mut long = batch.clone();
        lengthen(&mut session, &mut long, &operations[2], 300).expect("there");
        assert!((300..330).contains(&long.len()));
        let read = decode(&long).expect("whole");
        assert!(read[4..].iter().all(|again| *again == (id, operations[2].change())));
        assert!(read.len() > 8 && decode(&batch).expect("whole")[..] == read[..4]);
        assert!(decode(&batch[..batch.len() - 1]).is_none());
        for bit in 0..batch.len() * 8 {
            batch[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&batch).is_none(), "bit {bit}");
            batch[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
