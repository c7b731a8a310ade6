//! The machine that was measured.

use std::fs;

use everleaf_machine::topology;
use serde::{Deserialize, Serialize};

use crate::{calibrate, program};

/// The machine and the build that were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The name of the CPU.
    pub cpu: String,
    /// CPUs that the process may use.
    pub cpu_count: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of the huge pages that the kernel uses by itself or on demand, if it does.
    pub huge_page_bytes: Option<usize>,
    /// Nanoseconds that one reading of the clock takes; a latency contains about one.
    pub clock_ns: f64,
    /// Whether the program was built with optimisation; without, its figures mean nothing.
    pub is_optimized: bool,
    /// The operating system and its version, such as `Linux 6.1.0`.
    pub system: String,
    /// The data caches of the first CPU, from the nearest on, such as `48 KiB, 2 MiB, 260 MiB`.
    pub caches: String,
    /// Whether this is a virtual machine, as far as it can tell: its neighbours are not to be seen.
    pub is_virtual: bool,
    /// A checksum of the program's file; empty if an older program wrote this, or it could not be read.
    pub program: String,
    /// Tasks that wanted a CPU during the last minute, on average, when this was written down.
    pub load: f64,
}

impl Machine {
    /// The machine that this runs on, as it is now.
    pub fn here() -> Self {
        let name = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Machine {
            cpu: topology::cpu_model(),
            cpu_count: topology::cpu_count(),
            memory_bytes: topology::memory_total_bytes(),
            huge_page_bytes: topology::huge_page_size_bytes(),
            clock_ns: calibrate::clock_ns(),
            is_optimized: !cfg!(debug_assertions),
            system: format!("{} {}", text(name.sysname()), text(name.release())),
            caches: caches(),
            is_virtual: read("/proc/cpuinfo").contains(" hypervisor"),
            program: program::checksum().to_owned(),
            load: load_of(&read("/proc/loadavg")),
        }
    }
}

impl Machine {
    /// Whether the other is the same machine with the same program; its load and its clock may differ.
    /// A program that is not known is no program's same.
    pub fn is_same(&self, other: &Machine) -> bool {
        !self.program.is_empty() && self.program == other.program && self.is_same_machine(other)
    }

    /// The same, whatever the programs.
    pub fn is_same_machine(&self, other: &Machine) -> bool {
        let moment = Machine {
            clock_ns: self.clock_ns,
            load: self.load,
            program: self.program.clone(),
            is_optimized: self.is_optimized,
            ..other.clone()
        };
        *self == moment
    }
}

/// The first number of a load average; 0 if there is none.
fn load_of(text: &str) -> f64 {
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

/// The sizes of the caches that hold data; empty if the kernel does not tell.
fn caches() -> String {
    let one = |index: usize| {
        let read = |name: &str| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"))
        };
        let is_data = read("type").is_ok_and(|kind| kind.trim() != "Instruction");
        let size = read("size").ok()?;
        is_data.then(|| readable(size.trim()))
    };
    let sizes: Vec<String> = (0..8).filter_map(one).collect();
    sizes.join(", ")
}

/// `2048K` as `2 MiB`.
fn readable(size: &str) -> String {
    match size.strip_suffix('K').and_then(|number| number.parse::<u64>().ok()) {
        Some(number) if number >= 1024 => format!("{} MiB", number / 1024),
        Some(number) => format!("{number} KiB"),
        None => size.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_understood() {
        assert_eq!(load_of("1.52 0.80 0.41 2/310 4711\n"), 1.52);
        assert_eq!(load_of(""), 0.0);
        assert_eq!([readable("48K"), readable("2048K"), readable("?")], ["48 KiB", "2 MiB", "?"]);
    }

    #[test]
    fn this_machine_has_a_name_and_survives_json() {
        let here = Machine::here();
        assert!(!here.system.trim().is_empty() && here.cpu_count > 0);
        let text = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&text).unwrap(), here);
        assert!(here.is_same(&Machine { load: here.load + 1.0, clock_ns: 0.0, ..here.clone() }));
        assert!(!here.is_same(&Machine { cpu: "another".to_owned(), ..here.clone() }));
        let other = Machine { program: "0".to_owned(), ..here.clone() };
        assert!(!here.is_same(&other) && here.is_same_machine(&other));
        let unknown = Machine { program: String::new(), ..here.clone() };
        assert!(!unknown.is_same(&unknown));
        // What an older program wrote is still read.
        let old: Machine = serde_json::from_str(r#"{"cpu":"a","cpu_count":2}"#).unwrap();
        assert_eq!((old.cpu.as_str(), old.system.as_str()), ("a", ""));
    }
}
