//! One connection: what it has to ask, what it waits for, and whether the answers are right.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::ops::Range;

use mio::net::TcpStream;

use super::phase::Phase;
use super::protocol::{self, Reply};
use super::server::Server;
use crate::error::BenchError;
use crate::keys::{BytesKeys, KeyList};
use crate::stream::{Step, Stream};
use crate::target::Values;
use crate::workload::{Action, Workload};

/// Bytes that are read at once.
const CHUNK_SIZE: usize = 64 << 10;

/// What a reply must be.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// The value of the key.
    Value,
    /// No value.
    Nothing,
    /// `OK`.
    Stored,
    /// 1.
    Removed,
    /// The values of a batch.
    Batch,
    /// Pairs, up to so many.
    Pairs(u32),
}

impl Expected {
    /// The command that is answered.
    fn command(self) -> &'static str {
        match self {
            Expected::Value | Expected::Nothing => "GET",
            Expected::Stored => "SET",
            Expected::Removed => "DEL",
            Expected::Batch => "MGET",
            Expected::Pairs(_) => "RANGE",
        }
    }
}

/// A request that is not answered yet.
struct Waiting {
    call: usize,
    /// When it was sent, or due: nanoseconds from the start.
    since_ns: u64,
    expected: Expected,
    /// Whether its reply is the last of the call.
    is_last: bool,
}

/// One connection to the server.
pub(super) struct Connection<'s> {
    server: &'s Server,
    stream: &'s Stream<BytesKeys>,
    pub socket: TcpStream,
    values: Values,
    /// Calls that are not sent yet.
    pub calls: Range<usize>,
    /// Calls that are not answered yet.
    pub in_flight: usize,
    waiting: VecDeque<Waiting>,
    output: Vec<u8>,
    /// Bytes of the output that are sent.
    sent: usize,
    input: Vec<u8>,
    /// What the calls had to show for themselves: calls, or keys of batches and scans.
    pub effects: u64,
    pub samples: Vec<u64>,
}

impl<'s> Connection<'s> {
    pub fn new(
        server: &'s Server,
        stream: &'s Stream<BytesKeys>,
        value_size: usize,
    ) -> Result<Self, BenchError> {
        let socket = super::control::connect(server)?;
        socket.set_nonblocking(true).map_err(|error| server.lost(error))?;
        Ok(Connection {
            server,
            stream,
            socket: TcpStream::from_std(socket),
            values: Values::new(value_size),
            calls: 0..0,
            in_flight: 0,
            waiting: VecDeque::new(),
            output: Vec::new(),
            sent: 0,
            input: Vec::new(),
            effects: 0,
            samples: Vec::new(),
        })
    }

    /// Whether everything is asked and answered.
    pub fn is_done(&self) -> bool {
        self.calls.is_empty() && self.in_flight == 0
    }

    /// When the next call is due, in nanoseconds; `None` if there is none, or no schedule.
    pub fn next_due_ns(&self) -> Option<u64> {
        let position = self.calls.start.checked_sub(self.stream.warm_up)?;
        self.stream.due.get(position).copied().filter(|_| !self.calls.is_empty())
    }

    /// Asks the next call, which counts as asked at this time.
    pub fn ask(&mut self, phase: &Phase, since_ns: u64) {
        let call = self.calls.start;
        self.calls.start += 1;
        let settings = phase.settings;
        let step = self.stream.steps.get(call).copied();
        let action = match phase.workload {
            Workload::GetMany => return self.ask_batch(call, settings.batch, since_ns),
            Workload::Scan => Action::Scan,
            Workload::Get | Workload::GetAbsent => Action::Get,
            Workload::Remove if !phase.is_putting_back => Action::Remove,
            _ if phase.is_putting_back => match step {
                Some(Step { action: Action::Remove, .. }) | None => Action::Put,
                Some(_) => return,
            },
            _ => step.map_or(Action::Put, |step| step.action),
        };
        let length = step.map_or(settings.scan_length, |step| step.length);
        let stream = self.stream;
        let key = stream.keys.key(call);
        let mut waiting = Waiting { call, since_ns, expected: Expected::Value, is_last: true };
        match action {
            Action::Get if phase.workload == Workload::GetAbsent => {
                waiting.expected = Expected::Nothing;
                protocol::encode(&[b"GET", key], &mut self.output);
            }
            Action::Get => protocol::encode(&[b"GET", key], &mut self.output),
            Action::Remove => {
                waiting.expected = Expected::Removed;
                protocol::encode(&[b"DEL", key], &mut self.output);
            }
            Action::Scan => {
                waiting.expected = Expected::Pairs(length);
                let from = [b"[", key].concat();
                let limit = length.to_string();
                let words: [&[u8]; 6] =
                    [b"RANGE", &from, b"+", b"LIMIT", limit.as_bytes(), b"WITHVALUES"];
                protocol::encode(&words, &mut self.output);
            }
            Action::Update | Action::Put | Action::Insert | Action::ReadModifyWrite => {
                if action == Action::ReadModifyWrite {
                    protocol::encode(&[b"GET", key], &mut self.output);
                    self.waiting.push_back(Waiting { is_last: false, ..waiting });
                }
                waiting.expected = Expected::Stored;
                let value = self.values.fill(key, call as u64);
                protocol::encode(&[b"SET", key, value], &mut self.output);
            }
        }
        self.waiting.push_back(waiting);
        self.in_flight += 1;
    }

