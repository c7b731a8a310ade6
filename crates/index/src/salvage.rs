//! What can be proven of a damaged pool, from its bytes alone.
//!
//! Nothing is mapped, recovered or believed unseen: leaf blocks are found chunk by chunk, and a pair
//! counts only if its record has the right check sum and the entry that refers to it fits its key.
//! Whatever else was damaged (headers, fences, the directory) does not matter for that; but where the
//! directory says that a block is of a tree of integers, it is not taken for one of byte strings. A tree that was
//! removed leaves blocks behind that nobody has used again: where the trees of the directory have all that the pool
//! held when it was closed, blocks of any other tree are such.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use everleaf_alloc::BLOCK_SIZE;
use everleaf_alloc::layout::{
    CHUNK_SHIFT, CHUNK_SHIFT_MAX, CHUNK_SHIFT_MIN, ChunkHeader, ChunkKind, block_size,
};
use everleaf_machine::{Hardware, Pair};
use everleaf_pool::layout::{
    ROOT_COUNT, ROOT_NAME_MAX, ROOT_OFFSET, ROOT_SIZE, SEAL_OFFSETS, SESSION_MARK, SESSION_OFFSETS,
};
use everleaf_pool::{DATA_START, Seal, is_root_whole};

use crate::api::ordered::Design;
use crate::bytes::entry::{BytesKey, BytesKind, record_offset};
use crate::bytes::record;
use crate::geometry::Production;
use crate::hashed_leaf::layout::{HalfLeaves, LeafShape};
use crate::hashed_leaf::{self, HashedLeafTree};
use crate::kind::{Kind, U64Kind};
use crate::nbtree::layout::{BLOCK_HEADER_SIZE, SLOT_COUNT_MAX, owner_parts};
use crate::nbtree::state::{BlockState, NO_BLOCK, holds};
use crate::nbtree::sum_of;

/// What leaf blocks of a class look like.
struct Blocks {
    class: usize,
    /// Entries behind the header.
    entries: usize,
    /// Whether a block has the sum of what it holds.
    is_as_sealed: fn(u32, &[u8]) -> bool,
}

/// Those of NBTree, and those of trees with hashed leaves.
const KNOWN_BLOCKS: [Blocks; 2] = [
    Blocks { class: 0, entries: SLOT_COUNT_MAX, is_as_sealed },
    Blocks {
        class: <Production as LeafShape>::BLOCK_CLASS,
        entries: <Production as LeafShape>::CAPACITY,
        is_as_sealed: hashed_leaf::seal::is_as_sealed,
    },
];

/// Whether a block of NBTree has the sum of what it holds.
fn is_as_sealed(number: u32, block: &[u8]) -> bool {
    let mut bytes = block[..BLOCK_HEADER_SIZE + 16 * SLOT_COUNT_MAX].to_vec();
    bytes[..8].copy_from_slice(&u64::from(number).to_le_bytes());
    let sum = word(&bytes, 24);
    bytes[24..32].fill(0);
    sum_of(&bytes) == sum
}

/// A leaf block that is in use.
struct Leaf<'b> {
    number: u32,
    bytes: &'b [u8],
    /// Whether it is in use for certain.
    is_certain: bool,
    /// Whether it may be no leaf at all, so that nothing need be told of what it lacks.
    is_silent: bool,
}

/// The entries of a block that hold something, each with its number.
fn entries_of<'b>(
    of: &Blocks,
    block: &'b [u8],
    holding: Holds,
) -> impl Iterator<Item = (usize, Pair)> + use<'b> {
    (0..of.entries).filter_map(move |slot| {
        let at = BLOCK_HEADER_SIZE + 16 * slot;
        let entry = Pair { first: word(block, at), second: word(block, at + 8) };
        let state = match holding {
            Holds::Bytes => <BytesKindM as Kind<Hardware>>::state(entry),
            _ => <U64Kind as Kind<Hardware>>::state(entry),
        };
        holds(state).then_some((slot, entry))
    })
}

