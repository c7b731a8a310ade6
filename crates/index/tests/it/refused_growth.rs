//! A kernel that refuses to let the pool grow, with an error that is not a lack of space: a batch is
//! done as a whole or not at all, wherever that happens, and nothing is left that others wait for.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf_index::{
    BatchOp, BytesTree, Change, Domain, Hardware, Journal, Pool, PoolError, Session, Trees,
};
use everleaf_machine::mapping::Mapping;
use everleaf_pool::Backing;

/// Refuses to grow once so many growths have been granted.
struct Refusing {
    memory: Mapping,
    granted: Arc<AtomicU64>,
}

// SAFETY: a mapping of plain memory never moves, and nothing else reaches it.
unsafe impl Backing for Refusing {
    fn base(&self) -> *mut u8 {
        self.memory.base()
    }

    fn size(&self) -> u64 {
        self.memory.length() as u64
    }

    fn capacity(&self) -> u64 {
        self.memory.reserved() as u64
    }

    fn extend(&self, old: u64, new: u64) -> Result<(), PoolError> {
        let error = |source| PoolError::Io { path: "refusing".into(), action: "allocate", source };
        if new - old >= STEP_MIN {
            // Only what is needed, so that there are many growths to refuse.
            let source = std::io::ErrorKind::StorageFull.into();
            return Err(PoolError::DiskFull { path: "refusing".into(), needed: new, source });
        }
        // Relaxed: one caller at a time.
        let left = self.granted.load(Ordering::Relaxed);
        if left == 0 {
            return Err(error(std::io::Error::from_raw_os_error(5)));
        }
        // Relaxed: one caller at a time.
        self.granted.store(left - 1, Ordering::Relaxed);
        self.memory.extend(new as usize).map_err(error)
    }
}

/// The least that a pool grows by if it can.
const STEP_MIN: u64 = 1 << 20;
const KEYS: u32 = 20_000;
/// Small chunks: each kind of space runs out now and then, also that of the bounds between leaves.
const CHUNK_SHIFT: u32 = 14;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A pool whose leaves are full, so that most of what is put between its keys splits one.
struct World {
    trees: Trees,
    tree: Arc<BytesTree>,
    journal: Journal,
    granted: Arc<AtomicU64>,
    before: Contents,
}

/// Long and alike, so that bounds between leaves need records of their own.
fn key(number: u32, mark: u8) -> Vec<u8> {
    [&b"a long beginning "[..], &number.to_be_bytes(), &[mark]].concat()
}

impl World {
    fn new() -> World {
        let granted = Arc::new(AtomicU64::new(u64::MAX));
        let memory = Mapping::of_memory(1 << 20, 1 << 28).expect("memory");
        let backing = Refusing { memory, granted: granted.clone() };
        let pool = Pool::with_backing(Box::new(backing), Domain::Process, 0, true).expect("memory");
        let trees: Trees = Trees::create_with_chunks(pool, CHUNK_SHIFT).expect("room");
        let before: Contents =
            (0..KEYS).map(|number| (key(number, 0), number.to_be_bytes().to_vec())).collect();
        let tree = trees.load_bytes_tree("words", before.iter()).expect("room");
        let mut session = trees.heap().session().expect("a session");
        let journal = Journal::open(&trees, &mut session).expect("room");
        drop(session);
        World { trees, tree, journal, granted, before }
    }

    fn contents(&self, session: &mut Session<Hardware>) -> Contents {
        let mut found = Contents::new();
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.tree
            .scan(session, all.0, all.1, false, |key, value| {
                // Those of the other writers do not matter here.
                if key.last().is_some_and(|mark| *mark < 9) {
                    found.insert(key.to_vec(), value.to_vec());
                }
                true
            })
            .expect("there");
        found
    }

    /// Writes the batch after so many growths; true if it was done.
    fn write_after(&self, growths: u64) -> bool {
        let mut after = self.before.clone();
        for number in (0..KEYS).step_by(6) {
            after.insert(key(number, 1), vec![1; 90]);
            after.insert(key(number + 2, 0), b"replaced".to_vec());
            after.remove(&key(number + 4, 0));
        }
        let tree = &*self.tree;
        let changed = after.iter().filter(|(key, value)| self.before.get(*key) != Some(*value));
        let removed = self.before.keys().filter(|key| !after.contains_key(*key));
        let puts = changed.map(|(key, value)| BatchOp::put(tree, key, value, 0));
        let removals = removed.map(|key| BatchOp::remove(tree, key));
        let operations: Vec<BatchOp<'_>> = puts.chain(removals).collect();
        let mut session = self.trees.heap().session().expect("a session");
        // Relaxed: nobody grows the pool now.
        self.granted.store(growths, Ordering::Relaxed);
        let result = self.journal.apply(&mut session, &operations);
        // Relaxed: nobody grows the pool now, or it does not matter to whom it is refused.
        self.granted.store(u64::MAX, Ordering::Relaxed);
        let is_done = result.is_ok();
        let expected = if is_done { &after } else { &self.before };
        let found = self.contents(&mut session);
        assert!(
            found == *expected,
            "{growths} growths, then {:?}: {} keys instead of {}",
            result.err(),
            found.len(),
            expected.len()
        );
        assert_eq!(self.journal.pending(&mut session).expect("readable"), 0);
        is_done
    }

    /// Nothing is frozen, leaked or in use twice.
    fn is_sound(&self) {
        let mut session = self.trees.heap().session().expect("a session");
        for number in (0..KEYS).step_by(5) {
            let key = key(number, 9);
            let put = Change::upsert(&key, b"afterwards");
            self.tree.change(&mut session, &put).expect("room");
        }
        drop(session);
        assert_eq!(self.trees.check().expect("a check").problems, Vec::<String>::new());
    }
}

/// A leaf whose split found no space for its fence stayed frozen. So the batch could not be rolled back:
/// of 3,334 puts 1,268 stayed, and the batch was erased from the journal all the same.
#[test]
fn a_batch_is_whole_wherever_growth_is_refused() {
    let mut done = false;
    let mut refused = 0;
    for growths in 0u64.. {
        let world = World::new();
        done |= world.write_after(growths);
        world.is_sound();
        if done {
            break;
        }
        refused += 1;
    }
    assert!(refused >= 10, "it was refused at {refused} places only");
}

#[test]
fn a_batch_is_whole_beside_writers_that_are_refused() {
    let mut refused = 0;
    for growths in 0..6 {
        let (world, done) = (World::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for writer in 0..2u8 {
                let (world, done) = (&world, &done);
                scope.spawn(move || {
                    let mut session = world.trees.heap().session().expect("a session");
                    for number in 0.. {
                        if done.load(Ordering::Acquire) {
                            return;
                        }
                        let key = key(number * 7 % KEYS, 10 + writer);
                        // It may be refused, too.
                        let put = Change::upsert(&key, &[7; 100]);
                        let _ = world.tree.change(&mut session, &put);
                    }
                });
            }
            refused += u64::from(!world.write_after(growths));
            done.store(true, Ordering::Release);
        });
        world.is_sound();
    }
    assert!(refused > 0, "no batch was refused: the writers had made room for all of them");
}
