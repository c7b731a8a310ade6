//! Get: the table of pending keys, or all entries there are, then the global tree.

use everleaf_alloc::Session;
use everleaf_index::{IndexError, OrderedIndex};
use everleaf_machine::{Machine, Ordering};

use super::F3Tree;
use super::layout::Objects;
use super::variant::Variant;

impl<V: Variant, M: Machine> F3Tree<V, M> {
    /// The value of a key.
    #[inline]
    pub(super) fn find(
        &self,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<Option<u64>, IndexError> {
        let shard = self.table.shard(key);
        loop {
            let direct = self.direct_writes();
            if is_under_way(direct) {
                // Under the lock nobody writes the key directly.
                let mut guard = shard.lock();
                let pending = guard.keys().get(&key).copied();
                return match pending {
                    Some(pending) => Ok(pending.current()),
                    None => self.global.get(session, key),
                };
            }
            // What leaves the table is in the global tree before.
            if !shard.is_empty()
                && let Some(pending) = shard.lock().keys().get(&key)
            {
                return Ok(pending.current());
            }
            let value = self.global.get(session, key)?;
            if self.is_durable_since(direct) {
                return Ok(value);
            }
            // A write without an entry has begun, and what was read may not be durable.
        }
    }

    /// The value of a key, without the table of pending keys: every entry of every object is looked at, as in the
    /// paper's tree without a hash table. It is there to be measured.
    ///
    /// *Linearizes at* the lock of the key's shard. *Complexity*: linear in the entries.
    ///
    /// # Errors
    /// Damage of the global tree.
    pub fn get_without_table(
        &self,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<Option<u64>, IndexError> {
        // Under the lock nobody writes the key, in an entry or directly.
        let _guard = self.table.shard(key).lock();
        loop {
            // Acquire: a direct write of the key came behind this number; pairs with the release in `evaluate.rs`.
            let drained = self.drained.load(Ordering::Acquire);
            let newest = self.newest_entry(key, drained);
            // Acquire: the entries were read before; pairs with the release in `change`, of a thread that fills one
            // because it is free by now.
            M::fence(Ordering::Acquire);
            // Relaxed: ordered by the fence.
            if self.drained.load(Ordering::Relaxed) == drained {
                return match newest {
                    Some((_, value)) => Ok(value),
                    None => self.global.get(session, key),
                };
            }
        }
    }

    /// Of the entries of a key that count by this number, the newest: its stamp and what it says.
    fn newest_entry(&self, key: u64, drained: u64) -> Option<(u64, Option<u64>)> {
        let mut newest = None;
        for front in 0..V::FRONTS {
            // Acquire: the object; pairs with the release in `front.rs`.
            let mut object = self.head(front).load(Ordering::Acquire);
            while object != 0 {
                for index in 0..V::ENTRIES {
                    let entry = Objects::<M>::entry(object, index);
                    let (stamp, found, value) = self.objects.whole(entry);
                    let is_newer = newest.is_none_or(|(known, _)| stamp.0 > known);
                    if found == key && stamp.sequence() >= drained && is_newer {
                        newest = Some((stamp.0, (!stamp.is_removal()).then_some(value)));
                    }
                }
                // Relaxed: written before the object could be reached, and never again.
                object = self.objects.next(object).load(Ordering::Relaxed);
            }
        }
        newest
    }

    /// How many writes to the global tree, without an entry, have begun and ended.
    #[inline]
    pub(super) fn direct_writes(&self) -> u64 {
        // Acquire: reads of the global tree come after; pairs with the fence in `write.rs`.
        self.direct.load(Ordering::Acquire)
    }

    /// Whether all that was read in the global tree since then is durable, there or in an entry.
    #[inline]
    pub(super) fn is_durable_since(&self, direct: u64) -> bool {
        // Acquire: the reads come before the load; pairs with the fence in `write.rs`.
        M::fence(Ordering::Acquire);
        // Relaxed: ordered by the fence.
        self.direct.load(Ordering::Relaxed) == direct
    }
}

/// Whether one of these writes has begun and not ended.
#[inline]
pub(super) fn is_under_way(direct: u64) -> bool {
    direct % 2 == 1
}
