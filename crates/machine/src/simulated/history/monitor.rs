//! The exact judge: just-in-time linearization, one key at a time.
//!
//! For each key it keeps every *configuration* the history so far allows: the key's state, which of
//! the pending calls have already taken effect, and the state each of them found. Calls are put in
//! order as late as possible: only when one responds. After a crash the allowed states are those
//! any subset and order of the pending calls can reach, and nothing stays pending.

use std::collections::BTreeMap;
use std::fmt;

use super::earlier::Earlier;
use super::{Call, Reply};

/// The largest number of threads (clients) of a [`Monitor`].
pub const THREADS_MAX: usize = 8;

type Value = Option<u64>;

/// One explanation of the history of a key so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Configuration {
    state: Value,
    /// Bit t: the pending call of thread t has taken effect.
    done: u8,
    /// The state that call found; none for the others, so that equal explanations compare equal.
    found: [Value; THREADS_MAX],
}

impl Configuration {
    fn fresh(state: Value) -> Self {
        Configuration { state, done: 0, found: [None; THREADS_MAX] }
    }

    fn has_done(&self, thread: usize) -> bool {
        self.done >> thread & 1 == 1
    }

    /// The call of `thread` takes effect.
    fn take(mut self, thread: usize, call: Call) -> Self {
        self.found[thread] = self.state;
        self.done |= 1 << thread;
        self.state = call.apply(self.state);
        self
    }

    /// The call of `thread` is over.
    fn retire(mut self, thread: usize) -> Self {
        self.found[thread] = None;
        self.done &= !(1 << thread);
        self
    }
}

/// The judge of one key.
#[derive(Clone, Debug)]
struct KeyMonitor {
    configurations: Vec<Configuration>,
    pending: [Option<Call>; THREADS_MAX],
    allowed: Vec<Value>,
    allowed_is_current: bool,
}

impl KeyMonitor {
    fn new(state: Value) -> Self {
        KeyMonitor {
            configurations: vec![Configuration::fresh(state)],
            pending: [None; THREADS_MAX],
            allowed: Vec::new(),
            allowed_is_current: false,
        }
    }

    fn reset(&mut self, state: Value) {
        self.configurations.clear();
        self.configurations.push(Configuration::fresh(state));
        self.pending = [None; THREADS_MAX];
        self.allowed_is_current = false;
    }

    /// Keeps the explanations in which `thread`'s call answers `reply`; false if none is left.
    fn respond(&mut self, thread: usize, reply: Reply) -> bool {
        let Some(call) = self.pending[thread] else { return true };
        let mut kept: Vec<Configuration> = Vec::new();
        let mut seen: Vec<Configuration> = Vec::new();
        let mut work = std::mem::take(&mut self.configurations);
        while let Some(configuration) = work.pop() {
            if configuration.has_done(thread) {
                let retired = configuration.retire(thread);
                if reply.fits(call, configuration.found[thread]) && !kept.contains(&retired) {
                    kept.push(retired);
                }
                continue;
            }
            if reply == Reply::Refused {
                // It never happens; the others may still come in any order.
                if !kept.contains(&configuration) {
                    kept.push(configuration);
                }
                continue;
            }
            for other in 0..THREADS_MAX {
                let Some(next) = self.pending[other] else { continue };
                if configuration.has_done(other)
                    || other == thread && !reply.fits(call, configuration.state)
                {
                    continue;
                }
                let taken = configuration.take(other, next);
                if !seen.contains(&taken) {
                    seen.push(taken);
                    work.push(taken);
                }
            }
        }
        self.configurations = kept;
        self.pending[thread] = None;
        self.allowed_is_current = false;
        !self.configurations.is_empty()
    }

    /// The states the key may have if a crash happens now.
    fn allowed(&mut self) -> &[Value] {
        if !self.allowed_is_current {
            let mut seen = self.configurations.clone();
            let mut work = self.configurations.clone();
            self.allowed.clear();
            while let Some(configuration) = work.pop() {
                if !self.allowed.contains(&configuration.state) {
                    self.allowed.push(configuration.state);
                }
                for thread in 0..THREADS_MAX {
                    let Some(call) = self.pending[thread] else { continue };
                    if configuration.has_done(thread) {
                        continue;
                    }
                    // What a lost call found is of no interest any more.
                    let mut taken = configuration.take(thread, call);
                    taken.found[thread] = None;
                    if !seen.contains(&taken) {
                        seen.push(taken);
                        work.push(taken);
                    }
                }
            }
            self.allowed_is_current = true;
        }
        &self.allowed
    }
}

