//! What needs a look inside: a leaf on whose way to be replaced there is damage.

use everleaf_index::{AllocError, Domain, IndexError, OrderedIndex, Pool, SingleTreePool};

use super::FastFair;
use super::variant::Small;

/// With buffers, and leaves that are replaced.
type Tree = FastFair<Small<3, 1, 3>>;

/// A full buffer's leaf had said that it was replaced, and was locked, when the way to its left neighbour turned
/// out to be damaged. Both stayed, and a thread that came to one of its keys afterwards waited for ever.
#[test]
fn damage_beside_a_leaf_that_is_to_be_replaced_leaves_it_open() {
    let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Process).expect("memory");
    let tree_pool: SingleTreePool<Tree> = SingleTreePool::create(pool).expect("room");
    let (tree, mut own) = (tree_pool.tree(), tree_pool.heap().session().expect("a free session"));
    let session = &mut own;
    for key in 1..=40 {
        tree.upsert(session, key * 100, key).expect("room");
    }
    let parent = tree.find(2000, 1, None).expect("no damage").expect("there is a level 1");
    let low = parent.key(0).read_private();
    let leaf = tree.nodes.at(parent.value(0).read_private()).expect("no damage");
    // No node can be there.
    let neighbour = parent.leftmost();
    let kept = neighbour.read_private();
    neighbour.write_private(8);
    let refused = (0..3).find_map(|number| tree.upsert(session, low + number, 7).err());
    let refused = refused.expect("the buffer had no place for all of them");
    assert!(matches!(refused, IndexError::Alloc(AllocError::Corrupt { .. })), "{refused}");
    assert!(!leaf.is_deleted(), "nothing has come in its place");
    assert_eq!(tree.get(session, low).expect("it is open"), Some(7));
    neighbour.write_private(kept);
    for number in 0..3 {
        tree.upsert(session, low + number, 8).expect("room");
    }
    assert_eq!(tree.len(session).expect("no damage"), 42);
    drop(own);
    assert_eq!(tree_pool.check().expect("a check").problems, Vec::<String>::new());
}
