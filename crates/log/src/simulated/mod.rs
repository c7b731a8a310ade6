//! A disk in memory that does what disks may: it loses, reorders, tears, refuses and lies, by a
//! seed.
//!
//! Every operation that changes something is a possible crash point: a hook is called before it and
//! may take a [`SimulatedDisk::crashed`] image, and go on in the run. The run is single-threaded,
//! so a seed repeats it exactly; what other threads would do meanwhile, the hook does.

pub mod crashes;
mod random;
mod state;

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everleaf_machine::lock_rank;

use crate::buffers::Taken;
use crate::{Disk, DiskFile, Log, Place, Portions};

pub use random::Random;
use state::State;

/// What a simulated disk does wrong. The default is: nothing but losing and reordering what was not
/// synced.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Bytes that the medium keeps or loses at once: 512 or 4096.
    pub block_size: usize,
    /// A crash tears blocks, and leaves bytes in them that nobody wrote.
    pub tears: bool,
    /// One in so many writes is short; 0 for none.
    pub short_write_one_in: u32,
    /// One in so many operations is refused with an I/O error; 0 for none.
    pub error_one_in: u32,
    /// One in so many syncs of a file fails, and loses what it did not write; 0 for none.
    pub sync_error_one_in: u32,
    /// Bytes there is room for; more is refused as a full disk does.
    pub capacity: usize,
    /// Syncs report success and do nothing.
    pub lies: bool,
    /// Bytes that are read and written at once.
    pub portions: Portions,
    /// The planted bugs to show, by name.
    pub mutants: Vec<&'static str>,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            block_size: 4096,
            tears: false,
            short_write_one_in: 0,
            error_one_in: 0,
            sync_error_one_in: 0,
            capacity: usize::MAX,
            lies: false,
            portions: Portions::default(),
            mutants: Vec::new(),
        }
    }
}

/// A file that is not opened or read so many times more, because of this error.
struct Refused {
    inode: usize,
    errno: i32,
    /// Only what has some of these bytes is refused.
    bytes: Option<Range<u64>>,
    left: usize,
}

type Hook = Box<dyn FnMut(&SimulatedDisk) + Send>;
type PointHook = Arc<dyn Fn(&'static str) + Send + Sync>;
type WaitHook = Arc<dyn Fn(&'static str) -> bool + Send + Sync>;

/// A simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    faults: Mutex<(Faults, Random)>,
    refused: Mutex<Option<Refused>>,
    hook: Mutex<Option<Hook>>,
    point_hook: Mutex<Option<PointHook>>,
    wait_hook: Mutex<Option<WaitHook>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A check that fails in a hook panics; what the locks protect is whole nevertheless.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedDisk").field("names", &lock(&self.inner.state).names).finish()
    }
}

impl SimulatedDisk {
    /// An empty disk whose accidents follow from the seed.
    pub fn new(faults: Faults, seed: u64) -> SimulatedDisk {
        Self::with(State::default(), faults, seed)
    }

    fn with(state: State, faults: Faults, seed: u64) -> SimulatedDisk {
        let inner = Inner {
            state: Mutex::new(state),
            faults: Mutex::new((faults, Random::new(seed))),
            refused: Mutex::new(None),
            hook: Mutex::new(None),
            point_hook: Mutex::new(None),
            wait_hook: Mutex::new(None),
        };
        SimulatedDisk { inner: Arc::new(inner) }
    }

    /// Has `hook` called before every operation that changes something. While it runs, operations
    /// call no hook.
    pub fn set_hook(&self, hook: impl FnMut(&SimulatedDisk) + Send + 'static) {
        *lock(&self.inner.hook) = Some(Box::new(hook));
    }

    /// Calls no hook any more.
    pub fn clear_hook(&self) {
        *lock(&self.inner.hook) = None;
        *lock(&self.inner.point_hook) = None;
        *lock(&self.inner.wait_hook) = None;
    }

