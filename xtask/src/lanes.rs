//! Lanes: several jobs run beside each other, so that one that waits leaves no core idle.
//!
//! Each program runs its tests in as many threads as there are cores. Those that search compute all the
//! time, those of the server and of what kills processes wait half of it: two lanes keep the cores busy, and
//! more would only slow each other down. Jobs begin in the order in which they are given. What they
//! print is not mixed: the first that runs prints at once, and what the others print waits for its turn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::programs::{self, Job, Ran};
use crate::summary::Totals;

/// Jobs that run at once.
const LANES: usize = 2;

/// What became of a job.
#[derive(Debug)]
pub struct Ended {
    /// What it did.
    pub ran: Ran,
    /// Whether it passed.
    pub passed: bool,
}

/// Runs all jobs, tells of those that failed, and adds up their totals.
pub fn run_all(jobs: Vec<Job>, totals: &mut Totals) -> (Vec<Ran>, bool) {
    let ended = run_printing(jobs, totals, &mut programs::print_now);
    for one in ended.iter().filter(|one| !one.passed) {
        println!("failed: {}", one.ran.name);
    }
    let passed = ended.iter().all(|one| one.passed);
    (ended.into_iter().map(|one| one.ran).collect(), passed)
}

/// Runs all jobs; their output goes to `print` and is not mixed. Returns what became of them, in the order
/// in which they were given.
fn run_printing(
    jobs: Vec<Job>,
    totals: &mut Totals,
    print: &mut (dyn FnMut(&[u8]) + Send),
) -> Vec<Ended> {
    let queue = Mutex::new(jobs.into_iter().enumerate().collect::<VecDeque<_>>());
    let turns = Mutex::new(Turns { first: 0, waiting: BTreeMap::new(), print });
    let results = Mutex::new((BTreeMap::new(), totals));
    let lane = || {
        loop {
            let next = lock(&queue).pop_front();
            let Some((number, job)) = next else { return };
            lock(&turns).say(number, format!("\n---- {}\n", job.name).as_bytes());
            let (ran, counted, passed) =
                programs::run(job, true, &mut |line| lock(&turns).say(number, line));
            lock(&turns).end(number);
            let mut results = lock(&results);
            results.1.add(counted);
            results.0.insert(number, Ended { ran, passed });
        }
    };
    thread::scope(|scope| (0..LANES).for_each(|_| drop(scope.spawn(lane))));
    let (ended, _) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.into_values().collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whose output is printed.
struct Turns<'p> {
    /// The first job that has not ended: it prints at once.
    first: usize,
    /// What the others have printed, and whether they have ended.
    waiting: BTreeMap<usize, (Vec<u8>, bool)>,
    print: &'p mut (dyn FnMut(&[u8]) + Send),
}

impl Turns<'_> {
    /// Prints, or keeps, what a job says.
    fn say(&mut self, number: usize, bytes: &[u8]) {
        if number == self.first {
            (self.print)(bytes);
        } else {
            self.waiting.entry(number).or_default().0.extend_from_slice(bytes);
        }
    }

    /// A job has ended: if it was the first, what waited is printed, up to the next that runs.
    fn end(&mut self, number: usize) {
        self.waiting.entry(number).or_default().1 = true;
        while let Some((bytes, is_ended)) = self.waiting.remove(&self.first) {
            (self.print)(&bytes);
            if !is_ended {
                return;
            }
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn output_comes_in_the_order_of_the_jobs_and_is_not_mixed() {
        let job = |number: usize| {
            let mut command = Command::new("sh");
            let script = format!(
                "echo {number} begins; echo 'test result: ok. 1 passed'; echo {number} ends"
            );
            command.args(["-c", &script]);
            Job { name: number.to_string(), package: "p".into(), command }
        };
        let (mut text, mut totals) = (Vec::new(), Totals::default());
        let ended = run_printing((0..9).map(job).collect(), &mut totals, &mut |line| {
            text.extend_from_slice(line);
        });
        let wanted = |number| {
            format!("\n---- {number}\n{number} begins\ntest result: ok. 1 passed\n{number} ends\n")
        };
        assert_eq!(String::from_utf8(text).unwrap(), (0..9).map(wanted).collect::<String>());
        let names: Vec<_> = ended.iter().map(|one| one.ran.name.clone()).collect();
        assert_eq!(names, (0..9).map(|number| number.to_string()).collect::<Vec<_>>());
        assert_eq!(totals.passed, 9);
    }

    #[test]
    fn what_a_later_job_says_waits_for_the_end_of_earlier_ones() {
        let mut text = Vec::new();
        let mut print = |bytes: &[u8]| text.extend_from_slice(bytes);
        let mut turns = Turns { first: 0, waiting: BTreeMap::new(), print: &mut print };
        turns.say(1, b"b");
        turns.say(0, b"a");
        turns.end(1);
        turns.say(2, b"c");
        turns.say(0, b"a");
        turns.end(0);
        turns.say(2, b"d");
        turns.end(2);
        assert_eq!(text, b"aabcd");
    }
}
