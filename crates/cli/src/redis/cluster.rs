//! The servers of a cluster, each of which is sent what makes the keys that it has.
//!
//! Thread safety: one owner. The requests for a key are a unit. Units for one server go together, and while it works
//! on them those for others are sent. A server may send a request elsewhere (`MOVED`: the slot is there from now
//! on; `ASK`: this key is, while the slot moves) or ask for time (`TRYAGAIN`, `CLUSTERDOWN`).
//!
//! (C1) If one request of a unit was not done, all of them are sent once more, in their order, before anything else of
//! the key: so a unit of several requests begins with one that makes the key anew (`DEL`, `SET`). That one request was
//! done where the slot was, and the next one sent elsewhere, changes nothing then.
//! (C2) What must not be done twice (`RPUSH` behind the first members) is a unit of its own: a request that was sent
//! elsewhere was not done.
//! (C3) A unit is sent elsewhere, and waits, a bounded number of times.
//! (C4) Replies of a server are read in the order of its units, and all of them before it is sent more.
//!
//! A connection that fails ends all: whether the last requests were done is not known, and a replica that takes over
//! need not have what its master had acknowledged.

use super::address::Address;
use super::client::{Client, Reply};
use super::layout::{Layout, Redirection};
use super::{connect, unusable};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes, and units, that are sent before their replies are read: few enough that neither side waits for the other to
/// read.
const WINDOW_SIZE: usize = 32 << 10;
const WINDOW_LENGTH: usize = 256;
/// How often a unit is sent elsewhere; and how often without a pause, as two servers that were not told of a move at
/// the same moment send it from one to the other.
const REDIRECTION_COUNT_MAX: u32 = 32;
const REDIRECTION_COUNT_QUICK: u32 = 4;
const PAUSE: Duration = Duration::from_millis(20);
/// How often, and how long each time, is waited for a cluster that asks for time: 30 s, in which a replica takes over.
const WAIT_COUNT_MAX: u32 = 150;
const WAIT: Duration = Duration::from_millis(200);

/// Requests for one key, in the form in which they are sent.
#[derive(Debug, Default)]
pub struct Unit {
    /// The key.
    pub key: Vec<u8>,
    /// The requests, of each one reply comes.
    pub requests: Vec<Vec<u8>>,
}

impl Unit {
    /// Bytes of the requests.
    pub fn size(&self) -> usize {
        self.requests.iter().map(Vec::len).sum()
    }
}

/// One server.
struct Node {
    client: Client,
    host: String,
    place: String,
    /// Units whose replies were not read.
    sent: Vec<Unit>,
    /// Units that are to be sent, and their bytes.
    waiting: Vec<Unit>,
    waiting_size: usize,
}

/// The servers.
pub struct Cluster {
    seed: Address,
    cacert: Option<PathBuf>,
    patience: Duration,
    layout: Layout,
    /// By the numbers of the layout.
    nodes: Vec<Node>,
    /// Units that are to be sent once more, and where.
    again: VecDeque<(Unit, Redirection)>,
    redirected: u64,
    waits_max: u32,
}

impl Cluster {
    /// Connects to all masters, of which any server of the cluster tells.
    ///
    /// # Errors
    /// One of them cannot be reached, or does not let us in; or the cluster is none, or down.
    pub fn connect(
        address: &Address,
        cacert: Option<&Path>,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let layout = Layout::ask(&mut connect(address, cacert, patience)?, address)?;
        let mut cluster = Cluster {
            seed: address.clone(),
            cacert: cacert.map(Path::to_path_buf),
            patience,
            layout,
            nodes: Vec::new(),
            again: VecDeque::new(),
            redirected: 0,
            waits_max: WAIT_COUNT_MAX,
        };
        cluster.connect_new()?;
        Ok(cluster)
    }

    /// Connects to the masters that the layout has and we have not.
    fn connect_new(&mut self) -> Result<(), Failure> {
        for (host, port) in &self.layout.masters()[self.nodes.len()..] {
            let address = self.seed.at(host, *port);
            let client = connect(&address, self.cacert.as_deref(), self.patience)?;
            self.nodes.push(Node {
                client,
                host: host.clone(),
                place: address.place(),
                sent: Vec::new(),
                waiting: Vec::new(),
                waiting_size: 0,
            });
        }
        Ok(())
    }

    /// How many masters there are, as far as they were met.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many units were sent to other servers than they were meant for.
    pub fn redirected(&self) -> u64 {
        self.redirected
    }

    /// How many keys all masters have.
    pub fn key_count(&mut self) -> Result<u64, Failure> {
        let mut sum = 0;
        for node in &mut self.nodes {
            let asked = node.client.ask(&[b"DBSIZE"]);
            match asked.map_err(|error| unusable(&node.place, &error))? {
                Reply::Number(count) => sum += u64::try_from(count).unwrap_or(0),
                Reply::Error(error) => return Err(node.refusal("DBSIZE", &error)),
                _ => return Err(node.refusal("DBSIZE", "with no number")),
            }
        }
        Ok(sum)
    }

    /// Sends a unit some time; no other is there, or follows, for its key.
    pub fn add(&mut self, unit: Unit) -> Result<(), Failure> {
        let number = self.layout.owner_of(&unit.key);
        let node = &mut self.nodes[number];
        node.waiting_size += unit.size();
        node.waiting.push(unit);
        if node.waiting_size < WINDOW_SIZE && node.waiting.len() < WINDOW_LENGTH {
            return Ok(());
        }
        self.collect(number)?;
        self.nodes[number].transmit()?;
        self.send_again()
    }

