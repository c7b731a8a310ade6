//! The world around a session, as far as the pool's records mention it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::io::Errno;

/// Where Linux tells the id of its boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What a session notes about the world, and what a new pool is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Random, for a pool that is created.
    pub new_uuid: [u8; 16],
    /// Nanoseconds since 1970-01-01 UTC, for a pool that is created; 0 if not known.
    pub now_ns: u64,
    /// The id of this boot of the kernel. Where that is not to be had, it is another one each time, and
    /// none of a kernel: nobody knows then that a pool was last used since the machine was started.
    pub boot_id: [u8; 16],
    /// Dirty shutdowns that the persistent memory devices count; `None` if they tell none.
    pub dirty_shutdowns: Option<u64>,
    /// The mount by which the file is reached, and the file; 0 if that is not known.
    pub place: u64,
    /// Whether the kernel still has the file as a session has left it; `None` if that cannot be told.
    pub is_kept: Option<bool>,
}

impl Environment {
    /// The world of this process.
    ///
    /// # Errors
    /// What the system tells of itself cannot be read now, for want of descriptors or memory. Where it tells nothing
    /// at all, that is no error.
    pub fn of_this_machine() -> io::Result<Self> {
        Ok(Environment {
            boot_id: boot_id(Path::new(BOOT_ID))?.unwrap_or_else(unknown_boot),
            dirty_shutdowns: dirty_shutdowns(Path::new("/sys/bus/nd/devices"))?,
            ..Environment::of_memory()
        })
    }

    /// As much of it as matters to what nothing is left of when the process ends.
    pub fn of_memory() -> Self {
        Environment { new_uuid: random_uuid(), now_ns: now_ns(), ..Environment::default() }
    }
}

/// What was read, unless the system has no such thing, or lets nobody read it. What fails for want of descriptors or
/// memory would succeed a moment later, and must not be taken for that: a pool whose process died would count as lost
/// with the machine.
fn unless_absent<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN) => Err(error),
            _ => Ok(None),
        },
    }
}

/// A random number in the form of a version 4 UUID. Without a source of randomness, the time.
fn random_uuid() -> [u8; 16] {
    let mut bytes = [0; 16];
    let filled = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    if filled.is_err() {
        let time = u128::from(now_ns()) << 32 | u128::from(std::process::id());
        bytes = time.to_le_bytes();
    }
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    bytes
}

fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Reads the kernel's boot id, a UUID in text.
fn boot_id(file: &Path) -> io::Result<Option<[u8; 16]>> {
    let text = unless_absent(std::fs::read_to_string(file))?.unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
    Ok(number.map(u128::to_be_bytes))
}

/// An id that no other call returns, and no kernel.
fn unknown_boot() -> [u8; 16] {
    let mut id = random_uuid();
    id[6] &= 0x0F;
    id
}

/// Whether this is the id of a boot, and not one that stands for not knowing it.
pub fn is_boot_known(id: [u8; 16]) -> bool {
    id[6] >> 4 != 0
}

/// The sum of the counts of all persistent memory devices (`nmem*`, by firmware table or CXL).
fn dirty_shutdowns(devices: &Path) -> io::Result<Option<u64>> {
    let Some(entries) = unless_absent(std::fs::read_dir(devices))? else { return Ok(None) };
    let mut sum: Option<u64> = None;
    for entry in entries {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("nmem") {
            continue;
        }
        for interface in ["nfit", "cxl"] {
            let file = entry.path().join(interface).join("dirty_shutdown");
            let text = unless_absent(std::fs::read_to_string(file))?.unwrap_or_default();
            if let Ok(count) = text.trim().parse::<u64>() {
                sum = Some(sum.unwrap_or(0).saturating_add(count));
            }
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_version_four_and_differ() {
        let (a, b) = (random_uuid(), random_uuid());
        assert_ne!(a, b);
        assert_eq!((a[6] >> 4, a[8] >> 6), (4, 2));
    }

    #[test]
    fn the_boot_id_is_read_from_its_text() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("boot_id");
        assert_eq!(boot_id(&file).unwrap(), None);
        std::fs::write(&file, "00112233-4455-6677-8899-aabbccddeeff\n").unwrap();
        let id = boot_id(&file).unwrap().unwrap();
        assert_eq!((&id[..3], id[15]), (&[0x00, 0x11, 0x22][..], 0xff));
        assert!(is_boot_known(id));
        std::fs::write(&file, "short").unwrap();
        assert_eq!(boot_id(&file).unwrap(), None);
    }

    /// Any refusal was taken for a system that does not tell its boot.
    #[test]
    fn what_cannot_be_read_now_is_not_taken_for_absent() {
        for error in [Errno::NOENT, Errno::ACCESS, Errno::NOSYS, Errno::MFILE, Errno::NFILE] {
            let read = unless_absent::<()>(Err(error.into()));
            let is_passing = matches!(error, Errno::MFILE | Errno::NFILE);
            assert_eq!(read.is_err(), is_passing, "{error}");
        }
    }

    #[test]
    fn of_boots_that_are_not_known_no_two_are_the_same() {
        let (a, b) = (unknown_boot(), unknown_boot());
        assert!(a != b && !is_boot_known(a) && !is_boot_known(b));
    }

    #[test]
    fn dirty_shutdowns_are_summed_over_devices_that_tell() {
        let directory = tempfile::tempdir().unwrap();
        let devices = directory.path();
        assert_eq!(dirty_shutdowns(&devices.join("none")).unwrap(), None);
        assert_eq!(dirty_shutdowns(devices).unwrap(), None);
        for (device, text) in [("nmem0/nfit", "3\n"), ("nmem1/cxl", "4"), ("region0/nfit", "9")] {
            std::fs::create_dir_all(devices.join(device)).unwrap();
            std::fs::write(devices.join(device).join("dirty_shutdown"), text).unwrap();
        }
        std::fs::create_dir_all(devices.join("nmem2")).unwrap();
        assert_eq!(dirty_shutdowns(devices).unwrap(), Some(7));
    }

    #[test]
    fn this_machine_has_a_boot_and_a_time() {
        let world = Environment::of_this_machine().unwrap();
        assert!(world.now_ns > 1_600_000_000_000_000_000);
        if Path::new("/proc/sys/kernel/random/boot_id").exists() {
            assert_ne!(world.boot_id, [0; 16]);
            assert_eq!(world.boot_id, Environment::of_this_machine().unwrap().boot_id);
        }
    }
}
