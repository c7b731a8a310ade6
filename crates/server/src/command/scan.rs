//! `SCAN`: going through all keys in steps, while others change them.
//!
//! Keys come in order, each at most once, and every key that is there from the first step to the
//! last is returned. How a cursor stands for a key is told in [`crate::scan_table`].

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::context::Context;
use super::integer::integer_arg;
use super::keys::Keys;
use super::walk::Bounds;
use crate::failure::{CommandResult, Failure};
use crate::glob::{self, Pattern};
use crate::resp::{Reply, Request};

/// Keys looked at per step unless the client says otherwise.
const COUNT_DEFAULT: u64 = 10;
/// Keys looked at per step at most, so that other clients are not kept waiting.
const COUNT_MAX: u64 = 1 << 20;

/// Time after which a step ends: it is one operation of the store, and others wait for its end.
pub const TIME_MAX: Duration = Duration::from_millis(50);
/// Comparisons between two looks at the clock, and those that a key or member counts as besides its bytes.
const LOOK_COUNT: usize = 1 << 18;
const ITEM_COUNT: usize = 64;
/// Bytes of a value that are summed while one byte is compared.
const SUMMED_SIZE: usize = 16;

/// The time that a step takes, of `SCAN` and its like.
pub struct StepTime {
    began: Instant,
    /// Comparisons of a byte of a text, at most.
    length: usize,
    count: usize,
}

impl StepTime {
    /// Of a step that begins.
    pub fn new(pattern: Option<&Pattern>) -> Self {
        let length = pattern.map_or(0, Pattern::len_min);
        StepTime { began: Instant::now(), length, count: 0 }
    }

    /// Whether it is over behind one more key or member that was looked at. With few of them, or a short pattern,
    /// nobody looks at the clock.
    pub fn is_over(&mut self, text: &[u8], value: &[u8]) -> bool {
        self.count += ITEM_COUNT + value.len() / SUMMED_SIZE + self.length * text.len();
        let must_look = self.count >= LOOK_COUNT;
        self.count %= LOOK_COUNT;
        must_look && self.began.elapsed() > TIME_MAX
    }
}

/// Cursors that are given out are below: see [`crate::scan_table`].
const CURSOR_MAX: u64 = i64::MAX as u64;

