//! A persistent lock-free sorted list with planted bugs: the canary of the simulated machine.
//!
//! A node is two lines, `[key, next|mark, ..][value, !value, 3*value, ..]`; links are node numbers.
//! A link is made durable before anything that depends on having seen it is answered or linked
//! behind it; a removal marks the node's link first and unlinks it afterwards.

use std::cell::RefCell;

use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program, Random};
use everleaf_machine::{Atomic, Machine, Ordering, Simulated};

type M = Simulated;
type Word = Atomic<u64, M>;

const MARK: u64 = 1 << 63;
const NODE_WORDS: usize = 16;
pub const KEYS: u64 = 4;

/// The planted bugs, each with whether it needs the weak model of locked operations.
pub const BUGS: [&str; 12] = [
    "node not flushed before it is linked",
    "link not flushed before the reply",
    "reader answers from links that are not durable",
    "link by load and store",
    "payload line not flushed",
    "no drain between node flush and link",
    "unlink without marking",
    "removal answers before its mark is durable",
    "node reused before readers are gone",
    "link to the predecessor not flushed",
    "refused insert answers before the winner is durable",
    "payload written after the link",
];

/// The list on a pool.
pub struct List {
    base: *const Word,
    nodes: u64,
    /// Per thread: nodes nobody uses.
    free: Vec<RefCell<Vec<u64>>>,
}

impl List {
    fn word(&self, index: usize) -> &Word {
        assert!(index < (self.nodes as usize + 1) * NODE_WORDS, "wild link");
        // SAFETY: inside the pool, which outlives the list; words are only accessed atomically.
        unsafe { &*self.base.wrapping_add(index) }
    }

    /// The link word of a node; node 0 is the head.
    fn link(&self, node: u64) -> &Word {
        self.word(node as usize * NODE_WORDS + 1)
    }

    fn key(&self, node: u64) -> &Word {
        self.word(node as usize * NODE_WORDS)
    }

    fn payload(&self, node: u64, index: usize) -> &Word {
        self.word(node as usize * NODE_WORDS + 8 + index)
    }

    #[track_caller]
    fn flush(word: &Word) {
        M::flush(word.as_ptr());
    }

