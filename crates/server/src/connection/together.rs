//! Commands of several connections that are done together (`gathered.rs`), and their replies.

use std::ops::Range;
use std::time::Duration;

use super::{Connection, Fate};
use crate::batch::{context_of, is_each_seen};
use crate::command::series::{self, ANSWER_SIZE_MAX, Answers, Undone};
use crate::command::timing;
use crate::gathered::Gathered;
use crate::resp::{Request, Series};
use crate::scratch::{DEFERRED_SIZE_MAX, TurnReplies};
use crate::shared::Shared;
use crate::statistics::Tally;

/// Does what was gathered in an event loop that has these connections, and leaves the replies to the end of the turn;
/// what came from a connection that is closed, or killed, is not done. Ends before all is done when the replies must be
/// sent first, or a connection wants something. Returns what connections want, but for those that only wait.
pub fn run_gathered(
    gathered: &mut Gathered,
    connections: &mut [Option<Box<Connection>>],
    replies: &mut TurnReplies,
    shared: &Shared,
    tally: &mut Tally,
) -> Vec<(usize, Fate)> {
    let (series, mut first) = (gathered.series(), gathered.done_count());
    let mut fates = Vec::new();
    while first < gathered.len() && fates.is_empty() && replies.size() <= DEFERRED_SIZE_MAX {
        let places = &gathered.places()[first..];
        let undone = match run_first(&series, first, places, connections, shared, tally) {
            Ok(answers) => {
                leave_answers(&answers, places, connections, replies);
                if shared.settings.slow_log_after().is_some_and(|limit| answers.duration >= limit) {
                    for (index, place) in (first..).zip(&places[..answers.count()]) {
                        let Some(connection) = &mut connections[*place] else { continue };
                        let (_, request) = series.request(index);
                        connection.note_slow(&request, answers.duration, shared, tally);
                    }
                }
                first += answers.count();
                continue;
            }
            Err(undone) => undone,
        };
        for place in &places[..undone.count] {
            let request = series.request(first);
            first += 1;
            let Some(connection) = &mut connections[*place] else { continue };
            let fate = connection.run_alone(request, &undone, replies, shared, tally);
            if fate != Fate::Wait {
                fates.push((*place, fate));
            }
            // All that failed together are told so, in a few bytes: whether they were done cannot be told.
            let must_send = !fates.is_empty() || replies.size() > DEFERRED_SIZE_MAX;
            if must_send && undone.failure.is_none() {
                break;
            }
        }
    }
    drop(series);
    gathered.set_done_count(first);
    fates
}

/// Carries out as one step the first of those requests that may still be run without a further look: since they were
/// read others may have closed a connection, changed a user, or begun to look on. The first request must be run by
/// itself, if at all, unless there are two.
fn run_first(
    series: &Series<'_>,
    first: usize,
    places: &[usize],
    connections: &mut [Option<Box<Connection>>],
    shared: &Shared,
    tally: &mut Tally,
) -> Result<Answers, Undone> {
    let generation = shared.acl.generation();
    let may_run = |place: &&usize| {
        let connection = connections[**place].as_ref();
        connection.is_some_and(|it| !it.client().is_killed() && it.session.is_plain(generation))
    };
    let count = match is_each_seen(shared) {
        true => 0,
        false => places.iter().take_while(may_run).count(),
    };
    match places.first().and_then(|place| connections[*place].as_mut()) {
        // Any of them: what they differ in does not matter to the commands (G3).
        Some(any) if count > 1 => any.run_together(series, first..first + count, shared, tally),
        _ => Err(Undone::alone(1)),
    }
}

/// Leaves the answers of a step to the end of the turn.
fn leave_answers(
    answers: &Answers,
    places: &[usize],
    connections: &mut [Option<Box<Connection>>],
    replies: &mut TurnReplies,
) {
    for (answer, place) in answers.iter().zip(places) {
        if let Some(connection) = &mut connections[*place] {
            let mut draft = replies.draft();
            draft.buffer().0.extend_from_slice(answer);
            connection.deferred = Some(draft.defer(*place));
        }
    }
}

impl Connection {
    /// Carries out the first of some requests, of any connections of this loop which have the database and the protocol
    /// of this one, as one step. What has a long answer is left to be run by itself.
    fn run_together(
        &mut self,
        series: &Series<'_>,
        range: Range<usize>,
        shared: &Shared,
        tally: &mut Tally,
    ) -> Result<Answers, Undone> {
        let _entered = shared.exclusion.enter(self.client().loop_index);
        let mut unused = Vec::new();
        let size_max = ANSWER_SIZE_MAX.min(shared.config.reply_size_max);
        let mut context = context_of(shared, &mut self.session, tally, &mut unused, size_max);
        series::run_unanswered(&mut context, series, range)
    }

    /// Carries out a request of this connection by itself, or answers it with the failure of all, and leaves the reply
    /// to the end of the turn, if it is not long. Not if the connection is about to be closed.
    fn run_alone(
        &mut self,
        (command, request): (usize, Request<'_>),
        undone: &Undone,
        replies: &mut TurnReplies,
        shared: &Shared,
        tally: &mut Tally,
    ) -> Fate {
        if self.client().is_killed() {
            return Fate::Close;
        }
        let mut draft = replies.draft();
        let (out, start) = draft.buffer();
        let limit = start.saturating_add(shared.config.reply_size_max);
        let entered = shared.exclusion.enter(self.client().loop_index);
        let mut context = context_of(shared, &mut self.session, tally, out, limit);
        undone.run_or_tell(&mut context, command, &request);
        // What it waits for now others need not wait for.
        drop(entered);
        let result = self.send_draft(draft, shared, tally);
        self.count_memory(shared);
        match self.client().is_killed() {
            true => Fate::Close,
            false => self.fate_after(result),
        }
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
