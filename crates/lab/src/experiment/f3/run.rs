//! Threads that write, and threads that evaluate beside them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use everleaf_bench::BenchError;
use everleaf_bench::random::{Random, mix};
use everleaf_index::{Domain, IndexError, OrderedIndex, Pool, Session};
use everleaf_lab_designs::count::pool_bytes;
use everleaf_lab_designs::evaluated::{Evaluated, evaluated};
use everleaf_machine::topology::NumaNode;
use everleaf_machine::{Hardware, topology};

/// What the writing threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Insert ascending keys, each thread its own range.
    Ascending,
    /// Insert keys at random.
    Random,
    /// Of 21 operations four insert, sixteen search, one removes: the paper's text.
    Mix,
    /// Of 241 operations 80 insert, 160 search, one removes: the caption of its figure.
    CaptionMix,
}

/// Operations that come again and again: the last of each turn removes, the others search but for one in `every`,
/// which inserts.
#[derive(Clone, Copy)]
struct Turn {
    length: u64,
    every: u64,
}

impl Turn {
    const TEXT: Turn = Turn { length: 21, every: 5 };
    const CAPTION: Turn = Turn { length: 241, every: 3 };

    /// Inserts before the operation of this number.
    fn inserts_before(self, number: u64) -> u64 {
        let Turn { length, every } = self;
        number / length * ((length - 1) / every) + (number % length).div_ceil(every)
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub design: &'static str,
    pub work: Work,
    pub writers: usize,
    pub evaluators: usize,
    /// Operations of all writers together.
    pub operations: u64,
    pub seed: u64,
}

/// A new tree with room for so many keys.
///
/// # Errors
/// No space, no such design.
pub(super) fn tree(design: &str, keys: u64) -> Result<Box<dyn Evaluated>, BenchError> {
    // Keys that are pending are there twice.
    let most = (2 * pool_bytes(keys) + (64 << 20)) as u64;
    let pool = Pool::in_memory(2 << 20, most.next_multiple_of(2 << 20), Domain::Adr)?;
    Ok(evaluated(design, pool)?)
}

/// Ties a thread to a node of memory, in turn, if there are several: what it first writes to lies there.
fn place(number: usize) {
    if let Some(cpu) = cpu_of(&topology::numa_nodes(), number) {
        // Where it runs says nothing of what it does: without the permission it runs anywhere.
        let _ = topology::pin_current_thread(cpu);
    }
}

/// The CPU of a thread by its number: the nodes in turn, and of each its CPUs in turn. None if there is one node.
fn cpu_of(nodes: &[NumaNode], number: usize) -> Option<usize> {
    let nodes: Vec<_> = nodes.iter().filter(|node| !node.cpus.is_empty()).collect();
    if nodes.len() < 2 {
        return None;
    }
    let node = nodes[number % nodes.len()];
    Some(node.cpus[number / nodes.len() % node.cpus.len()])
}

/// Millions of operations a second.
///
/// # Errors
/// The design's.
pub(super) fn throughput(setting: Setting) -> Result<f64, BenchError> {
    let opened = tree(setting.design, setting.operations)?;
    let each = setting.operations / setting.writers as u64;
    let (barrier, done) = (Barrier::new(setting.writers + 1), AtomicBool::new(false));
    let write = |thread: usize| {
        place(thread);
        let made = opened.heap().session().map_err(IndexError::from);
        // Every thread must come to the barrier, also one that has no session.
        barrier.wait();
        // By itself: another thread may get a CPU only when this one has worked for a while.
        let started = Instant::now();
        let mut session = made?;
        (0..each)
            .try_for_each(|number| operate(opened.tree(), &mut session, setting, thread, number))?;
        Ok::<_, IndexError>((started, Instant::now()))
    };
    let evaluate = |thread: usize| {
        place(thread);
        let mut session = opened.heap().session().map_err(IndexError::from)?;
        // Acquire: pairs with the release below.
        while !done.load(Ordering::Acquire) {
            if opened.evaluate(&mut session)? == 0 {
                thread::yield_now();
            }
        }
        Ok::<_, IndexError>(())
    };
    thread::scope(|scope| {
        let (write, evaluate) = (&write, &evaluate);
        let writers: Vec<_> =
            (0..setting.writers).map(|thread| scope.spawn(move || write(thread))).collect();
        let evaluators = if opened.has_evaluators() { setting.evaluators } else { 0 };
        let evaluators: Vec<_> =
            (0..evaluators).map(|thread| scope.spawn(move || evaluate(thread))).collect();
        barrier.wait();
        let written: Vec<_> = writers.into_iter().map(join).collect();
        // Release: pairs with the acquire above.
        done.store(true, Ordering::Release);
        let evaluated: Vec<_> = evaluators.into_iter().map(join).collect();
        evaluated.into_iter().collect::<Result<Vec<()>, IndexError>>()?;
        let times = written.into_iter().collect::<Result<Vec<_>, IndexError>>()?;
        let started = times.iter().map(|(started, _)| *started).min();
        let ended = times.iter().map(|(_, ended)| *ended).max();
        let seconds =
            started.zip(ended).map_or(f64::NAN, |(started, ended)| (ended - started).as_secs_f64());
        Ok((each * setting.writers as u64) as f64 / seconds / 1e6)
    })
}

fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// One operation of a writing thread.
fn operate(
    tree: &dyn OrderedIndex<Hardware>,
    session: &mut Session<Hardware>,
    setting: Setting,
    thread: usize,
    number: u64,
) -> Result<(), IndexError> {
    let own = (thread as u64) << 40 | number;
    let scattered = |number: u64| mix(number ^ setting.seed << 32);
    match setting.work {
        Work::Ascending => tree.insert(session, own, number).map(drop),
        Work::Random => tree.insert(session, scattered(own), number).map(drop),
        Work::Mix | Work::CaptionMix => {
            let turn = if setting.work == Work::Mix { Turn::TEXT } else { Turn::CAPTION };
            let of_thread = |number: u64| scattered((thread as u64) << 40 | number);
            let inserted = turn.inserts_before(number);
            // A key that was inserted before, by this thread.
            let known = Random::new(own).below(inserted.max(1));
            match number % turn.length {
                at if at == turn.length - 1 => tree.remove(session, of_thread(known)).map(drop),
                at if at.is_multiple_of(turn.every) => {
                    tree.insert(session, of_thread(inserted), number).map(drop)
                }
                _ => tree.get(session, of_thread(known)).map(drop),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_go_to_nodes_in_turn_and_to_cpus_in_turn() {
        let node =
            |number, cpus: &[usize]| NumaNode { number, cpus: cpus.to_vec(), memory_bytes: 0 };
        let nodes = [node(0, &[0, 1, 2]), node(1, &[]), node(2, &[8, 9])];
        let cpus: Vec<_> = (0..8).map(|number| cpu_of(&nodes, number).unwrap()).collect();
        assert_eq!(cpus, [0, 8, 1, 9, 2, 8, 0, 9]);
        // One node with CPUs: the system places the threads.
        assert_eq!(cpu_of(&nodes[..2], 3), None);
    }

    /// The paper's caption (2 M searches, 1 M inserts, 12.5 K removals) and its text speak of two mixes.
    #[test]
    fn a_turn_has_its_operations_and_inserts_every_key_once() {
        for (turn, inserts, searches) in [(Turn::TEXT, 4, 16), (Turn::CAPTION, 80, 160)] {
            let of = |number: u64| (number % turn.length, turn.inserts_before(number));
            let is_insert = |at: u64| at < turn.length - 1 && at.is_multiple_of(turn.every);
            let keys: Vec<u64> = (0..3 * turn.length)
                .map(of)
                .filter(|(at, _)| is_insert(*at))
                .map(|(_, key)| key)
                .collect();
            assert_eq!(keys, (0..3 * inserts).collect::<Vec<_>>());
            assert_eq!(turn.length, inserts + searches + 1);
        }
    }
}
