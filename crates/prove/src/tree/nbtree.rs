//! NBTree as a subject.

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::{Heap, Session};
use everleaf_index::{Geometry, IndexError, OrderedIndex, Trees, U64Tree};
use everleaf_machine::Simulated;
use everleaf_pool::Pool;

use crate::tree::subject::{Nodes, Subject};

type M = Simulated;

const NAME: &str = "numbers";

/// Into so many shares recovery divides a tree, which it restores one after the other here.
pub const SHARES: usize = 3;

/// NBTree with nodes of the geometry `G`.
#[derive(Clone, Debug, Default)]
pub struct Nb<G>(PhantomData<G>);

/// The tree and the pool's other half of it.
pub struct OpenTree<G: Geometry> {
    tree: Arc<U64Tree<G, M>>,
    trees: Trees<G, M>,
}

impl<G: Nodes> Subject for Nb<G> {
    type OpenTree = OpenTree<G>;
    const LOCK_FREE: bool = true;

    fn create(pool: Pool<M>, chunk_shift: u32) -> Result<OpenTree<G>, IndexError> {
        let trees: Trees<G, M> = Trees::create_with_chunks(pool, chunk_shift)?;
        Ok(OpenTree { tree: trees.u64_tree(NAME)?, trees })
    }

    fn open(pool: Pool<M>) -> Result<OpenTree<G>, String> {
        let trees: Trees<G, M> = Trees::open(pool, SHARES).map_err(|error| error.to_string())?;
        let found = trees.find_u64_tree(NAME).map_err(|error| error.to_string())?;
        Ok(OpenTree { tree: found.ok_or("the tree is gone")?, trees })
    }

    fn heap(opened: &OpenTree<G>) -> &Arc<Heap<M>> {
        opened.trees.heap()
    }

    fn tree(opened: &OpenTree<G>) -> &dyn OrderedIndex<M> {
        &*opened.tree
    }

    fn clear(
        opened: &OpenTree<G>,
        session: &mut Session<M>,
        _keys: &[u64],
    ) -> Result<(), IndexError> {
        opened.tree.clear(session)
    }

    fn give_back(opened: &OpenTree<G>, _session: &mut Session<M>) -> Result<(), IndexError> {
        opened.trees.remove(NAME).map(drop)
    }

    fn close(opened: &OpenTree<G>) -> Result<(), IndexError> {
        opened.trees.close()
    }

    fn check(opened: &OpenTree<G>) -> Result<Vec<String>, IndexError> {
        Ok(opened.trees.check()?.problems)
    }
}
