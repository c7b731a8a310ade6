//! `SET` with its options.

use everleaf::{Action, Expiry};

use super::context::Context;
use super::expiry::Unit;
use super::keys::Keys;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;

/// When to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    Always,
    IfAbsent,
    IfPresent,
}

/// What becomes of the time at which the key expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Time {
    #[default]
    Never,
    Keep,
    At(u64),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SetOptions {
    condition: Condition,
    time: Time,
    return_old: bool,
}

/// `SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT time | PXAT time | KEEPTTL]`
pub fn set(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let options = parse_options(request, &context.keys)?;
    let (key, value) = (request.arg(1), request.arg(2));
    let Context { keys, reply, .. } = context;
    if options.time != Time::Never {
        return set_with_time(context, key, value, options);
    }
    if options.return_old {
        let old = match options.condition {
            Condition::Always => keys.replace(key, value)?,
            _ => return set_with_time(context, key, value, options),
        };
        reply.bulk_or_null(old.as_deref());
        return Ok(());
    }
    let done = match options.condition {
        Condition::Always => keys.put(key, value).map(|()| true)?,
        Condition::IfAbsent => keys.insert(key, value)?,
        Condition::IfPresent => keys.update(key, value)?,
    };
    if done {
        reply.ok()
    } else {
        reply.null()
    }
    Ok(())
}

/// All of it as one decision.
fn set_with_time(
    context: &mut Context<'_>,
    key: &[u8],
    value: &[u8],
    options: SetOptions,
) -> CommandResult {
    let (mut old, mut done) = (None, false);
    let mut decide = |found: Option<(&[u8], Expiry)>| {
        old = found.map(|(old, _)| old.to_vec());
        done = match options.condition {
            Condition::Always => true,
            Condition::IfAbsent => found.is_none(),
            Condition::IfPresent => found.is_some(),
        };
        match options.time {
            _ if !done => Action::Keep,
            Time::Never => Action::PutWithExpiry(value.to_vec(), Expiry::Never),
            Time::Keep => Action::Put(value.to_vec()),
            Time::At(moment) => Action::PutWithExpiry(value.to_vec(), Expiry::from_unix_ms(moment)),
        }
    };
    if options.return_old {
        context.keys.update_with(key, &mut decide)?;
    } else {
        context.keys.update_any_with(key, &mut decide)?;
    }
    if options.return_old {
        context.reply.bulk_or_null(old.as_deref());
    } else if done {
        context.reply.ok();
    } else {
        context.reply.null();
    }
    Ok(())
}

/// Of options that are repeated, the last counts; those that contradict each other are refused.
fn parse_options(request: &Request<'_>, keys: &Keys<'_>) -> Result<SetOptions, Failure> {
    let mut options = SetOptions::default();
    let mut time: Option<(Unit, &[u8])> = None;
    let mut args = request.args_from(3);
    while let Some(arg) = args.next() {
        let condition = |options: SetOptions, condition| match options.condition {
            Condition::Always => Ok(SetOptions { condition, ..options }),
            same if same == condition => Ok(options),
            _ => Err(Failure::Syntax),
        };
        match arg.to_ascii_lowercase().as_slice() {
            b"nx" => options = condition(options, Condition::IfAbsent)?,
            b"xx" => options = condition(options, Condition::IfPresent)?,
            b"get" => options.return_old = true,
            b"keepttl" if time.is_none() => options.time = Time::Keep,
            _ if options.time == Time::Keep => return Err(Failure::Syntax),
            _ => time = Some(Unit::of_pair(arg, args.next(), time)?),
        }
    }
    if let Some((unit, amount)) = time {
        options.time = Time::At(unit.positive(amount, "set", keys.now_ms())?);
    }
    Ok(options)
}
