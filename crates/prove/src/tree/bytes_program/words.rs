//! A tree of byte strings that a program runs on, whatever its nodes are and however it is opened.

use std::cell::RefCell;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::geometry::LeafShape;
use everleaf_index::{
    BytesTree, Change, Geometry, IndexError, RestorePlace, Session, Trees, Verify,
};
use everleaf_machine::Simulated;
use everleaf_pool::Pool;

use super::text;
use crate::judge::leaks::remove_trees;
use crate::tree::nbtree::SHARES;
use crate::tree::subject::Nodes;

const NAME: &str = "words";
/// Leaves that are restored in the background at a time.
const RESTORED_TOGETHER: usize = 2;

/// Bytes that a record with a long value has, and its header: the last of them is the first of a line, wherever in a
/// chunk the record lies.
const LONG_RECORD: usize = 4 * 64 + 1;
const RECORD_HEADER: usize = 8;

/// Bytes of the values of a key: of different lengths, so that records move between size classes, some of several
/// lines.
pub(super) fn value_sizes(key: &[u8]) -> [usize; 4] {
    [
        8,
        19,
        30,
        LONG_RECORD.checked_sub(RECORD_HEADER + key.len()).filter(|size| *size > 30).unwrap_or(200),
    ]
}

/// The bytes of a value of a key.
pub(super) fn encode(key: &[u8], value: u64) -> Vec<u8> {
    let mut bytes = value.to_le_bytes().to_vec();
    let length = value_sizes(key)[if value % 11 == 4 { 3 } else { value as usize % 3 }];
    bytes.extend((0..(length - 8) as u64).map(|index| value.wrapping_add(index) as u8));
    bytes
}

/// The value of bytes that [`encode`] made.
fn decode(key: &[u8], bytes: &[u8]) -> u64 {
    let value = u64::from_le_bytes(bytes[..8].try_into().expect("a value has 8 bytes"));
    assert_eq!(bytes, encode(key, value), "a value is torn");
    value
}

pub(super) type Answer = Result<Option<u64>, IndexError>;

/// An opened tree of byte strings, whatever its nodes. Values are [decoded](decode).
pub(super) trait LivingWords {
    fn heap(&self) -> &Arc<Heap<Simulated>>;
    fn change(&self, session: &mut Session<Simulated>, change: &Change<'_>) -> Answer;
    fn get(&self, session: &mut Session<Simulated>, key: &[u8]) -> Answer;
    fn exchange(&self, session: &mut Session<Simulated>, key: &[u8], values: (u64, u64)) -> Answer;
    fn get_many(
        &self,
        session: &mut Session<Simulated>,
        keys: &[&[u8]],
        tell: &mut dyn FnMut(Option<u64>),
    ) -> Result<(), IndexError>;
    fn scan(
        &self,
        session: &mut Session<Simulated>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        tell: &mut dyn FnMut(&[u8], u64) -> bool,
    ) -> Result<(), IndexError>;
    fn clear(&self, session: &mut Session<Simulated>) -> Result<(), IndexError>;
    fn restore_some(&self, session: &mut Session<Simulated>) -> Result<(), IndexError>;
    /// What is done when the pool, which was opened at once, is full. Whether there may be room then.
    fn reclaim(&self, session: &mut Session<Simulated>) -> bool;
    fn check(&self) -> Result<Vec<String>, IndexError>;
    fn give_back(&self) -> Result<(), String>;
    fn close(&self) -> Result<(), IndexError>;
}

struct Live<G: Geometry> {
    tree: Arc<BytesTree<G, Simulated>>,
    /// How far the threads in the background have come, if opening has left something.
    place: RefCell<RestorePlace>,
    is_at_once: bool,
    trees: Trees<G, Simulated>,
}

impl<G: Geometry> LivingWords for Live<G> {
    fn heap(&self) -> &Arc<Heap<Simulated>> {
        self.trees.heap()
    }

    fn change(&self, session: &mut Session<Simulated>, change: &Change<'_>) -> Answer {
        let see = |value: &[u8]| decode(change.key, value);
        self.tree.change_seeing(session, change, |_, old| old.map(see))
    }

    fn get(&self, session: &mut Session<Simulated>, key: &[u8]) -> Answer {
        self.tree.get_with(session, key, |value| decode(key, value))
    }

    fn exchange(
        &self,
        session: &mut Session<Simulated>,
        key: &[u8],
        (expected, new): (u64, u64),
    ) -> Answer {
        let (old, new) = (encode(key, expected), encode(key, new));
        self.tree.exchange(session, key, Some(&old), Some(&new), |done, found| {
            let found = found.map(|value| decode(key, value));
            assert_eq!(done, found == Some(expected), "done or not?");
            found
        })
    }

