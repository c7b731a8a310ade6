//! `LCS`: the longest common subsequence of two strings.
//!
//! The table of the textbook: for each pair of prefixes the length of their longest common subsequence. It
//! takes four bytes per pair, which may be as many as one value.

use super::context::Context;
use super::integer::integer_arg;
use super::keys::Keys;
use super::transaction::step::run_step;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::{Reply, Request};

#[derive(Clone, Copy, Debug, Default)]
struct Options {
    length_only: bool,
    ranges: bool,
    with_lengths: bool,
    length_min: u64,
}

impl Options {
    fn parse(request: &Request<'_>) -> Result<Self> {
        let mut options = Options::default();
        let mut args = request.args_from(3);
        while let Some(option) = args.next() {
            match option.to_ascii_lowercase().as_slice() {
                b"idx" => options.ranges = true,
                b"len" => options.length_only = true,
                b"withmatchlen" => options.with_lengths = true,
                b"minmatchlen" => {
                    let length = integer_arg(args.next().ok_or(Failure::Syntax)?)?;
                    options.length_min = u64::try_from(length).unwrap_or(0);
                }
                _ => return Err(Failure::Syntax),
            }
        }
        if options.length_only && options.ranges {
            return Err(Failure::text(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

/// A common part: where it begins in each string, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    a: usize,
    b: usize,
    length: usize,
}

/// The lengths for all pairs of prefixes.
struct Table<'a> {
    a: &'a [u8],
    b: &'a [u8],
    lengths: Vec<u32>,
}

impl<'a> Table<'a> {
    fn new(a: &'a [u8], b: &'a [u8], size_max: usize) -> Result<Self> {
        let cells = (a.len() + 1).checked_mul(b.len() + 1);
        let cells = cells.filter(|cells| *cells <= size_max / 4).ok_or(Failure::text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ))?;
        let mut table = Table { a, b, lengths: vec![0; cells] };
        let width = b.len() + 1;
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                let length = if x == y {
                    table.at(i, j) + 1
                } else {
                    table.at(i, j + 1).max(table.at(i + 1, j))
                };
                table.lengths[(i + 1) * width + j + 1] = length;
            }
        }
        Ok(table)
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * (self.b.len() + 1) + j]
    }

    fn length(&self) -> u32 {
        self.at(self.a.len(), self.b.len())
    }

    /// The parts of one of the longest subsequences, from the last to the first.
    fn matches(&self) -> Vec<Match> {
        let (mut i, mut j) = (self.a.len(), self.b.len());
        let (mut matches, mut open) = (Vec::new(), None::<Match>);
        while i > 0 && j > 0 {
            if self.a[i - 1] == self.b[j - 1] {
                (i, j) = (i - 1, j - 1);
                open = match open {
                    Some(part) if (part.a, part.b) == (i + 1, j + 1) => {
                        Some(Match { a: i, b: j, length: part.length + 1 })
                    }
                    before => {
                        matches.extend(before);
                        Some(Match { a: i, b: j, length: 1 })
                    }
                };
            } else {
                matches.extend(open.take());
                if self.at(i - 1, j) > self.at(i, j - 1) {
                    i -= 1;
                } else {
                    j -= 1;
                }
            }
        }
        matches.extend(open);
        matches
    }
}

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]`
pub fn lcs(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (a, b) = match context.keys {
        Keys::Stage(_) => read(context, request)?,
        // Only the reading is a step: what takes long needs no more than the copies, and nobody waits for it, nor
        // is it done again if another client changes a key.
        Keys::Store(..) => {
            let mut found = Default::default();
            run_step(context, request.arg(1), false, &mut |inner| {
                found = read(inner, request)?;
                Ok(())
            })?;
            found
        }
    };
    let Context { reply, shared, .. } = context;
    let options = Options::parse(request)?;
    let table = Table::new(&a, &b, shared.settings.bulk_size_max())?;
    if options.ranges {
        tell_ranges(reply, &table, options);
    } else if options.length_only {
        reply.integer(i64::from(table.length()));
    } else {
        let parts = table.matches().into_iter().rev();
        let common: Vec<u8> =
            parts.flat_map(|part| &a[part.a..part.a + part.length]).copied().collect();
        reply.bulk(&common);
    }
    Ok(())
}

/// Copies of both strings, of one moment.
fn read(context: &mut Context<'_>, request: &Request<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut string = |index| match context.keys.get_with(request.arg(index), <[u8]>::to_vec) {
        Err(Failure::WrongType) => {
            Err(Failure::text("ERR The specified keys must contain string values"))
        }
        found => found.map(Option::unwrap_or_default),
    };
    Ok((string(1)?, string(2)?))
}

fn tell_ranges(reply: &mut Reply<'_>, table: &Table<'_>, options: Options) {
    let mut matches = table.matches();
    matches.retain(|part| part.length as u64 >= options.length_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for part in matches {
        reply.array(if options.with_lengths { 3 } else { 2 });
        for start in [part.a, part.b] {
            reply.array(2);
            reply.count(start as u64);
            reply.count((start + part.length - 1) as u64);
        }
        if options.with_lengths {
            reply.count(part.length as u64);
        }
    }
    reply.bulk(b"len");
    reply.integer(i64::from(table.length()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_those_of_both_strings() {
        let (a, b) = (b"ohmytext", b"mynewtext");
        let table = Table::new(a, b, 1 << 20).unwrap();
        assert_eq!(table.length(), 6);
        let matches = table.matches();
        assert_eq!(matches, [Match { a: 4, b: 5, length: 4 }, Match { a: 2, b: 0, length: 2 }]);
        assert!(
            matches.iter().all(|part| a[part.a..][..part.length] == b[part.b..][..part.length])
        );
    }

    #[test]
    fn a_table_that_is_too_large_is_refused_before_it_is_made() {
        let long = vec![b'x'; 1 << 16];
        assert!(Table::new(&long, &long, 1 << 29).is_err());
        assert!(Table::new(b"", &long, 1 << 29).is_ok_and(|table| table.length() == 0));
    }
}
