//! NBTree as a subject.

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::{Heap, Session};
use everleaf_index::{Exchange, Geometry, IndexError, Trees, U64Tree};
use everleaf_machine::Simulated;
use everleaf_pool::Pool;

use crate::subject::{Nodes, Pairs, Subject};

type M = Simulated;

const NAME: &str = "numbers";

/// NBTree with nodes of the geometry `G`.
#[derive(Clone, Debug, Default)]
pub struct Nb<G>(PhantomData<G>);

/// The tree and the pool's other half of it.
pub struct Opened<G: Geometry> {
    tree: Arc<U64Tree<G, M>>,
    trees: Trees<G, M>,
}

impl<G: Nodes> Subject for Nb<G> {
    type Opened = Opened<G>;
    const LOCK_FREE: bool = true;

    fn create(pool: Pool<M>, chunk_shift: u32) -> Result<Opened<G>, IndexError> {
        let trees: Trees<G, M> = Trees::create_with_chunks(pool, chunk_shift)?;
        Ok(Opened { tree: trees.u64_tree(NAME)?, trees })
    }

    fn open(pool: Pool<M>) -> Result<Opened<G>, String> {
        let trees: Trees<G, M> = Trees::open(pool, 1).map_err(|error| error.to_string())?;
        let found = trees.find_u64_tree(NAME).map_err(|error| error.to_string())?;
        Ok(Opened { tree: found.ok_or("the tree is gone")?, trees })
    }

    fn heap(opened: &Opened<G>) -> &Arc<Heap<M>> {
        opened.trees.heap()
    }

    fn get(
        opened: &Opened<G>,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree.get(session, key)
    }

    fn insert(
        opened: &Opened<G>,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree.insert(session, key, value)
    }

    fn update(
        opened: &Opened<G>,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree.update(session, key, value)
    }

    fn upsert(
        opened: &Opened<G>,
        session: &mut Session<M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree.upsert(session, key, value)
    }

    fn remove(
        opened: &Opened<G>,
        session: &mut Session<M>,
        key: u64,
    ) -> Result<Option<u64>, IndexError> {
        opened.tree.remove(session, key)
    }

    fn compare_exchange(
        opened: &Opened<G>,
        session: &mut Session<M>,
        key: u64,
        expected: u64,
        new: u64,
    ) -> Result<Exchange, IndexError> {
        opened.tree.compare_exchange(session, key, expected, new)
    }

    fn scan(
        opened: &Opened<G>,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), IndexError> {
        opened.tree.scan(session, from, limit, pairs)
    }

    fn scan_back(
        opened: &Opened<G>,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), IndexError> {
        opened.tree.scan_back(session, from, limit, pairs)
    }

    fn get_many(
        opened: &Opened<G>,
        session: &mut Session<M>,
        keys: &[u64],
    ) -> Result<Vec<Option<u64>>, IndexError> {
        let mut values = vec![None; keys.len()];
        opened.tree.get_many(session, keys, &mut values)?;
        Ok(values)
    }

    fn clear(
        opened: &Opened<G>,
        session: &mut Session<M>,
        _keys: &[u64],
    ) -> Result<(), IndexError> {
        opened.tree.clear(session)
    }

    fn check(opened: &Opened<G>) -> Result<Vec<String>, IndexError> {
        Ok(opened.trees.check()?.problems)
    }
}
