//! The order of locks, checked in debug builds.
//!
//! Every lock of a store, of its log, and of its server that is held while another is waited for has a [`Rank`]. A
//! thread takes locks in ascending order of their ranks, so no two threads can wait for each other in a circle. In
//! debug builds each thread knows the ranks it holds, and a lock that is taken out of order panics where it is taken,
//! whether or not anybody else is there; in release builds nothing of this exists. The table, with what each lock
//! guards, is in `docs/concurrency.md`.
//!
//! A lock that is only tried for may be taken in any order: nobody waits. Locks of a simulated machine
//! are not watched, because its threads share one thread of the system.

use std::marker::PhantomData;

use crate::Machine;

/// A lock's place in the order. Ascending: what is taken first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Of the server: held by the thread that runs a command while no other does.
    ServerAlone,
    /// Of the server: those of the event loops. Several are taken in ascending order.
    ServerLoop,
    /// Of the server: the turns of collections. Several are taken in ascending order.
    Turn,
    /// Of the server: the connections that watch keys.
    WatchingList,
    /// Of the server: what a connection watches.
    Watched,
    /// Of the server: the clients that wait.
    Waiters,
    /// A session of the pool of sessions. A thread may take several, if it holds nothing else.
    Session,
    /// While a map of the store is made, numbered or removed.
    MapMaking,
    /// While the journal of batches is made.
    JournalMaking,
    /// The stripes of keys. Several are taken in ascending order of their numbers.
    Stripe,
    /// While a view is closed or given up.
    ViewClosing,
    /// The list of open views.
    ViewList,
    /// A part of the old values that views need.
    ViewPart,
    /// A part of the watches of keys.
    WatchPart,
    /// While a map gets a number in the log.
    LogNumber,
    /// The numbers of maps in the log.
    LogNumbers,
    /// Which thread writes the log.
    LogTurn,
    /// The writing end of the log.
    LogWriter,
    /// An append buffer of the log.
    LogBuffer,
    /// Whether a place in the log was filled for which its collection sleeps.
    LogComes,
    /// While space is in nobody's books, and while trees are checked.
    Maintenance,
    /// The trees by name.
    TreeNames,
    /// Removed trees that wait for their last user.
    RemovedTrees,
    /// While trees that nobody can find any more are freed.
    TreeFreeing,
    /// While a name gets another tree.
    TreeSwap,
    /// While a session of the heap begins.
    SessionGate,
    /// The chunks of the heap.
    Chunks,
    /// Free blocks and records of nobody.
    Depot,
    /// The directory of the pool.
    PoolDirectory,
    /// The session record of the pool, held while it grows.
    PoolSession,
    /// The length of a mapping.
    Mapping,
}

/// A rank that a thread holds, until dropped. It stays with its thread.
#[derive(Debug)]
pub struct Held {
    #[cfg(debug_assertions)]
    rank: Option<Rank>,
    _of_this_thread: PhantomData<*const ()>,
}

#[cfg(debug_assertions)]
thread_local! {
    static RANKS: std::cell::RefCell<Vec<Rank>> = const { std::cell::RefCell::new(vec![]) };
}

impl Held {
    /// Notes that the thread waits for a lock of this rank and then has it.
    ///
    /// # Panics
    /// In debug builds, if it holds one that comes later.
    #[inline(always)]
    #[track_caller]
    pub fn wait(rank: Rank) -> Held {
        check(rank);
        Held::note(Some(rank))
    }

    /// As [`Self::wait`], but nothing is noted on a simulated machine.
    #[inline(always)]
    #[track_caller]
    pub fn wait_on<M: Machine>(rank: Rank) -> Held {
        if M::SIMULATED { Held::note(None) } else { Held::wait(rank) }
    }

    /// Notes that the thread has a lock for which it did not wait; `None` if nobody cares.
    #[inline(always)]
    pub fn note(rank: Option<Rank>) -> Held {
        #[cfg(debug_assertions)]
        if let Some(rank) = rank {
            // While a thread ends there may be no list any more, and nothing to get wrong.
            let _ = RANKS.try_with(|ranks| ranks.borrow_mut().push(rank));
        }
        let _ = rank;
        Held {
            #[cfg(debug_assertions)]
            rank,
            _of_this_thread: PhantomData,
        }
    }
}

