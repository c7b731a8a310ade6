//! Crash images made by hand: states that a kill between two stores leaves, and what must become of
//! them over more than one restart.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use everleaf_index::nbtree::state::{BlockState, NO_BLOCK};
use everleaf_index::{CreateMode, Pool, PoolOptions, Trees};

const BLOCK: u64 = 1024;
const CHUNK: u64 = 256 << 10;
/// Kind of a chunk of leaves in its header word.
const LEAVES: u64 = 2;

/// A pool file between two sessions, as bytes.
struct Image(File);

impl Image {
    fn open(path: &Path) -> Self {
        Image(File::options().read(true).write(true).open(path).expect("the pool file"))
    }

    fn word(&self, offset: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, offset).expect("within the file");
        u64::from_le_bytes(bytes)
    }

    fn set_word(&self, offset: u64, word: u64) {
        self.0.write_all_at(&word.to_le_bytes(), offset).expect("within the file");
    }

    fn state(&self, block: u32) -> Option<BlockState> {
        BlockState::decode(self.word(u64::from(block) * BLOCK))
    }

    fn set_state(&self, block: u32, state: BlockState) {
        self.set_word(u64::from(block) * BLOCK, state.encode());
    }

    fn low(&self, block: u32) -> u64 {
        self.word(u64::from(block) * BLOCK + 8)
    }

    /// All leaf blocks, used or not.
    fn blocks(&self) -> Vec<u32> {
        let length = self.0.metadata().expect("metadata").len();
        (0..length / CHUNK)
            .filter(|chunk| self.word(chunk * CHUNK) >> 56 == LEAVES)
            .flat_map(|chunk| (1..CHUNK / BLOCK).map(move |slot| chunk * (CHUNK / BLOCK) + slot))
            .map(|block| block as u32)
            .collect()
    }
}

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("crash.pool");
    (folder, path)
}

fn open(path: &Path) -> Trees {
    let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
    Trees::open(Pool::open(path, &options).expect("the pool opens"), 1).expect("the trees open")
}

/// All pairs of the tree `t`, after a check that must find nothing.
fn contents(trees: &Trees) -> Vec<(u64, u64)> {
    let problems = trees.check().expect("a check can be made").problems;
    assert_eq!(problems.into_iter().take(4).collect::<Vec<_>>(), Vec::<String>::new());
    let tree = trees.find_u64_tree("t").expect("of integers").expect("there");
    let mut session = trees.heap().session().expect("a free session");
    let mut pairs = vec![];
    tree.scan(&mut session, 0, usize::MAX, &mut pairs).expect("scan");
    pairs
}

/// A tree in which exactly one merge has happened. Returns its contents.
fn merge_once(path: &Path) -> Vec<(u64, u64)> {
    let trees = open(path);
    let tree = trees.u64_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a free session");
    for key in 0..2000 {
        tree.insert(&mut session, key, key).expect("room");
    }
    // Descending, so that a thin leaf has a thin neighbour on its right.
    for key in (0..1500).rev().filter(|key| key % 15 != 0) {
        if tree.shape(&mut session).expect("shape").merges > 0 {
            break;
        }
        tree.remove(&mut session, key).expect("room");
    }
    assert_eq!(tree.shape(&mut session).expect("shape").merges, 1);
    drop(session);
    contents(&trees)
}

#[test]
fn a_leaf_of_a_cut_merge_stays_dead_when_its_partner_is_reused() {
    let (_folder, path) = scratch();
    let expected = merge_once(&path);
    let image = Image::open(&path);
    let merged_into = |block: u32| match image.state(block) {
        Some(BlockState::Replaced { left, right: NO_BLOCK }) => Some(left),
        _ => None,
    };
    let blocks = image.blocks();
    let pairs = blocks.iter().flat_map(|a| blocks.iter().map(move |b| (*a, *b)));
    let (a, b, target) = pairs
        .filter(|(a, b)| image.low(*a) < image.low(*b))
        .find_map(|(a, b)| {
            let target = merged_into(a).filter(|target| merged_into(b) == Some(*target))?;
            (image.state(target) == Some(BlockState::Live)).then_some((a, b, target))
        })
        .expect("the merge left two replaced blocks");

    // Killed after the commit in the left block's word, before that in the right one's.
    image.set_state(b, BlockState::Merging { partner: a, target });
    image.set_state(target, BlockState::New { origin: a });
    assert_eq!(contents(&open(&path)), expected, "recovery completes the merge");

    // The next session uses the left block for a candidate that loses, and is killed.
    image.set_state(a, BlockState::Free);
    assert_eq!(contents(&open(&path)), expected, "the right block must not come back");
}
