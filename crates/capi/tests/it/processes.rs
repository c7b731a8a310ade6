//! A process that is forked has handles, and may only free them.

use everleaf_capi::atomic::{el_fetch_add, el_pop};
use everleaf_capi::code::*;
use everleaf_capi::map::{el_count, el_map_free, el_put};
use everleaf_capi::store::*;
use everleaf_capi::upkeep::*;
use everleaf_capi::watch::el_watch_new;

use crate::support::*;

#[test]
fn a_forked_process_is_refused_and_harms_nothing() {
    let opened = TestStore::new();
    opened.put("before", "1");
    let null = std::ptr::null_mut();
    // SAFETY: the child calls what is tested, and ends without running anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a system call without memory: a child that hangs is ended.
        unsafe { libc::alarm(60) };
        let codes = [
            (el_put(opened.map(), slice("child"), slice("2")), EL_FORKED),
            (el_store_sync(opened.store()), EL_FORKED),
            // It went on, and the child died.
            (el_store_return_space(opened.store(), None), EL_FORKED),
            (el_store_snapshot(opened.store(), None), EL_FORKED),
            (el_store_save(opened.store(), None), EL_FORKED),
            (el_store_wait_deferred(opened.store()), EL_FORKED),
            (el_fetch_add(opened.map(), slice("n"), 1, None), EL_FORKED),
            (el_pop(opened.map(), true, None, None, None, None), EL_FORKED),
            (el_map_numbers(opened.map(), buffer(&mut []), None), EL_FORKED),
            (el_store_defer_sync(opened.store()), EL_FORKED),
            (el_store_has_log_failed(opened.store(), Some(&mut Room::uninit())), EL_FORKED),
            (el_store_is_pool_gone(opened.store(), Some(&mut Room::uninit())), EL_FORKED),
            (el_store_is_read_only(opened.store(), Some(&mut Room::uninit())), EL_FORKED),
            (el_store_rollback_count(opened.store(), Some(&mut Room::uninit())), EL_FORKED),
            (el_store_rebuilt(opened.store(), None, null, buffer(&mut []), None), EL_FORKED),
            (el_store_put_aside_files(opened.store(), None, null, None), EL_FORKED),
            (el_store_statistics(opened.store(), buffer(&mut []), None), EL_FORKED),
            (el_store_map_names(opened.store(), Some(keep), std::ptr::null_mut()), EL_FORKED),
            (el_count(opened.map(), Some(&mut Room::uninit())), EL_FORKED),
            (el_watch_new(opened.map(), slice("n"), Some(&mut Room::uninit())), EL_FORKED),
            (el_map_free(at_mut(opened.map)), EL_OK),
        ];
        let wrong = codes.iter().position(|(code, expected)| code != expected);
        // What it says is the business of the last handle that goes.
        let _ = el_store_close(opened.store());
        let freed = el_store_free(at_mut(opened.store));
        let end = wrong.map_or(i32::from(freed != EL_OK) * 9, |index| index as i32 + 1);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(end) };
    }
    assert!(child > 0, "a process can be forked");
    let mut status = 0;
    // SAFETY: the status is ours, and the child is one of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended well");
    opened.put("after", "3");
    assert_eq!(opened.get("child"), None);
    assert_eq!(opened.get("after"), Some(b"3".to_vec()));
}