/// Panics in debug builds if the thread must not wait for a lock of this rank.
#[inline(always)]
#[track_caller]
pub fn check(rank: Rank) {
    #[cfg(debug_assertions)]
    {
        let last = RANKS.try_with(|ranks| ranks.borrow().iter().copied().max());
        let Ok(Some(last)) = last else { return };
        let nests = rank == Rank::Session && last == Rank::Session;
        assert!(
            last < rank || nests || std::thread::panicking(),
            "lock order: {rank:?} is taken while {last:?} is held; see docs/concurrency.md"
        );
    }
    let _ = rank;
}

/// Runs something as if another thread did it: for tests in which one thread plays several. It must not
/// wait for a lock that the calling thread has.
pub fn as_another_thread<R>(act: impl FnOnce() -> R) -> R {
    #[cfg(debug_assertions)]
    {
        let mine = RANKS.take();
        let result = act();
        RANKS.set(mine);
        result
    }
    #[cfg(not(debug_assertions))]
    act()
}

/// Runs something of the user while the thread holds locks of the store `owner` that are not let go: other
/// stores may be used there as if by another thread, and this one may not.
pub fn apart<R>(owner: usize, act: impl FnOnce() -> R) -> R {
    #[cfg(debug_assertions)]
    let _apart = Apart::begin(owner);
    let _ = owner;
    act()
}

/// Panics in debug builds if the thread would use the store `owner` where it must not: see [`apart`].
#[inline(always)]
#[track_caller]
pub fn check_apart(owner: usize) {
    #[cfg(debug_assertions)]
    {
        let is_inside = APART.try_with(|owners| owners.borrow().contains(&owner));
        assert!(
            !is_inside.unwrap_or(false) || std::thread::panicking(),
            "lock order: a function that has all stripes of a store uses that store; see \
             docs/concurrency.md"
        );
    }
    let _ = owner;
}

#[cfg(debug_assertions)]
thread_local! {
    /// The stores whose locks the thread holds while something of the user runs.
    static APART: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(vec![]) };
}

/// Ends also when what runs panics.
#[cfg(debug_assertions)]
struct Apart {
    mine: Vec<Rank>,
}

#[cfg(debug_assertions)]
impl Apart {
    fn begin(owner: usize) -> Apart {
        APART.with(|owners| owners.borrow_mut().push(owner));
        Apart { mine: RANKS.take() }
    }
}

#[cfg(debug_assertions)]
impl Drop for Apart {
    fn drop(&mut self) {
        RANKS.set(std::mem::take(&mut self.mine));
        APART.with(|owners| owners.borrow_mut().pop());
    }
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        if let Some(rank) = self.rank {
            let _ = RANKS.try_with(|ranks| {
                let mut ranks = ranks.borrow_mut();
                if let Some(at) = ranks.iter().rposition(|held| *held == rank) {
                    ranks.remove(at);
                }
            });
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    fn is_refused(first: Rank, second: Rank) -> bool {
        let held = Held::wait(first);
        let result = std::panic::catch_unwind(|| drop(Held::wait(second)));
        drop(held);
        result.is_err()
    }

    #[test]
    fn locks_are_taken_in_the_order_of_their_ranks() {
        assert!(!is_refused(Rank::Session, Rank::Stripe));
        assert!(is_refused(Rank::Stripe, Rank::Session));
        assert!(is_refused(Rank::Depot, Rank::Chunks));
        assert!(is_refused(Rank::ViewPart, Rank::ViewPart), "nobody nests but sessions");
        assert!(!is_refused(Rank::Session, Rank::Session));
    }

    #[test]
    fn a_store_is_used_inside_of_another_and_not_of_itself() {
        let held = Held::wait(Rank::Stripe);
        let nested = apart(1, || {
            check_apart(2);
            drop(Held::wait(Rank::Session));
            std::panic::catch_unwind(|| check_apart(1))
        });
        assert!(nested.is_err());
        check_apart(1);
        assert!(std::panic::catch_unwind(|| drop(Held::wait(Rank::Session))).is_err());
        drop(held);
    }

    #[test]
    fn what_was_let_go_in_any_order_is_forgotten() {
        let (first, second) = (Held::wait(Rank::MapMaking), Held::wait(Rank::Stripe));
        drop(first);
        drop(second);
        drop(Held::wait(Rank::Session));
        let held = Held::wait(Rank::Depot);
        as_another_thread(|| drop(Held::wait(Rank::Session)));
        drop(held);
        // Tried for, not waited for.
        let held = Held::note(Some(Rank::Depot));
        drop(Held::note(Some(Rank::Chunks)));
        drop(held);
        drop(Held::wait(Rank::Session));
    }
}
