//! The commands and subcommands, numbered for rules about them.
//!
//! Commands have the numbers of the table, subcommands follow, then one number stands for the commands to come of
//! each category that has none here, so that `-@scripting` is kept and told back. The last bit stands for all commands
//! to come.

use std::sync::LazyLock;

use super::facts::{ADMIN, Access, CATEGORIES, CHANGES, FACTS, READ, READS, WRITE, WRITES};
use crate::command::facts::{self, COMMANDS, SUBCOMMANDS};
use crate::command::key_positions;

/// Words of 64 bits that hold a bit for each.
pub const BITS_SIZE: usize = 5;
/// The bit of commands that do not exist yet.
pub const FUTURE: usize = BITS_SIZE * 64 - 1;

/// A command, a subcommand (`config|get`), or the future of a category.
#[derive(Debug)]
pub struct Known {
    pub name: String,
    pub categories: u32,
    /// Stands for commands to come.
    pub is_reserved: bool,
    /// Of a subcommand: the number of its command.
    parent: Option<usize>,
    first: Access,
    others: Access,
    reads_everywhere: bool,
}

static ALL: LazyLock<Vec<Known>> = LazyLock::new(number);

fn number() -> Vec<Known> {
    let named = |name: String, parent| {
        let fact = FACTS.iter().find(|(known, ..)| *known == name);
        let (_, categories, first, others) = fact.copied().unwrap_or(("", 0, CHANGES, CHANGES));
        // They name no key, and tell of any.
        let reads_everywhere = matches!(name.as_str(), "range" | "prefix");
        Known { name, categories, is_reserved: false, parent, first, others, reads_everywhere }
    };
    let mut all: Vec<Known> =
        COMMANDS.iter().map(|command| named(command.name.to_string(), None)).collect();
    for (command, subcommands) in SUBCOMMANDS {
        let parent = facts::find(command.as_bytes());
        all.extend(subcommands.iter().map(|(name, _)| named(format!("{command}|{name}"), parent)));
    }
    for index in 0..CATEGORIES.len() {
        let categories = 1 << index;
        if !all.iter().any(|known| known.categories & categories != 0) {
            all.push(Known { categories, is_reserved: true, ..named(String::new(), None) });
        }
    }
    all
}

/// All of them, by number.
pub fn all() -> &'static [Known] {
    &ALL
}

/// The numbers, each command before its subcommands.
pub fn in_order() -> impl Iterator<Item = usize> {
    let commands = 0..COMMANDS.len();
    let reserved = (COMMANDS.len()..ALL.len()).filter(|id| ALL[*id].is_reserved);
    commands.flat_map(|id| std::iter::once(id).chain(subcommands_of(id))).chain(reserved)
}

/// The category of this name, in any letters.
pub fn category(name: &[u8]) -> Option<u32> {
    let position =
        CATEGORIES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
    Some(1 << position)
}

/// The names of the categories of a number.
pub fn category_names(id: usize) -> impl Iterator<Item = &'static str> {
    let categories = ALL.get(id).map_or(0, |known| known.categories);
    let indexed = CATEGORIES.into_iter().enumerate();
    indexed.filter(move |(index, _)| categories >> index & 1 == 1).map(|(_, name)| name)
}

/// Whether a request, of the command with this number, is administration, and not shown to a client that watches
/// others.
pub fn is_administration(index: usize, args: &[&[u8]]) -> bool {
    let known = &ALL[of_request(index, args).unwrap_or(index)];
    // It tells the time of something, and is in the category for that alone.
    known.categories & ADMIN != 0 && known.name != "lastsave"
}

/// Whether a request, of the command with this number, reads or writes keys.
pub fn is_of_keys(index: usize, args: &[&[u8]]) -> bool {
    ALL[of_request(index, args).unwrap_or(index)].categories & (READ | WRITE) != 0
}

/// The numbers of the subcommands of a command.
pub fn subcommands_of(id: usize) -> impl Iterator<Item = usize> {
    // Most have none; a subcommand has none.
    let has = COMMANDS.get(id).is_some_and(|command| command.has_subcommands());
    let ids = if has { COMMANDS.len()..ALL.len() } else { 0..0 };
    ids.filter(move |sub| ALL[*sub].parent == Some(id))
}

/// Whether a number is that of a subcommand.
pub fn is_subcommand(id: usize) -> bool {
    ALL.get(id).is_some_and(|known| known.parent.is_some())
}

