//! `SET` with its options.

use everleaf::Action;

use super::{Context, Failure, Outcome};
use crate::resp::Request;

/// When to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Condition {
    #[default]
    Always,
    IfAbsent,
    IfPresent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SetOptions {
    condition: Condition,
    return_old: bool,
}

/// `SET key value [NX | XX] [GET]`
pub fn set(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let options = parse_options(request)?;
    let (key, value) = (request.arg(1), request.arg(2));
    let store = &context.shared.store;
    let reply = &mut context.reply;
    if options.return_old {
        let old = match options.condition {
            Condition::Always => store.replace(key, value)?,
            condition => store.update_with(key, |old| {
                if old.is_none() == (condition == Condition::IfAbsent) {
                    Action::Put(value.to_vec())
                } else {
                    Action::Keep
                }
            })?,
        };
        reply.bulk_or_null(old.as_deref());
        return Ok(());
    }
    let done = match options.condition {
        Condition::Always => store.put(key, value).map(|_| true)?,
        Condition::IfAbsent => store.insert(key, value)?,
        Condition::IfPresent => store.update(key, value)?,
    };
    if done {
        reply.ok()
    } else {
        reply.null()
    }
    Ok(())
}

/// `SETEX`, `EXPIRE` and their like.
pub fn no_expiry(_: &mut Context<'_>, _: &Request<'_>) -> Outcome {
    Err(expiry_failure())
}

fn expiry_failure() -> Failure {
    Failure::text("ERR expiry is not supported yet")
}

fn parse_options(request: &Request<'_>) -> Result<SetOptions, Failure> {
    let mut options = SetOptions::default();
    let mut expiry = false;
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
            b"keepttl" if !expiry => expiry = true,
            b"ex" | b"px" | b"exat" | b"pxat" if !expiry => {
                let time = super::integer_arg(args.next().ok_or(Failure::Syntax)?)?;
                if time <= 0 {
                    return Err(Failure::text("ERR invalid expire time in 'set' command"));
                }
                expiry = true;
            }
            _ => return Err(Failure::Syntax),
        }
    }
    if expiry { Err(expiry_failure()) } else { Ok(options) }
}