    /// Has `hook` called at the points of the program that are told to [`Disk::reached`], by whatever
    /// thread is there, which it may hold up.
    pub fn set_point_hook(&self, hook: impl Fn(&'static str) + Send + Sync + 'static) {
        *lock(&self.inner.point_hook) = Some(Arc::new(hook));
    }

    /// Has `hook` called by a thread that has to wait for others ([`Disk::waits`]): it lets them go on
    /// and answers true, or has the thread wait itself.
    pub fn set_wait_hook(&self, hook: impl Fn(&'static str) -> bool + Send + Sync + 'static) {
        *lock(&self.inner.wait_hook) = Some(Arc::new(hook));
    }

    /// What the disk does wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        lock(&self.inner.faults).0 = faults;
    }

    /// What the disk does wrong.
    pub fn faults(&self) -> Faults {
        lock(&self.inner.faults).0.clone()
    }

    /// Has the next openings and readings of a file refused, so many taken together. Does nothing if there is none.
    pub fn refuse(&self, name: &str, errno: i32, times: usize) {
        self.refuse_some(name, errno, (None, times));
    }

    /// Has the next readings of some bytes of a file refused, so many, as of a bad sector.
    pub fn refuse_bytes(&self, name: &str, bytes: Range<u64>, times: usize) {
        self.refuse_some(name, 5, (Some(bytes), times));
    }

    fn refuse_some(&self, name: &str, errno: i32, (bytes, left): (Option<Range<u64>>, usize)) {
        let inode = lock(&self.inner.state).names.get(name).copied();
        *lock(&self.inner.refused) = inode.map(|inode| Refused { inode, errno, bytes, left });
    }

    /// The disk after a power failure at this moment; the seed decides what it lost.
    pub fn crashed(&self, seed: u64) -> SimulatedDisk {
        let faults = self.faults();
        let mut random = Random::new(seed);
        let state = lock(&self.inner.state).crashed(faults.block_size, &mut random, faults.tears);
        Self::with(state, faults, random.bits())
    }

    /// The disk as the next process finds it if this one dies at this moment.
    pub fn copied(&self, seed: u64) -> SimulatedDisk {
        let state = lock(&self.inner.state).clone();
        Self::with(state, self.faults(), seed)
    }

    /// Forgets what the page cache has of files that pass for clean.
    pub fn evict(&self) {
        lock(&self.inner.state).inodes.iter_mut().for_each(state::Inode::evict);
    }

    /// Changes a random bit of a file; does nothing if it is empty or there is none.
    pub fn rot(&self, name: &str, random: &mut Random) {
        let mut state = lock(&self.inner.state);
        if let Some(&inode) = state.names.get(name) {
            let size = state.inodes[inode].content.len();
            if size > 0 {
                state.inodes[inode].flip(random.below(8 * size));
            }
        }
    }

    /// The names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        lock(&self.inner.state).names.keys().cloned().collect()
    }

    /// Called before an operation that changes something.
    fn before_change(&self) -> io::Result<()> {
        let hook = lock(&self.inner.hook).take();
        if let Some(mut hook) = hook {
            // It stands for another thread, or for another process behind a crash.
            lock_rank::as_another_thread(|| hook(self));
            lock(&self.inner.hook).get_or_insert(hook);
        }
        self.perhaps_refuse()
    }

    /// Of an opening `read` is empty.
    fn check_refused(&self, file: usize, read: Range<u64>) -> io::Result<()> {
        let mut refused = lock(&self.inner.refused);
        let is_hit = |refused: &&mut Refused| {
            let is_read = |bytes: &Range<u64>| read.start < bytes.end && bytes.start < read.end;
            refused.inode == file && refused.left > 0 && refused.bytes.as_ref().is_none_or(is_read)
        };
        match refused.as_mut().filter(is_hit) {
            None => Ok(()),
            Some(refused) => {
                refused.left -= 1;
                Err(io::Error::from_raw_os_error(refused.errno))
            }
        }
    }

