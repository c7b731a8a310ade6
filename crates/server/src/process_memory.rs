//! How much memory this process has and may have, as the kernel counts it.

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
    // In a container, the root of what it sees is its own group.
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    let group = group.trim().parse().ok();
    machine.into_iter().chain(group).min()
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

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_memory() {
        let memory = read();
        assert!(memory.resident > 100 << 10);
        assert!(memory.resident_peak >= memory.resident / 2);
        assert!(available().is_some_and(|size| size > memory.resident / 2));
    }
}
