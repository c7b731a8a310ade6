//! A tree of 64-bit integers as a program of the simulated machine.

mod operations;

use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::IndexError;
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Domain, Memory, Program, mix};

pub(crate) use self::operations::note_scan;
use crate::judge::emptied::{can_be_emptied, demand_room};
use crate::judge::expected::Expected;
use crate::judge::leaks::all_is_free;
use crate::machine::backing::{SIZE_MIN, open_pool};
use crate::machine::hoard::Hoard;
use crate::machine::space::{Seen, Space};
use crate::tree::living::{AnyTree, Living};
use crate::tree::operation::Operation;
use crate::tree::subject::{Pairs, Subject};

/// A tree, the keys that are used in it, and what was done to it at first.
#[derive(Clone, Debug)]
pub struct U64Program {
    /// Which tree.
    pub tree: &'static AnyTree,
    /// All keys of plan and history, ascending.
    pub universe: Vec<u64>,
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
    /// Whether reads are judged also where a crash may take back what was read: as
    /// [`Subject::READS_COMMITTED`] says, unless the tree is to be held to more.
    pub judges_reads: bool,
    /// What happened so far.
    pub seen: Rc<Seen>,
}

impl U64Program {
    /// A tree of the subject `S` with this history; `universe` in any order. Keys and values that the
    /// tree does not take become the nearest ones that it does.
    pub fn new<S: Subject>(universe: Vec<u64>, history: Vec<Operation>, threads: usize) -> Self {
        Self::on(const { &AnyTree::of::<S>() }, universe, history, threads)
    }

    /// As [`Self::new`], of any tree.
    pub fn on(
        tree: &'static AnyTree,
        universe: Vec<u64>,
        history: Vec<Operation>,
        threads: usize,
    ) -> Self {
        let mut universe: Vec<u64> = universe.into_iter().map(|key| tree.fit_key(key)).collect();
        universe.sort_unstable();
        universe.dedup();
        U64Program {
            tree,
            universe,
            history: history.iter().map(|operation| tree.fit(operation)).collect(),
            warm_up: vec![],
            threads,
            is_closed: false,
            space: Space::default(),
            judges_reads: tree.reads_committed,
            seen: Rc::default(),
        }
    }
}

/// Whether keys that were read in one call are what was scanned.
///
/// # Errors
/// Says of the first that is not.
pub(crate) fn agree_with(
    pairs: &[(u64, u64)],
    read: impl Iterator<Item = (u64, Option<u64>)>,
) -> Result<(), String> {
    for (key, value) in read {
        let scanned = pairs.binary_search_by_key(&key, |(key, _)| *key).ok();
        let scanned = scanned.map(|index| pairs[index].1);
        if scanned != value {
            return Err(format!(
                "key {key}, read with all others, is {value:?}, scanned {scanned:?}"
            ));
        }
    }
    Ok(())
}

/// A number that follows from what was found: which of many looks at it is made.
pub(crate) fn turn_of(pairs: &[(u64, u64)]) -> usize {
    let sum = pairs.iter().fold(0_u64, |sum, (_, value)| sum.wrapping_add(*value));
    mix(sum) as usize >> 1
}

/// The opened tree with a session per thread.
pub struct Opened {
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<Simulated>>>>,
    /// What is held back of the space while threads run.
    hoard: RefCell<Option<Hoard>>,
    tree: Box<dyn Living>,
}

