//! Integers of any width at any place of a string: `BITFIELD`, `BITFIELD_RO`.

use everleaf::Action;

use super::{grown, offset_arg};
use crate::command::context::Context;
use crate::command::integer::{integer_arg, parse_integer};
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::{Reply, Request};
use crate::shared::Shared;

/// A place in a string, and how its bits are read.
#[derive(Clone, Copy, Debug)]
struct Field {
    is_signed: bool,
    /// At most 64, of unsigned fields 63.
    width: u32,
    offset: u64,
}

/// What becomes of a number that its field cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Get,
    Set(i64),
    Add(i64),
}

/// One of the operations of a request.
#[derive(Clone, Copy, Debug)]
struct Step {
    field: Field,
    act: Act,
    overflow: Overflow,
}

impl Field {
    fn parse(kind: &[u8], offset: &[u8], shared: &Shared) -> Result<Self> {
        let (is_signed, width_max) = match kind.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => (false, 0),
        };
        let width = kind.get(1..).and_then(parse_integer);
        let width = width.filter(|width| (1..=width_max).contains(width)).ok_or(Failure::text(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported \
             but i64 is.",
        ))? as u32;
        Ok(Field { is_signed, width, offset: offset_arg(offset, Some(width), shared)? })
    }

    /// The byte that the field begins in, and how far its last bit is from the end of nine bytes.
    fn place(self) -> (usize, u32) {
        ((self.offset >> 3) as usize, 72 - (self.offset & 7) as u32 - self.width)
    }

    /// The bytes that a string must have to hold the field.
    fn size(self) -> usize {
        ((self.offset + u64::from(self.width)).div_ceil(8)) as usize
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    fn read(self, value: &[u8]) -> i64 {
        let (byte, shift) = self.place();
        let bits = (window(value, byte) >> shift) as u64 & self.mask();
        self.extended(bits)
    }

    fn write(self, value: &mut [u8], number: i64) {
        let (byte, shift) = self.place();
        let bits = u128::from(number as u64 & self.mask()) << shift;
        let mask = u128::from(self.mask()) << shift;
        let window = window(value, byte) & !mask | bits;
        let bytes = &window.to_be_bytes()[7..];
        for (to, from) in value[byte..].iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    /// The number that the lowest bits stand for.
    fn extended(self, bits: u64) -> i64 {
        let unused = 64 - self.width;
        if self.is_signed {
            ((bits << unused) as i64) >> unused
        } else {
            (bits & self.mask()) as i64
        }
    }

    /// What becomes of a sum: the number to be written, and whether it is not the sum itself.
    fn fit(self, number: i64, added: i64, overflow: Overflow) -> (i64, bool) {
        let exact = if self.is_signed {
            i128::from(number)
        } else {
            // A negative number is a large one.
            i128::from(number as u64)
        } + i128::from(added);
        let (min, max) = if self.is_signed {
            (-1i128 << (self.width - 1), (1i128 << (self.width - 1)) - 1)
        } else {
            (0, (1i128 << self.width) - 1)
        };
        if (min..=max).contains(&exact) {
            return (exact as i64, false);
        }
        // So do the original server's 64 bits overflow when they subtract a very low number from the
        // highest of a narrow field.
        let is_wrapped = self.is_signed && max - i128::from(number) > i128::from(i64::MAX);
        let bound = if exact > max || is_wrapped && self.width < 64 { max } else { min };
        match overflow {
            Overflow::Saturate => (bound as i64, true),
            Overflow::Wrap | Overflow::Fail => (self.extended(exact as u64), true),
        }
    }
}

/// Nine bytes from one on, as the lowest bits; behind the end there are zeros.
fn window(value: &[u8], byte: usize) -> u128 {
    let bytes = (0..9).map(|at| value.get(byte + at).copied().unwrap_or(0));
    bytes.fold(0, |window, byte| window << 8 | u128::from(byte))
}

impl Step {
    /// Does it. Returns what is to be told of it; `None` if it failed.
    fn run(self, value: &mut [u8]) -> Option<i64> {
        let old = self.field.read(value);
        let (new, is_over) = match self.act {
            Act::Get => return Some(old),
            Act::Set(number) => self.field.fit(number, 0, self.overflow),
            Act::Add(amount) => self.field.fit(old, amount, self.overflow),
        };
        if is_over && self.overflow == Overflow::Fail {
            return None;
        }
        self.field.write(value, new);
        Some(if matches!(self.act, Act::Set(_)) { old } else { new })
    }

    fn is_write(self) -> bool {
        !matches!(self.act, Act::Get)
    }
}

fn parse(request: &Request<'_>, shared: &Shared) -> Result<Vec<Step>> {
    let (mut steps, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut args = request.args_from(2);
    while let Some(name) = args.next() {
        let name = name.to_ascii_lowercase();
        let operand_count = match name.as_slice() {
            b"get" => 2,
            b"set" | b"incrby" => 3,
            b"overflow" => 1,
            _ => return Err(Failure::Syntax),
        };
        if args.len() < operand_count {
            return Err(Failure::Syntax);
        }
        let mut next = || args.next().ok_or(Failure::Syntax);
        if name == b"overflow" {
            overflow = match next()?.to_ascii_lowercase().as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err(Failure::text("ERR Invalid OVERFLOW type specified")),
            };
            continue;
        }
        let field = Field::parse(next()?, next()?, shared)?;
        let act = match name.as_slice() {
            b"get" => Act::Get,
            b"set" => Act::Set(integer_arg(next()?)?),
            _ => Act::Add(integer_arg(next()?)?),
        };
        steps.push(Step { field, act, overflow });
    }
    Ok(steps)
}

/// `BITFIELD key [GET type offset | SET type offset value | INCRBY type offset amount |
/// OVERFLOW WRAP | SAT | FAIL] ...`
pub fn bitfield(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let steps = parse(request, context.shared)?;
    let writes = steps.iter().filter(|step| step.is_write());
    let Some(size) = writes.map(|step| step.field.size()).max() else {
        return read(context, request.arg(1), &steps);
    };
    let mut results = Vec::new();
    context.keys.update_with(request.arg(1), |found| {
        let old = found.map(|(value, _)| value);
        let mut value = grown(old, size);
        results = steps.iter().map(|step| step.run(&mut value)).collect();
        if old == Some(&value[..]) { Action::Keep } else { Action::Put(value) }
    })?;
    tell(&mut context.reply, &results);
    Ok(())
}

/// `BITFIELD_RO key [GET type offset ...]`
pub fn bitfield_ro(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let steps = parse(request, context.shared)?;
    if steps.iter().any(|step| step.is_write()) {
        return Err(Failure::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    read(context, request.arg(1), &steps)
}

fn read(context: &mut Context<'_>, key: &[u8], steps: &[Step]) -> CommandResult {
    let all = |value: &[u8]| steps.iter().map(|step| Some(step.field.read(value))).collect();
    let found: Option<Vec<Option<i64>>> = context.keys.get_with(key, all)?;
    tell(&mut context.reply, &found.unwrap_or_else(|| all(b"")));
    Ok(())
}

fn tell(reply: &mut Reply<'_>, results: &[Option<i64>]) {
    reply.array(results.len());
    for result in results {
        match result {
            Some(number) => reply.integer(*number),
            None => reply.null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(is_signed: bool, width: u32, offset: u64) -> Field {
        Field { is_signed, width, offset }
    }

    #[test]
    fn what_is_written_is_read_there_and_nothing_else_changes() {
        for width in 1..=64 {
            for offset in 0..24 {
                let field = field(true, width, offset);
                for filling in [0x00, 0xff, 0x5a] {
                    let mut value = [filling; 12];
                    for number in [0, -1, i64::MIN >> (64 - width), i64::MAX >> (64 - width)] {
                        field.write(&mut value, number);
                        assert_eq!(field.read(&value), number, "{width} {offset}");
                    }
                    field.write(&mut value, field.read(&[filling; 12]));
                    assert_eq!(value, [filling; 12], "{width} {offset}");
                }
            }
        }
    }

    #[test]
    fn sums_wrap_saturate_and_fail() {
        let (byte, signed) = (field(false, 8, 0), field(true, 8, 0));
        assert_eq!(byte.fit(250, 10, Overflow::Wrap), (4, true));
        assert_eq!(byte.fit(250, 10, Overflow::Saturate), (255, true));
        assert_eq!(byte.fit(5, -10, Overflow::Saturate), (0, true));
        assert_eq!(byte.fit(5, 5, Overflow::Fail), (10, false));
        assert_eq!(signed.fit(127, 1, Overflow::Wrap), (-128, true));
        assert_eq!(signed.fit(-100, -100, Overflow::Saturate), (-128, true));
        let widest = field(true, 64, 0);
        assert_eq!(widest.fit(i64::MAX, 1, Overflow::Wrap), (i64::MIN, true));
        assert_eq!(widest.fit(i64::MIN, -1, Overflow::Saturate), (i64::MIN, true));
    }
}
