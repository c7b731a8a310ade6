//! Commands of several connections that are done together (`gathered.rs`), and their replies.

use std::time::Duration;

use super::Connection;
use crate::batch::context_of;
use crate::command::dispatch::dispatch;
use crate::command::series::{self, Answers, Undone};
use crate::command::timing;
use crate::failure::Failure;
use crate::gathered::Gathered;
use crate::resp::{Request, Series};
use crate::scratch::TurnReplies;
use crate::shared::Shared;
use crate::statistics::Tally;

/// Does what was gathered in an event loop that has these connections, and leaves the replies to the end of the turn.
/// What came from a connection that was closed since is done only if it is done together with others.
pub fn run_gathered(
    gathered: &mut Gathered,
    connections: &mut [Option<Box<Connection>>],
    replies: &mut TurnReplies,
    shared: &Shared,
    tally: &mut Tally,
) {
    let (series, mut first) = (gathered.series(), 0);
    while first < gathered.len() {
        let places = &gathered.places()[first..];
        // Any of them: what they differ in does not matter to the commands (G3).
        let found = places.iter().copied().find(|place| connections[*place].is_some());
        let Some(any) = found else { break };
        let Some(any) = &mut connections[any] else { break };
        let _entered = shared.exclusion.enter(any.client().loop_index);
        let done = match places.len() {
            1 => Err(Undone::Alone(1)),
            _ => any.run_together(&series, first, shared, tally),
        };
        let (count, failure) = match done {
            Ok(answers) => {
                for (answer, place) in answers.iter().zip(places) {
                    if let Some(connection) = &mut connections[*place] {
                        connection.leave_reply(answer, replies);
                    }
                }
                for (index, duration) in &answers.slow {
                    if let Some(connection) = &mut connections[places[*index - first]] {
                        let (_, request) = series.request(*index);
                        connection.note_slow(&request, *duration, shared, tally);
                    }
                }
                first += answers.count();
                continue;
            }
            Err(Undone::Alone(count)) => (count, None),
            Err(Undone::Failed(count, failure)) => (count, Some(failure)),
        };
        for (index, place) in (first..).zip(&places[..count]) {
            if let Some(connection) = &mut connections[*place] {
                let (_, request) = series.request(index);
                connection.run_alone(&request, failure.as_ref(), replies, shared, tally);
            }
        }
        first += count;
    }
    drop(series);
    gathered.clear();
}

impl Connection {
    /// Carries out the first requests of a series from one on, of any connections of this loop which have the database
    /// and the protocol of this one, as one step.
    fn run_together(
        &mut self,
        series: &Series<'_>,
        first: usize,
        shared: &Shared,
        tally: &mut Tally,
    ) -> Result<Answers, Undone> {
        let mut unused = Vec::new();
        let mut context = context_of(shared, &mut self.session, tally, &mut unused, usize::MAX);
        series::run_unanswered(&mut context, series, first)
    }

    /// Leaves a reply to the end of the turn.
    fn leave_reply(&mut self, reply: &[u8], replies: &mut TurnReplies) {
        let mut draft = replies.draft();
        draft.buffer().0.extend_from_slice(reply);
        self.deferred = Some(draft.defer(self.place));
    }

    /// Carries out a request of this connection by itself, or answers it with a failure, and leaves the reply to the
    /// end of the turn.
    fn run_alone(
        &mut self,
        request: &Request<'_>,
        failure: Option<&Failure>,
        replies: &mut TurnReplies,
        shared: &Shared,
        tally: &mut Tally,
    ) {
        let mut draft = replies.draft();
        let (out, start) = draft.buffer();
        let limit = start.saturating_add(shared.config.reply_size_max);
        let mut context = context_of(shared, &mut self.session, tally, out, limit);
        context.tally.commands += 1;
        match failure {
            None => dispatch(&mut context, request),
            Some(failure) => {
                context.tally.errors += 1;
                failure.write(&mut context.reply, shared);
            }
        }
        self.deferred = Some(draft.defer(self.place));
    }

    /// Keeps a command of this connection that took long.
    fn note_slow(
        &mut self,
        request: &Request<'_>,
        duration: Duration,
        shared: &Shared,
        tally: &mut Tally,
    ) {
        let Some(limit) = shared.settings.slow_log_after() else { return };
        let mut unused = Vec::new();
        let mut context = context_of(shared, &mut self.session, tally, &mut unused, usize::MAX);
        timing::note_slow(&mut context, request, limit, duration);
    }
}