type BytesKindM = BytesKind<true>;

/// The tree of integers whose leaves have the shape `S`.
type Hashed<S> = HashedLeafTree<U64Kind, S, Hardware>;

/// What blocks of a tree hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// Byte strings, or nobody knows.
    Bytes,
    /// Integers, in leaves that are sealed.
    Integers,
    /// Integers, in leaves that are not.
    UnsealedIntegers,
}

impl Holds {
    /// Of a tree of this kind in the directory, if its blocks have its root value as their owner.
    fn of_kind(kind: u16) -> Option<Self> {
        let unsealed = [Hashed::<Production>::INFO.kind, Hashed::<HalfLeaves>::INFO.kind];
        match kind {
            <BytesKindM as Kind<Hardware>>::CODE | <BytesKindM as Kind<Hardware>>::HASHED_CODE => {
                Some(Holds::Bytes)
            }
            <U64Kind as Kind<Hardware>>::CODE | <U64Kind as Kind<Hardware>>::HASHED_CODE => {
                Some(Holds::Integers)
            }
            kind if unsealed.contains(&kind) => Some(Holds::UnsealedIntegers),
            _ => None,
        }
    }
}

/// Reads bytes of the file at an offset; false if they are not there.
pub type ReadAt<'f> = dyn Fn(u64, &mut [u8]) -> bool + 'f;

/// The first offset from one on at which the file may have data: what is before it is a hole, and reads as zero. Any
/// offset, where nobody knows of holes.
pub type NextData<'f> = dyn Fn(u64) -> u64 + 'f;

/// A root of the pool's directory that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedRoot {
    /// The name of the tree.
    pub name: String,
    /// The id of the tree.
    pub id: u32,
    /// Whether it has byte strings.
    pub has_bytes: bool,
}

/// A pair that was proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedPair {
    /// The id of its tree.
    pub tree: u32,
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// When it expires, in milliseconds since 1970-01-01 UTC; 0 for never.
    pub expiry_ms: u64,
    /// Whether the block it is in is in use for certain. If not, it may be an old state of its key.
    pub is_certain: bool,
}

/// The bytes of a pool that may be damaged.
pub struct Salvage<'f> {
    read: &'f ReadAt<'f>,
    next_data: &'f NextData<'f>,
    size: u64,
    /// What the pool held when it was closed, if nobody has written to it since.
    seal: Option<Seal>,
    /// What the blocks of each tree hold, by its id: as far as the directory is whole.
    trees: BTreeMap<u32, Holds>,
    /// Leaves and entries that were found.
    found: Cell<(u64, u64)>,
    /// Whether only the trees of the directory count.
    is_directory_whole: bool,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

impl<'f> Salvage<'f> {
    /// A file of `size` bytes.
    pub fn new(size: u64, read: &'f ReadAt<'f>, next_data: &'f NextData<'f>) -> Self {
        let (trees, found) = (BTreeMap::new(), Cell::default());
        let (seal, is_directory_whole) = (None, false);
        let mut salvage = Salvage { read, next_data, size, seal, trees, found, is_directory_whole };
        salvage.seal = salvage.read_seal();
        let held = |(root, kind): (SalvagedRoot, u16)| Some((root.id, Holds::of_kind(kind)?));
        salvage.trees = salvage.kept_roots().into_iter().filter_map(held).collect();
        salvage.is_directory_whole = salvage.has_all_in_known_trees();
        salvage
    }

    /// Whether the leaves and keys of the trees in the directory are as many as the pool had when it was closed.
    fn has_all_in_known_trees(&self) -> bool {
        let Some(Seal { leaves, keys, .. }) = self.seal else { return false };
        let mut has = (0, 0);
        self.leaves(
            &mut |of, leaf| {
                let (tree, _) = owner_parts(word(leaf.bytes, 16));
                if let (true, Some(holding)) = (leaf.is_certain, self.trees.get(&tree)) {
                    let entries = entries_of(of, leaf.bytes, *holding).count() as u64;
                    if *holding != Holds::UnsealedIntegers {
                        has = (has.0 + 1, has.1 + entries);
                    }
                }
            },
            &mut |_| (),
        );
        has == (leaves, keys)
    }

