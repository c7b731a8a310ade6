//! What is on a simulated disk, what only its cache has, and what a crash leaves.
//!
//! A file has two contents: what programs read (the page cache), and what is on the medium. Between
//! two syncs every block remembers each version that was written, and a crash keeps any of them,
//! or a mixture (L2, L3 of `docs/log.md`). Names change in order, and a crash keeps a beginning of
//! the changes to each group of names that have to do with each other (L4).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::random::Random;

/// Bytes that the medium writes at once, or tears.
const SECTOR_SIZE: usize = 512;

/// A file, by whatever name.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// What programs read.
    pub(super) content: Arc<Vec<u8>>,
    /// What is on the medium.
    durable: Arc<Vec<u8>>,
    /// The versions of each block that may reach the medium before the next sync.
    pending: BTreeMap<usize, Vec<Vec<u8>>>,
    /// The sizes the file had since the last sync.
    sizes: Vec<usize>,
}

impl Inode {
    /// Writes to the page cache.
    pub(super) fn write(&mut self, block_size: usize, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.content.len() < end {
            self.resize(end);
        }
        Arc::make_mut(&mut self.content)[offset..end].copy_from_slice(bytes);
        let blocks = offset / block_size..end.div_ceil(block_size);
        for block in blocks {
            let start = block * block_size;
            let version = &self.content[start..self.content.len().min(start + block_size)];
            self.pending.entry(block).or_default().push(version.to_vec());
        }
    }

    /// Changes the size; new bytes are zero.
    pub(super) fn resize(&mut self, size: usize) {
        Arc::make_mut(&mut self.content).resize(size, 0);
        self.sizes.push(size);
    }

    /// Makes the page cache durable.
    pub(super) fn sync(&mut self) {
        if !self.pending.is_empty() || !self.sizes.is_empty() {
            self.durable = Arc::clone(&self.content);
            self.pending.clear();
            self.sizes.clear();
        }
    }

    /// A sync that fails as on Linux: some blocks reach the medium, the others are forgotten, and
    /// the page cache passes for clean.
    pub(super) fn fail_to_sync(&mut self, block_size: usize, random: &mut Random) {
        self.durable = Arc::new(self.after_crash(block_size, random, false));
        self.pending.clear();
        self.sizes.clear();
    }

    /// Forgets the page cache, as the kernel may when it needs memory and the pages are clean.
    pub(super) fn evict(&mut self) {
        if self.pending.is_empty() && self.sizes.is_empty() {
            self.content = Arc::clone(&self.durable);
        }
    }

