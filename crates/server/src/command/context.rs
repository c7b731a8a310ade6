//! What a command works with.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::keys::Keys;
use crate::client_state::ClientState;
use crate::failure::CommandResult;
use crate::registry::Client;
use crate::resp::{Reply, Request};
use crate::shared::Shared;
use crate::statistics::Tally;
use crate::tls::{ReadAhead, TlsFiles};

/// What runs a command.
pub type Run = fn(&mut Context<'_>, &Request<'_>) -> CommandResult;

/// What a command works with.
pub struct Context<'a> {
    pub shared: &'a Shared,
    pub session: &'a mut ClientState,
    pub tally: &'a mut Tally,
    pub reply: Reply<'a>,
    /// What it reads and writes.
    pub keys: Keys<'a>,
    /// Within a transaction: what is to be done once it is written.
    pub later: Option<&'a mut Later>,
}

type Act = Box<dyn FnOnce(&Shared)>;

/// What a transaction does besides reading and writing keys.
#[derive(Default)]
pub struct Later {
    acts: Vec<Act>,
    /// The clients that it closes, by their ids: each once, however many of its commands name it.
    killed: BTreeMap<u64, Arc<Client>>,
    /// The files of TLS as they will be, if it changes them: what changes them once more begins with these.
    pub tls_files: Option<TlsFiles>,
    /// The files of TLS that its commands name.
    pub ahead: ReadAhead,
}

impl Later {
    /// Nothing is to be done yet.
    pub fn new(ahead: ReadAhead) -> Self {
        Later { ahead, ..Later::default() }
    }

    /// Nothing is to be done any more.
    pub fn restart(&mut self) {
        *self = Later::new(std::mem::take(&mut self.ahead));
    }

    /// Does all of it.
    pub fn perform(self, shared: &Shared) {
        self.acts.into_iter().for_each(|act| act(shared));
        self.killed.values().for_each(|client| kill(shared, client));
    }
}

/// Closes another client.
fn kill(shared: &Shared, client: &Client) {
    client.kill();
    shared.control.wake(client.loop_index);
}

impl Context<'_> {
    /// Closes another client: within a transaction when that is written, otherwise at once.
    pub fn kill(&mut self, client: Arc<Client>) {
        match &mut self.later {
            Some(later) => drop(later.killed.insert(client.id, client)),
            None => kill(self.shared, &client),
        }
    }

    /// Whether a client is closed, or will be when the transaction is written.
    pub fn is_killed(&self, client: &Client) -> bool {
        let is_later = |later: &&mut Later| later.killed.contains_key(&client.id);
        client.is_killed() || self.later.as_ref().is_some_and(is_later)
    }

    /// Does what is more than reading and writing keys: within a transaction when that is written,
    /// otherwise at once.
    pub fn act(&mut self, act: impl FnOnce(&Shared) + 'static) {
        match &mut self.later {
            Some(later) => later.acts.push(Box::new(act)),
            None => act(self.shared),
        }
    }
}
