//! The one tree that holds all large maps of the server, in memory.
//!
//! Its keys begin with the number of a map, so that a map costs no tree of its own and any number of
//! them share leaves:
//!
//! ```text
//!   | number of the map, 8 bytes, highest first | 1 | name |                                -> value
//!   | number of the map, 8 bytes, highest first | 2 | expiry, 8 bytes, highest first | name |  -> nothing
//! ```
//!
//! The second kind orders what expires by time. The tree lies in a range of addresses of its own, whose
//! pages are taken as they are used and given back as chunks become empty.
//!
//! *Threads.* The server changes maps on one thread; another frees what was unlinked, and the tree allows
//! both at once. Each has a session. *Fork.* A child has a copy of the memory. [`GATE`] is closed to the
//! freeing thread while the server forks, so that the copy is of a tree that nobody was changing; the
//! child only reads, on the thread that forked, by the session of that thread. A fork waits for one piece of the
//! freeing thread's work at most, and a command for none.

use std::cell::RefCell;
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use everleaf_alloc::AllocError;
use everleaf_index::{
    BytesTree, Change, Domain, Hardware, Heap, IndexError, Pool, PoolError, Record, Session, Verify,
};
use everleaf_pool::Backing;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::entry::EXPIRY_MAX;

/// What is added to an expiry in the tree, so that the tree itself never finds it over: the module
/// decides, and a replica waits for its master.
const FAR: u64 = EXPIRY_MAX;
/// Keys of entries.
pub const ENTRIES: u8 = 1;
/// Keys of expiries.
pub const EXPIRIES: u8 = 2;
/// Bytes in front of a name.
pub const PREFIX_SIZE: usize = 9;
/// Entries that are freed between two moments at which the server may fork.
const KEYS_AT_ONCE: usize = 256;
/// Bytes that are freed before they are collected, and so counted as free.
const COLLECT_AFTER: u64 = 64 << 10;
/// Bytes that are freed before empty chunks are looked for.
const RETURN_AFTER: u64 = 4 << 20;

/// Held by the freeing thread for a piece of its work, and by the server while it forks.
static GATE: Mutex<()> = Mutex::new(());
/// Threads that wait at the gate. A mutex goes to a thread that asks for it again at once, before one that sleeps at
/// it has woken up; so a thread that frees piece by piece leaves the gate open until there are none.
static WAITING: AtomicU64 = AtomicU64::new(0);
/// Numbers of maps of which something could not be freed for want of memory.
static UNFREED: Mutex<Vec<u64>> = Mutex::new(vec![]);
static SPACE: OnceLock<Space> = OnceLock::new();

thread_local! {
    static SESSION: RefCell<Option<Session<Hardware>>> = const { RefCell::new(None) };
    static FORKING: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// The tree and its memory.
pub struct Space {
    heap: Arc<Heap<Hardware>>,
    tree: BytesTree,
    last_number: AtomicU64,
    /// Bytes freed since they were collected, and since empty chunks were looked for.
    uncollected: AtomicU64,
    freed: AtomicU64,
}

/// Makes the space, once.
///
/// # Errors
/// A sentence for the server's log: the processor lacks something, or the address space is limited.
pub fn open() -> Result<(), String> {
    if SPACE.get().is_some() {
        return Ok(());
    }
    if let Some(missing) = everleaf_index::missing_cpu_feature() {
        return Err(missing.to_string());
    }
    let space = create().map_err(|error| error.to_string())?;
    // Registered once: a second space is never made.
    if SPACE.set(space).is_ok() {
        // SAFETY: the three functions are of this library, which is never unloaded while a type of
        // it is registered, and may be called by any thread that forks.
        let refused =
            unsafe { libc::pthread_atfork(Some(before_fork), Some(behind_fork), Some(in_child)) };
        if refused != 0 {
            return Err("the system refuses to say when the server forks (pthread_atfork)".into());
        }
    }
    Ok(())
}

fn create() -> Result<Space, IndexError> {
    let heap = Heap::create(reserve()?)?;
    let mut session = heap.session()?;
    let tree = BytesTree::temporary(&mut session)?;
    drop(session);
    let [last_number, uncollected, freed] = [const { AtomicU64::new(0) }; 3];
    Ok(Space { heap, tree, last_number, uncollected, freed })
}

/// A pool in as many addresses as are to be had, of up to a TiB.
fn reserve() -> Result<Pool<Hardware>, PoolError> {
    let mut size = everleaf_alloc::layout::POOL_SIZE_MAX / Memory::STEP * Memory::STEP;
    loop {
        match Memory::reserve(size) {
            Ok(memory) => return Pool::with_backing(Box::new(memory), Domain::Process, size, true),
            Err(_) if size > 1 << 32 => size = size / 2 / Memory::STEP * Memory::STEP,
            Err(source) => {
                let path = "(the module's memory)".into();
                return Err(PoolError::AddressSpace { path, reserved: size, source });
            }
        }
    }
}

pub extern "C" fn before_fork() {
    let gate = lock_gate();
    FORKING.with(|held| *held.borrow_mut() = Some(gate));
}

pub extern "C" fn behind_fork() {
    FORKING.with(|held| drop(held.borrow_mut().take()));
}

extern "C" fn in_child() {
    // Relaxed: the child has one thread, and those of its parent that waited are not there.
    WAITING.store(0, Ordering::Relaxed);
    behind_fork();
}

/// Waits for the gate.
fn lock_gate() -> MutexGuard<'static, ()> {
    // Relaxed: a request; the gate itself orders what it guards.
    WAITING.fetch_add(1, Ordering::Relaxed);
    let gate = GATE.lock().unwrap_or_else(PoisonError::into_inner);
    // Relaxed: a request, as it was.
    WAITING.fetch_sub(1, Ordering::Relaxed);
    gate
}

