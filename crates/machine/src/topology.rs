//! The CPUs, memory nodes and pages of the machine, as the kernel tells them.
//!
//! Everything here is asked anew at each call and is meant for start-up and for reports. A question
//! that the kernel does not answer (no `/sys`, no `/proc`) gets the plainest true-enough answer:
//! one node with all CPUs, an unnamed CPU.

use std::fs;
use std::io;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPUs that this process may run on (its affinity mask, so a container's share); at least 1.
pub fn cpu_count() -> usize {
    allowed_cpus().len().max(1)
}

/// The numbers of the CPUs that this thread may run on, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => vec![0],
    }
}

/// Ties the calling thread to CPU number `cpu`.
///
/// *Errors:* `InvalidInput` if there is no such CPU or the process may not use it; the kernel's.
pub fn pin_current_thread(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// One memory node: the CPUs that are near to it and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNode {
    /// The kernel's number of the node.
    pub number: usize,
    /// Numbers of its CPUs, ascending; empty for a node that has only memory.
    pub cpus: Vec<usize>,
    /// Bytes of memory of the node; 0 if not told.
    pub memory_bytes: u64,
}

/// The memory nodes, ascending by number; never empty.
pub fn numa_nodes() -> Vec<NumaNode> {
    let nodes = read_nodes(Path::new("/sys/devices/system/node"));
    if nodes.is_empty() {
        return vec![NumaNode {
            number: 0,
            cpus: allowed_cpus(),
            memory_bytes: memory_total_bytes(),
        }];
    }
    nodes
}

fn read_nodes(directory: &Path) -> Vec<NumaNode> {
    let Ok(online) = fs::read_to_string(directory.join("online")) else { return Vec::new() };
    let numbers = parse_cpu_list(&online);
    let node = |number: usize| {
        let home = directory.join(format!("node{number}"));
        let cpus = fs::read_to_string(home.join("cpulist")).unwrap_or_default();
        let memory = fs::read_to_string(home.join("meminfo")).unwrap_or_default();
        NumaNode {
            number,
            cpus: parse_cpu_list(&cpus),
            memory_bytes: kilobytes_after(&memory, "MemTotal:").unwrap_or(0),
        }
    };
    numbers.into_iter().map(node).collect()
}

/// Reads the kernel's list form, such as `0-3,8,10-11`; what is not a number is left out.
fn parse_cpu_list(text: &str) -> Vec<usize> {
    let mut list = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            // A hostile or odd file must not make us collect without end.
            list.extend((first..=last).take(CpuSet::MAX_CPU));
        }
    }
    list
}

/// The number after `label`, given in kB, as bytes.
fn kilobytes_after(text: &str, label: &str) -> Option<u64> {
    let (_, rest) = text.split_once(label)?;
    let number: u64 = rest.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

/// Bytes in an ordinary page of memory.
pub fn page_size_bytes() -> usize {
    rustix::param::page_size()
}

/// Bytes in a huge page that the kernel can use by itself; `None` if it never does.
pub fn huge_page_size_bytes() -> Option<usize> {
    let size = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok()?;
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    if enabled.contains("[never]") { None } else { size.trim().parse().ok() }
}

/// Bytes of memory in the machine.
pub fn memory_total_bytes() -> u64 {
    let information = rustix::system::sysinfo();
    (information.totalram as u64).saturating_mul(u64::from(information.mem_unit.max(1)))
}

/// The name of the CPU as its maker gives it; "unknown CPU" if the kernel does not tell.
pub fn cpu_model() -> String {
    fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| model_of(&text))
        .unwrap_or_else(|| "unknown CPU".to_owned())
}

fn model_of(cpuinfo: &str) -> Option<String> {
    let value = |label: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == label && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    value("model name").or_else(|| value("Hardware")).or_else(|| {
        // AArch64 kernels give numbers only.
        let (maker, part) = (value("CPU implementer")?, value("CPU part")?);
        Some(format!("implementer {maker} part {part}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_cpu_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_cpu_list("\n"), [0; 0]);
        assert_eq!(parse_cpu_list("2-x,5"), [5]);
        assert!(parse_cpu_list("0-99999999999").len() <= CpuSet::MAX_CPU);
    }

    #[test]
    fn allowed_cpus_can_be_pinned_to_and_one_out_of_range_cannot() {
        std::thread::spawn(|| {
            for cpu in allowed_cpus() {
                pin_current_thread(cpu).unwrap();
                assert_eq!(allowed_cpus(), [cpu]);
                // A pinned thread may be moved back only to CPUs of the process: widen again.
                let mut all = CpuSet::new();
                (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
                sched_setaffinity(None, &all).unwrap();
            }
            assert!(pin_current_thread(CpuSet::MAX_CPU).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_nodes_cover_the_cpus_of_this_process() {
        let nodes = numa_nodes();
        for cpu in allowed_cpus() {
            assert!(nodes.iter().any(|node| node.cpus.contains(&cpu)), "CPU {cpu} in {nodes:?}");
        }
    }

    #[test]
    fn a_tree_of_node_files_is_read() {
        let home = std::env::temp_dir().join(format!("everleaf-nodes-{}", std::process::id()));
        for (number, cpus) in [(0, "0-1"), (2, "")] {
            let node = home.join(format!("node{number}"));
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join("cpulist"), cpus).unwrap();
            fs::write(node.join("meminfo"), format!("Node {number} MemTotal:   64 kB\n")).unwrap();
        }
        fs::write(home.join("online"), "0,2\n").unwrap();
        let nodes = read_nodes(&home);
        fs::remove_dir_all(&home).unwrap();
        let plain =
            |number, cpus: &[usize]| NumaNode { number, cpus: cpus.to_vec(), memory_bytes: 65536 };
        assert_eq!(nodes, [plain(0, &[0, 1]), plain(2, &[])]);
        assert_eq!(read_nodes(&home), []);
    }

    #[test]
    fn the_machine_has_pages_memory_and_a_name() {
        assert!(page_size_bytes().is_power_of_two());
        assert!(memory_total_bytes() > 1 << 20);
        assert!(!cpu_model().is_empty());
        assert_eq!(model_of("model name\t: A CPU\n").as_deref(), Some("A CPU"));
        assert_eq!(
            model_of("CPU implementer : 0x41\nCPU part : 0xd0c\n").as_deref(),
            Some("implementer 0x41 part 0xd0c")
        );
        assert_eq!(model_of(""), None);
    }
}