/// The number of `command` or `command|subcommand`, in any letters.
pub fn find_full(name: &[u8]) -> Option<usize> {
    let Some(bar) = name.iter().position(|byte| *byte == b'|') else { return facts::find(name) };
    subcommand(facts::find(&name[..bar])?, &name[bar + 1..])
}

fn subcommand(id: usize, name: &[u8]) -> Option<usize> {
    subcommands_of(id).find(|sub| {
        let known = ALL[*sub].name.split_once('|').map_or("", |(_, name)| name);
        known.as_bytes().eq_ignore_ascii_case(name)
    })
}

/// The number of what these arguments ask for: that of the command in the table, or of its subcommand.
pub fn of_request(command: usize, args: &[&[u8]]) -> Option<usize> {
    match args.get(1) {
        Some(name) if COMMANDS[command].has_subcommands() => subcommand(command, name),
        _ => Some(command),
    }
}

/// Whether everybody may use it.
pub fn needs_no_permission(id: usize) -> bool {
    COMMANDS.get(id).is_some_and(|command| command.before_auth())
}

/// Whether it tells of keys that it does not name.
pub fn reads_everywhere(id: usize) -> bool {
    ALL.get(id).is_some_and(|known| known.reads_everywhere)
}

/// The arguments that are keys, each with what is done with it.
pub fn keys_of(id: usize, args: &[&[u8]]) -> Vec<(usize, Access)> {
    let Some(known) = ALL.get(id) else { return Vec::new() };
    let command = &COMMANDS[known.parent.unwrap_or(id).min(COMMANDS.len() - 1)];
    let (first, others) = match command.name {
        "set" => {
            let tells = args.iter().skip(3).any(|arg| arg.eq_ignore_ascii_case(b"get"));
            (if tells { CHANGES } else { WRITES }, NONE_LEFT)
        }
        "bitfield" => (if only_reads(args) { READS } else { CHANGES }, NONE_LEFT),
        _ => (known.first, known.others),
    };
    let positions = key_positions::of(command, args).into_iter().enumerate();
    positions.map(|(index, at)| (at, if index == 0 { first } else { others })).collect()
}

/// There are no other keys; what it takes to use them.
const NONE_LEFT: Access = CHANGES;

/// Whether a `BITFIELD` has nothing but `GET`.
fn only_reads(args: &[&[u8]]) -> bool {
    let mut rest = args.get(2..).unwrap_or_default();
    loop {
        let size = match rest {
            [] => return true,
            [name, _, _, ..] if name.eq_ignore_ascii_case(b"get") => 3,
            [name, _, ..] if name.eq_ignore_ascii_case(b"overflow") => 2,
            // A write, or a mistake.
            _ => return false,
        };
        rest = &rest[size..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_can_be_run_has_its_categories_and_a_bit() {
        let reserved = all().iter().filter(|known| known.is_reserved).count();
        assert_eq!(FACTS.len() + reserved, all().len());
        assert!(all().len() <= FUTURE);
        for known in all().iter().filter(|known| !known.is_reserved) {
            assert!(FACTS.iter().any(|(name, ..)| *name == known.name), "{}", known.name);
            assert_ne!(known.categories, 0, "{}", known.name);
        }
    }

    #[test]
    fn keys_are_found_with_what_is_done_with_them() {
        let keys = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let command = facts::find(words[0]).expect("it is a command");
            keys_of(of_request(command, &words).expect("it is known"), &words)
        };
        assert_eq!(keys("get a"), [(1, READS)]);
        assert_eq!(keys("set a b"), [(1, WRITES)]);
        assert_eq!(keys("set get get"), [(1, WRITES)]);
        assert_eq!(keys("set a b ex 1 GET"), [(1, CHANGES)]);
        assert_eq!(keys("copy a b"), [(1, READS), (2, WRITES)]);
        assert_eq!(keys("sort a by b* get store store c"), [(1, READS), (7, WRITES)]);
        assert_eq!(keys("sort a store c by store get x"), [(1, READS), (3, WRITES)]);
        assert_eq!(keys("zunionstore a 2 b c"), [(1, WRITES), (3, READS), (4, READS)]);
        assert_eq!(keys("memory usage a"), [(2, 0)]);
        assert_eq!(keys("memory stats"), []);
        assert_eq!(keys("object encoding a"), [(2, 0)]);
        assert_eq!(keys("bitfield a get u4 0"), [(1, READS)]);
        assert_eq!(keys("bitfield a get u4 0 overflow wrap incrby u4 0 1"), [(1, CHANGES)]);
    }
}
