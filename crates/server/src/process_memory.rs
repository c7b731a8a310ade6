//! How much memory this process has and may have, as the kernel counts it.

use std::path::{Component, Path, PathBuf};

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// In memory now, mapped pool pages included.
    pub resident: u64,
    /// In memory at the worst moment so far.
    pub resident_peak: u64,
    /// In memory now and backed by a file: for the greater part, the pool.
    pub resident_file: u64,
}

/// Zeros where the system does not tell.
pub fn read() -> ProcessMemory {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ProcessMemory {
        resident: field(&status, "VmRSS:"),
        resident_peak: field(&status, "VmHWM:"),
        resident_file: field(&status, "RssFile:") + field(&status, "RssShmem:"),
    }
}

/// Bytes that this process may use: what the machine has, or what its control group is allowed.
/// `None` where the system does not tell.
pub fn available() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = Some(field(&machine, "MemTotal:")).filter(|&size| size > 0);
    machine.into_iter().chain(allowed(Path::new("/sys/fs/cgroup"), &own_group())).min()
}

/// The control group of this process below the root of what it sees, which in a container is the group itself.
fn own_group() -> PathBuf {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    own.map(PathBuf::from).unwrap_or_default()
}

/// The least that a control group and those around it are allowed, if any of them has a limit.
fn allowed(root: &Path, group: &Path) -> Option<u64> {
    // One outside of what is seen is told with `..`.
    let is_inside = group.components().all(|part| matches!(part, Component::Normal(_)));
    let group = root.join(if is_inside { group } else { Path::new("") });
    let around = group.ancestors().take_while(|around| around.starts_with(root));
    let limit = |around: &Path| {
        std::fs::read_to_string(around.join("memory.max")).ok()?.trim().parse::<u64>().ok()
    };
    around.filter_map(limit).min()
}

/// The lines look like `VmRSS:     1234 kB`.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
    kilobytes.map_or(0, |value: u64| value << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_and_scaled() {
        let status = "Name:\tx\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\n";
        assert_eq!(field(status, "VmRSS:"), 1000 << 10);
        assert_eq!(field(status, "VmHWM:"), 2000 << 10);
        assert_eq!(field(status, "RssFile:"), 0);
    }

    /// Of a service only the limit of the root was looked at, which has none.
    #[test]
    fn a_group_is_allowed_what_the_least_around_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let service = folder.path().join("system.slice/everleaf.service");
        std::fs::create_dir_all(&service).unwrap();
        let group = Path::new("system.slice/everleaf.service");
        let set = |at: &Path, text: &str| std::fs::write(at.join("memory.max"), text).unwrap();
        assert_eq!(allowed(folder.path(), group), None);
        set(&service, "max\n");
        assert_eq!(allowed(folder.path(), group), None);
        set(&service, "2000\n");
        assert_eq!(allowed(folder.path(), group), Some(2000));
        set(service.parent().unwrap(), "1000\n");
        assert_eq!(allowed(folder.path(), group), Some(1000));
        assert_eq!(allowed(folder.path(), Path::new("../other")), None);
        set(folder.path(), "500\n");
        assert_eq!(allowed(folder.path(), Path::new("")), Some(500));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory() {
        let memory = read();
        assert!(memory.resident > 100 << 10);
        assert!(memory.resident_peak >= memory.resident / 2);
        assert!(available().is_some_and(|size| size > memory.resident / 2));
    }
}
