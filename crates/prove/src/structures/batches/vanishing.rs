//! Batches beside trees that go: a batch changes keys of a tree that somebody removes meanwhile, and of one that stays.
//! And batches with a value that is long.
//!
//! A tree that is gone has no keys: what a batch removes there, or lets expire, is done; what it puts there is refused,
//! and nothing of the batch is left. To the judge there are two keys, one that each batch sets, and the length of the
//! long value. What else a batch changes must fit them: half a batch is a failure wherever it lies.

use std::cell::RefCell;
use std::sync::Arc;

use everleaf_index::{
    AllocError, BatchOp, BytesTree, Change, IndexError, Journal, Record, Session, Tiny, Trees,
    Verify, WriteOrder,
};
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program, Random};
use everleaf_machine::{Machine, Simulated};

use crate::case::{Case, PlannedCase};
use crate::judge::leaks::remove_trees;
use crate::machine::backing::{new_pool, open_pool};
use crate::machine::space::Space;

type M = Simulated;
type G = Tiny<3, 3>;

const STAYS: &str = "what stays";
const GOES: &str = "what goes";
/// The key that every batch sets, and what only some of them do, all in the tree that stays.
const ALWAYS: &[u8] = b"always";
const WITH_REMOVAL: &[u8] = b"with a removal";
const WITH_PUT: &[u8] = b"with a put";
const LONG: &[u8] = b"long";
/// Keys of the tree that goes.
const REMOVED: &[u8] = b"removed";
const EXPIRES: &[u8] = b"expires";
const PUT: &[u8] = b"put";
/// What expires then never expires here.
const FAR: u64 = 1 << 47;
/// The highest value of a batch: as many operations as a plan has, but for the one that removes the tree.
const VALUE_MAX: u64 = 6;
/// More bytes than two can count.
const LONG_SIZE: usize = 70_000;
/// The number of [`ALWAYS`] to the judge, and that of [`LONG`].
const NUMBERS: [u64; 2] = [0, 1];

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// A batch that needs nothing of the tree that goes: it removes a key there and lets another expire.
    Removal(u64),
    /// A batch that puts a key there: before those of the tree that stays, if the number is odd. Some of these are its
    /// own, so that leaves are split in the middle of it.
    Put(u64),
    /// A batch with a long value, in the tree that stays.
    Long(u64),
    /// Reads the key that every batch sets.
    Get,
    /// Removes the tree.
    Unname,
}

/// Threads around two trees.
#[derive(Clone, Copy, Debug)]
struct Vanishing {
    threads: usize,
    refuses: bool,
    hashes: bool,
    /// Whether there is room for long values.
    is_long: bool,
}

