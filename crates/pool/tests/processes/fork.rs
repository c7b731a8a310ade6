//! A child that a process forks off has its handles of pools, and none of their memory.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use everleaf_machine::Hardware;
use everleaf_pool::{Pool, Seal};

use crate::common::{Scratch, alone, create, open};

/// Runs `act` in a forked child. Returns the code it ends with, or 128 more than the signal that ends it.
fn in_child(act: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `act` and ends. It has one thread, and what it uses of the standard
    // library and of the allocator works after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        act();
        // SAFETY: ends the process at once; nothing of the parent's is run.
        unsafe { libc::_exit(0) };
    }
    assert!(child > 0, "a process can be forked");
    let mut status = 0;
    // SAFETY: the status is ours, and the child is one of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}

/// Both looked only at whether the pool is read-only, and a child ended by a memory fault.
#[test]
fn a_forked_child_leaves_the_seal_as_it_is() {
    let _alone = alone();
    let scratch = Scratch::new();
    let pool: Pool<Hardware> = create(&scratch.path).unwrap();
    let seal = Seal { leaves: 1, keys: 2, sum: 3, roots: 4 };
    pool.set_seal(seal).unwrap();
    pool.set_clean().unwrap();
    drop(pool);
    let pool = open(&scratch.path).unwrap();
    assert_eq!(pool.seal(), Some(seal));
    assert_eq!(in_child(|| pool.keep_seal()), 0);
    assert_eq!(in_child(|| pool.end_seal()), 0);
}
