//! Requests of a series that were not done as one step: each is run by itself, or told why not.

use std::ops::ControlFlow;

use super::{Batch, BatchEnd};
use crate::command::series::Undone;
use crate::resp::Series;
use crate::slice::Slice;

impl Batch<'_> {
    /// Runs the first requests of a series from one on by themselves, or tells them that they failed. The step that
    /// was tried in vain may have taken all the time: they have some of their own, or each of them would be tried again
    /// with all that are behind it.
    pub(super) fn run_undone(
        &mut self,
        series: &Series<'_>,
        first: usize,
        undone: &Undone,
    ) -> ControlFlow<BatchEnd> {
        if undone.count == 1 {
            return self.run_each(series, first, undone);
        }
        let mut before = std::mem::replace(self.slice, Slice::of_now());
        let flow = self.run_each(series, first, undone);
        let is_over = before.is_over();
        *self.slice = before;
        flow?;
        self.check(is_over, series.end(first + undone.count - 1))
    }

    fn run_each(
        &mut self,
        series: &Series<'_>,
        first: usize,
        undone: &Undone,
    ) -> ControlFlow<BatchEnd> {
        for index in first..first + undone.count {
            let (command, request) = series.request(index);
            undone.run_or_tell(&mut self.context(), command, &request);
            // All writes that failed together are told so, in a few bytes: whether they were done cannot be told. What
            // only reads among them is run, no more than the step had.
            if undone.failure.is_none() {
                let is_over = self.slice.is_over_behind(command);
                self.check(is_over, series.end(index))?;
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use everleaf::{Error, Options};

    use super::*;
    use crate::Config;
    use crate::acl::Acl;
    use crate::client_state::ClientState;
    use crate::command::facts;
    use crate::failure::Failure;
    use crate::resp::{Limits, Parser};
    use crate::shared::{Control, Shared};
    use crate::statistics::Tally;

    const LIMITS: Limits = Limits {
        arg_count_max: 100,
        bulk_size_max: 100,
        inline_size_max: 100,
        request_size_max: 1000,
        authenticated: true,
    };

    /// Has a batch whose time is over do something, on a store with these strings. Returns what it answers, too.
    fn with_batch<R>(strings: &[(&str, &[u8])], act: impl FnOnce(Batch<'_>) -> R) -> (String, R) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().create(true).max_size_bytes(64 << 20).sweep(false);
        let store = Arc::new(options.open(folder.path().join("pool")).unwrap());
        for (key, value) in strings {
            let _ = store.default_map().put(key, value).unwrap();
        }
        let config = Config { threads: 1, ..Config::default() };
        let acl = Acl::open(&config).unwrap();
        let shared =
            Shared::new(config, acl, store, Arc::new(Control::new(vec![], &[], None, None)));
        let client = shared.registry.add(("a:1".into(), "b:2".into()), 0, 0);
        let mut session = ClientState::new(client, &shared.acl);
        let (mut tally, mut out, mut slice) = (Tally::default(), Vec::new(), Slice::of_past());
        let batch = Batch {
            parser: &mut Parser::default(),
            session: &mut session,
            shared: &shared,
            tally: &mut tally,
            out: &mut out,
            pause_size: 1 << 20,
            slice: &mut slice,
            can_gather: false,
            entered: Some(shared.exclusion.enter(0)),
        };
        let result = act(batch);
        (String::from_utf8(out).unwrap(), result)
    }

    /// What some requests of a series are answered whose step took all the time, and where the batch was cut.
    fn answers(
        request: &[u8],
        name: &str,
        count: usize,
        undone: &Undone,
    ) -> (String, Option<usize>) {
        let (mut parser, mut series) = (Parser::default(), Series::default());
        let command = facts::find(name.as_bytes()).unwrap();
        for number in 1..=count {
            assert_eq!(parser.parse(request, &LIMITS).ok(), Some(Some(request.len())));
            assert!(series.push(command, &parser, request, number));
        }
        with_batch(&[], |mut batch| match batch.run_undone(&series, 0, undone) {
            ControlFlow::Break(end) => Some(end.consumed),
            ControlFlow::Continue(()) => None,
        })
    }

    /// What was wrong: nobody looked at the time behind commands that should be fast, each of which sums a whole value.
    #[test]
    fn a_long_value_that_was_read_ends_the_time() {
        let with_key = |name: &str| format!("*2\r\n${}\r\n{name}\r\n$1\r\nk\r\n", name.len());
        let get_bit = "*3\r\n$6\r\nGETBIT\r\n$1\r\nk\r\n$1\r\n0\r\n".to_string();
        let requests = ["INCR", "STRLEN", "EXISTS"].map(with_key);
        for request in requests.into_iter().chain([get_bit]) {
            for (value, count) in [(&[b'v'; 100 << 10][..], 1), (b"v", 3)] {
                let bytes = request.repeat(3).into_bytes();
                let (_, end) = with_batch(&[("k", value)], |batch| batch.run(&bytes).consumed);
                assert_eq!(end, count * request.len(), "{request:?}, {} bytes", value.len());
            }
        }
    }

    /// What was wrong: a series of reads that others kept from its step used up the time in vain, and then one of its
    /// commands was run, turn for turn.
    #[test]
    fn what_was_tried_in_vain_has_time_of_its_own() {
        let request = b"*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n";
        let (answers, end) = answers(request, "hgetall", 5, &Undone::alone(5));
        assert_eq!((&*answers, end), (&*"*0\r\n".repeat(5), Some(5)));
    }

    /// What was wrong: of those that failed together some were told so, and the rest was run again.
    #[test]
    fn all_that_failed_together_are_told_so() {
        let request = b"*3\r\n$4\r\nMSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
        let failure = Failure::Store(Error::LogFailed("the disk".into()));
        let (answers, end) = answers(request, "mset", 40, &Undone::refused(40, failure));
        assert_eq!((answers.matches("the disk").count(), end), (40, Some(40)), "{answers}");
    }
}