struct ScanOptions {
    pattern: Option<Pattern>,
    prefix: Vec<u8>,
    count: u64,
    /// The type that is wanted, in small letters.
    kind: Option<Vec<u8>>,
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub fn scan(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let cursor = parse_cursor(request.arg(1))?;
    let options = parse_options(request)?;
    let shared = context.shared;
    let mut bounds = Bounds::of_prefix(&options.prefix);
    if cursor > CURSOR_MAX {
        // Nobody was ever given such a cursor: there is nothing behind it.
        context.reply.array(2);
        context.reply.bulk(b"0");
        context.reply.array(0);
        return Ok(());
    }
    if cursor != 0 {
        let position = shared.scans.position(cursor).ok_or_else(|| unknown_cursor(cursor))?;
        bounds.skip_to_after(position);
    }
    let mut items = Vec::new();
    let mut found =
        Reply::new(&mut items, context.reply.protocol, shared.config.reply_size_max / 2);
    let mut time = StepTime::new(options.pattern.as_ref());
    let (returned, last) = step(&mut context.keys, &bounds, &options, &mut time, &mut found)?;
    let client_id = context.session.client.id;
    let next = last.map_or(0, |key| shared.scans.advance(client_id, cursor, &key));
    let reply = &mut context.reply;
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(returned);
    reply.encoded(&items);
    Ok(())
}

/// Looks at the keys of a step. Returns how many are returned, and the last that was looked at, if more may follow.
fn step(
    keys: &mut Keys<'_>,
    bounds: &Bounds,
    options: &ScanOptions,
    time: &mut StepTime,
    found: &mut Reply<'_>,
) -> Result<(usize, Option<Vec<u8>>), Failure> {
    let types = keys.types();
    let is_wanted = |value: &[u8]| {
        let name = || types.header(value).map_or("string", |header| header.kind.name());
        options.kind.as_ref().is_none_or(|kind| kind == name().as_bytes())
    };
    let pattern = options.pattern.as_ref();
    let (seen, last, began) = (Cell::new(0), Cell::new(None), time.began);
    let mut returned = 0;
    let visit = |key: &[u8], value: &[u8]| {
        seen.update(|seen| seen + 1);
        if is_wanted(value) && pattern.is_none_or(|pattern| pattern.matches(key)) {
            found.bulk(key);
            returned += 1;
        }
        if seen.get() == options.count || found.is_full() || time.is_over(key, value) {
            last.set(Some(key.to_vec()));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    // Of what has expired nothing is seen, however much it is.
    let pause = |reached: &[u8]| {
        if began.elapsed() > TIME_MAX {
            last.set(Some(reached.to_vec()));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    keys.walk_with_pauses(bounds, false, visit, pause)?;
    Ok((returned, last.into_inner()))
}

/// A cursor as C's `strtoul` reads it, as client libraries may rely on: nothing is 0, a sign is
/// allowed, and the negative of a number is counted down from 2^64.
pub fn parse_cursor(bytes: &[u8]) -> Result<u64, Failure> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let all_digits = digits.iter().all(u8::is_ascii_digit);
    let number = match std::str::from_utf8(digits) {
        Ok("") if bytes.is_empty() => Some(0),
        Ok(digits) if all_digits => digits.parse::<u64>().ok(),
        _ => None,
    };
    let number = number.map(|number| if negative { number.wrapping_neg() } else { number });
    number.ok_or(Failure::text("ERR invalid cursor"))
}

fn unknown_cursor(cursor: u64) -> Failure {
    Failure::text(format!(
        "ERR invalid cursor: {cursor} is not known, or not any more (the server was restarted, or \
         too many scans were left unfinished): start again with 0"
    ))
}

fn parse_options(request: &Request<'_>) -> Result<ScanOptions, Failure> {
    let mut options =
        ScanOptions { pattern: None, prefix: Vec::new(), count: COUNT_DEFAULT, kind: None };
    let mut args = request.args_from(2);
    while let Some(option) = args.next() {
        let value = args.next().ok_or(Failure::Syntax)?;
        match option.to_ascii_lowercase().as_slice() {
            b"match" => {
                options.pattern = Some(Pattern::new(value));
                options.prefix = glob::literal_prefix(value);
            }
            b"count" => {
                let count = u64::try_from(integer_arg(value)?).map_err(|_| Failure::Syntax)?;
                if count == 0 {
                    return Err(Failure::Syntax);
                }
                options.count = count.min(COUNT_MAX);
            }
            b"type" => options.kind = Some(value.to_ascii_lowercase()),
            _ => return Err(Failure::Syntax),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use everleaf::Expiry;

    use super::*;
    use crate::batch::context_of;
    use crate::batch::test_run::Bench;
    use crate::command::stage::{Stage, Staged};
    use crate::databases::MapNumber;
    use crate::resp::Protocol;
    use crate::statistics::Tally;

    /// Of a step whose time is over.
    fn no_time(pattern: Option<&Pattern>) -> StepTime {
        let mut time = StepTime::new(pattern);
        time.began = time.began.checked_sub(2 * TIME_MAX).expect("the machine runs that long");
        time
    }

    /// 20,000 keys, of which each so many'th is live, and the last; all others have expired.
    fn bench(live_each: u32) -> Bench {
        let bench = Bench::new(Bench::config());
        let map = bench.shared.store.default_map();
        for number in 0..20_000_u32 {
            let is_live = number % live_each == 1;
            let expiry = if is_live { Expiry::Never } else { Expiry::from_unix_ms(1) };
            map.put_with_expiry(number.to_be_bytes(), "", expiry).unwrap();
        }
        map.put([0xff], "live").unwrap();
        bench
    }

    /// The keys of each step without time of a scan of all keys.
    fn step_sizes(keys: &mut Keys<'_>, count: u64) -> Vec<usize> {
        let options = ScanOptions { pattern: None, prefix: vec![], count, kind: None };
        let (mut bounds, mut returned) = (Bounds::of_prefix(b""), Vec::new());
        loop {
            let mut items = Vec::new();
            let mut found = Reply::new(&mut items, Protocol::Resp2, usize::MAX);
            let stepped = step(keys, &bounds, &options, &mut no_time(None), &mut found);
            let (count, last) = stepped.ok().unwrap();
            returned.push(count);
            let Some(last) = last else { return returned };
            bounds.skip_to_after(last);
        }
    }

    /// What took seconds: a step passed over all that had expired and was not swept yet, without a look at the clock.
    #[test]
    fn a_step_ends_among_what_has_expired() {
        let sizes = |live_each: u32, count: u64| {
            let bench = bench(live_each);
            let (mut session, mut tally, mut out) = (bench.client(), Tally::default(), vec![]);
            let limit = usize::MAX;
            let mut context = context_of(&bench.shared, &mut session, &mut tally, &mut out, limit);
            step_sizes(&mut context.keys, count)
        };
        assert_eq!(sizes(u32::MAX, 10), [1, 0, 0, 0, 1], "keys of each step");
        // Too few live ones for a look at the clock where they are seen, and enough to pass for many.
        let sizes = sizes(50, 1 << 20);
        assert_eq!(sizes.iter().sum::<usize>(), 401);
        assert!(sizes.len() >= 5, "{sizes:?}");
    }

    /// The same in a transaction, while everybody waits; and of what it has written itself it passes over nothing.
    #[test]
    fn a_step_of_a_transaction_ends_among_what_has_expired() {
        let bench = bench(u32::MAX);
        let (store, mut stage) = (&bench.shared.store, Stage::new(1 << 20));
        let done = store.write_alone(|alone, _| {
            let mut staged = Staged {
                stage: &mut stage,
                source: alone,
                types: &bench.shared.types,
                databases: &bench.shared.databases,
                place: MapNumber::default(),
            };
            for number in [7_u32, 8, 9_000, 19_999] {
                staged.put(&[&number.to_be_bytes()[..], b"own"].concat(), b"")?;
            }
            staged.remove(&1_u32.to_be_bytes())?;
            let sizes = step_sizes(&mut Keys::Stage(staged), 10);
            assert_eq!(sizes.iter().sum::<usize>(), 5, "{sizes:?}");
            assert!(sizes.len() >= 5, "{sizes:?}");
            Ok::<(), Failure>(())
        });
        assert!(done.is_ok());
    }

    /// How many items are looked at until the clock is read, in a step whose time is over.
    fn items_until_look(pattern: Option<&Pattern>, text: &[u8], value: &[u8]) -> Option<usize> {
        let mut time = no_time(pattern);
        (1..=LOOK_COUNT).find(|_| time.is_over(text, value))
    }

    #[test]
    fn a_step_looks_at_the_clock_behind_long_items() {
        assert_eq!(items_until_look(None, b"key", b"value"), Some(LOOK_COUNT / ITEM_COUNT));
        let pattern = Pattern::new(&b"a".repeat(1000));
        assert_eq!(items_until_look(Some(&pattern), &[b'a'; 1000], b""), Some(1));
        // What was wrong: values counted for nothing, though all of each is summed.
        assert_eq!(items_until_look(None, b"key", &vec![0; 64 << 20]), Some(1));
        assert_eq!(items_until_look(None, b"key", &vec![0; 1 << 20]), Some(4));
    }
}
