//! Which process made something: a fork copies memory, but not the right to use what it stands for.
//!
//! A child of `fork(2)` has a copy of every handle of its parent, and of their locks as they were at
//! that moment, but none of the other threads. It shares open files with the parent: a file lock
//! that it gives up is gone for the parent, too. So whatever stands for something outside of the
//! process notes its [`OwnerProcess`], and leaves it alone in every other.
//!
//! The kernel is asked once: it wipes one page of ours in each child (`MADV_WIPEONFORK`), whose word
//! is otherwise the number of the process. Looking at it costs a load and a comparison. Where the
//! kernel cannot do that (before Linux 4.14), it is asked for the process id each time.
//!
//! *Thread safety.* Everything may be called by any thread. A child begins with one.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The page with the number of this process; null before it was asked for.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// Numbers given so far, by this process and those it was forked from: so none of them has a number
/// of another.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The process that made something.
///
/// # Example
/// ```
/// use everleaf_machine::OwnerProcess;
/// let owner = OwnerProcess::current();
/// assert!(owner.is_current());
/// assert_eq!(owner, OwnerProcess::current());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OwnerProcess {
    /// Where the kernel wipes the number in a child; `None` where it cannot.
    page: Option<&'static AtomicU64>,
    /// What the page said; the process id without one.
    number: u64,
}

impl PartialEq for OwnerProcess {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for OwnerProcess {}

impl OwnerProcess {
    /// The calling process.
    pub fn current() -> Self {
        let page = page();
        let number = page.map_or_else(process_id, number_on);
        OwnerProcess { page, number }
    }

    /// Whether it is the calling process: not so in a child that was forked since.
    #[inline(always)]
    pub fn is_current(&self) -> bool {
        match self.page {
            // Relaxed: this process wrote it before the value was made, or the kernel wiped it
            // before this process began.
            Some(page) => page.load(Ordering::Relaxed) == self.number,
            None => process_id() == self.number,
        }
    }
}

#[cold]
fn process_id() -> u64 {
    u64::from(std::process::id())
}

/// The number on the page, which is given one in a process that has none yet.
fn number_on(page: &AtomicU64) -> u64 {
    // Relaxed, here and below: only the number itself is wanted.
    match page.load(Ordering::Relaxed) {
        0 => {
            let new = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
            match page.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => new,
                Err(faster) => faster,
            }
        }
        number => number,
    }
}

/// The page, made by the first thread that asks; `None` where the kernel cannot wipe it.
fn page() -> Option<&'static AtomicU64> {
    // Acquire: the page is zero as the kernel made it; pairs with the release below.
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let new = new_page()?;
        // Release: pairs with the acquire above. Acquire on failure: as there.
        match PAGE.compare_exchange(page, new, Ordering::Release, Ordering::Acquire) {
            Ok(_) => page = new,
            Err(faster) => {
                release(new);
                page = faster;
            }
        }
    }
    // SAFETY: a page of `new_page`, which is never given back once it is in `PAGE`: readable and
    // writable, aligned, and every bit pattern of an atomic word is valid.
    Some(unsafe { &*page })
}

/// A page that is zero here, and becomes zero in every child.
fn new_page() -> Option<*mut AtomicU64> {
    let size = rustix::param::page_size();
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
    let page = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), size, access, flags) };
    let page = page.ok()?;
    // SAFETY: the page was just mapped and is ours; nothing is in it yet.
    match unsafe { rustix::mm::madvise(page, size, Advice::LinuxWipeOnFork) } {
        Ok(()) => Some(page.cast()),
        Err(_) => {
            release(page.cast());
            None
        }
    }
}

fn release(page: *mut AtomicU64) {
    // SAFETY: a page of `new_page` that nobody was told of. A refusal loses a page, nothing else.
    let _ = unsafe { rustix::mm::munmap(page.cast(), rustix::param::page_size()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_of_a_process_are_the_same_owner() {
        let owner = OwnerProcess::current();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(move || {
                    assert!(owner.is_current());
                    assert_eq!(OwnerProcess::current(), owner);
                });
            }
        });
    }

    #[test]
    fn a_page_that_was_wiped_belongs_to_a_new_process() {
        let page: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
        let owner = OwnerProcess { page: Some(page), number: number_on(page) };
        assert!(owner.is_current());
        page.store(0, Ordering::Relaxed);
        assert!(!owner.is_current());
        let child = OwnerProcess { page: Some(page), number: number_on(page) };
        assert!(child.is_current() && !owner.is_current() && child != owner);
    }
}
