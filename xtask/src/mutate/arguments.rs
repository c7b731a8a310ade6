//! Why nobody can find a site: the arguments that are kept.
//!
//! ```text
//!   # a remark
//!   crates/index/src/nbtree/write.rs | insert | no-persist | 1
//!       The drain that follows makes the same line durable.
//! ```
//!
//! A reason is on the lines below what it is about, which begin with a space.

use std::collections::BTreeMap;

use super::site::Key;

/// The arguments that are kept with the rules.
pub const KEPT: &str = include_str!("equivalent.txt");

/// The arguments of a list, by the key of the site as text.
///
/// # Errors
/// A sentence if the list is not written as it should be, or argues for what is not there.
pub fn parse<'k>(
    text: &str,
    keys: impl Iterator<Item = &'k Key>,
) -> Result<BTreeMap<Key, String>, String> {
    let known: BTreeMap<String, &Key> = keys.map(|key| (key.to_string(), key)).collect();
    let mut all: BTreeMap<Key, String> = BTreeMap::new();
    let mut about: Vec<Key> = vec![];
    let mut is_reason = true;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with(' ') {
            if about.is_empty() {
                return Err(format!("line {number}: a reason without a site above it"));
            }
            for key in &about {
                let why = all.entry(key.clone()).or_default();
                let gap = if why.is_empty() { "" } else { " " };
                *why = format!("{why}{gap}{}", line.trim());
            }
            is_reason = true;
            continue;
        }
        // Sites that follow each other have one reason.
        if is_reason {
            about.clear();
        }
        is_reason = false;
        let key = known.get(line.trim());
        let key =
            key.ok_or_else(|| format!("line {number} argues for what is not there: {line}"))?;
        about.push((*key).clone());
    }
    if !is_reason {
        return Err("the last site is without a reason".into());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::site::Kind;
    use super::*;

    #[test]
    fn arguments_are_about_sites_that_are_there() {
        let key = |ordinal| Key {
            file: "a.rs".into(),
            function: "f".into(),
            kind: Kind::NoWait,
            ordinal,
        };
        let keys = [key(1), key(2), key(3)];
        let read = |text: &str| parse(text, keys.iter());
        let text = "# a\na.rs | f | no-wait | 1\na.rs | f | no-wait | 2\n  It is\n  so.\n";
        let both = BTreeMap::from([(key(1), "It is so.".into()), (key(2), "It is so.".into())]);
        assert_eq!(read(text), Ok(both));
        assert!(
            read("a.rs | f | no-wait | 4\n  so\n").is_err_and(|what| what.contains("not there"))
        );
        assert!(read("a.rs | f | no-wait | 1\n").is_err());
        assert!(read("  so\n").is_err());
    }
}
