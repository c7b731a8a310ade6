//! The options of `SORT`.

use std::cell::OnceCell;
use std::ops::Range;

use crate::command::integer::integer_arg;
use crate::failure::{Failure, Result};
use crate::resp::Request;

/// What is to be sorted how.
#[derive(Debug, Default)]
pub struct Options<'a> {
    /// Where the weight of a member is; without it the member is its weight.
    pub by: Option<&'a [u8]>,
    /// Weights are bytes, and not numbers.
    pub by_bytes: bool,
    pub descends: bool,
    /// What is told of each member, if not the member itself.
    pub get: Vec<&'a [u8]>,
    pub destination: Option<&'a [u8]>,
    /// Whether the order is left as it is, by any of the patterns: all weights are the same.
    pub is_unsorted: bool,
    start: i64,
    count: Option<i64>,
}

impl<'a> Options<'a> {
    /// Options that read keys which the command does not name are refused where they stand, unless the user may.
    pub fn parse(
        request: &Request<'a>,
        may_store: bool,
        may_read_all: impl Fn() -> bool,
    ) -> Result<Self> {
        let mut options = Options::default();
        // Asked once: the answer takes all arguments.
        let (answer, mut args) = (OnceCell::new(), request.args_from(2));
        let may_read_all = || *answer.get_or_init(&may_read_all);
        while let Some(option) = args.next() {
            let mut next = || args.next().ok_or(Failure::Syntax);
            match option.to_ascii_lowercase().as_slice() {
                b"asc" => options.descends = false,
                b"desc" => options.descends = true,
                b"alpha" => options.by_bytes = true,
                b"by" => {
                    let pattern = next()?;
                    options.by = Some(pattern);
                    if !text(pattern).contains(&b'*') {
                        options.is_unsorted = true;
                    } else if !may_read_all() {
                        return Err(denied("BY"));
                    }
                }
                b"get" => {
                    options.get.push(next()?);
                    if !may_read_all() {
                        return Err(denied("GET"));
                    }
                }
                b"store" if may_store => options.destination = Some(next()?),
                b"limit" => {
                    let (start, count) = (next()?, next()?);
                    options.start = integer_arg(start)?;
                    options.count = Some(integer_arg(count)?);
                }
                _ => return Err(Failure::Syntax),
            }
        }
        Ok(options)
    }

    /// Which of so many are wanted.
    pub fn part(&self, len: usize) -> Range<usize> {
        let start = usize::try_from(self.start.max(0)).unwrap_or(len).min(len);
        let rest = len - start;
        let count = self.count.filter(|count| *count >= 0);
        let count = count.map_or(rest, |count| usize::try_from(count).unwrap_or(rest).min(rest));
        start..start + count
    }
}

fn denied(option: &str) -> Failure {
    Failure::text(format!(
        "ERR {option} option of SORT denied due to insufficient ACL permissions."
    ))
}

/// A pattern ends with a zero byte.
pub fn text(pattern: &[u8]) -> &[u8] {
    pattern.split(|byte| *byte == 0).next().unwrap_or(b"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Limits, Parser};

    const LIMITS: Limits = Limits {
        arg_count_max: 1 << 20,
        bulk_size_max: 1 << 20,
        inline_size_max: 1 << 16,
        request_size_max: 1 << 20,
        authenticated: true,
    };

    #[test]
    fn limits_are_clipped() {
        let part = |start, count, len| Options { start, count, ..Options::default() }.part(len);
        assert_eq!(part(0, None, 3), 0..3);
        assert_eq!(part(1, Some(1), 3), 1..2);
        assert_eq!(part(-5, Some(2), 3), 0..2);
        assert_eq!(part(2, Some(i64::MAX), 3), 2..3);
        assert_eq!(part(i64::MAX, Some(-1), 3), 3..3);
        assert_eq!(part(0, Some(0), 3), 0..0);
    }

    /// What was quadratic: whether a user may read all keys takes a look at all arguments, and was asked at every GET.
    #[test]
    fn whether_all_may_be_read_is_asked_once() {
        let line = format!("SORT key BY w*{}\r\n", " GET #".repeat(1000));
        let mut parser = Parser::default();
        parser.parse(line.as_bytes(), &LIMITS).unwrap().expect("whole");
        let request = parser.request(line.as_bytes());
        for (answer, gets) in [(true, Some(1000)), (false, None)] {
            let asked = std::cell::Cell::new(0);
            let options = Options::parse(&request, true, || {
                asked.set(asked.get() + 1);
                answer
            });
            assert_eq!(options.ok().map(|options| options.get.len()), gets);
            assert_eq!(asked.get(), 1);
        }
    }
}
