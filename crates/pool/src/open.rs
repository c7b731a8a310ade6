//! Opening and creating pool files.

use std::path::Path;

use everleaf_machine::Hardware;

use crate::backing::FileBacking;
use crate::layout::{SIZE_GRANULE, SIZE_MIN};
use crate::{Domain, Pool, PoolError};

/// The maximum size of a new pool that is not given another, in bytes: 64 GiB.
const MAX_SIZE_DEFAULT: u64 = 64 << 30;
/// The largest maximum size, in bytes: 64 TiB, half of the addresses of a process.
const MAX_SIZE_LIMIT: u64 = 64 << 40;

/// Whether opening may create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreateMode {
    /// The pool must exist.
    #[default]
    Never,
    /// The pool is created if there is no file.
    IfMissing,
    /// The pool must not exist.
    New,
}

/// How to open a pool.
///
/// # Example
/// ```
/// use everleaf_pool::{Domain, PoolOptions};
/// let options = PoolOptions { domain: Some(Domain::Adr), ..PoolOptions::default() };
/// assert!(!options.read_only);
/// ```
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Whether the pool may or must be created; [`CreateMode::Never`] by default.
    pub create: CreateMode,
    /// Open for reading only: nothing is written to the file, not even a mark, and other readers
    /// may have it open too, but no writer.
    pub read_only: bool,
    /// Bytes of a pool that is created; rounded up to 64 KiB. 1 MiB by default.
    pub initial_size_bytes: u64,
    /// Bytes the pool may grow to, at most 64 TiB; only addresses are reserved for them. 0, the
    /// default, is 64 GiB for a new pool, or its initial size if that is more. An existing pool keeps its maximum if
    /// that is larger.
    pub max_size_bytes: u64,
    /// The persistence domain to work by, or `None` to detect it.
    pub domain: Option<Domain>,
    /// Open the pool even if the machine crashed while it was in use and the domain of that session
    /// does not survive it. The contents may then be any mix of old and new.
    pub trust_after_machine_crash: bool,
    /// The number of a pool that is created: that of the one whose place it takes, or `None` for a new
    /// one.
    pub uuid: Option<[u8; 16]>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        PoolOptions {
            create: CreateMode::Never,
            read_only: false,
            initial_size_bytes: 1 << 20,
            max_size_bytes: 0,
            domain: None,
            trust_after_machine_crash: false,
            uuid: None,
        }
    }
}

impl Pool<Hardware> {
    /// Opens the pool in the file `path`, creating it if `options` say so.
    ///
    /// The domain, if not given, is [`Domain::Adr`] or [`Domain::Eadr`] for a file on
    /// persistent memory that the kernel maps synchronously, by what the memory's regions say
    /// about the CPU caches, and else [`Domain::Process`].
    ///
    /// # Errors
    /// `Missing`, `Exists`, `NotAFile`, `Permission`; `Locked` if it is open for writing
    /// anywhere, or open at all and to be opened for writing; `Empty`, `Foreign`, `Truncated`,
    /// `NewerFormat`, `UnknownFeatures`, `Damaged` by the contents; `MachineCrashed`; `DiskFull` if
    /// it is created, or has holes; `AddressSpace`; `Io`, also if it cannot be found out for want of descriptors
    /// whether the machine crashed.
    ///
    /// *Blocking:* never waits for the lock. Waits for the disk when the pool is created, or is opened for writing: if
    /// it was left by a process that died, for two pages.
    pub fn open(path: &Path, options: &PoolOptions) -> Result<Self, PoolError> {
        if options.create == CreateMode::New {
            return Self::create(path, options);
        }
        match Self::open_existing(path, options) {
            Err(PoolError::Missing { .. }) if options.create == CreateMode::IfMissing => {
                match Self::create(path, options) {
                    // Another was faster: then it is there to be opened.
                    Err(PoolError::Exists { .. }) => Self::open_existing(path, options),
                    result => result,
                }
            }
            result => result,
        }
    }

    fn open_existing(path: &Path, options: &PoolOptions) -> Result<Self, PoolError> {
        let max = options.max_size_bytes.min(MAX_SIZE_LIMIT);
        let backing = FileBacking::open(path, options.read_only, max)?;
        let domain = options.domain.unwrap_or_else(|| backing.detected_domain());
        let trust = options.trust_after_machine_crash;
        Self::attach(Box::new(backing), domain, max, false, trust)
    }

    fn create(path: &Path, options: &PoolOptions) -> Result<Self, PoolError> {
        if options.read_only {
            let action = "create it";
            return Err(PoolError::ReadOnly { path: path.into(), action });
        }
        let max = match options.max_size_bytes {
            0 => MAX_SIZE_DEFAULT.max(options.initial_size_bytes).min(MAX_SIZE_LIMIT),
            given => given.clamp(SIZE_MIN, MAX_SIZE_LIMIT),
        };
        let max = max.next_multiple_of(SIZE_GRANULE);
        let size = options.initial_size_bytes.clamp(SIZE_MIN, max).next_multiple_of(SIZE_GRANULE);
        let (backing, unnamed) = FileBacking::create(path, size, max)?;
        let domain = options.domain.unwrap_or_else(|| backing.detected_domain());
        let mut pool = Self::attach(Box::new(backing), domain, max, true, false)?;
        if let Some(uuid) = options.uuid {
            pool.set_uuid(uuid)?;
        }
        unnamed.name()?;
        Ok(pool)
    }
}
