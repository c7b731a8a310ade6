//! A front: the future objects that the sessions of one number write to.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering, SpinGuard};

use super::F3Tree;
use super::layout::Objects;
use super::variant::Variant;

/// The objects of a front, in the order in which their entries are used. The thread that holds the front's
/// lock may fill its free entries.
#[derive(Default)]
pub(super) struct Front {
    /// Where they are.
    pub objects: Vec<u64>,
    /// How many entries, of all objects in a row, come before the one to be used next.
    cursor: usize,
}

/// A locked front.
pub(super) type FrontGuard<'f, M> = SpinGuard<'f, Front, M>;

impl<V: Variant, M: Machine> F3Tree<V, M> {
    /// The front of a session, locked.
    pub(super) fn lock_front(&self, session: &Session<M>) -> FrontGuard<'_, M> {
        self.fronts[session.stripe() % V::FRONTS].lock()
    }

    /// The next free entry of a front. Looks at `reach` entries.
    pub(super) fn free_entry(&self, front: &mut Front, reach: usize) -> Option<u64> {
        // Acquire: the word on the medium is at least this; pairs with the release in `evaluate.rs`.
        let drained = self.drained.load(Ordering::Acquire);
        let all = front.objects.len() * V::ENTRIES;
        for _ in 0..reach.min(all) {
            let at = front.cursor % all;
            let entry = Objects::<M>::entry(front.objects[at / V::ENTRIES], at % V::ENTRIES);
            front.cursor = at + 1;
            if self.objects.stamp(entry).sequence() < drained {
                return Some(entry);
            }
        }
        None
    }

    /// Adds an object to the front, unless the tree has as many as it may have. The first one is kept for the
    /// front: only the others count.
    pub(super) fn add_object(
        &self,
        session: &mut Session<M>,
        index: usize,
        front: &mut Front,
    ) -> Result<bool, AllocError> {
        let counts = u64::from(!front.objects.is_empty());
        // Relaxed: a number of objects; a thread that counts one too many takes it back.
        let others = self.other_objects.fetch_add(counts, Ordering::Relaxed) + counts;
        if others > V::OBJECTS_MAX.saturating_sub(V::FRONTS) as u64 {
            // Relaxed: a number of objects.
            self.other_objects.fetch_sub(counts, Ordering::Relaxed);
            return Ok(false);
        }
        let object = match session.allocate_record(V::OBJECT_SIZE) {
            Ok(object) => object,
            Err(error) => {
                // Relaxed: a number of objects.
                self.other_objects.fetch_sub(counts, Ordering::Relaxed);
                return Err(error);
            }
        };
        let head = self.head(index);
        // Relaxed: only the holder of the front's lock stores it.
        self.objects.build(object, head.load(Ordering::Relaxed));
        // Release: the object before the word that refers to it; recovery's view.
        head.store(object, Ordering::Release);
        // Persist: the reference before the first entry is acknowledged (F2).
        if !M::mutant("f3.no_head_flush") {
            session.medium().persist(head.as_ptr(), 8);
        }
        front.cursor = front.objects.len() * V::ENTRIES;
        front.objects.push(object);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};

    use crate::F3Tree;
    use crate::f3tree::variant::Objects100;

    /// Fronts below their share might always add: one session could fill 100 objects, and fifteen others
    /// added 105.
    #[test]
    fn all_fronts_together_keep_the_limit() {
        let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
        let tree_pool: SingleTreePool<F3Tree<Objects100>> =
            SingleTreePool::create(pool).expect("room");
        let mut sessions: Vec<_> =
            (0..16).map(|_| tree_pool.heap().session().expect("a free session")).collect();
        for (number, session) in sessions.iter_mut().enumerate() {
            for key in 0..1500 {
                let key = key << 8 | number as u64;
                tree_pool.tree().insert(session, key, key).expect("room");
            }
        }
        let counts: Vec<usize> =
            tree_pool.tree().fronts.iter().map(|front| front.lock().objects.len()).collect();
        assert!(counts.iter().all(|count| *count >= 1), "{counts:?}");
        assert!(counts.iter().sum::<usize>() <= 100, "{counts:?}");
    }
}
