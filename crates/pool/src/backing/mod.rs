//! What a pool lies on: a file, plain memory, or the memory of a simulated machine.

mod environment;
mod file;
mod file_name;
mod holder;
mod interface;
mod kept_inode;
mod memory;
mod probe;
mod shared_extents;
#[cfg(feature = "simulated")]
mod simulated;
mod space;
mod unnamed;

pub use environment::{Environment, is_boot_known};
pub use file::FileBacking;
pub use interface::{Backing, FileName};
pub use memory::MemoryBacking;
#[cfg(feature = "simulated")]
pub use simulated::{PagesLeft, SimulatedBacking, domain_of};
