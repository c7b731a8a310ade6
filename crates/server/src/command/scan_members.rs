//! Going through the members of a hash or a set in steps: `HSCAN`, `SSCAN`, `ZSCAN`.
//!
//! Members lie in the order of a hash value. So a cursor is the value to go on at, behind a permutation
//! (`types/cursor.rs`): it needs no memory, and means the same after a restart.

use std::ops::ControlFlow;

use super::context::Context;
use super::integer::integer_arg;
use super::keys::Keys;
use super::members::SMALL_COUNT_MAX;
use super::scan::{self, StepTime};
use super::transaction::step::run_step;
use crate::failure::{CommandResult, Failure, Result};
use crate::glob::Pattern;
use crate::resp::{Reply, Request};
use crate::score;
use crate::types::Kind;
use crate::types::collection::Collection;
use crate::types::cursor::Cursors;
use crate::types::order::score_of;

/// Members looked at per step at most.
const COUNT_MAX: u64 = 1 << 20;

/// How a step is to be made.
struct ScanOptions {
    cursor: u64,
    pattern: Option<Pattern>,
    count: u64,
}

impl ScanOptions {
    /// The options of `HSCAN key cursor [MATCH pattern] [COUNT count]` and its like, of which the cursor
    /// was read before.
    fn parse(request: &Request<'_>, cursor: u64) -> Result<Self> {
        let mut options = ScanOptions { cursor, pattern: None, count: 10 };
        let mut args = request.args_from(3);
        while let Some(option) = args.next() {
            let value = args.next().ok_or(Failure::Syntax)?;
            match option.to_ascii_lowercase().as_slice() {
                b"match" => options.pattern = Some(Pattern::new(value)),
                b"count" => {
                    let count = u64::try_from(integer_arg(value)?).map_err(|_| Failure::Syntax)?;
                    if count == 0 {
                        return Err(Failure::Syntax);
                    }
                    options.count = count.min(COUNT_MAX);
                }
                _ => return Err(Failure::Syntax),
            }
        }
        Ok(options)
    }
}

/// Answers with one step of `HSCAN key cursor [MATCH pattern] [COUNT count]` and its like.
pub fn step(context: &mut Context<'_>, request: &Request<'_>, kind: Kind) -> CommandResult {
    let mut options = None;
    match context.keys {
        Keys::Stage(_) => try_step(context, request, kind, &mut options),
        // The options are read once, however often it is tried: a pattern may be as long as a value, and while it is
        // taken apart another client may change the collection again.
        Keys::Store(..) => run_step(context, request.arg(1), false, &mut |inner| {
            try_step(inner, request, kind, &mut options)
        }),
    }
}

