//! The connections of an event loop that wait for a key to get members, and until when.

use std::collections::{BTreeMap, BTreeSet};

/// Connections that wait, by client. One thread's.
#[derive(Debug, Default)]
pub struct BlockedClients {
    by_client: BTreeMap<u64, BlockedClient>,
    /// When each of those with an end is to be answered, in milliseconds since the server started.
    due: BTreeSet<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct BlockedClient {
    index: usize,
    until_ms: Option<u64>,
}

impl BlockedClients {
    /// Notes that a client, whose connection has this place, waits; or that it does no more.
    pub fn set(&mut self, client_id: u64, index: usize, waiting: Option<Option<u64>>) {
        if let Some(BlockedClient { until_ms: Some(until_ms), .. }) =
            self.by_client.remove(&client_id)
        {
            self.due.remove(&(until_ms, client_id));
        }
        let Some(until_ms) = waiting else { return };
        self.by_client.insert(client_id, BlockedClient { index, until_ms });
        self.due.extend(until_ms.map(|until_ms| (until_ms, client_id)));
    }

    /// The place of the connection of a client that waits.
    pub fn index_of(&self, client_id: u64) -> Option<usize> {
        self.by_client.get(&client_id).map(|place| place.index)
    }

    /// When the next one is due.
    pub fn next_ms(&self) -> Option<u64> {
        self.due.first().map(|(until_ms, _)| *until_ms)
    }

    /// Takes the next one out that is due.
    pub fn take_due(&mut self, now_ms: u64) -> Option<usize> {
        let (_, client_id) =
            self.due.first().filter(|(until_ms, _)| *until_ms <= now_ms).copied()?;
        self.due.pop_first();
        self.index_of(client_id)
    }
}

#[cfg(test)]
mod tests {
    use super::BlockedClients;

    #[test]
    fn a_client_that_waits_is_due_in_time_and_then_no_more() {
        let mut blocked = BlockedClients::default();
        blocked.set(1, 10, Some(Some(500)));
        blocked.set(2, 20, Some(None));
        blocked.set(3, 30, Some(Some(100)));
        blocked.set(4, 40, Some(Some(100)));
        assert_eq!(blocked.next_ms(), Some(100));
        blocked.set(3, 30, None);
        assert_eq!((blocked.index_of(3), blocked.index_of(2)), (None, Some(20)));
        assert_eq!(blocked.take_due(99), None);
        assert_eq!(blocked.take_due(100), Some(40));
        assert_eq!(blocked.take_due(100), None);
        // It waits until it is answered, but is due once.
        assert_eq!(blocked.index_of(4), Some(40));
        blocked.set(4, 40, None);
        blocked.set(1, 10, Some(Some(700)));
        assert_eq!((blocked.next_ms(), blocked.take_due(u64::MAX)), (Some(700), Some(10)));
    }
}
