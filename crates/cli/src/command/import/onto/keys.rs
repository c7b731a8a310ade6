//! Keys of a snapshot as commands for the target.

use super::super::arguments::ImportArgs;
use super::super::clock::has_expired;
use super::super::item::Item;
use super::super::refusal::shown;
use super::super::report::Report;
use super::refusal::refused;
use super::target::Target;
use crate::failure::Failure;
use everleaf_server::transfer::Value;

/// Members, and bytes of them, that one command adds.
const MEMBER_COUNT_MAX: usize = 256;
const MEMBERS_SIZE_MAX: usize = 16 << 10;

/// Puts what a snapshot has.
pub fn put(
    target: &mut Target,
    args: &ImportArgs,
    item: Item,
    report: &mut Report,
) -> Result<(), Failure> {
    match item {
        // One that is followed tells itself what has expired.
        Item::Key { entry, .. } if args.follow.is_none() && has_expired(entry.expiry_ms) => {
            report.expired += 1;
            Ok(())
        }
        Item::Key { database, key, entry, .. } => {
            target.select(database)?;
            add(target, &key, &entry.value)?;
            target.expire(&key, entry.expiry_ms)?;
            report.keys += 1;
            Ok(())
        }
        Item::Begin { .. } => Ok(()),
        Item::Members { database, key, members, .. } => {
            target.select(database)?;
            add(target, &key, &members)
        }
        Item::End { database, key, extent, .. } => {
            target.select(database)?;
            target.expire(&key, extent.expiry_ms)?;
            report.keys += 1;
            Ok(())
        }
        Item::Empty => {
            report.empty += 1;
            Ok(())
        }
        Item::Unsupported { .. } if args.skip_unsupported => {
            report.skipped += 1;
            Ok(())
        }
        Item::Unsupported { database, key, what } => {
            let holds = match key {
                Some(key) => format!("{} holds {what}", shown(database, &key)),
                None => format!("the source has {what}"),
            };
            Err(refused(format!(
                "{holds}, which Everleaf does not have: --skip-unsupported copies the rest"
            )))
        }
    }
}

/// Adds what a key holds, or some of it.
fn add(target: &mut Target, key: &[u8], value: &Value) -> Result<(), Failure> {
    let (command, width): (&[u8], usize) = match value {
        Value::String(value) => return target.add(&[b"SET", key, value]),
        Value::List(_) => (b"RPUSH", 1),
        Value::Set(_) => (b"SADD", 1),
        Value::Hash(_) => (b"HSET", 2),
        Value::SortedSet(_) => (b"ZADD", 2),
    };
    let scores: Vec<String> = match value {
        Value::SortedSet(members) => members.iter().map(|(_, score)| score.to_string()).collect(),
        _ => Vec::new(),
    };
    let parts: Vec<&[u8]> = match value {
        Value::String(_) => Vec::new(),
        Value::List(members) | Value::Set(members) => members.iter().map(Vec::as_slice).collect(),
        Value::Hash(fields) => {
            fields.iter().flat_map(|(field, value)| [&**field, &**value]).collect()
        }
        Value::SortedSet(members) => {
            let pairs = members.iter().zip(&scores);
            pairs.flat_map(|((member, _), score)| [score.as_bytes(), &**member]).collect()
        }
    };
    let mut rest = &*parts;
    while !rest.is_empty() {
        let (mut count, mut size) = (0, 0);
        for member in rest.chunks(width).take(MEMBER_COUNT_MAX) {
            size += member.iter().map(|part| part.len()).sum::<usize>();
            if count > 0 && size > MEMBERS_SIZE_MAX {
                break;
            }
            count += width;
        }
        let (now, behind) = rest.split_at(count);
        target.add(&[&[command, key], now].concat())?;
        rest = behind;
    }
    Ok(())
}