/// The same, once. Of a key that is not there nobody looks at the options; otherwise they are kept for the next time.
fn try_step(
    context: &mut Context<'_>,
    request: &Request<'_>,
    kind: Kind,
    known: &mut Option<ScanOptions>,
) -> CommandResult {
    let cursor = scan::parse_cursor(request.arg(2))?;
    let Context { keys, reply, shared, .. } = context;
    let collection = Collection::find(keys.staged()?, request.arg(1), kind)?;
    let mut items = Vec::new();
    let size_max = shared.config.reply_size_max;
    let mut found = Reply::new(&mut items, reply.protocol, size_max);
    let (mut next, mut item_count) = (0, 0);
    if let Some(mut collection) = collection {
        let options = match known {
            Some(options) => options,
            None => known.insert(ScanOptions::parse(request, cursor)?),
        };
        let is_small = collection.header.count <= SMALL_COUNT_MAX;
        let (mut seen, mut last) = (0, 0);
        let cursors = collection.cursors();
        let pattern = options.pattern.as_ref();
        let mut time = StepTime::new(pattern);
        let mut show = |place: u64, member: &[u8], value: &[u8]| {
            let is_enough = found.size() > size_max / 2
                || !is_small && seen >= options.count
                || seen > 0 && time.is_over(member, value);
            // Members of one cursor come together.
            if is_enough && Cursors::group(place) != last {
                next = cursors.at(place);
                return ControlFlow::Break(());
            }
            (seen, last) = (seen + 1, Cursors::group(place));
            if pattern.is_none_or(|pattern| pattern.matches(member)) {
                found.bulk(member);
                match kind {
                    Kind::Hash => found.bulk(value),
                    Kind::SortedSet => found.bulk(score::format(score_of(value)).as_bytes()),
                    Kind::Set | Kind::List => {}
                }
                item_count += if matches!(kind, Kind::Hash | Kind::SortedSet) { 2 } else { 1 };
            }
            if found.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        // Behind a cursor that nobody was ever given there is nothing.
        if let Some(start) = cursors.place(options.cursor) {
            collection.walk_ordered(start, &mut show)?;
        }
    }
    if found.is_full() {
        return Err(Failure::ReplyTooLong);
    }
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(item_count);
    reply.encoded(&items);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everleaf::{Expiry, Options};

    use super::*;
    use crate::Config;
    use crate::acl::Acl;
    use crate::client_state::ClientState;
    use crate::command::hash::write::hset;
    use crate::glob;
    use crate::resp::{Limits, Parser, Protocol};
    use crate::shared::{Control, Shared};
    use crate::statistics::Tally;

    const LIMITS: Limits = Limits {
        arg_count_max: 100,
        bulk_size_max: 100,
        inline_size_max: 100,
        request_size_max: 1000,
        authenticated: true,
    };

    /// What was lost: time. The pattern was taken apart in each attempt, and at last while nobody else could write.
    #[test]
    fn a_pattern_is_taken_apart_once_for_all_attempts() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().create(true).max_size_bytes(64 << 20).sweep(false);
        let store = Arc::new(options.open(folder.path().join("pool")).unwrap());
        let config = Config { threads: 1, ..Config::default() };
        let acl = Acl::open(&config).unwrap();
        let control = Arc::new(Control::new(vec![], &[], None, None));
        let shared = Shared::new(config, acl, Arc::clone(&store), control);
        shared.types.begin(&store).unwrap();
        let client = shared.registry.add(("a:1".into(), "b:2".into()), 0, 0);
        let mut session = ClientState::new(client, &shared.acl);
        let (mut tally, mut out) = (Tally::default(), Vec::new());
        let map = shared.databases.map_of(0);
        let mut context = Context {
            shared: &shared,
            session: &mut session,
            tally: &mut tally,
            reply: Reply::new(&mut out, Protocol::Resp2, usize::MAX),
            keys: Keys::Store(&shared.store, map, &shared.types),
            later: None,
        };
        let mut parser = Parser::default();
        let set = b"HSET h field value\r\n";
        assert_eq!(parser.parse(set, &LIMITS).ok(), Some(Some(set.len())));
        let request = parser.request(set);
        run_step(&mut context, b"h", true, &mut |inner| hset(inner, &request)).unwrap();
        let mut parser = Parser::default();
        let scan = b"HSCAN h 0 MATCH f*\r\n";
        assert_eq!(parser.parse(scan, &LIMITS).ok(), Some(Some(scan.len())));
        let request = parser.request(scan);
        let (mut known, mut attempts) = (None, 0);
        let before = glob::TAKEN_COUNT.get();
        run_step(&mut context, b"h", false, &mut |inner| {
            let tried = try_step(inner, &request, Kind::Hash, &mut known);
            attempts += 1;
            // Another client comes between, twice.
            if attempts < 3 {
                let later = Expiry::from_unix_ms((1 << 42) + attempts);
                assert!(store.default_map().expire("h", later).unwrap());
            }
            tried
        })
        .unwrap();
        assert_eq!((attempts, glob::TAKEN_COUNT.get() - before), (3, 1));
        assert!(out.ends_with(b"$5\r\nfield\r\n$5\r\nvalue\r\n"), "{}", out.escape_ascii());
    }
}