    fn get_many(
        &self,
        session: &mut Session<Simulated>,
        keys: &[&[u8]],
        tell: &mut dyn FnMut(Option<u64>),
    ) -> Result<(), IndexError> {
        let asked = keys.iter().copied();
        self.tree.get_many(session, asked, Verify::Sum, |index, value| {
            tell(value.map(|value| decode(keys[index], value)));
        })
    }

    fn scan(
        &self,
        session: &mut Session<Simulated>,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        tell: &mut dyn FnMut(&[u8], u64) -> bool,
    ) -> Result<(), IndexError> {
        self.tree.scan(session, low, high, reverse, |key, value| tell(key, decode(key, value)))
    }

    fn clear(&self, session: &mut Session<Simulated>) -> Result<(), IndexError> {
        self.tree.clear(session)
    }

    /// As a thread in the background: some leaves, and the rest when all is restored.
    fn restore_some(&self, session: &mut Session<Simulated>) -> Result<(), IndexError> {
        if !self.trees.is_opening() {
            return Ok(());
        }
        let (place, mut damaged) = (self.place.take(), vec![]);
        let next = self.trees.restore_next(session, &place, RESTORED_TOGETHER, &mut damaged)?;
        assert!(damaged.is_empty(), "{damaged:?}");
        self.place.replace(next.unwrap_or_default());
        self.trees.finish_opening();
        Ok(())
    }

    fn reclaim(&self, session: &mut Session<Simulated>) -> bool {
        if self.is_at_once {
            session.collect_all();
            session.give_back();
            self.trees.reclaim();
        }
        self.is_at_once
    }

    fn check(&self) -> Result<Vec<String>, IndexError> {
        Ok(self.trees.check()?.problems)
    }

    fn give_back(&self) -> Result<(), String> {
        remove_trees(&self.trees)
    }

    fn close(&self) -> Result<(), IndexError> {
        self.trees.close()
    }
}

pub(super) type Create = fn(Pool<Simulated>, u32) -> Result<Box<dyn LivingWords>, IndexError>;
pub(super) type Open = fn(Pool<Simulated>) -> Result<Box<dyn LivingWords>, String>;

/// The tree of byte strings with nodes of some geometry: how to make and to open one.
#[derive(Clone, Copy, Debug)]
pub struct AnyWords {
    /// The class of its leaf blocks in the allocator.
    pub(super) block_class: usize,
    pub(super) create: Create,
    pub(super) open: Open,
    /// Whether opening leaves the space that was free, so that there may be none in a small pool.
    pub(super) leaves_space: bool,
}

impl AnyWords {
    /// That with nodes of the geometry `G`.
    pub const fn of<G: Nodes>() -> AnyWords {
        AnyWords {
            block_class: 0,
            create: create::<G, false>,
            open: open::<G>,
            leaves_space: false,
        }
    }

    /// The same with hashed leaves.
    pub const fn hashed<G: Nodes>() -> AnyWords {
        let block_class = <G::Leaves as LeafShape>::BLOCK_CLASS;
        AnyWords { block_class, create: create::<G, true>, ..Self::of::<G>() }
    }

    /// The same, opened at once and restored later.
    pub const fn at_once<G: Nodes>() -> AnyWords {
        AnyWords { open: open_at_once::<G>, leaves_space: true, ..Self::hashed::<G>() }
    }
}

fn create<G: Nodes, const HASHED: bool>(
    pool: Pool<Simulated>,
    chunk_shift: u32,
) -> Result<Box<dyn LivingWords>, IndexError> {
    let trees: Trees<G, Simulated> = Trees::create_with_chunks(pool, chunk_shift)?;
    if HASHED {
        trees.make_hashed_leaves()?;
    }
    let (tree, place) = (trees.bytes_tree(NAME)?, RefCell::default());
    Ok(Box::new(Live { tree, place, is_at_once: false, trees }))
}

fn open<G: Nodes>(pool: Pool<Simulated>) -> Result<Box<dyn LivingWords>, String> {
    live::<G>(Trees::open(pool, SHARES), false)
}

fn open_at_once<G: Nodes>(pool: Pool<Simulated>) -> Result<Box<dyn LivingWords>, String> {
    live::<G>(Trees::open_at_once(pool, SHARES), true)
}

fn live<G: Nodes>(
    trees: Result<Trees<G, Simulated>, IndexError>,
    is_at_once: bool,
) -> Result<Box<dyn LivingWords>, String> {
    let trees = trees.map_err(text)?;
    let tree = trees.find_bytes_tree(NAME).map_err(text)?.ok_or("the tree is gone")?;
    Ok(Box::new(Live { tree, place: RefCell::default(), is_at_once, trees }))
}
