//! One connection: bytes in, requests run, bytes out.
//!
//! ```text
//!   socket -> scratch.input -> requests -> scratch.replies -> socket
//!                 |                              |
//!             leftover (an unfinished            output (what the socket did not
//!             request; usually empty)            take; usually empty)
//! ```
//!
//! Bytes are read into a buffer that belongs to the event loop, and replies are written into
//! another one, so an idle connection holds no buffers, and the buffers in use stay in the cache.
//! The replies of connections that are ready at the same time stand there one behind the other
//! until all of these connections are served; sending the first at once would wake its reader only
//! to fight with us for the processor.
//! What is left of an unfinished request waits in `leftover` and is put in front of the next read.
//! So does what comes behind a command that waits, up to a limit (`waiting.rs`).
//! A request that is too long for that is received into `leftover` itself, which at most doubles, so
//! that it grows with what arrives and not with what is claimed; it ends exactly where the request
//! ends, and is handed to the store as it is. What a connection holds is counted, and limited for all
//! of them together (`client_memory.rs`).
//!
//! Invariants: a connection with more than `output_pause_size` unsent bytes runs no request (I1);
//! `readable` is true unless the last read found the socket empty, because events come once per
//! change (I2); `output_total` of the server counts exactly the bytes in `output` (I3); no reply leaves before the
//! writes that it tells of are durable, and if they never will be, an error goes in its place, and the connection is
//! closed behind it (I4).

mod input;
mod memory;
mod output;
mod together;
mod waiting;

pub use self::together::run_gathered;

use std::io;

use mio::event::Event;

use crate::batch::Batch;
use crate::client_state::{ClientState, ReplyMode};
use crate::command::queue::Transaction;
use crate::gathered::Gathered;
use crate::registry::Client;
use crate::resp::Parser;
use crate::scratch::{Scratch, Turn, TurnReplies};
use crate::shared::Shared;
use crate::slice::Slice;
use crate::socket::Socket;
use crate::statistics::Tally;
use crate::waiters::Ticket;

/// Buffer capacity that a connection may keep for unfinished requests, needed or not.
const LEFTOVER_SIZE_KEPT: usize = 4 << 10;
/// Reads of one connection before the others have their turn.
const ROUND_COUNT_MAX: usize = 8;

/// A connection without a byte for so long, in milliseconds, has no replies on their way.
const SILENCE_MS: u64 = 1_000;

/// What a connection wants after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// To be served at its next event. Replies that it deferred are sent at the end of the turn.
    Wait,
    /// To be served again soon, without an event.
    More,
    /// To be served again soon, and to be closed after a while if its peer does not do so before.
    Linger,
    /// To be closed.
    Close,
}

/// The connection failed: its peer is gone, or it exceeded a limit.
struct Broken;

/// One connection.
pub struct Connection {
    socket: Socket,
    session: ClientState,
    parser: Parser,
    leftover: Vec<u8>,
    /// How much of `leftover` was run; nothing of it unless `backlog` is true.
    run_size: usize,
    /// True if `leftover` may hold complete requests, which wait for the client to read (I1), for a
    /// command before them, or for the next turn.
    backlog: bool,
    output: Vec<u8>,
    /// How much of `output` is sent.
    sent: usize,
    /// How much of `output` tells of nothing that is not durable (I4).
    durable: usize,
    /// Its place in its event loop.
    place: usize,
    /// The last turn in which it left replies to the end of the turn: until then it is not served
    /// again, because later replies would overtake them.
    deferred: Option<Turn>,
    /// How much of `output` is counted in the server's total (I3).
    counted: usize,
    readable: bool,
    /// The peer closed its side; the end of the stream is near.
    hung_up: bool,
    /// The end of the stream was read.
    ended: bool,
    /// All that is due was sent, and that nothing more will come was told.
    finished: bool,
    /// Set when the server stops: what was received so far is everything that is answered.
    stopping: Option<Leave>,
    /// The ticket with which the event loop knows that this connection waits.
    blocked: Option<Ticket>,
    /// Whether the event loop knows that it is shown what others do.
    is_known_monitor: bool,
}

/// How a connection ends when the server stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    /// Its peer was silent: it is closed as soon as nothing is due.
    AtOnce,
    /// Its peer may be sending, and have replies on their way: it is closed when the peer has closed
    /// its side.
    AfterPeer,
}

