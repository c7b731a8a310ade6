//! How long it takes to have a tree again after a crash, and after a clean end.

use std::fs;
use std::path::Path;

use everleaf_bench::calibrate::Chase;
use everleaf_bench::random::mix;
use everleaf_bench::{BenchError, thread_time};
use everleaf_designs::catalogue::{self, DesignVisitor};
use everleaf_index::{
    CreateMode, Design, Domain, Hardware, IndexError, Pool, PoolOptions, SingleTreePool,
};

/// The file system that is memory, on Linux.
const MEMORY_FILES: &str = "/dev/shm";

/// What the names of our folders there begin with; then comes the number of the process.
pub const PREFIX: &str = "everleaf-lab-";

/// Seconds of the openings of one tree, on a CPU: what else runs does not count.
#[derive(Clone, Debug, Default)]
pub struct Openings {
    /// After a process that just ended.
    pub crashed: Vec<f64>,
    /// After a clean end.
    pub clean: Vec<f64>,
    /// Those after a crash, each in dependent misses measured just before and after it.
    pub crashed_misses: Vec<f64>,
    /// Whether the memory changed its speed by more than 15 % during one of them.
    pub is_noisy: bool,
}

impl Openings {
    /// Adds an opening after a crash, with the nanoseconds of a miss before and after it.
    pub fn add_crashed(&mut self, seconds: f64, before_ns: f64, after_ns: f64) {
        self.crashed.push(seconds);
        self.crashed_misses.push(seconds * 1e9 / ((before_ns + after_ns) / 2.0));
        self.is_noisy |= (before_ns - after_ns).abs() > 0.15 * before_ns.min(after_ns);
    }
}

/// Fills a tree of the design with `keys` random keys, in a file in memory, and opens it `times`
/// times after each kind of end, on one thread. Misses are timed by `chase`.
///
/// # Errors
/// The design's; the file cannot be made; keys are missing afterwards.
pub fn openings(
    design: &str,
    keys: u64,
    times: usize,
    chase: &mut Chase,
) -> Result<Openings, BenchError> {
    let folder = folder_in_memory()?;
    let path = folder.path().join("recovery.pool");
    let visitor = Reopen { path: &path, keys, times, chase };
    let unknown = || IndexError::UnknownDesign(design.to_string());
    catalogue::visit(design, visitor).ok_or_else(unknown)?
}

/// A folder for pools, in memory where the system has such files.
pub(crate) fn folder_in_memory() -> Result<tempfile::TempDir, BenchError> {
    let memory = Path::new(MEMORY_FILES);
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    remove_left_over(&parent);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(&parent);
    folder.map_err(|error| {
        BenchError::Io(format!("cannot make a folder for the pool in {}", parent.display()), error)
    })
}

/// How the pool of so many keys is made.
pub(crate) fn pool_options(keys: u64) -> PoolOptions {
    PoolOptions {
        create: CreateMode::New,
        max_size_bytes: keys.saturating_mul(200).max(1 << 30),
        domain: Some(Domain::Process),
        ..PoolOptions::default()
    }
}

/// Removes the folders of runs that were killed: they are memory. The number in the name is that of the
/// process; where the system does not say which processes there are, nothing is removed.
pub fn remove_left_over(parent: &Path) {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return;
    }
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'))
            .and_then(|(number, _)| number.parse::<u32>().ok());
        if process.is_some_and(|number| !processes.join(number.to_string()).exists()) {
            // Another run may be faster.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

struct Reopen<'p> {
    path: &'p Path,
    keys: u64,
    times: usize,
    chase: &'p mut Chase,
}

impl DesignVisitor<Hardware> for Reopen<'_> {
    type Output = Result<Openings, BenchError>;
    fn visit<T: Design>(self) -> Self::Output {
        let Reopen { path, keys, times, chase } = self;
        let options = pool_options(keys);
        let (first, last) = (*T::INFO.keys.start(), *T::INFO.keys.end());
        {
            let tree_pool: SingleTreePool<T> = SingleTreePool::create(Pool::open(path, &options)?)?;
            let mut session = tree_pool.heap().session().map_err(IndexError::from)?;
            for number in 0..keys {
                tree_pool.tree().insert(
                    &mut session,
                    mix(number).clamp(first, last),
                    1 + number % 999,
                )?;
            }
        }
        let options = PoolOptions { create: CreateMode::Never, ..options };
        let mut openings = Openings::default();
        // The first opening brings the file's pages in and does not count.
        for time in 0..=2 * times {
            let before_ns = chase.measure();
            let started = thread_time();
            let tree_pool: SingleTreePool<T> =
                SingleTreePool::open(Pool::open(path, &options)?, 1)?;
            let seconds = (thread_time() - started).as_secs_f64();
            let after_ns = chase.measure();
            let mut session = tree_pool.heap().session().map_err(IndexError::from)?;
            let found = tree_pool.tree().len(&mut session)?;
            if found != keys {
                let text = format!("{} has {found} keys after recovery, not {keys}", T::INFO.name);
                return Err(BenchError::Wrong(text));
            }
            drop(session);
            match time {
                0 => {}
                _ if time % 2 == 0 => openings.clean.push(seconds),
                _ => openings.add_crashed(seconds, before_ns, after_ns),
            }
            // The next opening follows a clean end if this one is odd, else a crash.
            if time % 2 == 1 {
                tree_pool.close()?;
            }
        }
        Ok(openings)
    }
}
