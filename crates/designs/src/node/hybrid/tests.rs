//! What recovery refuses in a damaged pool.

use std::path::Path;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::{IndexError, SingleTreePool};
use everleaf_machine::{Hardware, LINE_SIZE};
use everleaf_pool::{CreateMode, Pool, PoolOptions};

use super::FIRST_IMAGE;
use crate::wbtree::WbTreeSo;

type Tree = WbTreeSo;

fn pool(path: &Path, create: CreateMode) -> Pool<Hardware> {
    Pool::open(path, &PoolOptions { create, ..PoolOptions::default() }).expect("a pool")
}

/// A record with room for a leaf at an offset that no leaf can have: of a class that is no multiple of
/// a line.
fn crooked_record(session: &mut Session<Hardware>) -> u64 {
    let mut offsets = (0..4).map(|_| session.allocate_record(224).expect("room"));
    offsets.find(|offset| !offset.is_multiple_of(LINE_SIZE as u64)).expect("every second one")
}

fn refused(damage: impl FnOnce(&Tree, u64)) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("pool");
    let tree_pool = SingleTreePool::<Tree>::create(pool(&path, CreateMode::New)).expect("room");
    let offset = crooked_record(&mut tree_pool.heap().session().expect("a session"));
    damage(tree_pool.tree(), offset);
    drop(tree_pool);
    let opened = SingleTreePool::<Tree>::open(pool(&path, CreateMode::Never), 1);
    let at = match opened.err() {
        Some(IndexError::Alloc(AllocError::Corrupt { offset, .. })) => Some(offset),
        _ => None,
    };
    assert_eq!(at, Some(offset));
}

#[test]
fn a_first_leaf_that_begins_within_a_line_is_refused() {
    refused(|tree, offset| tree.head().write_private(offset));
}

#[test]
fn an_image_that_begins_within_a_line_is_refused() {
    refused(|tree, offset| tree.root_object.word(FIRST_IMAGE).write_private(offset));
}