impl Connection {
    pub fn new(socket: Socket, session: ClientState, place: usize) -> Self {
        session.client.gauges.set_socket(socket.descriptor(), socket.is_unix());
        Connection {
            socket,
            session,
            parser: Parser::default(),
            leftover: Vec::new(),
            run_size: 0,
            backlog: false,
            output: Vec::new(),
            sent: 0,
            durable: 0,
            place,
            deferred: None,
            counted: 0,
            readable: true,
            hung_up: false,
            ended: false,
            finished: false,
            stopping: None,
            blocked: None,
            is_known_monitor: false,
        }
    }

    /// The entry of this connection among all connections.
    pub fn client(&self) -> &Client {
        &self.session.client
    }

    /// Takes note of what the kernel said.
    pub fn notice(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.hung_up |= event.is_read_closed() || event.is_error();
    }

    /// Treats what was received so far as everything that will come.
    pub fn stop_reading(&mut self, now_ms: u64) {
        let is_silent = now_ms.saturating_sub(self.client().last_active_ms()) >= SILENCE_MS;
        let holds = self.readable || self.backlog || !self.leftover.is_empty() || self.unsent() > 0;
        let leave = if is_silent && !holds { Leave::AtOnce } else { Leave::AfterPeer };
        self.stopping = Some(leave);
    }

    /// Closes the socket and forgets the client.
    pub fn close(mut self, shared: &Shared) {
        self.output.clear();
        (self.sent, self.durable) = (0, 0);
        self.count_output(shared);
        self.socket.finish();
        if let Some(waiting) = self.session.waiting.take() {
            shared.waiters.remove(waiting.ticket);
        }
        shared.registry.remove(self.client().id);
        shared.scans.leave(self.client().id);
        shared.client_memory.forget(self.client());
        tracing::debug!("client {} disconnected", self.client().id);
    }

    /// Does everything that can be done now.
    pub fn serve(
        &mut self,
        scratch: &mut Scratch,
        shared: &Shared,
        tally: &mut Tally,
        now_ms: u64,
    ) -> Fate {
        let before = tally.bytes_in + tally.bytes_out;
        let mut fate = self.rounds(scratch, shared, tally).unwrap_or(Fate::Close);
        self.count_memory(shared);
        if self.client().is_killed() {
            fate = Fate::Close;
        }
        if tally.bytes_in + tally.bytes_out > before {
            self.client().set_last_active(now_ms);
            self.client().set_last_command(self.session.last_command);
        }
        fate
    }

    /// Whether it is shown what others do.
    pub fn is_monitor(&self) -> bool {
        self.session.monitor.is_some()
    }

    /// Whether it began to be shown what others do since the last call.
    pub fn has_begun_to_monitor(&mut self) -> bool {
        let is_monitor = self.session.monitor.is_some();
        is_monitor && !std::mem::replace(&mut self.is_known_monitor, is_monitor)
    }

    /// Takes what it is shown of others; the connection must be served. Returns whether it is shown anything any more.
    /// It counts as durable, though what others have written may not be: no reply tells of that yet (I4).
    pub fn take_shown(&mut self, shared: &Shared) -> bool {
        let Some(monitor) = &self.session.monitor else {
            self.is_known_monitor = false;
            return false;
        };
        let lines = monitor.take();
        if self.session.reply_mode != ReplyMode::Off {
            self.push_durable(&lines, shared);
        }
        true
    }

    /// Sends replies that it left to the end of a turn.
    pub fn send_deferred(&mut self, replies: &[u8], shared: &Shared, tally: &mut Tally) -> Fate {
        let result = self.send_part(replies, shared, tally);
        self.count_memory(shared);
        self.fate_after(result)
    }

    /// What it wants after replies were sent at the end of a turn, or could not be.
    fn fate_after(&self, result: Result<(), Broken>) -> Fate {
        match result {
            // Something arrived while the replies waited.
            Ok(()) if self.has_work() => Fate::More,
            Ok(()) => Fate::Wait,
            Err(Broken) => Fate::Close,
        }
    }

    /// Whether it has to be served again, event or not.
    fn has_work(&self) -> bool {
        if self.session.waiting.is_some() {
            return self.is_leaving() || self.reads_on();
        }
        self.readable
            || self.backlog
            || self.session.closing
            || self.ended
            || self.stopping.is_some()
    }

