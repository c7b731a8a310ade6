//! Commands that several connections sent in one turn of their event loop, one each, to be done together.
//!
//! A client that waits for each reply has one command on its way. Done by itself, each command of a collection is a
//! step with an entry of journal and log and conditions of its own, which is most of what it costs. But of many
//! clients several have sent one by the time the loop looks. Those that change a collection are *gathered*: they stay
//! until all connections that are ready were served, and are then done as if one client had sent them in one pipeline
//! (`command/series.rs`). No reply is later for it, since replies leave at the end of the turn. Commands of different
//! clients that have no reply yet may be done in any order.
//!
//! What they are told is bounded as what one client is told: a step ends when its answers have some size, an answer
//! that is long is made by itself and leaves at once, and the answers of some steps leave before the next step. Whether
//! a command may be run is looked at when it is run, not only when it is read: a connection may have been closed since,
//! its user changed, or somebody may want to be shown all commands. A step takes as long as the commands of all, and
//! they repeat it together; so only quick ones are gathered.
//!
//! Invariants: what is gathered is done in its turn, or not at all if its connection is closed before (G1); a
//! connection has one command among them at most, nothing of it came behind that, and it is not served again before
//! that is done (G2); all are of one database and one protocol (G3).

use crate::databases::Database;
use crate::resp::{KeptRequests, Protocol, Request, Series};

/// Bytes of a request that is gathered, and of all of them.
const REQUEST_SIZE_MAX: usize = 1 << 10;
const SIZE_MAX: usize = 16 << 10;

/// What is gathered in an event loop.
#[derive(Debug, Default)]
pub struct Gathered {
    requests: KeptRequests,
    /// The connections that sent them: their places in the event loop, which no others are given in this turn.
    places: Vec<usize>,
    /// Where, and how, they are all answered.
    manner: (Database, Protocol),
    /// Of them, the first so many are done.
    done_count: usize,
    /// Whether there may be several in this turn.
    is_open: bool,
}

impl Gathered {
    /// Begins a turn in which so many connections are ready, or one fewer: the waker counts, too. For one alone nothing
    /// would come of it.
    pub fn begin(&mut self, ready: usize) {
        self.is_open = ready > 1;
    }

    /// Whether a request may be added that is in so many bytes.
    #[inline]
    pub fn takes(&self, size: usize, manner: (Database, Protocol)) -> bool {
        self.is_open
            && size <= REQUEST_SIZE_MAX
            && self.requests.size() + size <= SIZE_MAX
            && (self.requests.is_empty() || self.manner == manner)
    }

    /// Adds a request that it takes, of a connection at a place.
    pub fn add(
        &mut self,
        place: usize,
        command: usize,
        request: &Request<'_>,
        manner: (Database, Protocol),
    ) {
        self.manner = manner;
        self.requests.push(command, request);
        self.places.push(place);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The connections that sent them, in their order.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// All of them, in the order in which they came.
    pub fn series(&self) -> Series<'_> {
        let mut series = Series::default();
        self.requests.iter().for_each(|(command, request)| series.add(command, &request));
        series
    }

    /// How many of them are done: the first.
    pub fn done_count(&self) -> usize {
        self.done_count
    }

    /// Notes how many are done. Forgets all of them if that is all.
    pub fn set_done_count(&mut self, count: usize) {
        self.done_count = count;
        if count == self.len() {
            self.requests.clear();
            self.places.clear();
            self.done_count = 0;
        }
    }
}
