//! Which arguments of a request are keys.

use super::facts::Command;
use super::integer::parse_integer;
use crate::failure::{Failure, Result};

/// The arguments of a request of this command that are keys, for a client that asks which: refused where there can be
/// none.
pub fn asked_for(command: &Command, args: &[&[u8]]) -> Result<Vec<usize>> {
    let counted = counted_from(command.name);
    let has_keys = command.first_key != 0 || counted.is_some() || is_memory_usage(command, args);
    if !has_keys {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    if !command.accepts(args.len()) {
        return Err(Failure::text("ERR Invalid number of arguments specified for command"));
    }
    let positions = match counted {
        Some(at) => counted_positions(command, args, at)?,
        None => listed_positions(command, args),
    };
    if positions.is_empty() {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    Ok(positions)
}

/// The arguments that are keys; none where their number makes no sense, which the command refuses.
pub fn of(command: &Command, args: &[&[u8]]) -> Vec<usize> {
    match counted_from(command.name) {
        Some(at) => counted_positions(command, args, at).unwrap_or_default(),
        None => listed_positions(command, args),
    }
}

/// Whether which arguments are keys cannot be told by the first, the last and the distance: `movablekeys`.
pub fn depend_on_arguments(command: &Command) -> bool {
    counted_from(command.name).is_some() || matches!(command.name, "sort" | "sort_ro")
}

/// Where the number of keys is told, of a command that tells it.
fn counted_from(name: &str) -> Option<usize> {
    match name {
        "zunion" | "zinter" | "zdiff" | "zintercard" | "sintercard" | "lmpop" | "zmpop" => Some(1),
        "zunionstore" | "zinterstore" | "zdiffstore" | "blmpop" | "bzmpop" => Some(2),
        _ => None,
    }
}

fn counted_positions(command: &Command, args: &[&[u8]], at: usize) -> Result<Vec<usize>> {
    let count = args.get(at).and_then(|arg| parse_integer(arg)).filter(|count| *count > 0);
    let count = count.and_then(|count| usize::try_from(count).ok());
    let end = count.and_then(|count| (at + 1).checked_add(count)).filter(|end| *end <= args.len());
    let end = end.ok_or(Failure::text("ERR Invalid arguments specified for command"))?;
    let destination = (command.first_key == 1).then_some(1);
    Ok(destination.into_iter().chain(at + 1..end).collect())
}

fn listed_positions(command: &Command, args: &[&[u8]]) -> Vec<usize> {
    if is_memory_usage(command, args) {
        return if args.len() > 2 { vec![2] } else { Vec::new() };
    }
    if command.name == "object" && args.get(1).is_some_and(|arg| arg.eq_ignore_ascii_case(b"help"))
    {
        return Vec::new();
    }
    if command.first_key == 0 || usize::from(command.first_key.unsigned_abs()) >= args.len() {
        return Vec::new();
    }
    let first = usize::from(command.first_key.unsigned_abs());
    let last = match command.last_key {
        last if last < 0 => args.len().saturating_sub(usize::from(last.unsigned_abs())),
        last => usize::from(last.unsigned_abs()).min(args.len() - 1),
    };
    let step = usize::from(command.key_step.unsigned_abs()).max(1);
    let mut positions: Vec<usize> = (first..=last).step_by(step).collect();
    if command.name == "sort" {
        positions.extend(destination_of_sort(args));
    }
    positions
}

/// `MEMORY` has a key only there.
fn is_memory_usage(command: &Command, args: &[&[u8]]) -> bool {
    command.name == "memory" && args.get(1).is_some_and(|arg| arg.eq_ignore_ascii_case(b"usage"))
}

/// The argument behind the last `STORE` of a `SORT` that is not an argument of another option.
fn destination_of_sort(args: &[&[u8]]) -> Option<usize> {
    let (mut at, mut destination) = (2, None);
    while let Some(option) = args.get(at) {
        at += match option.to_ascii_lowercase().as_slice() {
            b"limit" => 3,
            b"by" | b"get" => 2,
            b"store" if at + 1 < args.len() => {
                destination = Some(at + 1);
                2
            }
            _ => 1,
        };
    }
    destination
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::facts::{COMMANDS, find};

    fn keys(line: &str) -> Vec<&str> {
        let words: Vec<&str> = line.split(' ').collect();
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let command = &COMMANDS[find(args[0]).unwrap()];
        of(command, &args).into_iter().map(|at| words[at]).collect()
    }

    #[test]
    fn keys_are_found_where_they_are() {
        assert_eq!(keys("get k"), ["k"]);
        assert_eq!(keys("mset a 1 b 2"), ["a", "b"]);
        assert_eq!(keys("del a b c"), ["a", "b", "c"]);
        assert_eq!(keys("bitop and d a b"), ["d", "a", "b"]);
        assert_eq!(keys("sort abc store invalid store def"), ["abc", "def"]);
        assert_eq!(keys("sort abc store d by store get x"), ["abc", "d"]);
        assert_eq!(keys("sort abc limit store store"), ["abc"]);
        assert_eq!(keys("memory usage k"), ["k"]);
        assert_eq!(keys("zunionstore d 2 a b weights 1 2"), ["d", "a", "b"]);
        assert_eq!(keys("lmpop 1 k left"), ["k"]);
        assert_eq!(keys("blmpop 0 2 k l left"), ["k", "l"]);
        assert_eq!(keys("blpop k l 0"), ["k", "l"]);
        assert!(keys("lmpop 9223372036854775807 k left").is_empty());
    }
}