    fn ask_batch(&mut self, call: usize, batch: usize, since_ns: u64) {
        let stream = self.stream;
        let mut words: Vec<&[u8]> = vec![b"MGET"];
        words.extend((call * batch..(call + 1) * batch).map(|at| stream.keys.key(at)));
        protocol::encode(&words, &mut self.output);
        let expected = Expected::Batch;
        self.waiting.push_back(Waiting { call, since_ns, expected, is_last: true });
        self.in_flight += 1;
    }

    /// Sends as much as the system takes.
    pub fn send(&mut self) -> Result<(), BenchError> {
        while self.sent < self.output.len() {
            match self.socket.write(&self.output[self.sent..]) {
                Ok(0) => return Err(self.server.lost(ErrorKind::WriteZero.into())),
                Ok(size) => self.sent += size,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.server.lost(error)),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Receives what is there and checks the replies that are complete. `now_ns` tells the time.
    pub fn receive(&mut self, phase: &Phase, now_ns: impl Fn() -> u64) -> Result<(), BenchError> {
        loop {
            let end = self.input.len();
            self.input.resize(end + CHUNK_SIZE, 0);
            let read = self.socket.read(&mut self.input[end..]);
            self.input.truncate(end + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(self.server.lost(ErrorKind::UnexpectedEof.into())),
                Ok(_) => self.take_replies(phase, now_ns())?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.server.lost(error)),
            }
        }
    }

    fn take_replies(&mut self, phase: &Phase, now_ns: u64) -> Result<(), BenchError> {
        let input = std::mem::take(&mut self.input);
        let mut at = 0;
        while let Some(waiting) = self.waiting.front() {
            let command = waiting.expected.command();
            let parsed = protocol::parse(&input[at..]);
            let parsed = parsed.map_err(|text| self.server.says(command, &text))?;
            let Some((reply, size)) = parsed else { break };
            at += size;
            let effects = self.check(phase, waiting, &reply)?;
            let (since_ns, is_last) = (waiting.since_ns, waiting.is_last);
            self.waiting.pop_front();
            if is_last {
                self.in_flight -= 1;
                self.effects += effects;
                self.samples.push(now_ns.saturating_sub(since_ns));
            }
        }
        self.input = input;
        self.input.drain(..at);
        Ok(())
    }

    /// What a reply is worth, or why it is wrong.
    fn check(
        &self,
        phase: &Phase,
        waiting: &Waiting,
        reply: &Reply<'_>,
    ) -> Result<u64, BenchError> {
        let keys = &self.stream.keys;
        let command = waiting.expected.command();
        let is_right =
            |key: &[u8], value: &[u8]| Values::verdict(self.values.is_right(key, value), key, 1);
        match (waiting.expected, reply) {
            (_, Reply::Error(text)) => Err(self.server.refuses(command, text)),
            (Expected::Value, Reply::Bulk(value)) => is_right(keys.key(waiting.call), value),
            (Expected::Value, Reply::Nil) => Err(self.server.misses(keys.key(waiting.call))),
            (Expected::Nothing, Reply::Nil) => Ok(1),
            (Expected::Stored, Reply::Simple(b"OK")) => Ok(1),
            (Expected::Removed, Reply::Integer(1)) => Ok(1),
            (Expected::Removed, Reply::Integer(0)) => {
                Err(self.server.misses(keys.key(waiting.call)))
            }
            (Expected::Batch, Reply::Array(replies)) => {
                let batch = phase.settings.batch;
                for (index, reply) in replies.iter().enumerate() {
                    let key = keys.key(waiting.call * batch + index);
                    match reply {
                        Reply::Bulk(value) => _ = is_right(key, value)?,
                        _ => return Err(self.server.misses(key)),
                    }
                }
                Ok(replies.len() as u64)
            }
            (Expected::Pairs(most), Reply::Array(replies)) => {
                for pair in replies.chunks_exact(2) {
                    if let [Reply::Bulk(key), Reply::Bulk(value)] = pair {
                        is_right(key, value)?;
                    }
                }
                let count = replies.len() as u64 / 2;
                match count {
                    _ if count > u64::from(most) => Err(self.server.says(command, "too much")),
                    0 => Err(self.server.misses(keys.key(waiting.call))),
                    // A scan counts by its keys, unless it is one operation of a mix.
                    _ => Ok(if phase.workload == Workload::Scan { count } else { 1 }),
                }
            }
            (_, reply) => Err(self.server.says(command, &format!("{reply:?}"))),
        }
    }
}