    /// Sends all that was added, and reads all replies.
    pub fn finish(&mut self) -> Result<(), Failure> {
        for number in 0..self.nodes.len() {
            self.collect(number)?;
            self.nodes[number].transmit()?;
        }
        for number in 0..self.nodes.len() {
            self.collect(number)?;
        }
        self.send_again()
    }

    /// Reads the replies to what a server was sent.
    fn collect(&mut self, number: usize) -> Result<(), Failure> {
        let node = &mut self.nodes[number];
        for unit in std::mem::take(&mut node.sent) {
            if let Some(redirection) = node.answer(&unit, false)? {
                self.again.push_back((unit, redirection));
            }
        }
        Ok(())
    }

    fn send_again(&mut self) -> Result<(), Failure> {
        while let Some((unit, redirection)) = self.again.pop_front() {
            self.follow(&unit, Some(redirection))?;
        }
        Ok(())
    }

    /// Sends a unit at once, and returns when it is done: others of the same key may follow.
    pub fn send(&mut self, unit: &Unit) -> Result<(), Failure> {
        self.follow(unit, None)?;
        self.send_again()
    }

    /// Sends a unit to wherever it is sent on to, until it is done: at first to what has answered it, if it was sent.
    fn follow(&mut self, unit: &Unit, mut answer: Option<Redirection>) -> Result<(), Failure> {
        let (mut number, mut is_asking) = (self.layout.owner_of(&unit.key), false);
        let (mut redirections, mut waits) = (0, 0);
        loop {
            match answer {
                None => {}
                Some(Redirection::Later) => {
                    waits += 1;
                    (number, is_asking) = (self.layout.owner_of(&unit.key), false);
                    if waits == self.waits_max {
                        return Err(self.lost(unit, number, true));
                    }
                    std::thread::sleep(WAIT);
                }
                Some(Redirection::Moved(host, port)) => {
                    redirections += 1;
                    (number, is_asking) = (self.layout.index_of(&host, port), false);
                    self.layout.give(&unit.key, number);
                }
                Some(Redirection::Ask(host, port)) => {
                    redirections += 1;
                    (number, is_asking) = (self.layout.index_of(&host, port), true);
                }
            }
            self.connect_new()?;
            if redirections > REDIRECTION_COUNT_MAX {
                return Err(self.lost(unit, number, false));
            }
            if redirections > REDIRECTION_COUNT_QUICK {
                std::thread::sleep(PAUSE);
            }
            self.collect(number)?;
            answer = self.nodes[number].exchange(unit, is_asking)?;
            if answer.is_none() {
                self.redirected += u64::from(redirections > 0);
                return Ok(());
            }
        }
    }

    fn lost(&self, unit: &Unit, number: usize, is_down: bool) -> Failure {
        let what = match is_down {
            true => "the cluster is down (TRYAGAIN or CLUSTERDOWN again and again)",
            false => "servers redirect it to each other without end",
        };
        let (place, key) = (&self.nodes[number].place, shown(&unit.key));
        Failure::new(ExitCode::Io, format!("no server accepts the key {key}: {what}, last {place}"))
    }
}

impl Node {
    /// Sends what waits.
    fn transmit(&mut self) -> Result<(), Failure> {
        self.sent = std::mem::take(&mut self.waiting);
        self.waiting_size = 0;
        let requests = self.sent.iter().flat_map(|unit| &unit.requests);
        requests.for_each(|request| self.client.add_encoded(request));
        self.client.send().map_err(|error| unusable(&self.place, &error))
    }

    /// Sends a unit and reads what comes.
    fn exchange(&mut self, unit: &Unit, is_asking: bool) -> Result<Option<Redirection>, Failure> {
        for request in &unit.requests {
            if is_asking {
                self.client.add(&[b"ASKING"]);
            }
            self.client.add_encoded(request);
        }
        self.client.send().map_err(|error| unusable(&self.place, &error))?;
        self.answer(unit, is_asking)
    }

    /// Reads the replies to a unit: where it is to be sent, unless it was done.
    fn answer(&mut self, unit: &Unit, is_asking: bool) -> Result<Option<Redirection>, Failure> {
        let (mut elsewhere, mut refused) = (None, None);
        for _ in 0..unit.requests.len() * (1 + usize::from(is_asking)) {
            let reply = self.client.reply().map_err(|error| unusable(&self.place, &error))?;
            let Reply::Error(error) = reply else { continue };
            match Redirection::of(&error, &self.host) {
                Ok(Some(redirection)) => elsewhere = elsewhere.or(Some(redirection)),
                Ok(None) => refused = refused.or(Some(error)),
                Err(()) => return Err(self.refusal(&shown(&unit.key), &error)),
            }
        }
        match (&elsewhere, refused) {
            // It may be refused only because what is before it was not done here.
            (None, Some(error)) => Err(self.refusal(&shown(&unit.key), &error)),
            _ => Ok(elsewhere),
        }
    }

    fn refusal(&self, what: &str, error: &str) -> Failure {
        Failure::new(ExitCode::Io, format!("{} refuses {what}: {error}", self.place))
    }
}

fn shown(key: &[u8]) -> String {
    const SIZE_MAX: usize = 100;
    format!("\"{}\"", key[..key.len().min(SIZE_MAX)].escape_ascii())
}

#[cfg(test)]
mod tests;
