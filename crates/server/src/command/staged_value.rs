//! What is to be written of keys, over what the store has.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use everleaf::Expiry;

/// Bytes that an entry takes besides its key and value.
pub const ENTRY_OVERHEAD: usize = 100;

/// A value and when it expires.
pub type Value = (Vec<u8>, Expiry);

/// What is to be written; `None` removes the key.
pub type Written = BTreeMap<Vec<u8>, Option<Value>>;

/// An expiry that changes alone.
#[derive(Clone, Copy)]
pub struct NewExpiry {
    /// What the store has.
    pub seen: Expiry,
    pub new: Expiry,
}

/// Sets what is to be written of a key, or that nothing is.
pub fn set<K: Ord, V>(written: &mut BTreeMap<K, Option<V>>, key: K, value: Option<Option<V>>) {
    match value {
        Some(value) => drop(written.insert(key, value)),
        None => drop(written.remove(&key)),
    }
}

/// Sets what is to be written of a key, and counts it. Returns what was to be written.
pub fn note_write(
    written: &mut Written,
    size: &mut usize,
    key: &[u8],
    value: Option<Value>,
) -> Option<Option<Value>> {
    let size_of = |value: &Option<Value>| value.as_ref().map_or(0, |(value, _)| value.len());
    *size += size_of(&value);
    match written.get_mut(key) {
        Some(old) => {
            *size -= size_of(old);
            Some(std::mem::replace(old, value))
        }
        None => {
            *size += key.len() + ENTRY_OVERHEAD;
            written.insert(key.to_vec(), value)
        }
    }
}

/// A key, and what it has; `None` if it is removed.
pub type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// Is shown changes, until it breaks.
pub type ShowChange<'a> = dyn FnMut(Change<'_>) -> ControlFlow<()> + 'a;

/// Visits what `scan` visits, with what was written instead of what it replaces, also of what is removed. A scan that
/// ends before its bounds says which key it has reached: nothing behind that is visited. Returns whether it did.
pub fn merge<'w>(
    written: impl DoubleEndedIterator<Item = Change<'w>>,
    reverse: bool,
    visit: &mut ShowChange<'_>,
    scan: impl FnOnce(&mut ShowChange<'_>) -> everleaf::Result<Option<Vec<u8>>>,
) -> everleaf::Result<bool> {
    let (mut forward, mut backward);
    let over: &mut dyn Iterator<Item = _> = if reverse {
        backward = written.rev();
        &mut backward
    } else {
        forward = written;
        &mut forward
    };
    let mut over = over.peekable();
    let mut flow = ControlFlow::Continue(());
    let is_due = |over: &[u8], key: &[u8]| if reverse { over >= key } else { over <= key };
    let reached = scan(&mut |(key, value)| {
        let mut replaced = false;
        while let Some(change) = over.next_if(|(over_key, _)| is_due(over_key, key)) {
            replaced = change.0 == key;
            flow = visit(change);
            flow?;
        }
        if !replaced {
            flow = visit((key, value));
        }
        flow
    })?;
    let is_left = |key: &[u8]| reached.as_ref().is_none_or(|reached| is_due(key, reached));
    while flow.is_continue()
        && let Some(change) = over.next_if(|(key, _)| is_left(key))
    {
        flow = visit(change);
    }
    Ok(reached.is_some())
}
