//! `COMMAND GETKEYS`: which arguments of a request are keys.

use super::keys::Result;
use super::table::{COMMANDS, Command, find};
use super::{Context, Failure, Outcome, parse_integer};
use crate::resp::Request;

/// `COMMAND GETKEYS command argument ...`
pub fn getkeys(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let args: Vec<&[u8]> = request.args_from(2).collect();
    let command = args.first().and_then(|name| find(name)).map(|index| &COMMANDS[index]);
    let command = command.ok_or(Failure::text("ERR Invalid command specified"))?;
    let counted = counted_from(command.name);
    if command.first_key == 0 && counted.is_none() {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    if !command.accepts(args.len()) {
        return Err(Failure::text("ERR Invalid number of arguments specified for command"));
    }
    let positions = match counted {
        Some(at) => counted_positions(command, &args, at)?,
        None => listed_positions(command, &args),
    };
    context.reply.array(positions.len());
    positions.iter().for_each(|at| context.reply.bulk(args[*at]));
    Ok(())
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
    let first = usize::from(command.first_key.unsigned_abs());
    let last = match command.last_key {
        last if last < 0 => args.len().saturating_sub(usize::from(last.unsigned_abs())),
        last => usize::from(last.unsigned_abs()).min(args.len() - 1),
    };
    let step = usize::from(command.key_step.unsigned_abs()).max(1);
    let mut positions: Vec<usize> = (first..=last).step_by(step).collect();
    if command.name == "sort" {
        // Of several destinations the last counts.
        let stores = (2..args.len() - 1).filter(|at| args[*at].eq_ignore_ascii_case(b"store"));
        positions.extend(stores.map(|at| at + 1).next_back());
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(line: &str) -> Vec<&str> {
        let words: Vec<&str> = line.split(' ').collect();
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let command = &COMMANDS[find(args[0]).unwrap()];
        let positions = match counted_from(command.name) {
            Some(at) => counted_positions(command, &args, at).unwrap_or_default(),
            None => listed_positions(command, &args),
        };
        positions.into_iter().map(|at| words[at]).collect()
    }

    #[test]
    fn keys_are_found_where_they_are() {
        assert_eq!(keys("get k"), ["k"]);
        assert_eq!(keys("mset a 1 b 2"), ["a", "b"]);
        assert_eq!(keys("del a b c"), ["a", "b", "c"]);
        assert_eq!(keys("bitop and d a b"), ["d", "a", "b"]);
        assert_eq!(keys("sort abc store invalid store def"), ["abc", "def"]);
        assert_eq!(keys("zunionstore d 2 a b weights 1 2"), ["d", "a", "b"]);
        assert_eq!(keys("lmpop 1 k left"), ["k"]);
        assert_eq!(keys("blmpop 0 2 k l left"), ["k", "l"]);
        assert_eq!(keys("blpop k l 0"), ["k", "l"]);
        assert!(keys("lmpop 9223372036854775807 k left").is_empty());
    }
}
