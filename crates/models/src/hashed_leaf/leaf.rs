//! One leaf of the model: positions, fingerprints, overflow bits, and what of it is durable.
//!
//! A line holds [`Shape::line`] positions. Its stores become durable in their order; which of those
//! since its last flush are, is the crash's choice.

/// A key of the model.
pub type Key = u8;
/// A value of the model.
pub type Value = u8;

/// How large leaves are, in positions.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Positions in a leaf.
    pub positions: usize,
    /// Positions in a line.
    pub line: usize,
    /// Positions whose fingerprints are loaded together, a multiple of `line`.
    pub chunk: usize,
}

impl Shape {
    /// The positions of `key`, in the order in which they are tried: its chunk from its line on,
    /// then the other chunks. It depends on nothing else and never changes.
    pub fn probe_order(self, key: Key) -> Vec<usize> {
        let lines = self.positions / self.line;
        let home = (usize::from(key) % lines) * self.line;
        let chunk = home / self.chunk;
        let chunks = self.positions / self.chunk;
        let mut order = Vec::with_capacity(self.positions);
        for turn in 0..chunks {
            let first = (chunk + turn) % chunks * self.chunk;
            let offset = if turn == 0 { home - first } else { 0 };
            order.extend((0..self.chunk).map(|i| first + (offset + i) % self.chunk));
        }
        order
    }
}

/// What a position holds: one word, which is exchanged as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// Never claimed.
    Empty,
    /// Claimed for a key, not yet inserted.
    Pending(Key, Value),
    /// The key has this value.
    Live(Key, Value),
    /// The key was removed. Only the same key may use the position again.
    Tombstone(Key),
    /// As `Live`, for as long as the leaf is not replaced.
    Frozen(Key, Value),
    /// As `Tombstone`, likewise.
    FrozenTombstone(Key),
    /// As `Empty`, but nobody may claim it.
    FrozenEmpty,
}

impl Entry {
    /// The key to which the position belongs, for good.
    pub fn key(self) -> Option<Key> {
        match self {
            Entry::Pending(key, _) | Entry::Live(key, _) | Entry::Frozen(key, _) => Some(key),
            Entry::Tombstone(key) | Entry::FrozenTombstone(key) => Some(key),
            Entry::Empty | Entry::FrozenEmpty => None,
        }
    }

    /// The pair it stands for, if it stands for one.
    pub fn pair(self) -> Option<(Key, Value)> {
        match self {
            Entry::Live(key, value) | Entry::Frozen(key, value) => Some((key, value)),
            _ => None,
        }
    }
}

/// A position that is never claimed and holds nothing.
pub const UNUSED: u8 = 1;

/// The fingerprint of a key: two keys share each.
pub fn fingerprint(key: Key) -> u8 {
    2 + key / 4
}

/// A leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leaf {
    /// Persistent.
    pub entries: Vec<Entry>,
    /// In DRAM: 0 for a position of which nothing is known, [`UNUSED`], or of the position's key.
    pub fingerprints: Vec<u8>,
    /// In DRAM: whether a key whose chunk this is may be in a later one.
    pub overflowed: Vec<bool>,
    /// Persistent: the leaf that replaces this one.
    pub successor: Option<u8>,
    /// Whether the successor is durable.
    pub is_successor_durable: bool,
    /// What is durable of the entries at least.
    pub durable: Vec<Entry>,
    /// The stores to each line since its last flush: position and entry.
    pub stores: Vec<Vec<(u8, Entry)>>,
}

impl Leaf {
    pub fn new(shape: Shape) -> Leaf {
        Leaf {
            entries: vec![Entry::Empty; shape.positions],
            fingerprints: vec![0; shape.positions],
            overflowed: vec![false; shape.positions / shape.chunk],
            successor: None,
            is_successor_durable: false,
            durable: vec![Entry::Empty; shape.positions],
            stores: vec![Vec::new(); shape.positions / shape.line],
        }
    }

    /// A leaf with these pairs, all of it durable. `None` if they do not fit.
    pub fn with(shape: Shape, pairs: &[(Key, Value)]) -> Option<Leaf> {
        let mut leaf = Leaf::new(shape);
        for (key, value) in pairs {
            let order = shape.probe_order(*key);
            let at = order.iter().position(|p| leaf.entries[*p] == Entry::Empty)?;
            leaf.entries[order[at]] = Entry::Live(*key, *value);
            leaf.fingerprints[order[at]] = fingerprint(*key);
            for chunk in 0..at / shape.chunk {
                leaf.overflowed[order[chunk * shape.chunk] / shape.chunk] = true;
            }
        }
        leaf.durable.clone_from(&leaf.entries);
        Some(leaf)
    }

    pub fn store(&mut self, shape: Shape, position: usize, entry: Entry) {
        self.entries[position] = entry;
        self.stores[position / shape.line].push((position as u8, entry));
    }

    pub fn flush(&mut self, line: usize) {
        for (position, entry) in std::mem::take(&mut self.stores[line]) {
            self.durable[usize::from(position)] = entry;
        }
    }

    /// Takes back that the entries of a new leaf are durable.
    pub fn forget_flush(&mut self, shape: Shape) {
        self.durable = vec![Entry::Empty; shape.positions];
        for (position, entry) in self.entries.iter().enumerate() {
            if *entry != Entry::Empty {
                self.stores[position / shape.line].push((position as u8, *entry));
            }
        }
    }

    /// Every content that a crash may leave.
    pub fn images(&self) -> Vec<Vec<Entry>> {
        let mut images = vec![self.durable.clone()];
        for stores in &self.stores {
            let mut longer = Vec::new();
            for image in &images {
                let mut image = image.clone();
                for (position, entry) in stores {
                    image[usize::from(*position)] = *entry;
                    longer.push(image.clone());
                }
            }
            images.extend(longer);
        }
        images
    }

    /// What recovery makes of an image. `plugs` says whether it closes the gaps before keys that
    /// lie behind empty positions of their order.
    pub fn recover(shape: Shape, image: &[Entry], plugs: bool) -> Leaf {
        let mut leaf = Leaf::new(shape);
        for (position, entry) in image.iter().enumerate() {
            let entry = match *entry {
                Entry::Frozen(key, value) => Entry::Live(key, value),
                Entry::Pending(key, _) | Entry::FrozenTombstone(key) => Entry::Tombstone(key),
                Entry::FrozenEmpty => Entry::Empty,
                other => other,
            };
            leaf.entries[position] = entry;
            leaf.fingerprints[position] = entry.key().map_or(0, fingerprint);
        }
        for position in 0..shape.positions {
            let Some(key) = leaf.entries[position].key() else { continue };
            let order = shape.probe_order(key);
            let at = order.iter().position(|p| *p == position).expect("all positions are in it");
            for before in order.iter().take(at).filter(|_| plugs) {
                if leaf.fingerprints[*before] == 0 {
                    leaf.fingerprints[*before] = UNUSED;
                }
            }
            for chunk in 0..at / shape.chunk {
                leaf.overflowed[order[chunk * shape.chunk] / shape.chunk] = true;
            }
        }
        leaf.durable.clone_from(&leaf.entries);
        leaf
    }

    /// The pairs, in the order of keys; `None` if a key has two positions.
    pub fn pairs(&self) -> Option<Vec<(Key, Value)>> {
        let mut keys: Vec<Key> = self.entries.iter().filter_map(|entry| entry.key()).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|two| two[0] == two[1]) {
            return None;
        }
        let mut pairs: Vec<_> = self.entries.iter().filter_map(|e| e.pair()).collect();
        pairs.sort_unstable();
        Some(pairs)
    }
}
