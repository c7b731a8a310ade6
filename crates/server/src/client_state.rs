//! What a connection has said so far that matters for its next request.

use std::sync::Arc;

use crate::acl::{self, Acl};
use crate::command::queue::Transaction;
use crate::databases::Database;
use crate::monitor::Monitor;
use crate::registry::{Client, Details};
use crate::resp::Protocol;
use crate::waiters::Ticket;

/// Whether replies are sent (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// As usual.
    #[default]
    On,
    /// None, until switched on again.
    Off,
    /// None for the next request.
    SkipNext,
    /// None for the request that is run, unless it switches them on.
    SkipThis,
}

/// The state of one connection that commands can see and change.
#[derive(Debug)]
pub struct ClientState {
    /// The entry of this connection among all connections.
    pub client: Arc<Client>,
    pub protocol: Protocol,
    /// True if no password is needed, or it was given.
    pub authenticated: bool,
    /// The user that it is, and what it may do.
    pub access: acl::Permissions,
    /// The database that is selected.
    pub database: Database,
    pub reply_mode: ReplyMode,
    /// Set to close the connection once its replies are sent.
    pub closing: bool,
    /// The last command, as its number in the table, subcommand included.
    pub last_command: usize,
    /// What is kept for the next `EXEC`.
    pub transaction: Transaction,
    /// Set while a command waits: nothing else is run.
    pub waiting: Option<Waiting>,
    /// Set once it is shown what others do.
    pub monitor: Option<Arc<Monitor>>,
}

/// A command that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// By which the waiters know it.
    pub ticket: Ticket,
    /// When it ends, in milliseconds since the server started.
    pub until_ms: Option<u64>,
    /// Its reply is not sent.
    pub is_silent: bool,
    /// Bytes that what it asks for and the command take.
    pub memory: usize,
}

/// The part of a session that commands within a transaction can change.
pub struct SessionState {
    protocol: Protocol,
    authenticated: bool,
    access: acl::Permissions,
    database: Database,
    reply_mode: ReplyMode,
    closing: bool,
    details: Details,
}

impl ClientState {
    pub fn new(client: Arc<Client>, acl: &Acl) -> Self {
        let (access, authenticated) = acl.arrive();
        client.change(|details| details.user = Some(Arc::clone(&access.user)));
        ClientState {
            client,
            protocol: Protocol::default(),
            authenticated,
            access,
            database: 0,
            reply_mode: ReplyMode::default(),
            closing: false,
            last_command: usize::MAX,
            transaction: Transaction::default(),
            waiting: None,
            monitor: None,
        }
    }

    /// True if a request needs none of the checks that depend on the connection's state, as of this generation of
    /// users.
    pub fn is_plain(&self, generation: u64) -> bool {
        self.authenticated
            && self.access.allows_all(generation)
            && self.reply_mode == ReplyMode::On
            && !self.transaction.is_open()
    }

    /// True if it needs no password, or gave it.
    pub fn is_let_in(&self, acl: &Acl) -> bool {
        self.authenticated || acl.is_open()
    }

    /// Makes it another user.
    pub fn become_user(&mut self, access: acl::Permissions) {
        self.client.change(|details| details.user = Some(Arc::clone(&access.user)));
        self.access = access;
        self.authenticated = true;
    }

    /// Selects a database, which must be there.
    pub fn select(&mut self, database: Database) {
        if self.database != database {
            self.database = database;
            self.client.change(|details| details.database = database);
        }
    }

    /// What a transaction that fails must leave as it was.
    pub fn state(&self) -> SessionState {
        SessionState {
            protocol: self.protocol,
            authenticated: self.authenticated,
            access: self.access.clone(),
            database: self.database,
            reply_mode: self.reply_mode,
            closing: self.closing,
            details: self.client.details(),
        }
    }

    /// Brings back what it was.
    pub fn restore(&mut self, state: SessionState) {
        self.protocol = state.protocol;
        self.authenticated = state.authenticated;
        self.access = state.access;
        self.database = state.database;
        self.reply_mode = state.reply_mode;
        self.closing = state.closing;
        self.client.change(|details| *details = state.details);
    }

    /// Back to the state of a new connection (`RESET`).
    pub fn reset(&mut self, acl: &Acl) {
        let is_skipped = self.reply_mode == ReplyMode::SkipThis;
        *self = ClientState::new(Arc::clone(&self.client), acl);
        if is_skipped {
            self.reply_mode = ReplyMode::SkipThis;
        }
        self.client.change(|details| {
            details.is_monitor = false;
            details.name = Arc::default();
            details.protocol = Protocol::default();
            details.no_evict = false;
            details.no_touch = false;
            details.database = 0;
        });
    }
}