    /// Changes a bit on the medium and in the cache.
    pub(super) fn flip(&mut self, bit: usize) {
        for bytes in [&mut self.content, &mut self.durable] {
            if let Some(byte) = Arc::make_mut(bytes).get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// What is on the medium when the power fails now.
    fn after_crash(&self, block_size: usize, random: &mut Random, tears: bool) -> Vec<u8> {
        let mut bytes = self.durable.to_vec();
        // All lost, all kept, or each block for itself, with more or less luck.
        let luck = random.below(5);
        let last_size = match luck {
            0 => None,
            1 => self.sizes.last(),
            _ => self.sizes.get(random.below(self.sizes.len() + 1)),
        };
        let size = last_size.copied().unwrap_or(bytes.len());
        bytes.resize(size, 0);
        for (&block, versions) in &self.pending {
            let newest = versions.len();
            let kept = match luck {
                0 => 0,
                1 => newest,
                2 if random.one_in(4) => random.below(newest + 1),
                2 => newest,
                3 if random.one_in(4) => random.below(newest + 1),
                3 => 0,
                _ => random.below(newest + 1),
            };
            if let Some(version) = kept.checked_sub(1).map(|index| &versions[index]) {
                put(&mut bytes, block * block_size, version);
            }
            if tears && random.one_in(6) {
                let other = &versions[random.below(newest)];
                tear(&mut bytes, block * block_size, other, random);
            }
        }
        bytes
    }

    fn crashed(&self, block_size: usize, random: &mut Random, tears: bool) -> Inode {
        let durable = if self.pending.is_empty() && self.sizes.is_empty() {
            Arc::clone(&self.durable)
        } else {
            Arc::new(self.after_crash(block_size, random, tears))
        };
        Inode { content: Arc::clone(&durable), durable, ..Inode::default() }
    }
}

/// Copies what of `version` lies within `bytes`.
fn put(bytes: &mut [u8], offset: usize, version: &[u8]) {
    if offset < bytes.len() {
        let end = bytes.len().min(offset + version.len());
        bytes[offset..end].copy_from_slice(&version[..end - offset]);
    }
}

/// Breaks a block off in the middle of being written: some sectors are another version's, one is
/// partly so, or has bytes that nobody wrote.
fn tear(bytes: &mut [u8], offset: usize, other: &[u8], random: &mut Random) {
    for start in (0..other.len()).step_by(SECTOR_SIZE) {
        let sector = &other[start..other.len().min(start + SECTOR_SIZE)];
        match random.below(6) {
            0 => put(bytes, offset + start, sector),
            1 => put(bytes, offset + start, &sector[..random.below(sector.len())]),
            2 => {
                let skipped = random.below(sector.len());
                put(bytes, offset + start + skipped, &sector[skipped..]);
            }
            3 if random.one_in(4) => {
                let garbage: Vec<u8> = sector.iter().map(|_| random.bits() as u8).collect();
                put(bytes, offset + start, &garbage);
            }
            _ => {}
        }
    }
}

/// A change of the folder.
#[derive(Clone, Debug)]
enum FolderChange {
    Create(String, usize),
    Remove(String),
    Rename(String, String),
}

impl FolderChange {
    fn names(&self) -> [&str; 2] {
        match self {
            FolderChange::Create(name, _) | FolderChange::Remove(name) => [name, name],
            FolderChange::Rename(from, to) => [from, to],
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            FolderChange::Create(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            FolderChange::Remove(name) => {
                names.remove(name);
            }
            FolderChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }
}

/// Everything on a simulated disk.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) inodes: Vec<Inode>,
    /// The names that programs see.
    pub(super) names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    changes: Vec<FolderChange>,
}

impl State {
    /// Creates a file under a new name; returns its inode.
    pub(super) fn create(&mut self, name: &str) -> usize {
        self.inodes.push(Inode::default());
        let inode = self.inodes.len() - 1;
        self.change(FolderChange::Create(name.into(), inode));
        inode
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.change(FolderChange::Remove(name.into()));
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        self.change(FolderChange::Rename(from.into(), to.into()));
    }

    fn change(&mut self, change: FolderChange) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    /// Makes the names durable.
    pub(super) fn sync_folder(&mut self) {
        self.durable_names.clone_from(&self.names);
        self.changes.clear();
    }

    /// Bytes of all files that have a name.
    pub(super) fn used(&self) -> usize {
        self.names.values().map(|&inode| self.inodes[inode].content.len()).sum()
    }

    /// What a machine finds that starts after the power failed.
    pub(super) fn crashed(&self, block_size: usize, random: &mut Random, tears: bool) -> State {
        let names = self.names_after_crash(random);
        let mut inodes = Vec::new();
        let mut kept = BTreeMap::new();
        for (name, inode) in names {
            kept.insert(name, inodes.len());
            inodes.push(self.inodes[inode].crashed(block_size, random, tears));
        }
        State { inodes, names: kept.clone(), durable_names: kept, changes: Vec::new() }
    }

    fn names_after_crash(&self, random: &mut Random) -> BTreeMap<String, usize> {
        let mut names = self.durable_names.clone();
        let luck = random.below(4);
        // For each group of names: how many of its changes are kept.
        let groups = self.groups();
        let mut left: BTreeMap<usize, usize> = BTreeMap::new();
        for &group in &groups {
            let count = groups.iter().filter(|other| **other == group).count();
            left.entry(group).or_insert_with(|| match luck {
                0 => 0,
                1 => count,
                _ => random.below(count + 1),
            });
        }
        for (change, group) in self.changes.iter().zip(&groups) {
            let left = left.get_mut(group).expect("every group was counted");
            if *left > 0 {
                *left -= 1;
                change.apply(&mut names);
            }
        }
        names
    }

    /// For each change, the number of the group it belongs to: changes that share a name, directly
    /// or through others, are of one group.
    fn groups(&self) -> Vec<usize> {
        let mut groups: Vec<usize> = (0..self.changes.len()).collect();
        for later in 0..self.changes.len() {
            for earlier in 0..later {
                let (a, b) = (self.changes[earlier].names(), self.changes[later].names());
                if a.iter().any(|name| b.contains(name)) {
                    let (from, to) = (groups[later], groups[earlier]);
                    for group in groups.iter_mut().filter(|group| **group == from) {
                        *group = to;
                    }
                }
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(state: &mut State, name: &str, bytes: &[u8]) {
        let inode = state.create(name);
        state.inodes[inode].write(4096, bytes, 0);
    }

    #[test]
    fn what_was_synced_survives_every_crash_and_nothing_else_has_to() {
        let mut state = State::default();
        file(&mut state, "a", &[1; 5000]);
        let inode = state.names["a"];
        state.inodes[inode].sync();
        state.sync_folder();
        state.inodes[inode].write(4096, &[2; 10], 4096);
        file(&mut state, "b", &[3; 10]);
        let (mut with_b, mut with_new, mut with_old) = (0, 0, 0);
        for seed in 0..200 {
            let crashed = state.crashed(4096, &mut Random::new(seed), false);
            let a = &crashed.inodes[crashed.names["a"]];
            assert_eq!(a.content[..4096], [1; 4096]);
            assert_eq!(a.content[4106..], [1; 894]);
            match a.content[4096..4106] {
                [1, 1, 1, 1, 1, 1, 1, 1, 1, 1] => with_old += 1,
                [2, 2, 2, 2, 2, 2, 2, 2, 2, 2] => with_new += 1,
                _ => panic!("a block was torn"),
            }
            with_b += usize::from(crashed.names.contains_key("b"));
        }
        assert!(with_b > 20 && with_b < 180, "{with_b}");
        assert!(with_new > 20 && with_old > 20);
    }

    #[test]
    fn changes_to_one_name_are_kept_in_order_and_others_in_any() {
        let mut state = State::default();
        file(&mut state, "a", b"");
        state.sync_folder();
        state.rename("a", "b");
        state.rename("b", "c");
        file(&mut state, "other", b"");
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let crashed = state.crashed(4096, &mut Random::new(seed), true);
            seen.insert(crashed.names.into_keys().collect::<Vec<_>>().join(" "));
        }
        let seen: Vec<_> = seen.iter().map(String::as_str).collect();
        assert_eq!(seen, ["a", "a other", "b", "b other", "c", "c other"]);
    }

    #[test]
    fn a_failed_sync_forgets_what_it_did_not_write() {
        let mut lost = 0;
        for seed in 0..50 {
            let mut state = State::default();
            file(&mut state, "a", &[1; 10]);
            let inode = state.names["a"];
            state.inodes[inode].fail_to_sync(4096, &mut Random::new(seed));
            state.inodes[inode].sync();
            assert_eq!(*state.inodes[inode].content, [1; 10], "the cache still has it");
            state.inodes[inode].evict();
            lost += usize::from(*state.inodes[inode].content != [1; 10]);
        }
        assert!(lost > 10, "{lost}");
    }
}