    fn perhaps_refuse(&self) -> io::Result<()> {
        let (faults, random) = &mut *lock(&self.inner.faults);
        match random.one_in(faults.error_one_in) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => Ok(()),
        }
    }

    fn check_space(&self, state: &State, more: usize) -> io::Result<()> {
        let capacity = lock(&self.inner.faults).0.capacity;
        match state.used().saturating_add(more) > capacity {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;

    fn create(&self, name: &str) -> io::Result<SimulatedFile> {
        self.before_change()?;
        let mut state = lock(&self.inner.state);
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = state.create(name);
        Ok(SimulatedFile { disk: self.clone(), inode })
    }

    fn open(&self, name: &str) -> io::Result<SimulatedFile> {
        let inode = *lock(&self.inner.state).names.get(name).ok_or(io::ErrorKind::NotFound)?;
        self.check_refused(inode, 0..0)?;
        Ok(SimulatedFile { disk: self.clone(), inode })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.before_change()?;
        let mut state = lock(&self.inner.state);
        if !state.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.rename(from, to);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.before_change()?;
        let mut state = lock(&self.inner.state);
        if !state.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.remove(name);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.before_change()?;
        if !lock(&self.inner.faults).0.lies {
            lock(&self.inner.state).sync_folder();
        }
        Ok(())
    }

    fn portions(&self) -> Portions {
        lock(&self.inner.faults).0.portions
    }

    fn mutant(&self, name: &'static str) -> bool {
        lock(&self.inner.faults).0.mutants.contains(&name)
    }

    fn reached(&self, point: &'static str) {
        let hook = lock(&self.inner.point_hook).clone();
        if let Some(hook) = hook {
            hook(point);
        }
    }

    fn waits(&self, point: &'static str) -> bool {
        let hook = lock(&self.inner.wait_hook).clone();
        hook.is_some_and(|hook| hook(point))
    }
}

/// A place in the log that a run keeps while it does something else: a [`Place`] borrows its log.
#[derive(Debug)]
pub struct KeptPlace(Taken);

impl KeptPlace {
    /// Keeps a place. It must come [back](Self::back) to the log, unless the run ends without.
    pub fn keep(place: Place<'_, SimulatedDisk>) -> KeptPlace {
        KeptPlace(place.into_taken())
    }

    /// The place again, of the log it was taken from.
    pub fn back(self, log: &Log<SimulatedDisk>) -> Place<'_, SimulatedDisk> {
        Place::new(log, self.0)
    }
}

/// An open file of a simulated disk.
#[derive(Debug)]
pub struct SimulatedFile {
    disk: SimulatedDisk,
    inode: usize,
}

impl DiskFile for SimulatedFile {
    const READ_PAUSE: Duration = Duration::ZERO;

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.perhaps_refuse()?;
        self.disk.check_refused(self.inode, offset..offset + buffer.len() as u64)?;
        let state = lock(&self.disk.inner.state);
        let content = &state.inodes[self.inode].content;
        let start = content.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let count = buffer.len().min(content.len() - start);
        buffer[..count].copy_from_slice(&content[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.before_change()?;
        let (block_size, count) = {
            let (faults, random) = &mut *lock(&self.disk.inner.faults);
            let is_short = bytes.len() > 1 && random.one_in(faults.short_write_one_in);
            let count = if is_short { 1 + random.below(bytes.len() - 1) } else { bytes.len() };
            (faults.block_size, count)
        };
        let mut state = lock(&self.disk.inner.state);
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let size = state.inodes[self.inode].content.len();
        self.disk.check_space(&state, (offset + count).saturating_sub(size))?;
        state.inodes[self.inode].write(block_size, &bytes[..count], offset);
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.before_change()?;
        let mut state = lock(&self.disk.inner.state);
        let (faults, random) = &mut *lock(&self.disk.inner.faults);
        if random.one_in(faults.sync_error_one_in) {
            state.inodes[self.inode].fail_to_sync(faults.block_size, random);
            return Err(io::Error::from_raw_os_error(5));
        }
        if !faults.lies {
            state.inodes[self.inode].sync();
        }
        Ok(())
    }

    fn preallocate(&self, size: u64) -> io::Result<()> {
        self.disk.before_change()?;
        let mut state = lock(&self.disk.inner.state);
        let size = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let old = state.inodes[self.inode].content.len();
        self.disk.check_space(&state, size.saturating_sub(old))?;
        if size > old {
            state.inodes[self.inode].resize(size);
        }
        Ok(())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.disk.before_change()?;
        let mut state = lock(&self.disk.inner.state);
        let size = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        state.inodes[self.inode].resize(size);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        let state = lock(&self.disk.inner.state);
        Ok(state.inodes[self.inode].content.len() as u64)
    }
}
