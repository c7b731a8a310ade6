//! Looks: whether keys of several stripes stayed as they were while they were read, without taking a stripe.
//!
//! All changes of a key are made behind its stripe while the gate is quiescent, and a thread that lets a stripe go
//! behind a change counts it. A reader therefore notes the counts of the stripes of its keys, while no thread that
//! changes has one of them, reads the keys, and looks at all of it again: if it is alike, no key was changed from the
//! last of the first looks to the first of the second, and all that was read is of any moment between the two. A reader
//! writes nothing that others read, and keeps nobody waiting; nor does one that was disturbed, and tries again.
//!
//! Invariants:
//! - K1 the stripes are looked at before the first key is read, and again behind the last;
//! - K2 the caller is pinned all the time, so that the gate, if it is found quiescent at both ends, was so in between.

use everleaf_machine::{Machine, Ordering};

use super::WriteOrder;

/// Keys whose stripes are noted without memory of their own.
const FEW: usize = 32;
/// The same on the simulated machine, where calls name few keys.
const FEW_SIMULATED: usize = 2;

/// What the stripes of some keys were; see [`WriteOrder::look`].
pub struct Look<'a, M: Machine> {
    order: &'a WriteOrder<M>,
    seen: Seen,
}

/// Stripes with their counts.
#[allow(
    clippy::large_enum_variant,
    reason = "it stays where it is made, and takes no memory of its own"
)]
enum Seen {
    /// One for each key; those behind `count` mean nothing.
    Few { stripes: [(u32, u64); FEW], count: usize },
    /// One place for each stripe that there is.
    Many(Vec<Option<u64>>),
}

impl<M: Machine> WriteOrder<M> {
    /// Looks at the stripes of keys before they are read (K1). `None`: a thread that may be changing a key has one of
    /// them, or writes without order may be under way. The caller is pinned, and stays so until
    /// [`Look::is_unchanged`] has answered (K2).
    pub fn look(&self, keys: &[&[u8]]) -> Option<Look<'_, M>> {
        if !self.gate.is_quiescent() {
            return None;
        }
        let few = if M::SIMULATED { FEW_SIMULATED } else { FEW };
        let seen = if keys.len() <= few { self.see_few(keys) } else { self.see_many(keys) };
        seen.map(|seen| Look { order: self, seen })
    }

    #[inline]
    fn see_few(&self, keys: &[&[u8]]) -> Option<Seen> {
        let mut stripes = [(0, 0); FEW];
        for (place, key) in stripes.iter_mut().zip(keys) {
            let number = self.stripe_of(key);
            *place = (number, self.stripes.changes_of(number)?);
        }
        Some(Seen::Few { stripes, count: keys.len() })
    }

    #[cold]
    fn see_many(&self, keys: &[&[u8]]) -> Option<Seen> {
        let mut seen = vec![None; self.stripes.count()];
        for key in keys {
            let number = self.stripe_of(key);
            let place = &mut seen[number as usize];
            if place.is_none() {
                *place = Some(self.stripes.changes_of(number)?);
            }
        }
        Some(Seen::Many(seen))
    }
}

impl<M: Machine> Look<'_, M> {
    /// Whether no key of the stripes was changed since they were looked at.
    #[inline]
    pub fn is_unchanged(&self) -> bool {
        // Acquire: the keys were read before the stripes are looked at again (K1), also what of them is read relaxed:
        // fingerprints, and expiries. A thread that has read a change finds its stripe taken, or counted, since that
        // was taken before; pairs with the exchanges of entries, with the releases of fingerprints behind a removal,
        // and with that of an expiry.
        M::fence(Ordering::Acquire);
        let is_same = |number: u32, seen| self.order.stripes.changes_of(number) == Some(seen);
        let is_all_same = || match &self.seen {
            Seen::Few { stripes, count } => {
                stripes[..*count].iter().all(|(number, seen)| is_same(*number, *seen))
            }
            Seen::Many(stripes) => (0..).zip(stripes).all(|(number, seen)| {
                let Some(seen) = *seen else { return true };
                is_same(number, seen)
            }),
        };
        let is_kept = || self.order.gate.is_quiescent() || M::mutant("look.forgets_gate");
        is_kept() && (M::mutant("look.trusts") || is_all_same())
    }
}

#[cfg(test)]
mod tests {
    use everleaf_alloc::Heap;
    use everleaf_machine::Hardware;
    use everleaf_pool::{Domain, Pool};

    use super::*;

    #[test]
    fn a_look_is_over_with_the_first_change_of_one_of_its_stripes() {
        let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
        let heap = Heap::<Hardware>::create(pool).expect("room");
        let order = WriteOrder::<Hardware>::new(64);
        let names: Vec<String> = (0..40).map(|number| format!("key {number}")).collect();
        let names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        assert!(order.look(&names).is_none(), "nobody keeps an order");
        order.raise(&heap);
        // Fewer than are noted in place, and more.
        for count in [2, FEW, FEW + 1, names.len()] {
            let keys = &names[..count];
            let others: Vec<u32> = keys.iter().map(|key| order.stripe_of(key)).collect();
            let other = (0..64).find(|number| !others.contains(number)).expect("there are more");
            let look = order.look(keys).expect("nobody writes");
            assert!(look.is_unchanged());
            drop(order.lock_many([other]));
            drop(order.lock_to_read(keys.iter().copied()));
            assert!(look.is_unchanged(), "none of its keys was changed");
            let write = order.lock(keys[count - 1]);
            assert!(!look.is_unchanged() && order.look(keys).is_none(), "one is being changed");
            drop(write);
            assert!(!look.is_unchanged(), "one was changed");
            let look = order.look(keys).expect("nobody writes");
            drop(order.lock_many([order.stripe_of(keys[0])]));
            assert!(!look.is_unchanged(), "one was changed by a batch");
        }
        let look = order.look(&names[..2]).expect("nobody writes");
        order.lower();
        assert!(!look.is_unchanged(), "from now on writes keep no order");
    }
}
