//! What a connection keeps between `MULTI` and `EXEC`.

use super::facts::Command;
use super::watched::{self, SharedWatched};
use crate::databases::Database;
use crate::failure::Failure;
use crate::resp::KeptRequests;

/// What a connection keeps for its next `EXEC`.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The commands since `MULTI`; `None` outside of a transaction.
    pub queue: Option<Queue>,
    /// `None` if it watches nothing.
    pub watched: Option<SharedWatched>,
}

/// The commands since `MULTI`.
#[derive(Debug, Default)]
pub struct Queue {
    /// The database that was selected at `MULTI`.
    pub database: Database,
    /// With the command's index in the table.
    pub requests: KeptRequests,
    /// Whether one of them is `SWAPDB`.
    pub exchanges: bool,
    /// Whether one of them was refused: then `EXEC` does nothing.
    pub refused: bool,
}

impl Queue {
    /// Makes `EXEC` do nothing.
    pub fn refuse(&mut self) {
        *self = Queue { refused: true, ..Queue::default() };
    }
}

impl Transaction {
    /// Notes that a command was refused, if one is open.
    pub fn refuse(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.refuse();
        }
    }

    /// Whether a command is refused because one is open.
    pub fn refuses(&self, command: &Command) -> bool {
        command.is_refused_in_multi() && self.is_open()
    }

    /// Notes that a command may not be run by its user; with `EXEC` itself the transaction ends.
    pub fn refuse_permission(&mut self, command: &Command, text: String) -> Failure {
        if command.name != "exec" {
            self.refuse();
            return Failure::text(text);
        }
        *self = Transaction::default();
        Failure::text(format!("EXECABORT Transaction discarded because of: {text}"))
    }

    /// Notes that a command had the wrong number of arguments; with `EXEC` itself the transaction ends.
    pub fn refuse_arity(&mut self, command: &Command) -> Failure {
        if command.name != "exec" {
            self.refuse();
            return Failure::WrongArity(command.name);
        }
        *self = Transaction::default();
        Failure::text(
            "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
        )
    }

    /// Whether commands are being kept.
    pub fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    /// How many commands are kept; `None` if there is no transaction.
    pub fn queued(&self) -> Option<usize> {
        self.queue.as_ref().map(|queue| queue.requests.len())
    }

    /// Bytes that it makes the server hold.
    pub fn memory(&self) -> usize {
        let queue = self.queue.as_ref().map_or(0, |queue| queue.requests.memory());
        let watched = self.watched.as_ref().map_or(0, |watched| watched::lock(watched).size());
        queue + watched
    }

    /// Whether `EXEC` exchanges databases, and so must be run while nobody else runs a command.
    pub fn exchanges(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.exchanges)
    }
}