    /// The predecessor of the predecessor, the predecessor, and the first node with a key of at
    /// least `key` (0 = none). Unlinks marked nodes on the way.
    fn search(&self, key: u64) -> (u64, u64, u64) {
        'retry: loop {
            let (mut before, mut previous) = (0, 0);
            let mut node = self.link(0).load(Ordering::Acquire) & !MARK;
            loop {
                if node == 0 {
                    return (before, previous, 0);
                }
                let next = self.link(node).load(Ordering::Acquire);
                if next & MARK != 0 {
                    // The mark must be durable before the unlink can be.
                    Self::flush(self.link(node));
                    M::drain();
                    if !self.swing(previous, node, next & !MARK) {
                        continue 'retry;
                    }
                    Self::flush(self.link(previous));
                    node = next & !MARK;
                    continue;
                }
                if self.key(node).load(Ordering::Acquire) >= key {
                    return (before, previous, node);
                }
                (before, previous, node) = (previous, node, next & !MARK);
            }
        }
    }

    fn swing(&self, node: u64, from: u64, to: u64) -> bool {
        self.link(node).compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn persist_path(&self, before: u64, previous: u64) {
        if !M::mutant("link to the predecessor not flushed") {
            Self::flush(self.link(before));
        }
        Self::flush(self.link(previous));
    }

    fn is(&self, node: u64, key: u64) -> bool {
        node != 0 && self.key(node).load(Ordering::Acquire) == key
    }

    fn write_payload(&self, node: u64, value: u64) {
        let words = [value, !value, value.wrapping_mul(3)];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        // SAFETY: the node is ours until it is linked.
        unsafe { M::write_bytes(self.payload(node, 0).as_ptr().cast_mut(), &bytes) }
    }

    fn insert(&self, thread: usize, key: u64, value: u64) -> bool {
        let node = self.free[thread].borrow_mut().pop().expect("enough nodes for the plan");
        loop {
            let (before, previous, next) = self.search(key);
            if self.is(next, key) {
                if !M::mutant("refused insert answers before the winner is durable") {
                    self.persist_path(before, previous);
                    Self::flush(self.link(next));
                    M::drain();
                }
                self.free[thread].borrow_mut().push(node);
                return false;
            }
            self.key(node).write_private(key);
            self.link(node).write_private(next);
            let late = M::mutant("payload written after the link");
            if !late {
                self.write_payload(node, value);
            }
            if !M::mutant("node not flushed before it is linked") {
                Self::flush(self.link(node));
                if !M::mutant("payload line not flushed") {
                    Self::flush(self.payload(node, 0));
                }
            }
            if !M::mutant("link to the predecessor not flushed") {
                Self::flush(self.link(before));
            }
            if !M::mutant("no drain between node flush and link") {
                M::drain();
            }
            let linked = if M::mutant("link by load and store") {
                let same = self.link(previous).load(Ordering::Acquire) == next;
                if same {
                    self.link(previous).store(node, Ordering::Release);
                }
                same
            } else {
                self.swing(previous, next, node)
            };
            if !linked {
                continue;
            }
            if late {
                self.write_payload(node, value);
                Self::flush(self.payload(node, 0));
            }
            if !M::mutant("link not flushed before the reply") {
                Self::flush(self.link(previous));
                M::drain();
            }
            return true;
        }
    }

    fn remove(&self, thread: usize, key: u64) -> bool {
        loop {
            let (before, previous, node) = self.search(key);
            if !self.is(node, key) {
                self.persist_path(before, previous);
                M::drain();
                return false;
            }
            let next = self.link(node).load(Ordering::Acquire);
            if M::mutant("unlink without marking") {
                if self.swing(previous, node, next) {
                    Self::flush(self.link(previous));
                    M::drain();
                    return true;
                }
                continue;
            }
            if next & MARK != 0 || !self.swing(node, next, next | MARK) {
                continue;
            }
            let lazy = M::mutant("removal answers before its mark is durable");
            if !lazy {
                Self::flush(self.link(node));
                M::drain();
            }
            if self.swing(previous, node, next) && !lazy {
                Self::flush(self.link(previous));
                M::drain();
            }
            if M::mutant("node reused before readers are gone") {
                self.free[thread].borrow_mut().push(node);
            }
            if M::mutant("node taken back before readers are gone") {
                M::lifetime(self.key(node).as_ptr(), 128, false);
            }
            return true;
        }
    }

    fn get(&self, key: u64) -> Option<u64> {
        let (before, previous, node) = self.search(key);
        let found = self.is(node, key);
        let value = found.then(|| self.payload(node, 0).load(Ordering::Acquire));
        if !M::mutant("reader answers from links that are not durable") {
            self.persist_path(before, previous);
            if found {
                Self::flush(self.link(node));
            }
            M::drain();
        }
        value
    }

    /// All nodes in order: (number, key, link).
    fn walk(&self) -> Result<Vec<(u64, u64, u64)>, String> {
        let (mut nodes, mut last) = (Vec::new(), 0);
        let mut node = self.link(0).load(Ordering::Acquire);
        while node != 0 {
            if node > self.nodes {
                return Err(format!("wild link {node:#x}"));
            }
            let key = self.key(node).load(Ordering::Acquire);
            if key <= last || key > KEYS {
                return Err(format!("key {key} after {last}"));
            }
            last = key;
            let link = self.link(node).load(Ordering::Acquire);
            nodes.push((node, key, link));
            node = link & !MARK;
        }
        Ok(nodes)
    }

    fn contents(&self) -> Result<Vec<(u64, u64)>, String> {
        let mut pairs = Vec::new();
        for (node, key, link) in self.walk()? {
            let payload: [u64; 3] =
                std::array::from_fn(|index| self.payload(node, index).load(Ordering::Acquire));
            let value = payload[0];
            if payload != [value, !value, value.wrapping_mul(3)] {
                return Err(format!("torn payload of key {key}: {payload:x?}"));
            }
            if link & MARK == 0 {
                pairs.push((key, value));
            }
        }
        Ok(pairs)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Get(u64),
    Insert(u64, u64),
    Remove(u64),
}

/// The list with its initial pairs.
#[derive(Clone, Debug)]
pub struct ListProgram {
    pub initial: Vec<(u64, u64)>,
    pub threads: usize,
    pub nodes_per_thread: u64,
    /// Bytes of pool beyond what the list needs.
    pub spare_bytes: usize,
}

impl ListProgram {
    fn attach(&self, memory: Memory) -> List {
        let nodes = self.list_bytes() as u64 / 128 - 1;
        let free = (0..self.threads).map(|_| RefCell::new(Vec::new())).collect();
        List { base: memory.base().cast(), nodes, free }
    }

    /// Head, initial nodes, and enough for three lives.
    fn list_bytes(&self) -> usize {
        128 * (1 + KEYS as usize + 3 * self.threads * self.nodes_per_thread as usize)
    }

    /// A random list and plan.
    pub fn random(seed: u64, threads: usize, operations: usize) -> (Self, Plan<Operation>) {
        let mut random = Random::new(seed);
        let initial = (1..=KEYS).filter(|_| random.one_in(2)).map(|key| (key, 100 + key)).collect();
        let plan = (0..threads)
            .map(|thread| {
                (0..operations)
                    .map(|index| {
                        let key = 1 + random.below(KEYS);
                        match random.below(5) {
                            0 | 1 => {
                                Operation::Insert(key, (thread as u64 + 1) * 1000 + index as u64)
                            }
                            2 | 3 => Operation::Remove(key),
                            _ => Operation::Get(key),
                        }
                    })
                    .collect()
            })
            .collect();
        let nodes_per_thread = operations as u64;
        let program = ListProgram { initial, threads, nodes_per_thread, spare_bytes: 0 };
        (program, plan)
    }
}

impl Program for ListProgram {
    type Operation = Operation;
    type Instance = List;

    fn pool_bytes(&self) -> usize {
        self.list_bytes() + self.spare_bytes
    }

    fn format(&self, memory: Memory) {
        let list = self.attach(memory);
        let mut last = 0;
        for (index, &(key, value)) in self.initial.iter().enumerate() {
            let node = index as u64 + 1;
            list.key(node).store(key, Ordering::Release);
            list.write_payload(node, value);
            list.link(last).store(node, Ordering::Release);
            last = node;
        }
    }

    /// Recovery: completes interrupted removals; every node not reached is free.
    fn open(&self, memory: Memory) -> Result<List, String> {
        let list = self.attach(memory);
        if memory.outlives_stores() {
            // Recovery and readers rely on what a dead process left in the caches.
            let lines = (0..memory.size()).step_by(64);
            lines.for_each(|line| M::flush(memory.base().wrapping_add(line)));
            M::drain();
        }
        let mut used = vec![false; list.nodes as usize + 1];
        let (mut last, mut changed) = (0, false);
        for (node, _, link) in list.walk()? {
            if link & MARK != 0 {
                if M::mutant("recovery unlinks before it is safe") {
                    // For a moment the node is back.
                    list.link(node).store(link & !MARK, Ordering::Release);
                }
                list.link(last).store(link & !MARK, Ordering::Release);
                List::flush(list.link(last));
                // The next unlink starts from a durable one.
                M::drain();
                changed = true;
            } else {
                used[node as usize] = true;
                last = node;
            }
        }
        if changed {
            M::mark("list.recovery.unlinked");
        }
        let free = (1..=list.nodes).filter(|&node| !used[node as usize]);
        for (index, node) in free.enumerate() {
            list.free[index % self.threads].borrow_mut().push(node);
        }
        Ok(list)
    }

    fn contents(&self, list: &List) -> Result<Vec<(u64, u64)>, String> {
        list.contents()
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        calls.push(match *operation {
            Operation::Get(key) => (key, Call::Get),
            Operation::Insert(key, value) => (key, Call::Insert(value)),
            Operation::Remove(key) => (key, Call::Remove),
        });
    }

    fn run(&self, list: &List, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        replies.push(match *operation {
            Operation::Get(key) => Reply::Previous(list.get(key)),
            Operation::Insert(key, value) => Reply::Done(list.insert(thread, key, value)),
            Operation::Remove(key) => Reply::Done(list.remove(thread, key)),
        });
    }
}
