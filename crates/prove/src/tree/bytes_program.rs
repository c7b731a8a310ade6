//! The tree of byte strings as a program of the simulated machine. To the judge a key is its place in
//! the universe and a value is a number, from which the bytes of the value are made.

mod reads;
mod room;
mod words;

use std::cell::RefCell;
use std::rc::Rc;

use everleaf_alloc::AllocError;
use everleaf_index::{Change, IndexError, Session};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Program};

pub use self::words::AnyWords;
use self::words::{LivingWords, encode};
use crate::judge::emptied::demand_room;
use crate::judge::expected::Expected;
use crate::machine::backing::{SIZE_MIN, open_pool};
use crate::machine::hoard::Hoard;
use crate::machine::space::{Seen, Space};
use crate::tree::living::session_of;
use crate::tree::operation::Operation;
use crate::tree::subject::Nodes;
use crate::tree::u64_program::note_scan;

/// A tree of byte strings, the keys that are used in it, and what was done to it at first.
#[derive(Clone, Debug)]
pub struct BytesProgram {
    /// Which tree.
    pub tree: &'static AnyWords,
    /// All keys, ascending; the operations name them by number.
    pub universe: Vec<Vec<u8>>,
    /// What was done to the tree before it was closed and opened again.
    pub history: Vec<Operation>,
    /// What is done to the opened tree before the threads come, by their sessions in turn.
    pub warm_up: Vec<Operation>,
    /// How many threads come.
    pub threads: usize,
    /// Whether it was closed cleanly then, with a seal if there is one.
    pub is_closed: bool,
    /// How much space there is.
    pub space: Space,
    /// What happened so far.
    pub seen: Rc<Seen>,
}

impl BytesProgram {
    /// A tree with nodes of the geometry `G` and this history; `universe` in any order.
    pub fn new<G: Nodes>(universe: &[&[u8]], history: Vec<Operation>, threads: usize) -> Self {
        Self::on(const { &AnyWords::of::<G>() }, universe, history, threads)
    }

    /// As [`Self::new`], of any tree.
    pub fn on(
        tree: &'static AnyWords,
        universe: &[&[u8]],
        history: Vec<Operation>,
        threads: usize,
    ) -> Self {
        let mut universe: Vec<Vec<u8>> = universe.iter().map(|key| key.to_vec()).collect();
        universe.sort();
        universe.dedup();
        BytesProgram {
            tree,
            universe,
            history,
            warm_up: vec![],
            threads,
            is_closed: false,
            space: Space::default(),
            seen: Rc::default(),
        }
    }

    fn key(&self, number: u64) -> &[u8] {
        &self.universe[number as usize]
    }

    fn number(&self, key: &[u8]) -> u64 {
        let found = self.universe.binary_search_by(|known| known.as_slice().cmp(key));
        found.unwrap_or_else(|_| panic!("nobody ever wrote the key {key:?}")) as u64
    }
}

/// The opened tree with a session per thread.
pub struct Opened {
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<Simulated>>>>,
    /// What is held back of the space while threads run.
    hoard: RefCell<Option<Hoard>>,
    tree: Box<dyn LivingWords>,
}

impl Opened {
    /// Closes the pool cleanly. Nobody writes any more.
    ///
    /// # Errors
    /// The mark cannot be written.
    pub fn close(&self) -> Result<(), IndexError> {
        self.tree.close()
    }
}

