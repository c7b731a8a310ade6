//! `DUMP`, `RESTORE`: a value as bytes that other servers understand.

use std::ops::{Bound, ControlFlow};

use everleaf::{Action, Error, Expiry, KEY_SIZE_MAX};

use super::context::Context;
use super::integer::integer_arg;
use super::stage::Staged;
use crate::failure::{CommandResult, Failure, Result};
use crate::rdb::{self, Damage, Value, Writer};
use crate::resp::Request;
use crate::types::Kind;
use crate::types::collection::Collection;
use crate::types::list::Side;
use crate::types::overhead::member_overhead;

/// `DUMP key`
pub fn dump(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let size_max = context.shared.config.reply_size_max;
    let Context { keys, reply, .. } = context;
    let payload = payload(keys.staged()?, request.arg(1), size_max)?;
    reply.bulk_or_null(payload.as_deref());
    Ok(())
}

/// What a key holds, as `DUMP` tells it.
pub fn payload(staged: &mut Staged<'_>, key: &[u8], size_max: usize) -> Result<Option<Vec<u8>>> {
    let types = staged.types;
    let held = staged.see(key, |value, _| match types.header(value) {
        Some(header) => Err(header.kind),
        None => Ok(Writer::string(value)),
    })?;
    Ok(match held {
        None => None,
        Some(Ok(writer)) => Some(writer.finish()),
        Some(Err(kind)) => Some(write_collection(staged, key, kind, size_max)?.finish()),
    })
}

fn write_collection(
    staged: &mut Staged<'_>,
    key: &[u8],
    kind: Kind,
    size_max: usize,
) -> Result<Writer> {
    let count = |found: &Option<Collection<'_, '_>>| found.as_ref().map_or(0, |it| it.header.count);
    let found = Collection::find(staged, key, kind)?;
    let count = count(&found);
    let mut writer = Writer::collection(kind, count);
    let Some(mut collection) = found else { return Ok(writer) };
    let mut written = 0;
    let mut is_full = |writer: &Writer| {
        written += 1;
        match writer.size() > size_max {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    match kind {
        Kind::List => {
            collection.walk_elements(0, count.saturating_sub(1), false, |_, element| {
                writer.push(element);
                is_full(&writer)
            })?;
        }
        Kind::SortedSet => {
            let all = (Bound::Unbounded, Bound::Unbounded);
            collection.walk_order(&all, true, |member, score| {
                writer.push(member);
                writer.push_score(score);
                is_full(&writer)
            })?;
        }
        Kind::Set | Kind::Hash => collection.walk(|member, value| {
            writer.push(member);
            if kind == Kind::Hash {
                writer.push(value);
            }
            is_full(&writer)
        })?,
    }
    if writer.size() > size_max {
        return Err(Failure::ReplyTooLong);
    }
    // A reader takes as many as it says, and looks at no more.
    if written == count { Ok(writer) } else { Err(Failure::miscounted()) }
}

/// The options of `RESTORE`.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    replace: bool,
    is_absolute: bool,
}

impl Options {
    fn parse(request: &Request<'_>) -> Result<Self> {
        let mut options = Options::default();
        let (mut has_idle, mut has_frequency) = (false, false);
        let mut args = request.args_from(4);
        while let Some(option) = args.next() {
            match option.to_ascii_lowercase().as_slice() {
                b"replace" => options.replace = true,
                b"absttl" => options.is_absolute = true,
                // How a key was used is not tracked.
                b"idletime" if !has_frequency => {
                    has_idle = true;
                    if integer_arg(args.next().ok_or(Failure::Syntax)?)? < 0 {
                        return Err(Failure::text("ERR Invalid IDLETIME value, must be >= 0"));
                    }
                }
                b"freq" if !has_idle => {
                    has_frequency = true;
                    let frequency = integer_arg(args.next().ok_or(Failure::Syntax)?)?;
                    if !(0..=255).contains(&frequency) {
                        return Err(Failure::text(
                            "ERR Invalid FREQ value, must be >= 0 and <= 255",
                        ));
                    }
                }
                _ => return Err(Failure::Syntax),
            }
        }
        Ok(options)
    }
}

/// `RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`
pub fn restore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    Restore::parse(request)?.put(context)
}

/// A `RESTORE` whose payload was read. That may take as long as the rest, and depends on nothing that others write: it
/// is done once, before the step, which is made anew whenever somebody else was faster.
pub struct Restore<'a> {
    options: Options,
    key: &'a [u8],
    time: &'a [u8],
    value: std::result::Result<Value, Damage>,
}

impl<'a> Restore<'a> {
    /// Reads all of a request. What is wrong with its payload is told by [`Self::put`]: other errors come first.
    pub fn parse(request: &Request<'a>) -> Result<Self> {
        let (key, time) = (request.arg(1), request.arg(2));
        Ok(Restore {
            options: Options::parse(request)?,
            key,
            time,
            value: rdb::read(request.arg(3)),
        })
    }