    /// Whether the pool says what it held, so that what is missing can be told.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    fn read_seal(&self) -> Option<Seal> {
        let words = |offset: u64| std::array::from_fn(|index| self.word(offset + 8 * index as u64));
        let generation = |words: &[u64; 8]| {
            let bytes: Vec<u8> = words[..7].iter().flat_map(|word| word.to_le_bytes()).collect();
            let mark = u64::from(u32::from_le_bytes(SESSION_MARK));
            (words[7] == mark << 32 | u64::from(crc32c::crc32c(&bytes))).then_some(words[0])
        };
        let newest =
            SESSION_OFFSETS.iter().filter_map(|offset| generation(&words(*offset))).max()?;
        SEAL_OFFSETS.iter().find_map(|offset| Seal::decode(&words(*offset), newest))
    }

    /// What is missing, if that can be told. To be asked when all pairs were looked for.
    pub fn missing(&self) -> Option<String> {
        let Seal { leaves, keys, .. } = self.seal?;
        let found = self.found.get();
        (found != (leaves, keys)).then(|| {
            format!(
                "when the pool was closed it had {leaves} leaves with {keys} keys, and {} leaves with \
                 {} keys were found, maps of integers and of the store itself included",
                found.0, found.1
            )
        })
    }

    fn word(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        if (self.read)(offset, &mut bytes) { u64::from_le_bytes(bytes) } else { 0 }
    }

    /// The roots that are whole.
    pub fn roots(&self) -> Vec<SalvagedRoot> {
        self.kept_roots().into_iter().map(|(root, _)| root).collect()
    }

    /// Whether a tree has hashed leaves: then those that the pool made last have.
    pub fn has_hashed_leaves(&self) -> bool {
        let hashed =
            [<BytesKindM as Kind<Hardware>>::HASHED_CODE, <U64Kind as Kind<Hardware>>::HASHED_CODE];
        self.kept_roots().iter().any(|(_, kind)| hashed.contains(kind))
    }

    /// The roots that are whole, each with the kind of its tree.
    fn kept_roots(&self) -> Vec<(SalvagedRoot, u16)> {
        // Not by halves: with the id of another tree a map would get the keys of that one.
        let root = |(name, commit, is_whole): (String, u64, bool)| {
            let kind = (commit >> 16) as u16;
            let has_bytes = Holds::of_kind(kind) == Some(Holds::Bytes);
            is_whole.then_some((SalvagedRoot { name, id: (commit >> 32) as u32, has_bytes }, kind))
        };
        self.named_roots().filter_map(root).collect()
    }

    /// Names of roots of which the name alone is whole.
    pub fn damaged_roots(&self) -> Vec<String> {
        self.named_roots().filter(|(_, _, is_whole)| !is_whole).map(|(name, _, _)| name).collect()
    }

    /// The roots whose names are whole: name, commit word, and whether that is whole.
    fn named_roots(&self) -> impl Iterator<Item = (String, u64, bool)> + '_ {
        (0..ROOT_COUNT).filter_map(|slot| {
            let mut bytes = [0; ROOT_SIZE as usize];
            let offset = ROOT_OFFSET + u64::from(slot) * ROOT_SIZE;
            let commit = (self.read)(offset, &mut bytes).then(|| word(&bytes, 0))?;
            let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..48]), &bytes[52..64]);
            let length = word(&bytes, 48) >> 32;
            let is_named = u64::from(sum) == word(&bytes, 48) & 0xFFFF_FFFF
                && (1..=ROOT_NAME_MAX as u64).contains(&length);
            if commit == 0 || !is_named {
                return None;
            }
            let name = String::from_utf8(bytes[8..8 + length as usize].to_vec()).ok()?;
            Some((name, commit, is_root_whole(commit, sum)))
        })
    }

    /// Calls `found` with every pair that can be proven, and `dropped` with a sentence for each thing
    /// that should be one and cannot.
    pub fn pairs(&self, found: &mut dyn FnMut(SalvagedPair), dropped: &mut dyn FnMut(String)) {
        // Both report; of what leaves are dropped is told when the leaf is met.
        let dropped = RefCell::new(dropped);
        self.leaves(
            &mut |of, leaf| self.entries(of, leaf, found, &mut |what| dropped.borrow_mut()(what)),
            &mut |what| dropped.borrow_mut()(what),
        );
    }

    /// Calls `visit` with every leaf block that is in use, and `dropped` for what cannot be looked at.
    fn leaves(&self, visit: &mut dyn FnMut(&Blocks, &Leaf<'_>), dropped: &mut dyn FnMut(String)) {
        let shift = self.word(DATA_START + 8);
        let shift = match u32::try_from(shift) {
            Ok(shift) if (CHUNK_SHIFT_MIN..=CHUNK_SHIFT_MAX).contains(&shift) => shift,
            _ => {
                dropped(format!("the size of chunks, {shift}, cannot be: took the usual one"));
                CHUNK_SHIFT
            }
        };
        let mut chunk = (DATA_START + BLOCK_SIZE as u64).div_ceil(1 << shift);
        while chunk < self.size >> shift {
            let start = chunk << shift;
            match ChunkHeader::decode(self.word(start)) {
                Some(header) if header.kind == ChunkKind::Leaves => {
                    // Blocks of another class are of trees that salvage does not know.
                    let class = usize::from(header.class);
                    if let Some(of) = KNOWN_BLOCKS.iter().find(|known| known.class == class) {
                        self.blocks(of, start, 1 << shift, true, visit, dropped);
                    }
                    chunk += 1;
                }
                // Its header may be in a hole: all chunks of that are such.
                Some(header) if header.kind == ChunkKind::Unused => {
                    chunk = ((self.next_data)(start) >> shift).max(chunk + 1);
                }
                Some(header) => chunk += u64::from(header.run),
                None => {
                    dropped(format!(
                        "the header of the chunk at {start} is damaged: its blocks, if it has any, \
                         were looked at one by one"
                    ));
                    for of in &KNOWN_BLOCKS {
                        self.blocks(of, start, 1 << shift, false, visit, dropped);
                    }
                    chunk += 1;
                }
            }
        }
    }

    fn blocks(
        &self,
        of: &Blocks,
        start: u64,
        length: usize,
        is_certain: bool,
        visit: &mut dyn FnMut(&Blocks, &Leaf<'_>),
        dropped: &mut dyn FnMut(String),
    ) {
        let mut bytes = vec![0; length];
        if !(self.read)(start, &mut bytes) {
            dropped(format!("the chunk at {start} cannot be read"));
            return;
        }
        for (index, block) in bytes.chunks_exact(block_size(of.class)).enumerate().skip(1) {
            let number = (start / BLOCK_SIZE as u64) as u32 + ((index as u32) << of.class);
            let state = self.is_live(number, word(block, 0));
            if is_certain && state.is_none() {
                dropped(format!("the state of the leaf block {number} is damaged"));
            }
            if state != Some(false) {
                let leaf = Leaf {
                    number,
                    bytes: block,
                    is_certain: is_certain && state.is_some(),
                    // What was no leaf looks like anything.
                    is_silent: !is_certain && state.is_none(),
                };
                visit(of, &leaf);
            }
        }
    }

    /// Whether a block with this state word is in use; `None` if the word is damaged.
    fn is_live(&self, number: u32, state: u64) -> Option<bool> {
        let other =
            |other: u32| BlockState::decode(self.word(u64::from(other) * BLOCK_SIZE as u64));
        Some(match BlockState::decode(state)? {
            BlockState::Live => true,
            BlockState::New { origin } => match other(origin) {
                Some(BlockState::Replaced { left, right }) => left == number || right == number,
                _ => false,
            },
            BlockState::Merging { partner, target } => {
                other(partner) != Some(BlockState::Replaced { left: target, right: NO_BLOCK })
            }
            BlockState::Free | BlockState::Replaced { .. } => false,
        })
    }

    fn entries(
        &self,
        of: &Blocks,
        leaf: &Leaf<'_>,
        found: &mut dyn FnMut(SalvagedPair),
        dropped: &mut dyn FnMut(String),
    ) {
        let (number, is_certain) = (leaf.number, leaf.is_certain);
        let (tree, skip) = owner_parts(word(leaf.bytes, 16));
        let known = self.trees.get(&tree).copied();
        if known.is_none() && self.is_directory_whole {
            return;
        }
        let holding = known.unwrap_or(Holds::Bytes);
        if holding == Holds::UnsealedIntegers {
            return;
        }
        if is_certain {
            self.count_leaf();
            if self.seal.is_some() && !(of.is_as_sealed)(number, leaf.bytes) {
                dropped(format!(
                    "the leaf block {number} is not as it was when the pool was closed: keys of it may \
                     be missing"
                ));
            }
        }
        for (slot, entry) in entries_of(of, leaf.bytes, holding) {
            if is_certain {
                let (leaves, keys) = self.found.get();
                self.found.set((leaves, keys + 1));
            }
            if holding != Holds::Bytes {
                continue;
            }
            match self.pair(entry, skip) {
                Ok((key, value, expiry_ms)) => {
                    found(SalvagedPair { tree, key, value, expiry_ms, is_certain });
                }
                Err(_) if leaf.is_silent => {}
                Err(what) => dropped(format!("slot {slot} of the leaf block {number}: {what}")),
            }
        }
    }

    fn count_leaf(&self) {
        let (leaves, keys) = self.found.get();
        self.found.set((leaves + 1, keys));
    }

    fn pair(&self, entry: Pair, skip: usize) -> Result<record::Owned, String> {
        let offset = record_offset(<BytesKindM as Kind<Hardware>>::payload(entry));
        let (key, value, expiry_ms) = record::read_from(self.read, self.size, offset)?;
        let known = BytesKey::new(&key);
        let payload = known.payload(offset);
        let expected = <BytesKindM as Kind<Hardware>>::entry(known, skip, payload, 0);
        if <BytesKindM as Kind<Hardware>>::with_state(entry, 0) != expected {
            return Err(format!("the entry does not fit the key of the record at {offset}"));
        }
        Ok((key, value, expiry_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was wrong: each chunk of a hole was read, which of a sparse pool of many terabytes is nearly all there is.
    #[test]
    fn holes_are_not_read() {
        let (reads, size) = (Cell::new(0), 1 << 42);
        let data = [DATA_START + 8, 5 << CHUNK_SHIFT, size - (1 << CHUNK_SHIFT)];
        let read = |offset: u64, bytes: &mut [u8]| {
            reads.set(reads.get() + 1);
            bytes.fill(0);
            match data.iter().position(|place| *place == offset) {
                Some(0) => bytes.copy_from_slice(&u64::from(CHUNK_SHIFT).to_le_bytes()),
                // No header of a chunk.
                Some(_) => bytes[..8].fill(0xEE),
                None => {}
            }
            true
        };
        let next_data =
            |offset: u64| data.into_iter().find(|place| *place >= offset).unwrap_or(size);
        let mut damaged = 0;
        Salvage::new(size, &read, &next_data).pairs(&mut |_| (), &mut |_| damaged += 1);
        assert_eq!(damaged, 2, "both are looked at");
        assert!(reads.get() < 10_000, "{} reads", reads.get());
    }
}