/// Why a history is not linearizable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// No order of the calls explains this reply.
    Reply {
        /// The thread that got the reply.
        thread: usize,
        /// The key of its call.
        key: u64,
        /// The call.
        call: Call,
        /// The reply.
        reply: Reply,
    },
    /// After a crash a key has a state that no order of the calls explains.
    Recovered {
        /// The key.
        key: u64,
        /// What was recovered; none = absent.
        found: Option<u64>,
        /// What would have been right.
        allowed: Vec<Option<u64>>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Reply { thread, key, call, reply } => {
                write!(
                    f,
                    "T{thread}'s {call:?} of key {key} answered {reply:?}, which no order of the operations explains"
                )
            }
            Violation::Recovered { key, found, allowed } => {
                write!(f, "key {key} was recovered as {found:?}; only {allowed:?} can be explained")
            }
        }
    }
}

impl std::error::Error for Violation {}

/// Follows a history of calls, replies and crashes and reports the first thing in it that cannot be
/// explained. Not shared between OS threads.
///
/// # Example
/// ```
/// use everleaf_machine::simulated::history::{Call, Monitor, Reply};
/// let mut monitor = Monitor::new(&[(1, 10)]);
/// monitor.invoke(0, &[(1, Call::Remove)]);
/// monitor.invoke(1, &[(1, Call::Get)]);
/// // The read may come before or after the removal, which is still running.
/// assert!(monitor.respond(1, &[Reply::Previous(None)]).is_ok());
/// // But now the removal has happened and must say so.
/// assert!(monitor.respond(0, &[Reply::Done(false)]).is_err());
/// ```
/// With [`Monitor::deferring`] a crash may take back what has answered.
/// ```
/// use everleaf_machine::simulated::history::{Call, Monitor, Reply};
/// let mut monitor = Monitor::deferring(&[(1, 10)]);
/// monitor.invoke(0, &[(1, Call::Remove)]);
/// monitor.respond(0, &[Reply::Previous(Some(10))])?;
/// assert!(monitor.admits(&[(1, 10)]).is_ok());
/// monitor.begin_persisting(0);
/// monitor.end_persisting(0);
/// assert!(monitor.admits(&[(1, 10)]).is_err());
/// # Ok::<(), everleaf_machine::simulated::history::Violation>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Monitor {
    keys: BTreeMap<u64, KeyMonitor>,
    running: [Vec<(u64, Call)>; THREADS_MAX],
    epoch: u64,
    /// What a crash may bring back, where writes become durable later than they answer.
    earlier: Option<Earlier>,
}

impl Monitor {
    /// A judge of a map that holds `contents` (key, value) at first.
    pub fn new(contents: &[(u64, u64)]) -> Self {
        let mut monitor = Monitor::default();
        monitor.reset(contents);
        monitor
    }

    /// As [`Self::new`], of a map whose writes become durable later than they answer: a crash may leave each key
    /// as it was at any moment since the last operation began that persists what is deferred and has ended.
    pub fn deferring(contents: &[(u64, u64)]) -> Self {
        let mut monitor = Self::new(contents);
        monitor.earlier = Some(Earlier::default());
        contents.iter().for_each(|(key, _)| monitor.note(*key));
        monitor
    }

    /// Notes the states of a key, if they may come back.
    fn note(&mut self, key: u64) {
        if let Some(earlier) = &mut self.earlier
            && let Some(monitor) = self.keys.get_mut(&key)
        {
            earlier.note(key, monitor.allowed());
        }
    }

    /// `thread` begins to make durable what has answered.
    pub fn begin_persisting(&mut self, thread: usize) {
        let now = self.keys.iter_mut().map(|(key, monitor)| (*key, monitor.allowed().to_vec()));
        let now = now.collect();
        if let Some(earlier) = &mut self.earlier {
            earlier.begin(thread, now);
        }
    }

    /// `thread` has made it durable.
    pub fn end_persisting(&mut self, thread: usize) {
        self.epoch += 1;
        if let Some(earlier) = &mut self.earlier {
            earlier.end(thread);
        }
    }