/// Between two pieces, with the gate open: lets the threads through that wait.
fn let_others_through() {
    // Relaxed: a thread that is seen too late waits for one more piece.
    while WAITING.load(Ordering::Relaxed) > 0 {
        std::thread::yield_now();
    }
}

/// Runs `operation` with the calling thread's session.
///
/// # Errors
/// The operation's; there is no session to be had.
pub fn with<R>(
    operation: impl FnOnce(&Space, &mut Session<Hardware>) -> Result<R, IndexError>,
) -> Result<R, IndexError> {
    let space = SPACE.get().expect("the module opens it when it is loaded");
    SESSION.with(|session| {
        let mut session = session.borrow_mut();
        if session.is_none() {
            *session = Some(space.heap.session()?);
        }
        let session = session.as_mut().expect("opened above");
        operation(space, session)
    })
}

/// A number for a new map.
pub fn new_number() -> u64 {
    let space = SPACE.get().expect("the module opens it when it is loaded");
    // Relaxed: only that no two are equal is wanted.
    space.last_number.fetch_add(1, Ordering::Relaxed) + 1
}

/// Bytes of memory of the tree that hold something. What is free in chunks that others share is used for what comes next: it
/// counts as little as what is free in the server's own allocator.
pub fn used_bytes() -> u64 {
    let used =
        |space: &Space| space.heap.used_bytes().saturating_sub(space.heap.returnable_bytes());
    SPACE.get().map_or(0, used)
}

/// Writes the key of an entry into `key`.
pub fn entry_key(key: &mut Vec<u8>, number: u64, name: &[u8]) {
    key.clear();
    key.extend_from_slice(&number.to_be_bytes());
    key.push(ENTRIES);
    key.extend_from_slice(name);
}

/// Writes the key of an expiry into `key`.
pub fn expiry_key(key: &mut Vec<u8>, number: u64, expiry_ms: u64, name: &[u8]) {
    key.clear();
    key.extend_from_slice(&number.to_be_bytes());
    key.push(EXPIRIES);
    key.extend_from_slice(&expiry_ms.to_be_bytes());
    key.extend_from_slice(name);
}

impl Space {
    /// Runs `see(value, expiry)` on what `key` has.
    pub fn get<R>(
        &self,
        session: &mut Session<Hardware>,
        key: &[u8],
        see: impl FnOnce(&[u8], u64) -> R,
    ) -> Result<Option<R>, IndexError> {
        self.tree.get_record(session, key, |record| see(record.value, expiry_of(record)))
    }

