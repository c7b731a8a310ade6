//! Serving clients that wait, in the step of the command that makes what they wait for.
//!
//! When a command has been run on its stage, and before the stage is written, the commands of the clients that
//! wait for what it made are run on the same stage, first come first served. So making and taking are one step
//! for every reader and across a crash, and between them nobody else can take. The lock of the waiters is held
//! until the stage is written; if it is not, nothing was taken and nobody was answered.
//!
//! A client that begins to wait while a stage is written that made something for it, and was not seen, is
//! served in a step of its own (`serve_rest`).
//!
//! What the clients of one step are given takes no more memory than one reply may: a command makes any number of
//! collections at once (`SWAPDB`, a transaction of `RENAME`), each with a client that takes all of it. The others go on
//! waiting, and are served in a step of their own in the next turn of the event loop: until then another client may
//! take before them.
//!
//! The replies go to the event loops of the clients when what was taken is durable, at the end of the turn
//! (`event_loop.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use everleaf::WriteBatch;

use crate::blocking_request::What;
use crate::command::limits::{ATTEMPT_COUNT_MAX, BATCH_SIZE_MAX};
use crate::command::permission::check_waiting;
use crate::command::source::Source;
use crate::command::stage::{Stage, Staged};
use crate::databases::MapNumber;
use crate::failure::{Failure, Result};
use crate::resp::Reply;
use crate::shared::Shared;
use crate::types::Kind;
use crate::waiters::{Delivery, Locked, Ticket};

/// A key of a collection that clients may be served with.
type ReadyKey = (MapNumber, Vec<u8>);

/// What clients may be served with. Each client is looked at once for each collection that it waits for, however often
/// others move an element into that, or through a ring.
struct Ready {
    /// What was made, or was moved to, and not looked at since.
    queue: VecDeque<ReadyKey>,
    /// Those of the queue that were moved to: each is there once.
    moved_to: BTreeSet<ReadyKey>,
    /// The last client that was looked at, of those that wait for another kind, and for a list.
    reached: BTreeMap<ReadyKey, [Ticket; 2]>,
}

impl Ready {
    fn new(made: &[ReadyKey]) -> Self {
        let queue = made.iter().cloned().collect();
        Ready { queue, moved_to: BTreeSet::new(), reached: BTreeMap::new() }
    }

    fn add(&mut self, at: MapNumber, key: &[u8]) {
        let place = (at, key.to_vec());
        if self.moved_to.insert(place.clone()) {
            self.queue.push_back(place);
        }
    }

    fn take(&mut self) -> Option<ReadyKey> {
        let place = self.queue.pop_front()?;
        self.moved_to.remove(&place);
        Some(place)
    }
}

/// Serves clients on a stage that is about to be written.
pub struct Service<'a> {
    shared: &'a Shared,
    /// The event loop whose thread this is.
    loop_index: usize,
    waiters: Locked<'a>,
    /// The clients that were served on this stage, and with what.
    served: BTreeMap<Ticket, Vec<u8>>,
    /// Bytes of these answers.
    answer_size: usize,
    /// What was made, if clients were left that wait for it.
    left: Vec<(MapNumber, Vec<u8>)>,
}

impl<'a> Service<'a> {
    /// A service, if somebody may wait for what a stage has made.
    pub fn if_wanted(
        shared: &'a Shared,
        loop_index: usize,
        made: &[(MapNumber, Vec<u8>)],
    ) -> Option<Self> {
        let may_want = |(place, key): &(MapNumber, Vec<u8>)| shared.waiters.may_want(*place, key);
        let wanted = shared.waiters.total() > 0 && made.iter().any(may_want);
        wanted.then(|| Self::begin(shared, loop_index))
    }

    /// A service, if anybody waits, for a stage that is made while nobody else writes: the lock comes before
    /// those of the store.
    pub fn if_any(shared: &'a Shared, loop_index: usize) -> Option<Self> {
        (shared.waiters.total() > 0).then(|| Self::begin(shared, loop_index))
    }