/// Gives back all that a session and the heap can do without.
fn release(tree: &dyn LivingWords, session: &mut Session<Simulated>) -> Result<(), IndexError> {
    tree.restore_some(session)?;
    session.collect_all();
    session.give_back();
    tree.heap().release_empty_chunks();
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

type Pairs = Vec<(u64, u64)>;

impl BytesProgram {
    /// Another session for the one of a thread.
    fn rejoin(
        &self,
        tree: &dyn LivingWords,
        slot: &mut Option<Session<Simulated>>,
    ) -> Result<(), IndexError> {
        // The old one ends first: what it had is judged, and goes to others.
        *slot = None;
        let mut session = tree.heap().session()?;
        self.reserve(tree, &mut session)?;
        *slot = Some(session);
        Ok(())
    }

    /// Gives a session the blocks that it is to have at hand.
    fn reserve(
        &self,
        tree: &dyn LivingWords,
        session: &mut Session<Simulated>,
    ) -> Result<(), AllocError> {
        let (class, count) = (self.tree.block_class, self.space.blocks_at_hand);
        match session.reserve_blocks_of(class, count) {
            // Chunks of records that are free are not known yet.
            Err(error) if error.is_full() && tree.reclaim(session) => {
                session.reserve_blocks_of(class, count)
            }
            done => done,
        }
    }

    /// Does one operation; if the pool is full and was opened at once, makes room as the store does, and does it once
    /// more.
    fn replies(
        &self,
        tree: &dyn LivingWords,
        slot: &mut Option<Session<Simulated>>,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        let before = replies.len();
        match self.replies_once(tree, slot, operation, replies) {
            // Of many writes each was tried so.
            Err(error)
                if error.is_full()
                    && !matches!(operation, Operation::WriteMany(_))
                    && slot.as_mut().is_some_and(|session| tree.reclaim(session)) =>
            {
                replies.truncate(before);
                self.replies_once(tree, slot, operation, replies)
            }
            done => done,
        }
    }

    fn replies_once(
        &self,
        tree: &dyn LivingWords,
        slot: &mut Option<Session<Simulated>>,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        if *operation == Operation::Rejoin {
            return self.rejoin(tree, slot);
        }
        let session = session_of(slot, tree.heap())?;
        let mut change = |change: Change<'_>| tree.change(session, &change);
        let previous = match *operation {
            Operation::Insert(key, value) => {
                change(Change::insert(self.key(key), &encode(self.key(key), value)))?
            }
            Operation::Update(key, value) => {
                change(Change::update(self.key(key), &encode(self.key(key), value)))?
            }
            Operation::Upsert(key, value) => {
                change(Change::upsert(self.key(key), &encode(self.key(key), value)))?
            }
            Operation::Remove(key) => change(Change::remove(self.key(key)))?,
            Operation::Get(key) => tree.get(session, self.key(key))?,
            Operation::Exchange(key, expected, new) => {
                tree.exchange(session, self.key(key), (expected, new))?
            }
            Operation::GetMany => {
                let found = self.get_many(tree, session, session.stripe())?;
                replies.extend(found.into_iter().map(Reply::Previous));
                return Ok(());
            }
            Operation::Scan(from, limit) => {
                let pairs = self.scan(tree, session, from, limit, false)?;
                note_scan(&pairs, limit, from..self.universe.len() as u64, replies);
                return Ok(());
            }
            Operation::ScanBack(from, limit) => {
                let last = from.min(self.universe.len() as u64 - 1);
                let pairs = self.scan(tree, session, last, limit, true)?;
                note_scan(&pairs, limit, (0..=last).rev(), replies);
                return Ok(());
            }
            Operation::Range(range) => {
                let pairs = self.range(tree, session, range)?;
                let keys = range.of(0..self.universe.len() as u64);
                note_scan(&pairs, usize::MAX, keys.into_iter(), replies);
                return Ok(());
            }
            Operation::WriteMany(ref all) => {
                for one in all {
                    match self.replies(tree, slot, one, replies) {
                        Err(error) if self.space.may_fail(&error) => replies.push(Reply::Refused),
                        done => done?,
                    }
                }
                return Ok(());
            }
            Operation::Clear => {
                tree.clear(session)?;
                replies.extend(self.universe.iter().map(|_| Reply::Unknown));
                return Ok(());
            }
            Operation::Release => return release(tree, session),
            Operation::Rejoin | Operation::Reopen { .. } => return Ok(()),
        };
        replies.push(Reply::Previous(previous));
        Ok(())
    }
}

impl Program for BytesProgram {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        // Each life that was opened at once takes chunks of its own while its threads restore what the one before left.
        let lives = if self.tree.leaves_space && !self.space.may_fill { 2 } else { 1 };
        lives * self.space.pool_bytes
    }

    fn format(&self, memory: Memory) {
        let pool = self.space.new_pool(memory);
        let mut tree = (self.tree.create)(pool, self.space.chunk_shift).expect("room for a tree");
        let mut slot = Some(tree.heap().session().expect("a free session"));
        let mut expected = Expected::new();
        let (mut calls, mut replies) = (vec![], vec![]);
        for operation in &self.history {
            if let Operation::Reopen { closes } = *operation {
                drop(slot);
                if closes {
                    tree.close().expect("a pool that is open can be closed");
                }
                drop(tree);
                let pool = open_pool(memory).expect("it was open just now");
                tree = (self.tree.open)(pool).expect("what lives is opened again");
                slot = Some(tree.heap().session().expect("a free session"));
                // As in `open`: each life would take chunks of its own.
                tree.reclaim(slot.as_mut().expect("it was opened just now"));
                continue;
            }
            calls.clear();
            replies.clear();
            self.calls(operation, &mut calls);
            match self.replies(&*tree, &mut slot, operation, &mut replies) {
                Err(error) if self.space.may_fail(&error) => expected.refuse(&calls),
                done => {
                    done.expect("the history of a tree finds room");
                    expected.hold(operation, &calls, &replies);
                }
            }
        }
        drop(slot);
        if self.is_closed {
            tree.close().expect("a pool that is open can be closed");
        }
    }

    fn expected(&self, warm: bool) -> Option<Pairs> {
        if self.space.may_fill {
            return None;
        }
        let mut expected = Expected::new();
        let warm_up = self.warm_up.iter().filter(|_| warm);
        let mut calls = vec![];
        for operation in self.history.iter().chain(warm_up) {
            calls.clear();
            self.calls(operation, &mut calls);
            expected.hold(operation, &calls, &vec![Reply::Unknown; calls.len()]);
        }
        expected.pairs()
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        let tree = (self.tree.open)(open_pool(memory).map_err(text)?)?;
        if self.space.blocks_at_hand > 0 {
            // As the store does where there is little room: chunks for new records are counted nowhere.
            tree.reclaim(&mut tree.heap().session().map_err(text)?);
        }
        let session = |_| {
            let mut session = tree.heap().session()?;
            self.reserve(&*tree, &mut session)?;
            Ok(RefCell::new(Some(session)))
        };
        let sessions: Result<Vec<_>, AllocError> = (0..self.threads).map(session).collect();
        let hoard = RefCell::new(None);
        Ok(Opened { sessions: sessions.map_err(text)?, hoard, tree })
    }

    fn warm_up(&self, opened: &Opened) {
        for (operation, slot) in self.warm_up.iter().zip(opened.sessions.iter().cycle()) {
            let mut slot = slot.borrow_mut();
            match self.replies(&*opened.tree, &mut slot, operation, &mut vec![]) {
                Err(error) if self.space.may_fail(&error) => {}
                done => done.expect("what is done before the threads come finds room"),
            }
        }
        // What was taken from the blocks at hand is made up for.
        for slot in opened.sessions.iter().filter(|_| !self.warm_up.is_empty()) {
            if let Some(session) = &mut *slot.borrow_mut() {
                match self.reserve(&*opened.tree, session) {
                    Err(_) if self.space.may_fill => {}
                    done => done.expect("there is room for the blocks at hand"),
                }
            }
        }
        if let Some(left) = self.space.blocks_left {
            let heap = opened.tree.heap();
            let hoard = match self.space.hands {
                Some(hands) => Hoard::take_but_for(heap, left, hands, &opened.sessions),
                None => Hoard::take(heap, left),
            };
            *opened.hoard.borrow_mut() = Some(hoard.expect("a session and memory for it"));
        }
    }

    fn contents(&self, opened: &Opened) -> Result<Pairs, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        if let Some(hoard) = opened.hoard.take() {
            hoard.give_back();
        }
        let heap = opened.tree.heap();
        let pairs = {
            let mut session = heap.session().map_err(text)?;
            self.all(&*opened.tree, &mut session)?
        };
        if heap.pool().size() > SIZE_MIN {
            self.seen.grown.set(self.seen.grown.get() + 1);
        }
        let problems = opened.tree.check().map_err(text)?;
        if problems.is_empty() { Ok(pairs) } else { Err(problems.join("; ")) }
    }

    fn give_back(&self, opened: Opened) -> Result<bool, String> {
        let Opened { sessions, hoard, tree } = opened;
        drop(sessions);
        drop(hoard);
        if self.space.may_fill {
            let remove = |session: &mut Session<Simulated>, key: usize| {
                tree.change(session, &Change::remove(&self.universe[key])).map(drop)
            };
            let put = |session: &mut Session<Simulated>| {
                tree.reclaim(session);
                let key = &self.universe[0];
                tree.change(session, &Change::upsert(key, &encode(key, 3))).map(drop)
            };
            demand_room(tree.heap(), &self.space, self.universe.len(), remove, put)?;
        }
        tree.give_back()?;
        Ok(true)
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        let numbers: Vec<u64> = (0..self.universe.len() as u64).collect();
        operation.calls(&numbers, calls);
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        let mut slot = opened.sessions[thread].borrow_mut();
        match self.replies(&*opened.tree, &mut slot, operation, replies) {
            Ok(()) => {}
            Err(error) if self.space.may_fail(&error) => {
                self.seen.refused.set(self.seen.refused.get() + 1);
                let mut calls = vec![];
                self.calls(operation, &mut calls);
                replies.clear();
                replies.resize(calls.len(), Reply::Refused);
            }
            Err(error) => panic!("{operation:?}: {error}"),
        }
    }
}