    /// Gives `key` a value; returns the size of the one it had.
    pub fn put(
        &self,
        session: &mut Session<Hardware>,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> Result<Option<usize>, IndexError> {
        let far = if expiry_ms == 0 { 0 } else { expiry_ms + FAR };
        let old = self.tree.change(session, &Change::upsert(key, value).expiring(far))?.old_size;
        if let Some(size) = old {
            self.note_freed(key.len() + size);
        }
        Ok(old)
    }

    /// Removes `key`; returns whether it was there.
    pub fn remove(&self, session: &mut Session<Hardware>, key: &[u8]) -> Result<bool, IndexError> {
        #[cfg(test)]
        if crate::tests::is_refused(key) {
            return Err(IndexError::KeyTooLarge(key.len()));
        }
        let old = self.tree.change(session, &Change::remove(key))?.old_size;
        self.note_freed(old.map_or(0, |size| key.len() + size));
        Ok(old.is_some())
    }

    /// Visits keys between two bounds until `visit(key, value, expiry)` says no.
    pub fn walk(
        &self,
        session: &mut Session<Hardware>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8], u64) -> bool,
    ) -> Result<(), IndexError> {
        self.tree.scan_verified(session, bounds, reverse, Verify::Key, |record| {
            let expiry_ms = expiry_of(record);
            visit(record.key, record.value, expiry_ms)
        })
    }

    /// Bytes that the tree takes for a key, on average, beside its record.
    pub fn bytes_per_key(&self, session: &mut Session<Hardware>) -> Result<u64, IndexError> {
        let shape = self.tree.shape(session)?;
        let leaf = everleaf_alloc::BLOCK_SIZE as u64;
        Ok((shape.leaves * leaf).div_ceil(shape.keys.max(1)))
    }

    fn note_freed(&self, bytes: usize) {
        // Relaxed: hints at when to collect, and to look for empty chunks.
        self.uncollected.fetch_add(bytes as u64, Ordering::Relaxed);
        // Relaxed: a hint, as `uncollected` is.
        self.freed.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

fn expiry_of(record: Record<'_>) -> u64 {
    record.expiry_ms.saturating_sub(FAR)
}

/// Removes all of a map, piece by piece. The map is not reached by anybody else any more.
pub fn free(number: u64) {
    let (mut last, mut lacked_memory) = (number.to_be_bytes().to_vec(), false);
    loop {
        let gate = lock_gate();
        #[cfg(test)]
        crate::tests::note_piece(number);
        let piece = free_piece(number, &last);
        drop(gate);
        lacked_memory |= piece.lacked_memory;
        match piece.last {
            Some(key) => last = key,
            None => break,
        }
        let_others_through();
    }
    let _gate = lock_gate();
    // By the session of this thread, which nobody else collects for.
    collect();
    match lacked_memory {
        true => UNFREED.lock().unwrap_or_else(PoisonError::into_inner).push(number),
        false => free_rest(),
    }
    return_space();
}

/// What was done with some keys of a map.
struct Freed {
    /// The last of them, if there may be more behind it.
    last: Option<Vec<u8>>,
    /// Some are still there.
    lacked_memory: bool,
}

/// Removes some keys of a map, those behind one. Damage of memory ends it: what is left stays, and nobody reaches it.
fn free_piece(number: u64, behind: &[u8]) -> Freed {
    let to = (number + 1).to_be_bytes();
    let bounds = (Bound::Excluded(behind), Bound::Excluded(to.as_slice()));
    let mut keys: Vec<Vec<u8>> = vec![];
    let mut lacked_memory = false;
    let is_damaged =
        |error: &IndexError| matches!(error, IndexError::Alloc(AllocError::Corrupt { .. }));
    let done = with(|space, session| {
        space.walk(session, bounds, false, |key, _, _| {
            keys.push(key.to_vec());
            keys.len() < KEYS_AT_ONCE
        })?;
        for key in &keys {
            // A removal may have to split a leaf: then another one may do.
            match space.remove(session, key) {
                Err(error) if is_damaged(&error) => return Err(error),
                removed => lacked_memory |= removed.is_err(),
            }
        }
        if lacked_memory {
            session.collect_all();
            session.give_back();
        }
        Ok(())
    });
    lacked_memory |= done.as_ref().is_err_and(|error| !is_damaged(error));
    let is_last = done.is_err() || keys.len() < KEYS_AT_ONCE;
    Freed { last: keys.pop().filter(|_| !is_last), lacked_memory }
}

/// Tries once more to free what could not be freed, a piece of it.
fn free_rest() {
    let unfreed = || UNFREED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(number) = unfreed().pop() else { return };
    let piece = free_piece(number, &number.to_be_bytes());
    if piece.last.is_some() || piece.lacked_memory {
        unfreed().push(number);
    }
}

/// Collects what was freed, and gives empty chunks back to the system, both once it is enough. Called between operations, by
/// any thread. It waits for nothing: the freeing thread looks after memory itself when it has ended.
pub fn return_freed() {
    let Some(space) = SPACE.get() else { return };
    // Relaxed: a hint, as `freed` is.
    let may_collect = space.uncollected.load(Ordering::Relaxed) >= COLLECT_AFTER;
    // Relaxed: a hint.
    if !may_collect && space.freed.load(Ordering::Relaxed) < RETURN_AFTER {
        return;
    }
    // The server may fork on another thread.
    let _gate = match GATE.try_lock() {
        Ok(gate) => gate,
        Err(TryLockError::Poisoned(gate)) => gate.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    if may_collect {
        collect();
        free_rest();
    }
    return_space();
}

fn collect() {
    let _ = with(|space, session| {
        // Relaxed: a hint.
        space.uncollected.store(0, Ordering::Relaxed);
        session.collect_all();
        session.give_back();
        Ok(())
    });
}

fn return_space() {
    let Some(space) = SPACE.get() else { return };
    // Relaxed: a hint.
    let freed = space.freed.load(Ordering::Relaxed);
    if freed < RETURN_AFTER.max(space.heap.used_bytes() / 16) {
        return;
    }
    // Relaxed: a hint.
    space.freed.store(0, Ordering::Relaxed);
    let _ = with(|space, session| {
        session.collect_all();
        session.give_back();
        // The kernel's refusal costs memory, nothing else.
        let _ = space.heap.return_space();
        Ok(())
    });
}

/// Addresses, of which the front is memory.
struct Memory {
    base: *mut u8,
    capacity: usize,
    size: AtomicU64,
}

// SAFETY: plain memory that the value owns.
unsafe impl Send for Memory {}
// SAFETY: shared, it answers where it is, and changes its size by an atomic word.
unsafe impl Sync for Memory {}

impl Memory {
    /// Sizes are multiples of this many bytes.
    const STEP: u64 = 1 << 20;

    fn reserve(capacity: u64) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        let size = capacity as usize;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), size, access, flags) };
        let memory = Memory { base: base?.cast(), capacity: size, size: AtomicU64::new(0) };
        memory.grow(Self::STEP)?;
        Ok(memory)
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        use rustix::mm::MprotectFlags;
        let access = MprotectFlags::READ | MprotectFlags::WRITE;
        // Relaxed: the pool grows by one caller at a time.
        let old = self.size.load(Ordering::Relaxed);
        let start = self.base.wrapping_add(old as usize).cast();
        // SAFETY: the pages lie within the reservation, which is ours, and hold nothing yet.
        unsafe { rustix::mm::mprotect(start, (size - old) as usize, access) }?;
        // Relaxed: one caller grows the pool at a time.
        self.size.store(size, Ordering::Relaxed);
        Ok(())
    }
}

// SAFETY: the reservation never moves and is used by nobody else; `grow` makes its front usable and
// nothing takes that back.
unsafe impl Backing for Memory {
    fn base(&self) -> *mut u8 {
        self.base
    }

    fn size(&self) -> u64 {
        // Relaxed: the pool publishes its size itself.
        self.size.load(Ordering::Relaxed)
    }

    fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
        let size = new.next_multiple_of(Self::STEP).min(self.capacity());
        if size <= self.size() {
            return Ok(());
        }
        self.grow(size).map_err(|source| PoolError::DiskFull {
            path: "(the module's memory)".into(),
            needed: new,
            source,
        })
    }

    fn release(&self, start: u64, end: u64) -> io::Result<bool> {
        let address = self.base.wrapping_add(start as usize).cast();
        // SAFETY: the range is mapped and ours, and by the trait's contract nobody touches it; it
        // reads as zero from then on.
        unsafe { rustix::mm::madvise(address, (end - start) as usize, Advice::LinuxDontNeed) }?;
        Ok(true)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the reservation is ours, and its pool is gone.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.capacity) };
    }
}
