//! Times: `EXPIRE`, `TTL`, `PERSIST`, `GETEX` and their like.
//!
//! A time in the past removes the key at once.

use everleaf::{Action, Expiry};

use super::context::Context;
use super::integer::integer_arg;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;
use crate::shown::shown;

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Milliseconds,
    /// Since 1970-01-01 UTC.
    AtSeconds,
    AtMilliseconds,
}

impl Unit {
    /// The unit an option of `SET` and `GETEX` stands for.
    pub fn of_option(name: &[u8]) -> Option<Unit> {
        Some(match name.to_ascii_lowercase().as_slice() {
            b"ex" => Unit::Seconds,
            b"px" => Unit::Milliseconds,
            b"exat" => Unit::AtSeconds,
            b"pxat" => Unit::AtMilliseconds,
            _ => return None,
        })
    }

    /// The unit and the amount that an option of `SET` and `GETEX` and what follows it stand for,
    /// behind such a pair `before`: the last counts, but units are not mixed.
    pub fn of_pair<'a>(
        option: &[u8],
        amount: Option<&'a [u8]>,
        before: Option<(Unit, &'a [u8])>,
    ) -> Result<(Unit, &'a [u8]), Failure> {
        let unit = Unit::of_option(option).ok_or(Failure::Syntax)?;
        match (amount, before) {
            (Some(amount), None) => Ok((unit, amount)),
            (Some(amount), Some((same, _))) if same == unit => Ok((unit, amount)),
            _ => Err(Failure::Syntax),
        }
    }

    /// The moment, in milliseconds since 1970-01-01 UTC, as seen from `now_ms`; `None` if there is no such number.
    fn moment(self, amount: i64, now_ms: u64) -> Option<i64> {
        let amount = match self {
            Unit::Seconds | Unit::AtSeconds => amount.checked_mul(1000)?,
            Unit::Milliseconds | Unit::AtMilliseconds => amount,
        };
        match self {
            Unit::Seconds | Unit::Milliseconds => amount.checked_add(now_ms as i64),
            Unit::AtSeconds | Unit::AtMilliseconds => Some(amount),
        }
    }

