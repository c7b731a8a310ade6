//! Compiles the copy, without the sites that do not compile.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::copy::{Places, Sources};
use super::site::Key;
use super::spread::spread;
use crate::command::cargo;

/// After so many turns of the compiler something else is wrong.
const TURNS: usize = 12;

/// What was compiled.
pub struct Built {
    /// The program that searches.
    pub program: PathBuf,
    /// The sites that do not compile, and are not in it.
    pub left_out: BTreeSet<Key>,
}

/// Writes the copy and compiles it, with these structures, or all if none is named.
///
/// # Errors
/// What the compiler says, if no site is to blame.
pub fn build(sources: &Sources, structures: &[String]) -> Result<Built, String> {
    // Each turn takes the compiler a minute.
    let Built { program, mut left_out } = built_before(sources, structures);
    for _ in 0..TURNS {
        let places = sources.write(&left_out, structures)?;
        let blamed = compile(sources, &places, sources.package(structures)?)?;
        if blamed.is_empty() {
            put_in_place(sources, &program)?;
            return Ok(Built { program, left_out });
        }
        println!("{} sites do not compile", blamed.len());
        left_out.extend(blamed.into_iter().map(|site| sources.sites[site].key.clone()));
        let lines: String = left_out.iter().map(|key| format!("{key}\n")).collect();
        let path = list_of_left_out(sources);
        fs::write(&path, lines).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Err(format!("the copy does not compile after {TURNS} turns"))
}

/// What was compiled before, of the same sources with these structures.
pub fn built_before(sources: &Sources, structures: &[String]) -> Built {
    let listed = fs::read_to_string(list_of_left_out(sources)).unwrap_or_default();
    let listed: BTreeSet<&str> = listed.lines().collect();
    let keys = sources.sites.iter().map(|site| &site.key);
    let left_out = keys.filter(|key| listed.contains(key.to_string().as_str())).cloned().collect();
    // Another hunt may run a program with other structures meanwhile.
    let name = format!("target/mutate/rule-{:016x}", spread(0, &structures.join(" ")));
    Built { program: sources.root.join(name), left_out }
}

fn list_of_left_out(sources: &Sources) -> PathBuf {
    sources.root.join("target/mutate/left-out")
}

/// A cargo in the copy that compiles fast what still runs fast. As in a release, nothing is asserted that is
/// for debugging.
fn cargo_in(sources: &Sources, package: &str) -> Command {
    let mut command = cargo(&sources.tree(), &["build", "--bin", "rule", "--message-format=json"]);
    command
        .env("CARGO_TARGET_DIR", sources.root.join("target/mutate/build"))
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "32")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("RUSTFLAGS", "-Awarnings")
        .args(["--release", "-p", package])
        .args(["--config", "profile.release.package.everleaf-machine.opt-level=3"]);
    command
}

/// Compiles the program; the sites that do not compile, if it is not for those.
fn compile(sources: &Sources, places: &Places, package: &str) -> Result<BTreeSet<usize>, String> {
    let mut command = cargo_in(sources, package);
    command.stderr(Stdio::inherit());
    let out = command.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    if out.status.success() {
        return Ok(BTreeSet::new());
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let messages: Vec<Value> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let errors = messages.iter().map(|line| &line["message"]).filter(|one| one["level"] == "error");
    let blamed: BTreeSet<usize> = errors.clone().filter_map(|one| blame(one, places)).collect();
    if blamed.is_empty() {
        let first = errors.filter_map(|one| one["rendered"].as_str()).next();
        return Err(first.unwrap_or("the copy does not compile").to_string());
    }
    Ok(blamed)
}

/// The site that an error is about: the smallest around what it points at, or the first in it.
fn blame(error: &Value, places: &Places) -> Option<usize> {
    let spans = error["spans"].as_array()?;
    let mut spans: Vec<_> = spans.iter().collect();
    spans.sort_by_key(|span| span["is_primary"] != true);
    spans.into_iter().find_map(|span| {
        let places = places.get(span["file_name"].as_str()?)?;
        let start = span["byte_start"].as_u64()? as usize;
        let end = span["byte_end"].as_u64()? as usize;
        let around = places.iter().filter(|(_, place)| place.start <= start && end <= place.end);
        let smallest = around.min_by_key(|(_, place)| place.len());
        let inside = || places.iter().find(|(_, place)| start <= place.start && place.end <= end);
        smallest.or_else(inside).map(|(site, _)| *site)
    })
}

/// Puts the program in its place if it is another one than before.
fn put_in_place(sources: &Sources, program: &Path) -> Result<(), String> {
    let made = sources.root.join("target/mutate/build/release/rule");
    if age(&made) <= age(program) {
        return Ok(());
    }
    let new = program.with_extension("new");
    let placed = fs::copy(&made, &new).and_then(|_| fs::rename(&new, program));
    placed.map_err(|error| format!("cannot write {}: {error}", program.display()))
}

/// When a file was written; the beginning of time if it is not there.
pub fn age(path: &Path) -> std::time::SystemTime {
    let time = fs::metadata(path).and_then(|about| about.modified());
    time.unwrap_or(std::time::SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_is_the_smallest_site_around_it() {
        let of_file = vec![(3, 10..50), (4, 20..30), (5, 60..70)];
        let places = Places::from([("a.rs".to_string(), of_file)]);
        let error = |start, end| {
            json!({"spans": [
                {"file_name": "b.rs", "byte_start": 0, "byte_end": 9, "is_primary": true},
                {"file_name": "a.rs", "byte_start": start, "byte_end": end, "is_primary": false},
            ]})
        };
        assert_eq!(blame(&error(22, 25), &places), Some(4));
        assert_eq!(blame(&error(12, 25), &places), Some(3));
        assert_eq!(blame(&error(55, 75), &places), Some(5));
        assert_eq!(blame(&error(80, 85), &places), None);
    }
}