    fn begin(shared: &'a Shared, loop_index: usize) -> Self {
        Service {
            shared,
            loop_index,
            waiters: shared.waiters.lock(),
            served: BTreeMap::new(),
            answer_size: 0,
            left: Vec::new(),
        }
    }

    /// Serves every client that waits for what the stage makes, as far as it reaches, and as far as there is room for
    /// their answers.
    ///
    /// # Errors
    /// The store refused to read. What was staged must not be written.
    pub fn serve(&mut self, stage: &mut Stage, source: &mut dyn Source) -> Result<()> {
        self.served.clear();
        self.left.clear();
        self.answer_size = 0;
        if stage.places().is_some() {
            // A client that waits still does so where its database was; it is served when that is exchanged.
            return Ok(());
        }
        let mut ready = Ready::new(stage.made());
        while let Some(place) = ready.take() {
            if !self.serve_place(stage, source, &place, &mut ready)? {
                self.left = stage.made().to_vec();
                break;
            }
        }
        stage.forget_mark();
        Ok(())
    }

    /// Serves every client that waits for what is at a place and that was not looked at before. Returns whether there
    /// was room for their answers.
    fn serve_place(
        &mut self,
        stage: &mut Stage,
        source: &mut dyn Source,
        place: &ReadyKey,
        ready: &mut Ready,
    ) -> Result<bool> {
        let (at, key) = (place.0, &place.1);
        let mut reached = ready.reached.remove(place).unwrap_or_default();
        loop {
            let mut staged = Staged {
                stage,
                source,
                types: &self.shared.types,
                databases: &self.shared.databases,
                place: at,
            };
            let Some(kind) = staged.kind(key)? else { break };
            let last = &mut reached[usize::from(kind == Kind::List)];
            let Some((ticket, waiter)) = self.waiters.next(kind, place, *last) else { break };
            *last = ticket;
            // What would be given to a client that is about to be closed would be gone with it.
            if self.served.contains_key(&ticket) || waiter.client.is_killed() {
                continue;
            }
            let mark = staged.stage.mark();
            let mut answer = Vec::new();
            let limit = self.shared.config.reply_size_max.saturating_sub(self.answer_size);
            let mut reply = Reply::new(&mut answer, waiter.protocol, limit);
            // What it may do can have changed since it began to wait.
            let allowed = check_waiting(self.shared, &waiter.client, &waiter.args);
            let granted =
                allowed.and_then(|()| waiter.blocking.grant(&mut staged, key, &mut reply));
            let granted = granted.and_then(|granted| match reply.is_full() {
                true => Err(Failure::ReplyTooLong),
                false => Ok(granted),
            });
            match granted {
                Ok(true) => {
                    if let What::Move { destination, .. } = &waiter.blocking.what {
                        ready.add(at, destination);
                    }
                }
                Ok(false) => {
                    stage.roll_back(&mark);
                    continue;
                }
                Err(Failure::ReplyTooLong) if self.answer_size > 0 => {
                    stage.roll_back(&mark);
                    return Ok(false);
                }
                Err(failure) => {
                    reply.truncate(0);
                    failure.write(&mut reply, self.shared);
                    stage.roll_back(&mark);
                }
            }
            self.answer_size += answer.len();
            self.served.insert(ticket, answer);
        }
        if reached != [0; 2] {
            ready.reached.insert(place.clone(), reached);
        }
        Ok(true)
    }

    /// Answers the clients that were served, once the stage is written.
    pub fn finish(mut self) {
        let served = std::mem::take(&mut self.served);
        self.answer(served);
        if !self.left.is_empty() {
            self.shared.loops[self.loop_index].serve_later(std::mem::take(&mut self.left));
            self.shared.control.wake(self.loop_index);
        }
    }

