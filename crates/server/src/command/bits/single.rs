//! One bit: `SETBIT`, `GETBIT`.

use everleaf::Action;

use super::{grown, offset_arg};
use crate::command::context::Context;
use crate::command::integer::parse_integer;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;

/// `SETBIT key offset bit`: returns what the bit was.
pub fn setbit(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let offset = offset_arg(request.arg(2), None, context.shared)?;
    let bit = parse_integer(request.arg(3)).filter(|bit| matches!(bit, 0 | 1));
    let bit = bit.ok_or(Failure::text("ERR bit is not an integer or out of range"))? as u8;
    let (byte, shift) = ((offset >> 3) as usize, 7 - (offset & 7) as u32);
    let mut before = 0;
    context.keys.update_with(request.arg(1), |found| {
        let value = found.map(|(value, _)| value);
        let old = value.and_then(|value| value.get(byte)).copied();
        before = old.unwrap_or(0) >> shift & 1;
        if old.is_some() && before == bit {
            return Action::Keep;
        }
        let mut value = grown(value, byte + 1);
        value[byte] = value[byte] & !(1 << shift) | bit << shift;
        Action::Put(value)
    })?;
    context.reply.integer(i64::from(before));
    Ok(())
}

/// `GETBIT key offset`
pub fn getbit(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let offset = offset_arg(request.arg(2), None, context.shared)?;
    let (byte, shift) = ((offset >> 3) as usize, 7 - (offset & 7) as u32);
    let found = context
        .keys
        .get_with(request.arg(1), |value| value.get(byte).map_or(0, |byte| byte >> shift & 1))?;
    context.reply.integer(i64::from(found.unwrap_or(0)));
    Ok(())
}