impl Opened {
    /// Ends the sessions of all threads, and gives back what is held back.
    pub(crate) fn end_sessions(&self) {
        self.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        if let Some(hoard) = self.hoard.take() {
            hoard.give_back();
        }
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

impl U64Program {
    /// Does to a tree what was done to it before it is judged. It is opened again where its memory is given.
    fn live_through_history(
        &self,
        mut tree: Box<dyn Living>,
        memory: Option<Memory>,
    ) -> Box<dyn Living> {
        let mut slot = Some(tree.heap().session().expect("a free session"));
        let mut expected = Expected::new();
        let (mut calls, mut replies) = (vec![], vec![]);
        // Whether all is still as was answered. What found no room to be made durable is gone when the tree is opened
        // again.
        let mut is_known = true;
        for operation in &self.history {
            if let (Operation::Reopen { closes }, Some(memory)) = (operation, memory) {
                is_known &= self.persist_unless_closed(&*tree, &mut slot, *closes);
                drop(slot);
                tree = self.reopen(tree, *closes, memory).expect("what lives is opened again");
                slot = Some(tree.heap().session().expect("a free session"));
                continue;
            }
            calls.clear();
            replies.clear();
            self.calls(operation, &mut calls);
            match self.replies(&*tree, &mut slot, operation, &mut replies) {
                Err(error) if self.space.may_fail(&error) => expected.refuse(&calls),
                done => {
                    done.expect("the history of a tree finds room");
                    self.forget_blind(operation, &mut replies);
                    if is_known {
                        expected.hold(operation, &calls, &replies);
                    }
                }
            }
        }
        self.persist_unless_closed(&*tree, &mut slot, self.is_closed);
        drop(slot);
        tree
    }

    /// Ends the use of a tree, cleanly if asked to, and opens it again.
    fn reopen(
        &self,
        tree: Box<dyn Living>,
        closes: bool,
        memory: Memory,
    ) -> Result<Box<dyn Living>, String> {
        if closes {
            self.close_tree(&*tree).map_err(text)?;
        }
        drop(tree);
        (self.tree.open)(open_pool(memory).map_err(text)?)
    }

    /// Closes a tree, and says whether that was possible: what it defers may find no room in a full pool.
    fn close_tree(&self, tree: &dyn Living) -> Result<bool, IndexError> {
        match tree.close() {
            Err(error) if self.space.may_fail(&error) => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// As [`Self::persist_deferred`], unless the tree is closed now, which does the same where there is room.
    fn persist_unless_closed(
        &self,
        tree: &dyn Living,
        slot: &mut Option<Session<Simulated>>,
        closes: bool,
    ) -> bool {
        closes && !self.space.may_fill || self.persist_deferred(tree, slot)
    }

    /// Makes durable what a tree defers: what comes then is judged from there. False if it found no room.
    fn persist_deferred(&self, tree: &dyn Living, slot: &mut Option<Session<Simulated>>) -> bool {
        let Some(session) = slot.as_mut().filter(|_| self.tree.defers) else { return true };
        match tree.tree().persist_deferred(session) {
            Err(error) if self.space.may_fail(&error) => false,
            done => {
                done.expect("what was written finds room");
                true
            }
        }
    }

    /// What writes that do not look answer says nothing.
    fn forget_blind(&self, operation: &Operation, replies: &mut [Reply]) {
        let compares = matches!(operation, Operation::Exchange(..));
        if self.tree.writes_blindly && !operation.is_read() && !compares {
            let answered = replies.iter_mut().filter(|reply| **reply != Reply::Refused);
            answered.for_each(|reply| *reply = Reply::Unknown);
        }
    }

    /// What is done to the opened tree before the threads come.
    fn do_warm_up(&self, opened: &Opened) {
        if self.tree.defers && self.space.may_fill {
            // It may find no room for what it defers in a full pool, and would be judged as if it had.
            return;
        }
        for (operation, slot) in self.warm_up.iter().zip(opened.sessions.iter().cycle()) {
            let mut slot = slot.borrow_mut();
            let done = self.replies(&*opened.tree, &mut slot, operation, &mut vec![]);
            match done {
                Err(error) if self.space.may_fail(&error) => {}
                done => done.expect("what is done before the threads come finds room"),
            }
        }
        if !self.warm_up.is_empty()
            && let Some(slot) = opened.sessions.first()
        {
            self.persist_deferred(&*opened.tree, &mut slot.borrow_mut());
        }
        // What was taken from the blocks at hand is made up for.
        for slot in opened.sessions.iter().filter(|_| !self.warm_up.is_empty()) {
            if let Some(session) = &mut *slot.borrow_mut() {
                match session.reserve_blocks(self.space.blocks_at_hand) {
                    Err(_) if self.space.may_fill => {}
                    done => done.expect("there is room for the blocks at hand"),
                }
            }
        }
    }

    /// All pairs, found in every way there is.
    fn all(&self, tree: &dyn Living, session: &mut Session<Simulated>) -> Result<Pairs, String> {
        if !self.tree.ordered {
            return self.all_of_universe(tree, session);
        }
        let (mut pairs, mut back) = (vec![], vec![]);
        tree.tree().scan(session, self.tree.keys.0, usize::MAX, &mut pairs).map_err(text)?;
        tree.scan_back(session, self.tree.keys.1, usize::MAX, &mut back).map_err(text)?;
        back.reverse();
        if back != pairs {
            return Err(format!("scanned {pairs:?} upwards and {back:?} downwards"));
        }
        for key in &self.universe {
            let value = tree.tree().get(session, *key).map_err(text)?;
            let scanned = pairs.binary_search_by_key(key, |(key, _)| *key).ok();
            let scanned = scanned.map(|index| pairs[index]);
            if scanned.map(|(_, value)| value) != value {
                return Err(format!("key {key} is {value:?}, scanned {scanned:?}"));
            }
        }
        let together = self.get_many(tree, session, pairs.len()).map_err(text)?;
        agree_with(&pairs, self.universe.iter().copied().zip(together))?;
        self.scan_parts(tree, session, &pairs)?;
        Ok(pairs)
    }

    /// Whether scans of a few pairs, of none or from the last key there is find what was found of these: one of them
    /// each time.
    fn scan_parts(
        &self,
        tree: &dyn Living,
        session: &mut Session<Simulated>,
        pairs: &[(u64, u64)],
    ) -> Result<(), String> {
        let turn = turn_of(pairs);
        let from = self.universe.get(turn / 4 % self.universe.len().max(1)).copied().unwrap_or(0);
        let (from, limit) = match turn % 4 {
            0 | 1 => (from, 1 + turn / 4 % 3),
            2 => (from, 0),
            _ => (self.tree.keys.1, 1),
        };
        let (mut up, mut down) = (vec![], vec![]);
        tree.tree().scan(session, from, limit, &mut up).map_err(text)?;
        tree.scan_back(session, from, limit, &mut down).map_err(text)?;
        let above = pairs.iter().skip_while(|(key, _)| *key < from).take(limit);
        let below = pairs.iter().rev().skip_while(|(key, _)| *key > from).take(limit);
        if !above.eq(&up) || !below.eq(&down) {
            return Err(format!("{limit} pairs from {from} are {up:?} and {down:?}"));
        }
        Ok(())
    }

    /// All pairs of a tree without order: those of the universe, and there are no others.
    fn all_of_universe(
        &self,
        tree: &dyn Living,
        session: &mut Session<Simulated>,
    ) -> Result<Pairs, String> {
        let mut pairs = vec![];
        for key in &self.universe {
            let value = tree.tree().get(session, *key).map_err(text)?;
            pairs.extend(value.map(|value| (*key, value)));
        }
        let count = tree.tree().len(session).map_err(text)?;
        let found = pairs.len() as u64;
        if count == found {
            Ok(pairs)
        } else {
            Err(format!("{count} keys, of which {found} are found"))
        }
    }
}

/// Space that programs may need beside what a small pool has, in bytes.
const SPARE: u64 = 1 << 14;

impl Program for U64Program {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        self.space.pool_bytes
    }

    fn format(&self, memory: Memory) {
        let pool = self.space.new_pool(memory);
        if self.tree.volatile {
            // What would be done to a tree now would be gone.
            return;
        }
        let tree = (self.tree.create)(pool, self.space.chunk_shift).expect("room for a tree");
        let tree = self.live_through_history(tree, Some(memory));
        if self.is_closed {
            self.close_tree(&*tree).expect("a pool that is open can be closed");
        }
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        let pool = open_pool(memory).map_err(text)?;
        let tree = if self.tree.volatile {
            let tree = (self.tree.create)(pool, self.space.chunk_shift).map_err(text)?;
            self.live_through_history(tree, None)
        } else {
            (self.tree.open)(pool)?
        };
        let session = |_| {
            let mut session = tree.heap().session()?;
            session.reserve_blocks(self.space.blocks_at_hand)?;
            Ok(RefCell::new(Some(session)))
        };
        let sessions =
            || -> Result<Vec<_>, AllocError> { (0..self.threads).map(session).collect() };
        let mut all = sessions();
        let is_short = || tree.heap().pool().max_size() < tree.heap().used_bytes() + SPARE;
        if self.tree.leaves_space && (all.is_err() || is_short()) {
            // What was free is needed: a sweep finds it, when nobody has a session.
            drop(all);
            tree.check().map_err(text)?;
            all = sessions();
        }
        let sessions = all;
        let hoard = RefCell::new(None);
        Ok(Opened { sessions: sessions.map_err(text)?, hoard, tree })
    }

    fn contents(&self, opened: &Opened) -> Result<Pairs, String> {
        opened.end_sessions();
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
        let heap = tree.heap().clone();
        if self.space.may_fill && can_be_emptied(tree.tree().info().name) {
            let remove = |session: &mut Session<Simulated>, key: usize| {
                tree.tree().remove(session, self.universe[key]).map(drop)
            };
            let put = |session: &mut Session<Simulated>| {
                tree.tree().upsert(session, self.universe[0], self.tree.values.0).map(drop)
            };
            demand_room(&heap, &self.space, self.universe.len(), remove, put)?;
        }
        let mut session = heap.session().map_err(text)?;
        tree.give_back(&mut session).map_err(text)?;
        drop(session);
        drop(tree);
        all_is_free(&heap)?;
        Ok(true)
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

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        operation.calls(&self.universe, calls);
        if self.tree.writes_blindly {
            for (_, call) in calls {
                if let Call::Insert(value) | Call::Update(value) = *call {
                    *call = Call::Upsert(value);
                }
            }
        }
    }

    fn is_durable(&self) -> bool {
        !self.tree.volatile
    }

    /// What a reader saw may be taken back by a crash, unless the tree says otherwise: it is judged
    /// beside what runs with it, and not beside what a crash leaves.
    fn binds_crashes(&self, operation: &Operation, domain: Domain) -> bool {
        self.judges_reads || domain != Domain::Adr || !operation.is_read()
    }

    fn defers(&self) -> bool {
        self.tree.defers
    }

    fn persists_deferred(&self, operation: &Operation) -> bool {
        // In a full pool it may fail.
        self.tree.defers && *operation == Operation::Release && !self.space.may_fill
    }

    fn close(&self, opened: &Opened) -> Result<bool, String> {
        if opened.hoard.borrow().is_some() {
            // What is held back is in no tree, and would be missed in a pool that was closed.
            return Ok(false);
        }
        self.close_tree(&*opened.tree).map_err(text)
    }

    fn warm_up(&self, opened: &Opened) {
        self.do_warm_up(opened);
        if let Some(left) = self.space.blocks_left {
            let heap = opened.tree.heap();
            let hoard = match self.space.hands {
                Some(hands) => Hoard::take_but_for(heap, left, hands, &opened.sessions),
                None => Hoard::take(heap, left),
            };
            let mut hoard = hoard.expect("a session and memory for it");
            if self.space.no_records {
                hoard.take_records().expect("it takes what there is");
            }
            *opened.hoard.borrow_mut() = Some(hoard);
        }
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        let mut slot = opened.sessions[thread].borrow_mut();
        match self.replies(&*opened.tree, &mut slot, operation, replies) {
            Ok(()) => self.forget_blind(operation, replies),
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