    /// The moment that an argument stands for, which must be in the future of 1970.
    pub fn positive(self, arg: &[u8], command: &str, now_ms: u64) -> Result<u64, Failure> {
        let amount = integer_arg(arg)?;
        let moment = if amount <= 0 { None } else { self.moment(amount, now_ms) };
        moment
            .and_then(|moment| u64::try_from(moment).ok())
            .filter(|moment| *moment > 0)
            .ok_or_else(|| Failure::text(format!("ERR invalid expire time in '{command}' command")))
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub fn expire(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    set_time(context, request, Unit::Seconds, "expire")
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub fn pexpire(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    set_time(context, request, Unit::Milliseconds, "pexpire")
}

/// `EXPIREAT key unix-seconds [NX | XX | GT | LT]`
pub fn expireat(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    set_time(context, request, Unit::AtSeconds, "expireat")
}

/// `PEXPIREAT key unix-milliseconds [NX | XX | GT | LT]`
pub fn pexpireat(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    set_time(context, request, Unit::AtMilliseconds, "pexpireat")
}

/// When a time is set: only if there is none, only if there is one, only if it is later or earlier.
#[derive(Clone, Copy, Debug, Default)]
struct Conditions {
    none: bool,
    some: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn parse(request: &Request<'_>) -> Result<Self, Failure> {
        let mut conditions = Conditions::default();
        for arg in request.args_from(3) {
            match arg.to_ascii_lowercase().as_slice() {
                b"nx" => conditions.none = true,
                b"xx" => conditions.some = true,
                b"gt" => conditions.later = true,
                b"lt" => conditions.earlier = true,
                _ => {
                    let option = shown(arg);
                    return Err(Failure::text(format!("ERR Unsupported option {option}")));
                }
            }
        }
        let Conditions { none, some, later, earlier } = conditions;
        if none && (some || later || earlier) {
            return Err(Failure::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if later && earlier {
            let text = "ERR GT and LT options at the same time are not compatible";
            return Err(Failure::text(text));
        }
        Ok(conditions)
    }

    /// Whether a key that expires then may expire at `moment`. Never is later than any time.
    fn allow(self, expiry: Expiry, moment: i64) -> bool {
        let old = match expiry {
            Expiry::Never => None,
            Expiry::At(_) => Some(i64::try_from(expiry.as_unix_ms()).unwrap_or(i64::MAX)),
        };
        !(self.none && old.is_some()
            || self.some && old.is_none()
            || self.later && old.is_none_or(|old| moment <= old)
            || self.earlier && old.is_some_and(|old| moment >= old))
    }
}

fn set_time(
    context: &mut Context<'_>,
    request: &Request<'_>,
    unit: Unit,
    command: &'static str,
) -> CommandResult {
    let conditions = Conditions::parse(request)?;
    let now_ms = context.keys.now_ms();
    let moment = unit
        .moment(integer_arg(request.arg(2))?, now_ms)
        .ok_or_else(|| Failure::text(format!("ERR invalid expire time in '{command}' command")))?;
    let mut done = false;
    context.keys.update_expiry_with(request.arg(1), |found| {
        done = found.is_some_and(|expiry| conditions.allow(expiry, moment));
        match u64::try_from(moment) {
            _ if !done => Action::Keep,
            Ok(moment) if moment > now_ms => Action::Expire(Expiry::from_unix_ms(moment)),
            _ => Action::Remove,
        }
    })?;
    context.reply.integer(i64::from(done));
    Ok(())
}

/// `TTL key`: seconds, rounded; -1 if the key does not expire, -2 if there is none.
pub fn ttl(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    tell(context, request, |time_ms, now_ms| {
        time_ms.saturating_sub(now_ms).saturating_add(500) / 1000
    })
}

/// `PTTL key`: milliseconds.
pub fn pttl(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    tell(context, request, u64::saturating_sub)
}

/// `EXPIRETIME key`: seconds since 1970-01-01 UTC, rounded.
pub fn expiretime(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    tell(context, request, |time_ms, _| time_ms.saturating_add(500) / 1000)
}

/// `PEXPIRETIME key`: milliseconds since 1970-01-01 UTC.
pub fn pexpiretime(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    tell(context, request, |time_ms, _| time_ms)
}

fn tell(
    context: &mut Context<'_>,
    request: &Request<'_>,
    say: impl FnOnce(u64, u64) -> u64,
) -> CommandResult {
    let answer = match context.keys.expiry(request.arg(1))? {
        None => -2,
        Some(Expiry::Never) => -1,
        Some(expiry) => {
            let rest = say(expiry.as_unix_ms(), context.keys.now_ms());
            i64::try_from(rest).unwrap_or(i64::MAX)
        }
    };
    context.reply.integer(answer);
    Ok(())
}

/// `PERSIST key`
pub fn persist(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut done = false;
    context.keys.update_expiry_with(request.arg(1), |found| {
        done = found.is_some_and(|expiry| expiry != Expiry::Never);
        if done { Action::Expire(Expiry::Never) } else { Action::Keep }
    })?;
    context.reply.integer(i64::from(done));
    Ok(())
}

/// What `GETEX` does to the time of a key.
enum NewTime<'a> {
    Keep,
    Never,
    At(Unit, &'a [u8]),
}

fn parse_getex<'a>(request: &Request<'a>) -> Result<NewTime<'a>, Failure> {
    let (mut never, mut time) = (false, None);
    let mut args = request.args_from(2);
    while let Some(option) = args.next() {
        if option.eq_ignore_ascii_case(b"persist") {
            never = true;
        } else {
            time = Some(Unit::of_pair(option, args.next(), time)?);
        }
    }
    match (never, time) {
        (true, Some(_)) => Err(Failure::Syntax),
        (true, None) => Ok(NewTime::Never),
        (false, Some((unit, amount))) => Ok(NewTime::At(unit, amount)),
        (false, None) => Ok(NewTime::Keep),
    }
}

/// `GETEX key [EX seconds | PX milliseconds | EXAT time | PXAT time | PERSIST]`
pub fn getex(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let time = parse_getex(request)?;
    let now_ms = context.keys.now_ms();
    let (mut value, mut failure) = (None, None);
    context.keys.update_with(request.arg(1), |found| {
        failure = None;
        value = found.map(|(value, _)| value.to_vec());
        let Some((_, expiry)) = found else { return Action::Keep };
        match &time {
            NewTime::Keep => Action::Keep,
            NewTime::Never if expiry == Expiry::Never => Action::Keep,
            NewTime::Never => Action::Expire(Expiry::Never),
            // Of a key that is not there, nobody looks at the time.
            NewTime::At(unit, amount) => match unit.positive(amount, "getex", now_ms) {
                Ok(moment) if moment <= now_ms => Action::Remove,
                Ok(moment) => Action::Expire(Expiry::from_unix_ms(moment)),
                Err(why) => {
                    failure = Some(why);
                    Action::Keep
                }
            },
        }
    })?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    match value {
        Some(_) => context.tally.hits += 1,
        None => context.tally.misses += 1,
    }
    context.reply.bulk_or_null(value.as_deref());
    Ok(())
}

/// `SETEX key seconds value`
pub fn setex(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    set_with_time(context, request, Unit::Seconds, "setex")
}

/// `PSETEX key milliseconds value`
pub fn psetex(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    set_with_time(context, request, Unit::Milliseconds, "psetex")
}

fn set_with_time(
    context: &mut Context<'_>,
    request: &Request<'_>,
    unit: Unit,
    command: &'static str,
) -> CommandResult {
    let moment = unit.positive(request.arg(2), command, context.keys.now_ms())?;
    let (value, expiry) = (request.arg(3), Expiry::from_unix_ms(moment));
    let put = |_: Option<(&[u8], Expiry)>| Action::PutWithExpiry(value.to_vec(), expiry);
    context.keys.update_any_with(request.arg(1), put)?;
    context.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_apart_and_overflow_is_no_moment() {
        assert_eq!(Unit::AtSeconds.moment(7, 5), Some(7000));
        assert_eq!(Unit::AtMilliseconds.moment(-7, 5), Some(-7));
        assert_eq!(Unit::Seconds.moment(i64::MAX, 5), None);
        assert_eq!(Unit::Milliseconds.moment(i64::MAX, 5), None);
        assert_eq!(Unit::Seconds.moment(1, 5), Some(1005));
    }

    #[test]
    fn conditions_compare_with_never_as_the_latest_time() {
        let all = Conditions::default();
        let later = Conditions { later: true, ..all };
        let earlier = Conditions { earlier: true, ..all };
        let (none, some) = (Conditions { none: true, ..all }, Conditions { some: true, ..all });
        let cases = [
            (all, true, true),
            (later, false, true),
            (earlier, true, false),
            (none, true, false),
            (some, false, true),
        ];
        let at = Expiry::from_unix_ms;
        for (conditions, never, at_5) in cases {
            assert_eq!(conditions.allow(Expiry::Never, 10), never, "{conditions:?}");
            assert_eq!(conditions.allow(at(5), 10), at_5, "{conditions:?}");
        }
        assert!(earlier.allow(at(50), 10) && !later.allow(at(10), 10));
    }
}
