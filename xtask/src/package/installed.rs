//! What the package installs besides the program: the unit, and the scripts that dpkg runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::steps::write;
use super::{FILES, SCRIPTS};

fn text_of(file: &str) -> String {
    fs::read_to_string(crate::workspace_root().join(FILES).join(file)).unwrap()
}

/// What the unit says of a key, line by line.
fn said<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let values = unit.lines().filter_map(|line| line.split_once('='));
    values.filter(|(found, _)| *found == key).map(|(_, value)| value).collect()
}

/// Nothing has told of a directive that systemd does not know.
#[test]
fn systemd_takes_the_unit_and_finds_it_confined() {
    if !crate::is_here("systemd-analyze") {
        return;
    }
    let analyze = |arguments: &[&str], unit: &Path| {
        Command::new("systemd-analyze").args(arguments).arg(unit).output().unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("everleaf.service");
    // A program that is here, whichever it is.
    write(&unit, &text_of("everleaf.service").replace("/usr/bin/everleaf", "/bin/true")).unwrap();
    let output = analyze(&["verify", "--man=no"], &unit);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("Unknown"), "{told}");
    // 1.6 of 10, of which more is more exposed.
    let output = analyze(&["security", "--offline=yes", "--threshold=20"], &unit);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// What was lost: a pool whose folder was removed, which the server had saved in the folder for temporary files, as it
/// said. That was the service's own, and was removed with it.
#[test]
fn what_the_service_saves_elsewhere_outlives_it() {
    let unit = text_of("everleaf.service");
    let places = said(&unit, "Environment");
    let place = places.iter().find_map(|value| value.strip_prefix("TMPDIR=/var/lib/"));
    let place = place.unwrap_or_else(|| panic!("TMPDIR is no folder of the service: {places:?}"));
    let states = said(&unit, "StateDirectory");
    let states: Vec<&str> = states.iter().flat_map(|names| names.split(' ')).collect();
    assert!(states.contains(&place), "{place} is none of {states:?}");
    let pool = said(&unit, "WorkingDirectory")[0];
    assert_ne!(pool, format!("/var/lib/{place}"), "it may be the folder that is gone");
}

/// Five starts in a second, and then none ever again: so ended a server that a command kept from its pool, or whose
/// address came late.
#[test]
fn a_service_that_fails_is_started_until_it_runs() {
    let unit = text_of("everleaf.service");
    let service = unit.find("[Service]").unwrap();
    assert_eq!(said(&unit[..service], "StartLimitIntervalSec"), ["0"]);
    assert_eq!(said(&unit, "Restart"), ["on-failure"]);
    let pause: u32 = said(&unit, "RestartSec")[0].parse().unwrap();
    assert!((1..=10).contains(&pause), "{pause} s");
    assert!(said(&unit, "After")[0].contains("network-online.target"));
    // A machine without a network would start late.
    assert!(said(&unit, "Wants").is_empty());
}

/// A script as dpkg runs it, on a machine whose systemd refuses everything; what that was asked.
fn asked(script: &str, arguments: &[&str], has_systemd: bool, root: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let systemctl = "#!/bin/sh\necho \"$*\" >> \"$ASKED\"\nexit 1\n";
    write(&path("bin/systemctl"), systemctl).unwrap();
    fs::set_permissions(path("bin/systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    if has_systemd {
        fs::create_dir(path("running")).unwrap();
    }
    let running = path("running").display().to_string();
    let text = text_of(script);
    assert!(text.contains("/run/systemd/system"), "{script} asks whether there is a systemd");
    write(&path("script"), &text.replace("/run/systemd/system", &running)).unwrap();
    let mut command = Command::new("/bin/sh");
    command.arg(path("script")).args(arguments).env("ASKED", path("asked"));
    command.env("PATH", format!("{}:/usr/bin:/bin", path("bin").display()));
    let output = command.env("DPKG_ROOT", root).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {arguments:?} fails, and with it dpkg: {told}");
    let asked = fs::read_to_string(path("asked")).unwrap_or_default();
    assert_eq!(asked.lines().count(), told.lines().count(), "each refusal is told: {told}");
    asked.lines().map(String::from).collect()
}

/// An upgrade whose new server did not start left the package half configured, and every further one failed.
#[test]
fn what_systemd_refuses_fails_no_installation() {
    let restart = "--no-block try-restart everleaf.service";
    let (stop, disable) = ("stop everleaf.service", "disable everleaf.service");
    for (script, arguments, expected) in [
        ("postinst", &["configure", ""][..], &["daemon-reload"][..]),
        ("postinst", &["configure", "0.0.9"], &["daemon-reload", restart]),
        ("postinst", &["abort-upgrade", "0.0.9"], &[]),
        ("prerm", &["upgrade", "0.2.0"], &[]),
        ("prerm", &["remove"], &[stop, disable]),
        ("postrm", &["remove"], &["daemon-reload"]),
        ("postrm", &["purge"], &["daemon-reload"]),
    ] {
        assert_eq!(asked(script, arguments, true, ""), expected, "{script} {arguments:?}");
        assert!(asked(script, arguments, true, "/mnt").is_empty(), "{script} is not at home");
    }
    // The link of the unit stayed, if the package was removed from a rescue system.
    assert_eq!(asked("prerm", &["remove"], false, ""), [disable]);
    for script in SCRIPTS.into_iter().filter(|script| *script != "prerm") {
        assert!(asked(script, &["configure", "0.0.9"], false, "").is_empty(), "{script}");
    }
}