    /// Makes the key, as a part of a step.
    pub fn put(&self, context: &mut Context<'_>) -> CommandResult {
        let Restore { options, key, .. } = *self;
        let staged = context.keys.staged()?;
        if !options.replace && staged.contains(key)? {
            return Err(Failure::text("BUSYKEY Target key name already exists."));
        }
        let time = u64::try_from(integer_arg(self.time)?)
            .map_err(|_| Failure::text("ERR Invalid TTL value, must be >= 0"))?;
        let value = self.value.as_ref().map_err(|damage| match damage {
            Damage::Footer => Failure::text("ERR DUMP payload version or checksum are wrong"),
            Damage::Format | Damage::TooLarge => Failure::text("ERR Bad data format"),
        })?;
        let moment = match time {
            0 => None,
            time if options.is_absolute => Some(time),
            time => Some(time.saturating_add(staged.stage.now_ms())),
        };
        if moment.is_some_and(|moment| moment <= staged.stage.now_ms()) {
            staged.remove(key)?;
        } else {
            put(staged, key, value)?;
            if let Some(moment) = moment {
                let expiry = Expiry::from_unix_ms(moment);
                staged.update_with(key, &mut |_| Action::Expire(expiry))?;
            }
        }
        #[cfg(test)]
        tests::let_others_act();
        context.reply.ok();
        Ok(())
    }
}

/// Refuses a member that is too long to be kept in a collection of this kind.
pub fn check_member(kind: Kind, member: &[u8]) -> CommandResult {
    match member.len() + member_overhead(kind) {
        size if size > KEY_SIZE_MAX => Err(Failure::Store(Error::KeyTooLarge(size))),
        _ => Ok(()),
    }
}

/// Puts a value in place of whatever the key held. What cannot be put changes nothing.
pub fn put(staged: &mut Staged<'_>, key: &[u8], value: &Value) -> CommandResult {
    let check = |kind, member: &Vec<u8>| check_member(kind, member);
    match value {
        Value::String(value) => {
            staged.contains(key)?;
            staged.put(key, value)
        }
        Value::List(elements) => {
            let mut list = Collection::replace(staged, key, Kind::List)?;
            elements.iter().try_for_each(|element| list.push(Side::Right, element))?;
            list.finish()
        }
        Value::Set(members) => {
            members.iter().try_for_each(|member| check(Kind::Set, member))?;
            let mut set = Collection::replace(staged, key, Kind::Set)?;
            members.iter().try_for_each(|member| set.add(member).map(drop))?;
            set.finish()
        }
        Value::Hash(fields) => {
            fields.iter().try_for_each(|(field, _)| check(Kind::Hash, field))?;
            let mut hash = Collection::replace(staged, key, Kind::Hash)?;
            fields.iter().try_for_each(|(field, value)| hash.set(field, value).map(drop))?;
            hash.finish()
        }
        Value::SortedSet(members) => {
            members.iter().try_for_each(|(member, _)| check(Kind::SortedSet, member))?;
            let mut zset = Collection::replace(staged, key, Kind::SortedSet)?;
            members.iter().try_for_each(|(member, score)| zset.set_score(member, *score, None))?;
            zset.finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use super::*;
    use crate::batch::test_run::Bench;
    use crate::rdb::read_count;

    thread_local! {
        /// What another client does behind each attempt of a `RESTORE`.
        static OTHERS: RefCell<Option<Box<dyn FnMut()>>> = RefCell::default();
    }

    /// Lets others do something behind an attempt of a `RESTORE`.
    pub fn let_others_act() {
        OTHERS.with_borrow_mut(|act| act.iter_mut().for_each(|act| act()));
    }

    /// What stood still: everybody, while a long payload was read that had been read eight times in vain, because
    /// somebody else wrote the key meanwhile.
    #[test]
    fn a_payload_is_read_once_however_often_the_key_is_written() {
        let bench = Bench::new(Bench::config());
        let mut client = bench.client();
        let mut writer = Writer::collection(Kind::Set, 3);
        ["a", "b", "c"].iter().for_each(|member| writer.push(member.as_bytes()));
        let payload = writer.finish();
        let (store, mut attempts) = (Arc::clone(&bench.shared.store), 0);
        OTHERS.set(Some(Box::new(move || {
            attempts += 1;
            if attempts < 4 {
                store.default_map().put("k", attempts.to_string()).unwrap();
            }
        })));
        let before = read_count();
        let restore: [&[u8]; 5] = [b"RESTORE", b"k", b"0", &payload, b"REPLACE"];
        assert_eq!(bench.run_args(&mut client, &restore), "+OK");
        assert_eq!(read_count() - before, 1);
        OTHERS.set(Some(Box::new(|| panic!("nothing was restored"))));
        let [short, long]: [&[u8]; 2] = [b"", &payload];
        let cases: [(&[&[u8]], &str); 4] = [
            (&[b"RESTORE", b"k", b"x", short], "-BUSYKEY Target key name already exists."),
            (&[b"RESTORE", b"n", b"x", short], "-ERR value is not an integer or out of range"),
            (&[b"RESTORE", b"n", b"0", short], "-ERR DUMP payload version or checksum are wrong"),
            (&[b"RESTORE", b"n", b"0", long, b"x"], "-ERR syntax error"),
        ];
        for (request, expected) in cases {
            assert_eq!(bench.run_args(&mut client, request), expected);
        }
        assert_eq!(bench.run(&mut client, "SCARD k"), ":3");
    }
}
