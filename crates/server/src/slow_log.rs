//! The commands that took long: the last of them, cut so that an entry takes a few KiB at most.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::registry::{Client, shortened};
use crate::resp::Request;
use crate::secrets::{HIDDEN, hidden};

/// Arguments of a command that are kept, and bytes of each.
const ARG_COUNT_MAX: usize = 32;
const ARG_SIZE_MAX: usize = 128;
/// Bytes that are kept of a client's name.
const NAME_SIZE_MAX: usize = 128;

/// A command that took long.
#[derive(Clone, Debug)]
pub struct SlowCommand {
    pub id: u64,
    /// Seconds since 1970.
    pub ended_s: u64,
    pub duration: Duration,
    pub args: Vec<Vec<u8>>,
    /// Address of the client, and what it called itself.
    pub peer: String,
    pub name: String,
}

/// The last slow commands, the newest first.
#[derive(Debug, Default)]
pub struct SlowLog {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    entries: VecDeque<SlowCommand>,
}

impl SlowLog {
    /// How many there were.
    pub fn total(&self) -> u64 {
        self.state().next_id
    }

    /// Adds a command, and forgets the oldest beyond `count_max`.
    pub fn add(
        &self,
        request: &Request<'_>,
        client: &Client,
        duration: Duration,
        count_max: usize,
    ) {
        // A clock before 1970 has not been set yet.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (args, name) = (cut(request), shortened(&client.details().name, NAME_SIZE_MAX));
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        state.entries.push_front(SlowCommand {
            id,
            ended_s: now.as_secs(),
            duration,
            args,
            peer: client.peer.clone(),
            name,
        });
        state.entries.truncate(count_max);
    }

    /// So many of the newest.
    pub fn newest(&self, count: usize) -> Vec<SlowCommand> {
        self.state().entries.iter().take(count).cloned().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.state().entries.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The arguments, cut as clients know it.
fn cut(request: &Request<'_>) -> Vec<Vec<u8>> {
    let count = request.len();
    let kept = if count > ARG_COUNT_MAX { ARG_COUNT_MAX - 1 } else { count };
    let shown: Vec<&[u8]> = request.args_from(0).take(kept).collect();
    let shown = shown.iter().zip(hidden(&shown));
    let mut args: Vec<Vec<u8>> = shown
        .map(|(arg, is_hidden)| if is_hidden { HIDDEN.as_bytes().to_vec() } else { cut_arg(arg) })
        .collect();
    if kept < count {
        args.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    args
}

fn cut_arg(arg: &[u8]) -> Vec<u8> {
    match arg.split_at_checked(ARG_SIZE_MAX) {
        Some((start, rest)) if !rest.is_empty() => {
            [start, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => arg.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arguments_are_cut() {
        assert_eq!(cut_arg(&[b'A'; ARG_SIZE_MAX]), [b'A'; ARG_SIZE_MAX]);
        let cut = cut_arg(&[b'A'; ARG_SIZE_MAX + 2]);
        assert!(cut.ends_with(b"AA... (2 more bytes)"));
    }
}
