//! What a command works with.

use super::keys::Keys;
use crate::client_state::ClientState;
use crate::failure::CommandResult;
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
    }
}

impl Context<'_> {
    /// Does what is more than reading and writing keys: within a transaction when that is written,
    /// otherwise at once.
    pub fn act(&mut self, act: impl FnOnce(&Shared) + 'static) {
        match &mut self.later {
            Some(later) => later.acts.push(Box::new(act)),
            None => act(self.shared),
        }
    }
}