    fn rounds(
        &mut self,
        scratch: &mut Scratch,
        shared: &Shared,
        tally: &mut Tally,
    ) -> Result<Fate, Broken> {
        let mut slice = Slice::default();
        for round in 0..ROUND_COUNT_MAX {
            if self.deferred.is_some_and(|turn| scratch.replies.is_in(turn)) {
                return Ok(Fate::Wait);
            }
            if self.client().is_killed() {
                return Ok(Fate::Close);
            }
            if self.unsent() > 0 {
                self.send_output(shared, tally)?;
            }
            if self.session.waiting.is_some() {
                if self.reads_on() && !self.is_leaving() {
                    self.read_on(&mut scratch.input, tally)?;
                    continue;
                }
                if !self.is_leaving() || !self.leave(shared) {
                    return Ok(Fate::Wait);
                }
            }
            if self.session.closing {
                return if self.unsent() == 0 {
                    self.finish(scratch, tally)
                } else {
                    Ok(Fate::Wait)
                };
            }
            if self.unsent() > shared.config.output_pause_size {
                return Ok(Fate::Wait);
            }
            let has_more = self.backlog || self.readable && self.stopping.is_none();
            if has_more && round > 0 && slice.is_over() {
                return Ok(Fate::More);
            }
            if self.backlog {
                self.run_backlog(scratch, &mut slice, shared, tally)?;
            } else if let Some(leave) = self.stopping {
                return match leave {
                    _ if self.unsent() > 0 => Ok(Fate::Wait),
                    Leave::AtOnce => Ok(Fate::Close),
                    Leave::AfterPeer => {
                        self.session.closing = true;
                        self.readable = !self.ended;
                        self.finish(scratch, tally)
                    }
                };
            } else if self.readable {
                self.receive(scratch, &mut slice, shared, tally)?;
            } else {
                return Ok(if self.ended && self.unsent() == 0 { Fate::Close } else { Fate::Wait });
            }
        }
        Ok(Fate::More)
    }

    /// Tells the peer that nothing more will come, and throws away what it still sends, until it ends
    /// its half. With bytes unread, closing would reset the connection, and replies that are still
    /// on their way would be lost.
    fn finish(&mut self, scratch: &mut Scratch, tally: &mut Tally) -> Result<Fate, Broken> {
        if !self.finished {
            self.finished = true;
            self.socket.finish();
            self.forget_input();
            self.session.transaction = Transaction::default();
            return Ok(Fate::Linger);
        }
        for _ in 0..ROUND_COUNT_MAX {
            if !self.readable {
                return Ok(if self.ended { Fate::Close } else { Fate::Wait });
            }
            self.read_into(&mut scratch.input, tally)?;
        }
        Ok(Fate::More)
    }

    /// Runs the complete requests in `bytes`. Their replies are sent with one write: at the end of
    /// the turn if this connection has nothing more to do now, else at once. One that is all there is
    /// may be left to be done then, too (`gathered.rs`). Returns the number of bytes that are done with.
    fn run(
        &mut self,
        bytes: &[u8],
        slice: &mut Slice,
        replies: &mut TurnReplies,
        gathered: &mut Gathered,
        shared: &Shared,
        tally: &mut Tally,
    ) -> Result<usize, Broken> {
        let manner = (self.session.database, self.session.protocol);
        let use_draft = self.output.is_empty();
        // With more to do now it would be served again before that is done (G2). A server that stops has more to do.
        let can_gather = use_draft && gathered.takes(bytes.len(), manner) && !self.has_work();
        let turn = replies.turn();
        let mut draft = replies.draft();
        let (out, unsent_start) =
            if use_draft { draft.buffer() } else { (&mut self.output, self.sent) };
        let loop_index = self.session.client.loop_index;
        let batch = Batch {
            parser: &mut self.parser,
            session: &mut self.session,
            shared,
            tally,
            pause_size: unsent_start + shared.config.output_pause_size,
            out,
            slice,
            can_gather,
            entered: Some(shared.exclusion.enter(loop_index)),
        };
        let end = batch.run(bytes);
        self.backlog = end.is_paused;
        if let Some(command) = end.gathered {
            gathered.add(self.place, command, &self.parser.request(bytes), manner);
            self.deferred = Some(turn);
            return Ok(end.consumed);
        }
        let has_reply =
            if use_draft { !draft.bytes().is_empty() } else { self.durable < self.output.len() };
        if use_draft {
            self.send_draft(draft, shared, tally)?;
        } else {
            drop(draft);
            self.send_output(shared, tally)?;
        }
        if !has_reply && end.consumed > 0 {
            replies.note_unanswered(self.place);
        }
        Ok(end.consumed)
    }

    /// Bytes that are to be sent; of those that a session keeps it counts one.
    fn unsent(&self) -> usize {
        self.output.len() - self.sent + usize::from(self.socket.has_unsent())
    }

    /// Whether its peer must still show that it speaks TLS.
    pub fn is_handshaking(&self) -> bool {
        self.socket.is_handshaking()
    }

    fn lost(&self, error: &io::Error) -> Broken {
        tracing::debug!("client {} is gone: {error}", self.client().id);
        Broken
    }
}
