//! What a stage has drawn ahead: the next of the members that commands take from a set one by one, `SPOP`.
//!
//! A pipeline of such commands takes neighbours. So the second read of a step reads a few more than the one that it was
//! asked for, those after it many more, and the commands in between find theirs in memory. What the store has is kept
//! as it was read: that it still is so is a condition of the step, as for everything that was read of a collection.
//! What the stage itself writes comes first everywhere. Of lists the same is in `list_ends.rs`.

/// So many members of a set, or elements of a list, are read with the first, second and each further read.
const COUNTS: [usize; 3] = [1, 8, 32];

/// So many are read with the read of this number, from 0 on.
pub fn count_of(read: usize) -> usize {
    COUNTS[read.min(COUNTS.len() - 1)]
}

/// What was drawn ahead.
#[derive(Default)]
pub struct Ahead {
    drawn: Drawn,
}

/// Members of a set that were drawn.
#[derive(Default)]
struct Drawn {
    /// The number of the set.
    id: u64,
    /// The next one last.
    members: Vec<Vec<u8>>,
    reads: usize,
}

impl Ahead {
    /// Forgets what was drawn: it may have been on the stage only.
    pub fn forget_drawn(&mut self) {
        self.drawn = Drawn::default();
    }

    /// A member of a set that was drawn before.
    pub fn next_drawn(&mut self, id: u64) -> Option<Vec<u8>> {
        if self.drawn.id == id { self.drawn.members.pop() } else { None }
    }

    /// How many members of a set should be drawn now.
    pub fn count_to_draw(&mut self, id: u64) -> usize {
        if self.drawn.id != id {
            self.drawn = Drawn { id, ..Drawn::default() };
        }
        self.drawn.reads += 1;
        count_of(self.drawn.reads - 1)
    }

    /// Takes members that were drawn of the set that was asked for last.
    pub fn keep_drawn(&mut self, members: Vec<Vec<u8>>) {
        self.drawn.members = members;
    }
}