    /// Starts a new history from `contents`.
    pub fn reset(&mut self, contents: &[(u64, u64)]) {
        self.keys.values_mut().for_each(|key| key.reset(None));
        for &(key, value) in contents {
            self.keys.entry(key).or_insert_with(|| KeyMonitor::new(None)).reset(Some(value));
        }
        self.running.iter_mut().for_each(Vec::clear);
        if self.earlier.is_some() {
            // What was there before does not come back.
            self.earlier = Some(Earlier::default());
            contents.iter().for_each(|(key, _)| self.note(*key));
        }
        self.epoch += 1;
    }

    /// A number that changes whenever the allowed states may have changed.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// `thread` starts an operation that consists of these calls, each on a key of its own; each
    /// takes effect for itself (a scan is one `Get` per key).
    ///
    /// # Panics
    /// If `thread` is not below [`THREADS_MAX`], is still in an operation, or a key comes twice.
    pub fn invoke(&mut self, thread: usize, calls: &[(u64, Call)]) {
        assert!(self.running[thread].is_empty(), "thread {thread} is still in an operation");
        for &(key, call) in calls {
            self.keys.entry(key).or_insert_with(|| KeyMonitor::new(None));
            self.note(key);
            let monitor = self.keys.get_mut(&key).expect("it was put in");
            assert!(monitor.pending[thread].is_none(), "key {key} comes twice in one operation");
            monitor.pending[thread] = Some(call);
            monitor.allowed_is_current = false;
            self.note(key);
        }
        self.running[thread].extend_from_slice(calls);
        self.epoch += 1;
    }

    /// `thread`'s operation ends with one reply per call, in order.
    ///
    /// # Errors
    /// The first reply that cannot be explained; the monitor is of no further use then.
    ///
    /// # Panics
    /// If there are not as many replies as calls.
    pub fn respond(&mut self, thread: usize, replies: &[Reply]) -> Result<(), Violation> {
        self.epoch += 1;
        let mut calls = std::mem::take(&mut self.running[thread]);
        assert_eq!(calls.len(), replies.len(), "one reply per call");
        let mut result = Ok(());
        for (&(key, call), &reply) in calls.iter().zip(replies) {
            let monitor = self.keys.get_mut(&key).expect("made when the call was invoked");
            if result.is_ok() && !monitor.respond(thread, reply) {
                result = Err(Violation::Reply { thread, key, call, reply });
            }
            self.note(key);
        }
        calls.clear();
        self.running[thread] = calls;
        result
    }

    /// The states `key` may have if a crash happens now; none = absent.
    pub fn allowed(&mut self, key: u64) -> Vec<Option<u64>> {
        match self.keys.get_mut(&key) {
            Some(monitor) => monitor.allowed().to_vec(),
            None => vec![None],
        }
    }

    /// Whether a crash now may leave exactly `contents`, which must be sorted by key.
    ///
    /// # Errors
    /// The first key, in order, that may not be so.
    pub fn admits(&mut self, contents: &[(u64, u64)]) -> Result<(), Violation> {
        let mut rest = contents.iter().peekable();
        let unexplained =
            |key, value| Violation::Recovered { key, found: Some(value), allowed: vec![None] };
        for (&key, monitor) in &mut self.keys {
            if let Some(&&(found, value)) = rest.peek()
                && found < key
            {
                return Err(unexplained(found, value));
            }
            let found = rest.next_if(|&&(found, _)| found == key).map(|&(_, value)| value);
            let was = self.earlier.as_ref().is_some_and(|earlier| earlier.has(key, found));
            let allowed = monitor.allowed();
            if !was && !allowed.contains(&found) {
                return Err(Violation::Recovered { key, found, allowed: allowed.to_vec() });
            }
        }
        match rest.next() {
            Some(&(key, value)) => Err(unexplained(key, value)),
            None => Ok(()),
        }
    }

    /// A crash happened and left `contents` (sorted by key); the history goes on from there.
    ///
    /// # Errors
    /// As [`Monitor::admits`].
    pub fn crash(&mut self, contents: &[(u64, u64)]) -> Result<(), Violation> {
        self.admits(contents)?;
        self.reset(contents);
        Ok(())
    }

    /// The number of explanations kept for `key`: a measure of how hard it is to judge.
    pub fn explanations(&self, key: u64) -> usize {
        self.keys.get(&key).map_or(1, |monitor| monitor.configurations.len())
    }
}
