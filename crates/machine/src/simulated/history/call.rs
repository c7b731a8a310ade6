//! Operations on one key, and what they may answer.

/// An operation on one key of a map from 64-bit keys to 64-bit values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Reads the value.
    Get,
    /// Adds the key with this value; refused if it is present.
    Insert(u64),
    /// Replaces the value; refused if the key is absent.
    Update(u64),
    /// Sets the value, whether the key was present or not.
    Upsert(u64),
    /// Takes the key out; refused if it is absent.
    Remove,
    /// Replaces the value if it is `expected`; refused otherwise.
    CompareExchange {
        /// The value that must be present.
        expected: u64,
        /// The value that replaces it.
        new: u64,
    },
}

impl Call {
    /// Whether the call takes effect on a key in `state` (none = absent). A read always does.
    pub fn succeeds(self, state: Option<u64>) -> bool {
        match self {
            Call::Get | Call::Upsert(_) => true,
            Call::Insert(_) => state.is_none(),
            Call::Update(_) | Call::Remove => state.is_some(),
            Call::CompareExchange { expected, .. } => state == Some(expected),
        }
    }

    /// The state of the key after the call.
    pub fn apply(self, state: Option<u64>) -> Option<u64> {
        if !self.succeeds(state) {
            return state;
        }
        match self {
            Call::Get => state,
            Call::Insert(value) | Call::Update(value) | Call::Upsert(value) => Some(value),
            Call::Remove => None,
            Call::CompareExchange { new, .. } => Some(new),
        }
    }

    /// Whether the call never changes anything.
    pub fn is_read(self) -> bool {
        self == Call::Get
    }
}

/// What a call answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The value of the key just before the call took effect (for `Get`: the value read).
    Previous(Option<u64>),
    /// Whether the call took effect.
    Done(bool),
    /// Nothing is claimed about the answer; the call did what a call of its kind does.
    Unknown,
    /// The call had no effect, for a reason that is not the key's state: no space, say.
    Refused,
}

impl Reply {
    /// Whether `call`, executed on a key in `state`, may answer this. (A refused call is not
    /// executed, so that is only true of one that would change nothing.)
    pub fn fits(self, call: Call, state: Option<u64>) -> bool {
        match self {
            Reply::Previous(previous) => previous == state,
            Reply::Done(done) => done == call.succeeds(state),
            Reply::Unknown => true,
            Reply::Refused => call.apply(state) == state,
        }
    }
}