    fn answer(&mut self, served: BTreeMap<Ticket, Vec<u8>>) {
        let deliveries = served.into_iter().filter_map(|(ticket, reply)| {
            let client = self.waiters.take(ticket)?.client;
            Some(Delivery { client, ticket, reply })
        });
        self.shared.loops[self.loop_index].send_later(deliveries);
    }
}

/// Keys whose clients cannot be served by themselves until the rest is left for later.
const REFUSED_MAX: usize = 64;

/// Serves clients for whose answers a step of this event loop had no room. If all keys cannot be done together (one may
/// be damaged), each is done by itself.
pub fn serve_left(shared: &Shared, loop_index: usize) {
    let mut made = shared.loops[loop_index].take_made();
    if made.is_empty() {
        return;
    }
    let _entered = shared.exclusion.enter(loop_index);
    let Err(failure) = serve_rest(shared, loop_index, &made) else { return };
    if let Failure::Store(error) = &failure {
        shared.log_store_error(error);
    }
    if made.len() > 1 {
        // Not always in the same order: those behind many that are refused have their turn, too.
        let first = shared.now_ms() as usize % made.len();
        made.rotate_left(first);
        let mut refused = 0;
        made.retain(|key| {
            let is_refused = refused == REFUSED_MAX
                || serve_rest(shared, loop_index, std::slice::from_ref(key)).is_err();
            refused += usize::from(is_refused && refused < REFUSED_MAX);
            is_refused
        });
    }
    // Nothing of these was taken: it is tried again after a pause (`event_loop.rs`).
    shared.loops[loop_index].serve_later(made);
}

/// Behind a write without a service: serves the clients that began to wait meanwhile for what was made, or to
/// which it came.
pub fn serve_rest(shared: &Shared, loop_index: usize, made: &[(MapNumber, Vec<u8>)]) -> Result<()> {
    if made.is_empty() {
        return Ok(());
    }
    shared.waiters.fence();
    let Some(mut service) = Service::if_wanted(shared, loop_index, made) else { return Ok(()) };
    let store = Arc::clone(&shared.store);
    for _ in 0..ATTEMPT_COUNT_MAX {
        let mut stage = Stage::beside_others(BATCH_SIZE_MAX, &store);
        stage.note_made(made);
        service.serve(&mut stage, &mut &*store)?;
        let mut batch = WriteBatch::new();
        stage.expect_read(&mut batch, &shared.databases);
        stage.fill(&mut batch, &shared.databases, &shared.types);
        if store.write(&batch)?.is_done() {
            stage.keep_separators(&shared.types);
            service.finish();
            return Ok(());
        }
    }
    store.write_alone(|alone, batch| {
        let mut stage = Stage::new(BATCH_SIZE_MAX);
        stage.note_made(made);
        service.serve(&mut stage, alone)?;
        stage.fill(batch, &shared.databases, &shared.types);
        Ok::<(), Failure>(())
    })?;
    service.finish();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::batch::test_run::Bench;

    /// What was quadratic, with the lock of the waiters: each client that was served with a move had all clients of the
    /// list that it moved to looked at from the first one on.
    #[test]
    fn each_waiting_client_is_looked_at_once() {
        for moves in [["k k"; 2], ["k other", "other k"]] {
            let bench = Bench::new(Bench::config());
            let clients: Vec<_> = (0..200)
                .map(|number| {
                    let mut client = bench.client();
                    let line = format!("BLMOVE {} LEFT RIGHT 0", moves[number % 2]);
                    assert_eq!(bench.run(&mut client, &line), "");
                    client
                })
                .collect();
            assert_eq!(bench.run(&mut bench.client(), "LPUSH k a"), ":1");
            let deliveries = bench.shared.loops[0].take_outbox();
            assert_eq!(deliveries.len(), clients.len());
            assert!(deliveries.iter().all(|delivery| delivery.reply == b"$1\r\na\r\n"));
            assert_eq!(bench.shared.waiters.total(), 0);
            let count = bench.shared.waiters.look_count();
            assert!(count < 1000, "{count} clients were looked at");
        }
    }
}
