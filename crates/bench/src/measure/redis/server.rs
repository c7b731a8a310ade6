//! The server to measure, and what is said of it when it does not do as it must.

use std::io;

use crate::error::BenchError;

/// The server to measure, and how to talk to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Host and port, such as `localhost:6379`.
    pub address: String,
    /// The password of the default user, if it has one.
    pub password: Option<String>,
    /// Connections, 1 to 10,000; shared out among the client threads of each case.
    pub connections: usize,
    /// Requests in flight on each connection in a closed loop, 1 to 10,000.
    pub depth: usize,
    /// Whether the keys are loaded first; if not, they are there from an earlier run.
    pub is_loading: bool,
}

impl Server {
    pub(super) fn lost(&self, error: io::Error) -> BenchError {
        BenchError::Io(format!("the connection to the server at {} failed", self.address), error)
    }

    pub(super) fn refuses(&self, command: &str, text: &[u8]) -> BenchError {
        let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
        let text: String = String::from_utf8_lossy(text).chars().map(shown).collect();
        BenchError::Target(format!(
            "the server at {} answers {command} by \"{text}\"",
            self.address
        ))
    }

    pub(super) fn says(&self, command: &str, text: &str) -> BenchError {
        BenchError::Target(format!("the server at {} answers {command} by {text}", self.address))
    }

    pub(super) fn misses(&self, key: &[u8]) -> BenchError {
        let key = key.escape_ascii();
        BenchError::Wrong(format!(
            "the server at {} does not have the key \"{key}\", which was loaded: does it evict \
             keys, or does somebody else use it?",
            self.address
        ))
    }
}
