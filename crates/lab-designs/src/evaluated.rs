//! Trees that threads in the background work for: the F3-trees, whose evaluators bring what writers left
//! to the global tree. Those without such threads are here too, to be measured in the same way.

use std::sync::Arc;

use everleaf_designs::f3tree::variant::{
    Entries6, Entries30, Entries62, Nodes100, Nodes500, Nodes1000, NodesUnlimited, Objects100,
    Objects500, Objects1000, Unlimited, Variant,
};
use everleaf_designs::{F3Tree, FastFair, fast_fair};
use everleaf_index::{Hardware, Heap, IndexError, OrderedIndex, Pool, Session, SingleTreePool};

/// A tree in a pool of its own, and the work of an evaluator.
pub trait Evaluated: Send + Sync {
    /// The tree.
    fn tree(&self) -> &dyn OrderedIndex<Hardware>;

    /// Its heap, which has sessions.
    fn heap(&self) -> &Arc<Heap<Hardware>>;

    /// Whether there is anything for evaluators to do.
    fn has_evaluators(&self) -> bool;

    /// Evaluates what is pending; gives how many keys there were.
    ///
    /// # Errors
    /// The tree's.
    fn evaluate(&self, session: &mut Session<Hardware>) -> Result<usize, IndexError>;

    /// The value of a key, without a table of what is pending.
    ///
    /// # Errors
    /// The tree's.
    fn get_without_table(
        &self,
        session: &mut Session<Hardware>,
        key: u64,
    ) -> Result<Option<u64>, IndexError>;
}

impl<V: Variant> Evaluated for SingleTreePool<F3Tree<V>> {
    fn tree(&self) -> &dyn OrderedIndex<Hardware> {
        self.tree()
    }

    fn heap(&self) -> &Arc<Heap<Hardware>> {
        self.heap()
    }

    fn has_evaluators(&self) -> bool {
        true
    }

    fn evaluate(&self, session: &mut Session<Hardware>) -> Result<usize, IndexError> {
        self.tree().evaluate(session)
    }

    fn get_without_table(
        &self,
        session: &mut Session<Hardware>,
        key: u64,
    ) -> Result<Option<u64>, IndexError> {
        self.tree().get_without_table(session, key)
    }
}

impl<V: fast_fair::variant::Variant> Evaluated for SingleTreePool<FastFair<V>> {
    fn tree(&self) -> &dyn OrderedIndex<Hardware> {
        self.tree()
    }

    fn heap(&self) -> &Arc<Heap<Hardware>> {
        self.heap()
    }

    fn has_evaluators(&self) -> bool {
        false
    }

    fn evaluate(&self, _session: &mut Session<Hardware>) -> Result<usize, IndexError> {
        Ok(0)
    }

    fn get_without_table(
        &self,
        session: &mut Session<Hardware>,
        key: u64,
    ) -> Result<Option<u64>, IndexError> {
        self.tree().get(session, key)
    }
}

/// A new tree of the design of that name.
///
/// # Errors
/// It is none of these; no space.
pub fn evaluated(name: &str, pool: Pool<Hardware>) -> Result<Box<dyn Evaluated>, IndexError> {
    type Of<V> = SingleTreePool<F3Tree<V>>;
    Ok(match name {
        "fast-fair" => Box::new(SingleTreePool::<FastFair>::create(pool)?),
        "f3-tree" => Box::new(Of::<Objects500>::create(pool)?),
        "f3-tree-100" => Box::new(Of::<Objects100>::create(pool)?),
        "f3-tree-1000" => Box::new(Of::<Objects1000>::create(pool)?),
        "f3-tree-unlimited" => Box::new(Of::<Unlimited>::create(pool)?),
        "f3-tree-entries-6" => Box::new(Of::<Entries6>::create(pool)?),
        "f3-tree-entries-30" => Box::new(Of::<Entries30>::create(pool)?),
        "f3-tree-entries-62" => Box::new(Of::<Entries62>::create(pool)?),
        "f3-tree-nodes" => Box::new(Of::<Nodes500>::create(pool)?),
        "f3-tree-nodes-100" => Box::new(Of::<Nodes100>::create(pool)?),
        "f3-tree-nodes-1000" => Box::new(Of::<Nodes1000>::create(pool)?),
        "f3-tree-nodes-unlimited" => Box::new(Of::<NodesUnlimited>::create(pool)?),
        _ => return Err(IndexError::UnknownDesign(name.to_owned())),
    })
}
