//! `OBJECT`, `MEMORY`: what a key takes, and how it is kept.

use std::ops::ControlFlow;

use everleaf::Expiry;

use super::context::Context;
use super::integer::integer_arg;
use super::stage::Staged;
use crate::failure::{CommandResult, Failure, Result};
use crate::process_memory;
use crate::resp::Request;
use crate::types::order::{position, score_of};
use crate::types::places::{ORDER, order_key};
use crate::types::runs::{self, ListEntry};
use crate::types::{Header, Kind};

/// Members of a collection that are looked at, unless the client says otherwise.
const SAMPLE_COUNT_DEFAULT: u64 = 5;
/// Bytes that an entry takes in a leaf, and in front of its key; entries begin at multiples of these.
const ENTRY_SIZE: usize = 16;
const RECORD_HEADER_SIZE: usize = 8;
const EXPIRY_SIZE: usize = 8;

/// `OBJECT ENCODING | FREQ | IDLETIME | REFCOUNT key`, `OBJECT HELP`
pub fn object(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let subcommand = request.arg(1).to_ascii_lowercase();
    if subcommand == b"help" {
        help(
            context,
            &[
                "OBJECT ENCODING key: how the value is kept",
                "OBJECT REFCOUNT key: how many keys have the value: 1",
                "OBJECT IDLETIME key, OBJECT FREQ key: not tracked",
            ],
        );
        return Ok(());
    }
    let Some(kind) = context.keys.kind(request.arg(2))? else {
        context.reply.null();
        return Ok(());
    };
    match subcommand.as_slice() {
        b"encoding" => context.reply.bulk(encoding(kind)),
        b"refcount" => context.reply.integer(1),
        b"idletime" => {
            return Err(Failure::text(
                "ERR When a key was last used is not tracked: keys are never evicted.",
            ));
        }
        // The table knows no other subcommands.
        _ => {
            return Err(Failure::text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
                 note that when switching between policies at runtime LRU and LFU data will take \
                 some time to adjust.",
            ));
        }
    }
    Ok(())
}

/// Strings lie in the tree as they are, collections as entries of a tree.
pub fn encoding(kind: Option<Kind>) -> &'static [u8] {
    if kind.is_some() { b"tree" } else { b"raw" }
}

/// Answers with lines for people.
pub fn help(context: &mut Context<'_>, lines: &[&str]) {
    context.reply.array(lines.len());
    lines.iter().for_each(|line| context.reply.status(line));
}

/// `MEMORY USAGE key [SAMPLES count]`, `MEMORY DOCTOR`, `MEMORY STATS`, `MEMORY HELP`
pub fn memory(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    match request.arg(1).to_ascii_lowercase().as_slice() {
        b"usage" => return usage(context, request),
        b"doctor" => context.reply.verbatim(
            "Keys and values lie in the pool file, and take as much memory as the system gives to \
             its pages. INFO memory and INFO persistence have the figures.",
        ),
        b"stats" => stats(context)?,
        // The table knows no other subcommands.
        _ => help(
            context,
            &[
                "MEMORY USAGE key [SAMPLES count]: bytes of the pool that a key takes",
                "MEMORY STATS: memory of the process",
                "MEMORY DOCTOR: where to look",
            ],
        ),
    }
    Ok(())
}

fn stats(context: &mut Context<'_>) -> CommandResult {
    let keys = context.keys.len()?;
    let process = process_memory::read();
    let total = process.resident.saturating_sub(process.resident_file);
    let numbers = [
        ("total.allocated", total),
        ("clients.normal", context.shared.client_memory.total() as u64),
        ("keys.count", keys),
        ("pool.mapped", process.resident_file),
        ("resident", process.resident),
        ("resident.peak", process.resident_peak),
    ];
    context.reply.map(numbers.len());
    for (name, number) in numbers {
        context.reply.bulk(name.as_bytes());
        context.reply.count(number);
    }
    Ok(())
}

fn usage(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (mut samples, mut options) = (SAMPLE_COUNT_DEFAULT, request.args_from(3));
    while let Some(option) = options.next() {
        let count = options.next().filter(|_| option.eq_ignore_ascii_case(b"samples"));
        let count = integer_arg(count.ok_or(Failure::Syntax)?)?;
        samples = u64::try_from(count).map_err(|_| Failure::Syntax)?;
    }
    let Context { keys, reply, .. } = context;
    let (staged, key) = (keys.staged()?, request.arg(2));
    let types = staged.types;
    let found =
        staged.see(key, |value, expiry| (size_of(key, value, expiry), types.header(value)))?;
    match found {
        None => reply.null(),
        Some((size, None)) => reply.count(size as u64),
        Some((size, Some(header))) => {
            reply.count(size as u64 + size_of_members(staged, header, samples)?);
        }
    }
    Ok(())
}

/// Bytes that an entry of the pool takes.
fn size_of(key: &[u8], value: &[u8], expiry: Expiry) -> usize {
    let expiry_size = if expiry == Expiry::Never { 0 } else { EXPIRY_SIZE };
    let record = RECORD_HEADER_SIZE + key.len() + value.len() + expiry_size;
    ENTRY_SIZE + record.next_multiple_of(ENTRY_SIZE)
}

/// Bytes that the members of a collection take, estimated by so many of their entries; 0: all. What a sorted set has
/// besides its members and their positions is not counted: it would tell which members are separators, by a secret of
/// the pool, and a client that knew could make a set without any, in which a rank is found by going through all.
fn size_of_members(staged: &mut Staged<'_>, header: Header, samples: u64) -> Result<u64> {
    let (mut seen, mut size) = (0, 0);
    staged.walk_collection(header.id, &mut |key, value| {
        if header.kind == Kind::SortedSet {
            // Members come first, in the order of their hashes. A position has a score and the level besides.
            let Some(member) = key.get(16..).filter(|_| key[8] < ORDER) else {
                return ControlFlow::Break(());
            };
            let position = order_key(header.id, 0, &position(member, score_of(value)));
            size += size_of(&position, b"", Expiry::Never) as u64;
        }
        // An entry of a list may have many elements.
        seen += match ListEntry::of_key(key) {
            Some(place) if header.kind == Kind::List => {
                runs::len_of(value, place.is_run).unwrap_or(1) as u64
            }
            _ => 1,
        };
        size += size_of(key, value, Expiry::Never) as u64;
        if samples > 0 && seen >= samples {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if samples == 0 || seen < samples {
        return Ok(size);
    }
    Ok((u128::from(size) * u128::from(header.count) / u128::from(seen.max(1))) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_takes_whole_units() {
        assert_eq!(size_of(b"k", b"v", Expiry::Never), 32);
        assert_eq!(size_of(b"12345678", b"", Expiry::Never), 32);
        assert_eq!(size_of(b"12345678", b"1", Expiry::Never), 48);
        assert_eq!(size_of(b"12345678", b"1", Expiry::from_unix_ms(5)), 48);
    }
}
