//! Which persistence domain a mapped file has.

use std::path::Path;

use crate::Domain;

/// The domain of a file, given whether it is persistent memory mapped synchronously.
pub fn detect(synchronous: bool) -> Domain {
    if synchronous { of_regions(Path::new("/sys/bus/nd/devices")) } else { Domain::Process }
}

/// The domain of the persistent memory regions: [`Domain::Eadr`] if every region that says
/// something says that the CPU caches are within it, else [`Domain::Adr`], which is always right.
fn of_regions(devices: &Path) -> Domain {
    let Ok(entries) = std::fs::read_dir(devices) else { return Domain::Adr };
    let mut visible = false;
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with("region") {
            continue;
        }
        match std::fs::read_to_string(entry.path().join("persistence_domain")) {
            Ok(text) if text.trim() == "cpu_cache" => visible = true,
            _ => return Domain::Adr,
        }
    }
    if visible { Domain::Eadr } else { Domain::Adr }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_file_survives_the_process_only() {
        assert_eq!(detect(false), Domain::Process);
    }

    #[test]
    fn caches_count_only_if_every_region_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let devices = directory.path();
        assert_eq!(of_regions(&devices.join("none")), Domain::Adr);
        assert_eq!(of_regions(devices), Domain::Adr);
        let region = |name: &str, text: &str| {
            std::fs::create_dir_all(devices.join(name)).unwrap();
            std::fs::write(devices.join(name).join("persistence_domain"), text).unwrap();
        };
        region("region0", "cpu_cache\n");
        region("namespace0.0", "memory_controller\n");
        assert_eq!(of_regions(devices), Domain::Eadr);
        region("region1", "memory_controller\n");
        assert_eq!(of_regions(devices), Domain::Adr);
        region("region1", "");
        assert_eq!(of_regions(devices), Domain::Adr);
    }
}
