//! Loads that are under way.
//!
//! A load takes space for a tree that no name leads to yet, with a session of its own, for as long as its
//! pairs take to come. Nobody can say of that space whether it is in use, so a check waits until no load
//! is under way. It holds nothing meanwhile, because a load may wait for others in a function of the user.

use everleaf_alloc::AllocError;
use everleaf_machine::{Machine, SpinLock};

use super::Trees;
use crate::api::error::IndexError;
use crate::geometry::Geometry;

/// The hints of the threads that load, if they gave one.
pub(super) struct Loads<M: Machine>(SpinLock<Vec<Option<usize>>, M>);

/// A load that is under way, until dropped: after the session that it allocates with.
#[must_use = "a check waits only while it is there"]
pub struct LoadGuard<'a, M: Machine> {
    loads: &'a Loads<M>,
    hint: Option<usize>,
}

impl<M: Machine> Loads<M> {
    pub fn new() -> Self {
        Loads(SpinLock::new(vec![]))
    }

    pub fn is_any(&self) -> bool {
        !self.0.lock().is_empty()
    }

    /// Waits until there is a moment without a load.
    ///
    /// # Errors
    /// [`AllocError::Nested`] if the thread with this hint would wait for a load of its own.
    pub fn wait(&self, hint: Option<usize>) -> Result<(), IndexError> {
        let mut attempt = 0;
        loop {
            {
                let loads = self.0.lock();
                if loads.is_empty() {
                    return Ok(());
                }
                if hint.is_some() && loads.contains(&hint) {
                    return Err(AllocError::Nested.into());
                }
            }
            M::spin(attempt);
            attempt += 1;
        }
    }
}

impl<G: Geometry, M: Machine> Trees<G, M> {
    /// Says that a load begins; `hint`: of its thread, as in [`Self::check_by`], if pairs come from a
    /// function of the user. To be called before the load has its session.
    pub fn begin_load(&self, hint: Option<usize>) -> LoadGuard<'_, M> {
        // A check that has seen no load is over when we have this lock.
        let _busy = self.maintenance.lock();
        self.loads.0.lock().push(hint);
        LoadGuard { loads: &self.loads, hint }
    }
}

impl<M: Machine> Drop for LoadGuard<'_, M> {
    fn drop(&mut self) {
        let mut loads = self.loads.0.lock();
        if let Some(at) = loads.iter().position(|hint| *hint == self.hint) {
            loads.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pool::{Domain, Pool};

    use super::*;

    /// What is lost during a load is found, by the check that waited for it and by every later one.
    #[test]
    fn a_true_leak_is_found_after_a_load() {
        let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let loading = trees.begin_load(Some(7));
        let nested = trees.check_by(Some(7)).expect_err("it would wait for itself");
        assert!(nested.to_string().contains("called by a function"), "{nested}");
        std::thread::scope(|scope| {
            let checker = scope.spawn(|| trees.check_by(Some(8)).expect("it can be checked"));
            let mut session = trees.heap().session().expect("a session");
            session.allocate_block().expect("room");
            drop(session);
            assert!(!checker.is_finished(), "it waits for the load");
            drop(loading);
            for report in [checker.join().expect("no panic"), trees.check().expect("a check")] {
                let [problem] = &report.problems[..] else { panic!("{:?}", report.problems) };
                assert!(problem.starts_with("leaked: slot"), "{problem}");
            }
        });
    }
}