/// The opened trees.
struct Opened {
    trees: Trees<G, M>,
    stays: Arc<BytesTree<G, M>>,
    goes: Option<Arc<BytesTree<G, M>>>,
    journal: Journal<G, M>,
    order: WriteOrder<M>,
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<M>>>>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The number in a value, or in what it begins with.
fn number(record: Record<'_>) -> u64 {
    record.value.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

/// The keys of a batch's own in the tree that stays.
fn fillers(value: u64) -> [Vec<u8>; 3] {
    ["a", "p", "z"].map(|at| format!("{at} filler {value}").into_bytes())
}

impl Opened {
    fn get(&self, session: &mut Session<M>, key: &[u8]) -> Result<Option<u64>, IndexError> {
        self.stays.get_verified(session, key, Verify::Sum, number)
    }

    /// Reads a key as a store does.
    fn read(&self, session: &mut Session<M>, key: &[u8]) -> Result<Option<u64>, IndexError> {
        self.order.read(session, key, |session, single| {
            let seen = self.stays.get_verified(session, key, Verify::Sum, |record| {
                single.may_be_shown().then(|| number(record))
            });
            seen.map(Option::flatten)
        })
    }

    /// Makes a batch; returns what its key of the tree that stays was.
    fn batch(
        &self,
        session: &mut Session<M>,
        watched: &[u8],
        operations: &[BatchOp<'_, G, M>],
    ) -> Result<Option<u64>, IndexError> {
        self.order.raise(self.trees.heap());
        let keys = operations.iter().map(|one| self.order.stripe_of(one.change().key));
        let stripes = self.order.lock_many(keys);
        let before = self.get(session, watched);
        let done = before.and_then(|before| {
            self.journal.apply(session, operations)?;
            Ok(before)
        });
        drop(stripes);
        self.order.lower_after_batch();
        done
    }

    fn replies(
        &self,
        session: &mut Session<M>,
        operation: Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        let put = |key, bytes| BatchOp::put(&self.stays, key, bytes, 0);
        let previous = match operation {
            Operation::Removal(value) => {
                let bytes = value.to_le_bytes();
                let mut all = vec![put(ALWAYS, &bytes), put(WITH_REMOVAL, &bytes)];
                all.extend(self.goes.iter().map(|tree| BatchOp::remove(tree, REMOVED)));
                all.extend(
                    self.goes.iter().map(|tree| BatchOp::expire(tree, EXPIRES, FAR + value)),
                );
                self.batch(session, ALWAYS, &all)?
            }
            Operation::Put(value) => {
                let bytes = value.to_le_bytes();
                let fillers = fillers(value);
                let mut all = vec![put(ALWAYS, &bytes), put(WITH_PUT, &bytes)];
                all.extend(fillers.iter().map(|key| put(key, &bytes)));
                let at = if value % 2 == 1 { 0 } else { all.len() };
                if let Some(tree) = &self.goes {
                    all.insert(at, BatchOp::put(tree, PUT, &bytes, 0));
                }
                self.batch(session, ALWAYS, &all)?
            }
            Operation::Long(value) => {
                let mut bytes = value.to_le_bytes().to_vec();
                bytes.resize(LONG_SIZE, value as u8);
                self.batch(session, LONG, &[put(LONG, &bytes)])?
            }
            Operation::Get => self.read(session, ALWAYS)?,
            Operation::Unname => {
                if self.trees.unlink(session, GOES)? {
                    self.trees.tidy_removed(session);
                }
                return Ok(());
            }
        };
        replies.push(Reply::Previous(previous));
        Ok(())
    }

    /// Whether what is in the tree that goes, if it is there, fits what is in the other.
    fn judge(&self, session: &mut Session<M>) -> Result<(), String> {
        for value in 1..=VALUE_MAX {
            let found = fillers(value).map(|key| self.get(session, &key).map_err(text));
            let found: Vec<_> = found.into_iter().collect::<Result<_, _>>()?;
            if found.iter().any(|filler| *filler != found[0]) {
                return Err(format!("half of batch {value}: {found:?}"));
            }
        }
        let Some(tree) = self.trees.find_bytes_tree(GOES).map_err(text)? else { return Ok(()) };
        let with_put = self.get(session, WITH_PUT).map_err(text)?;
        let put = tree.get_verified(session, PUT, Verify::Sum, number).map_err(text)?;
        if put != with_put {
            return Err(format!("half a batch with a put: {put:?} and {with_put:?}"));
        }
        let with_removal = self.get(session, WITH_REMOVAL).map_err(text)?;
        let removed = tree.get_verified(session, REMOVED, Verify::Sum, number).map_err(text)?;
        let expiry = |record: Record<'_>| record.expiry_ms;
        let expiry = tree.get_verified(session, EXPIRES, Verify::Sum, expiry).map_err(text)?;
        let wanted = FAR + with_removal.unwrap_or(0);
        if removed.is_none() != with_removal.is_some() || expiry != Some(wanted) {
            return Err(format!(
                "half a batch with a removal: {with_removal:?}, {removed:?}, {expiry:?}"
            ));
        }
        Ok(())
    }
}

impl Program for Vanishing {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        if self.is_long { 1 << 20 } else { 2 * Space::default().pool_bytes }
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let trees: Trees<G, M> =
            Trees::create_with_chunks(pool, Space::default().chunk_shift).expect("room for a heap");
        if self.hashes {
            trees.make_hashed_leaves().expect("the pool can be written");
        }
        let mut session = trees.heap().session().expect("a free session");
        trees.bytes_tree(STAYS).expect("room for a tree");
        let goes = trees.bytes_tree(GOES).expect("room for a tree");
        let zero = 0_u64.to_le_bytes();
        for (key, expiry_ms) in [(REMOVED, 0), (EXPIRES, FAR)] {
            let change = Change::insert(key, &zero).expiring(expiry_ms);
            goes.change(&mut session, &change).expect("there is room");
        }
        Journal::open(&trees, &mut session).expect("room for a journal");
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        let trees: Trees<G, M> = Trees::open(open_pool(memory).map_err(text)?, 1).map_err(text)?;
        let stays = trees.find_bytes_tree(STAYS).map_err(text)?.ok_or("the tree is gone")?;
        let goes = trees.find_bytes_tree(GOES).map_err(text)?;
        let journal = Journal::find(&trees).map_err(text)?.ok_or("the journal is gone")?;
        let mut session = trees.heap().session().map_err(text)?;
        journal.recover(&trees, &mut session, &mut |_| ()).map_err(text)?;
        drop(session);
        let session = |_| Ok(RefCell::new(Some(trees.heap().session()?)));
        let sessions: Result<Vec<_>, AllocError> = (0..self.threads).map(session).collect();
        let (order, sessions) = (WriteOrder::new(16), sessions.map_err(text)?);
        Ok(Opened { trees, stays, goes, journal, order, sessions })
    }

    fn give_back(&self, opened: Opened) -> Result<bool, String> {
        let Opened { trees, sessions, .. } = opened;
        drop(sessions);
        trees.reclaim();
        remove_trees(&trees)?;
        Ok(true)
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let mut pairs = vec![];
        {
            let mut session = opened.trees.heap().session().map_err(text)?;
            for (key, number) in [ALWAYS, LONG].into_iter().zip(NUMBERS) {
                let value = opened.get(&mut session, key).map_err(text)?;
                pairs.extend(value.map(|value| (number, value)));
            }
            opened.judge(&mut session)?;
        }
        let report = opened.trees.check().map_err(text)?;
        if report.is_clean() { Ok(pairs) } else { Err(report.problems.join("; ")) }
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        calls.extend(match *operation {
            Operation::Removal(value) | Operation::Put(value) => {
                Some((NUMBERS[0], Call::Upsert(value)))
            }
            Operation::Long(value) => Some((NUMBERS[1], Call::Upsert(value))),
            Operation::Get => Some((NUMBERS[0], Call::Get)),
            Operation::Unname => None,
        });
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        let mut session = opened.sessions[thread].borrow_mut();
        let session = session.as_mut().expect("taken only when all threads have ended");
        match opened.replies(session, *operation, replies) {
            Err(error) if self.may_fail(*operation, &error) => {
                let mut calls = vec![];
                self.calls(operation, &mut calls);
                replies.clear();
                replies.resize(calls.len(), Reply::Refused);
            }
            done => done.unwrap_or_else(|error| panic!("{operation:?}: {error}")),
        }
    }
}

impl Vanishing {
    fn may_fail(&self, operation: Operation, error: &IndexError) -> bool {
        match error {
            // A thread that prepares a batch is told, whatever it is to do there.
            IndexError::Removed => {
                M::mark("batch.tree_is_gone");
                matches!(operation, Operation::Put(_) | Operation::Removal(_))
            }
            IndexError::Alloc(AllocError::OutOfMemory) => self.refuses,
            error => self.refuses && error.is_full(),
        }
    }
}

use Operation::{Get, Long, Put as PutBoth, Removal, Unname};

/// Programs small enough for every order.
const SMALL: [(&str, &[&[Operation]]); 4] = [
    ("removal, drop", &[&[Removal(1)], &[Unname]]),
    ("put, drop", &[&[PutBoth(1), PutBoth(2)], &[Unname, Get]]),
    ("put, removal, drop", &[&[Removal(1), PutBoth(2)], &[Unname, Get]]),
    ("long", &[&[Long(1), Long(2)]]),
];

/// The names of the small programs.
pub fn small() -> impl Iterator<Item = String> {
    SMALL.iter().map(|(name, _)| format!("vanishing/small/{name}"))
}

/// The name of a random program.
pub fn random_name(random: &mut Random) -> String {
    format!("vanishing/{}", random.below(1 << 40))
}

/// Whether memory may be refused in the random program of this name.
pub fn is_refusing(name: &str) -> bool {
    name.rsplit('/')
        .next()
        .and_then(|number| number.parse().ok())
        .is_some_and(|seed: u64| seed % 4 == 3)
}

/// The case of a name: `vanishing/NUMBER`, `vanishing/small/NAME` or `vanishing/refused/NAME`.
pub fn case(name: &str, hashes: bool) -> Option<Box<dyn Case>> {
    let rest = name.strip_prefix("vanishing/")?;
    let refused = rest.strip_prefix("refused/");
    if let Some(wanted) = refused.or_else(|| rest.strip_prefix("small/")) {
        let (name, plan) = SMALL.iter().find(|(known, _)| *known == wanted)?;
        let plan: Plan<Operation> = plan.iter().map(|thread| thread.to_vec()).collect();
        let (threads, is_long, refuses) = (plan.len(), *name == "long", refused.is_some());
        return Some(PlannedCase::boxed((Vanishing { threads, refuses, hashes, is_long }, plan)));
    }
    let seed: u64 = rest.parse().ok()?;
    let random = &mut Random::new(seed ^ 0x676F_6E65);
    let threads = 2 + usize::from(random.one_in(3));
    let mut value = 0;
    let mut operation = |random: &mut Random| {
        value += 1;
        match random.below(8) {
            0..3 => Removal(value),
            3..6 => PutBoth(value),
            6 => Get,
            _ => Unname,
        }
    };
    let mut plan: Plan<Operation> = (0..threads)
        .map(|_| (0..1 + random.below(2)).map(|_| operation(random)).collect())
        .collect();
    plan[0].insert(0, Unname);
    Some(PlannedCase::boxed((
        Vanishing { threads, refuses: is_refusing(name), hashes, is_long: false },
        plan,
    )))
}
