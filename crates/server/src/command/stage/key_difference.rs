//! By how many a database has more keys to a transaction than in the store (`key_count.rs`).

/// The difference, from the first time on that it was asked for.
#[derive(Default)]
pub struct KeyCount {
    pub difference: i64,
    /// The keys that are written since it was asked for, and were not before.
    pub new: Vec<Vec<u8>>,
    /// What it was when the command began that changes it.
    pub before: Option<Before>,
}

/// What a difference was when a command began.
pub struct Before {
    /// The number of the mark.
    mark: u64,
    difference: i64,
    new_count: usize,
    /// Whether the new ones were counted since.
    pub is_counted: bool,
}

impl KeyCount {
    /// Notes what it is, unless that was done since the mark of this number.
    pub fn begin(&mut self, mark: u64) -> &mut Before {
        let KeyCount { difference, new, before } = self;
        let before = before.take().filter(|before| before.mark == mark);
        self.before.insert(before.unwrap_or(Before {
            mark,
            difference: *difference,
            new_count: new.len(),
            is_counted: false,
        }))
    }

    /// What was is what it is again. Returns whether it is known.
    pub fn roll_back(&mut self, mark: u64) -> bool {
        let Some(before) = self.before.take_if(|before| before.mark == mark) else { return true };
        self.difference = before.difference;
        self.new.truncate(before.new_count);
        !before.is_counted
    }
}
