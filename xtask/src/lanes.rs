//! Lanes: several jobs run beside each other, so that one that waits leaves no core idle.
//!
//! Each program runs its tests in as many threads as there are cores. Those that search compute all the
//! time, those of the server and of what kills processes wait half of it: two lanes keep the cores busy, and
//! more would only slow each other down.
//!
//! The first lane begins while the programs are still built, with those that are there: the longest libraries
//! occupy one core for minutes. It takes one core, so that the compiler keeps the other, and what all wait
//! for is not ready later: its programs run their tests one after the other. Only the longest of all runs as
//! it always does, since it is linked when little is left to compile. The second lane opens when everything
//! is built.
//!
//! Of the jobs that are there the longest begins first, and of others the one that was there first. What they
//! print is not mixed: while there is a build, whose own lines come between, a job's output is printed when
//! it has ended; then the first that runs prints at once, and what the others print waits for its turn.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;

use crate::programs::{self, Job, Ran};
use crate::summary::Totals;

/// Jobs that run at once.
const LANES: usize = 2;
/// How the tests of a program are run one after the other.
const ONE_THREAD: (&str, &str) = ("RUST_TEST_THREADS", "1");

/// The jobs that have not begun.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// The names of the longest jobs, the longest first.
    longest: &'static [&'static str],
}

/// A job, its number, and whether there is still a build.
type Next = (usize, Job, bool);

#[derive(Debug)]
struct State {
    waiting: Vec<Job>,
    begun: usize,
    is_building: bool,
}

impl Queue {
    /// One without jobs, beside a build.
    fn new(longest: &'static [&'static str]) -> Self {
        let state = State { waiting: Vec::new(), begun: 0, is_building: true };
        Self { state: Mutex::new(state), changed: Condvar::new(), longest }
    }

    /// Adds a job, which may begin at once.
    pub fn add(&self, job: Job) {
        lock(&self.state).waiting.push(job);
        self.changed.notify_all();
    }

    /// Everything is built: adds the last jobs, all at once, so that the longest of them begin first.
    pub fn finish(&self, jobs: Vec<Job>) {
        let mut state = lock(&self.state);
        state.waiting.extend(jobs);
        state.is_building = false;
        drop(state);
        self.changed.notify_all();
    }

    /// Takes back what has not begun.
    pub fn clear(&self) {
        lock(&self.state).waiting.clear();
    }

    /// The next job for a lane, with its number and whether there is still a build; waits until there is one.
    fn next(&self, lane: usize) -> Option<Next> {
        let mut state = lock(&self.state);
        loop {
            match self.pick(&mut state, lane) {
                Poll::Ready(next) => return next,
                Poll::Pending => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// The same, if it is known at once.
    fn pick(&self, state: &mut State, lane: usize) -> Poll<Option<Next>> {
        let is_open = lane == 0 || !state.is_building;
        // Of equal ones the first.
        let best = (0..state.waiting.len()).min_by_key(|at| self.rank(&state.waiting[*at]));
        match best {
            Some(at) if is_open => {
                let job = state.waiting.remove(at);
                state.begun += 1;
                Poll::Ready(Some((state.begun - 1, job, state.is_building)))
            }
            None if !state.is_building => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }

    /// The place of a job among the longest.
    fn rank(&self, job: &Job) -> usize {
        let place = self.longest.iter().position(|name| *name == job.name);
        place.unwrap_or(self.longest.len())
    }

    /// A job as it is begun beside a build.
    fn beside_build(&self, mut job: Job) -> Job {
        let (name, value) = ONE_THREAD;
        if self.rank(&job) > 0 && std::env::var_os(name).is_none() {
            job.command.env(name, value);
        }
        job
    }
}

/// Runs the jobs that `build` adds while it works, and adds up their totals. Returns what `build` does, and
/// what the jobs did, in the order in which they began.
pub fn run_beside<R>(
    longest: &'static [&'static str],
    totals: &mut Totals,
    build: impl FnOnce(&Queue) -> R,
) -> (R, Vec<Ran>) {
    run_printing(longest, totals, &mut programs::print_now, build)
}

fn run_printing<R>(
    longest: &'static [&'static str],
    totals: &mut Totals,
    print: &mut (dyn FnMut(&[u8]) + Send),
    build: impl FnOnce(&Queue) -> R,
) -> (R, Vec<Ran>) {
    let queue = Queue::new(longest);
    let turns = Mutex::new(Turns { first: 0, waiting: BTreeMap::new(), is_live: false, print });
    let results = Mutex::new((BTreeMap::new(), totals));
    let lane = |lane: usize| {
        while let Some((number, mut job, is_early)) = queue.next(lane) {
            if is_early {
                job = queue.beside_build(job);
            }
            lock(&turns).say(number, format!("\n---- {}\n", job.name).as_bytes());
            let (mut ran, counted, _) =
                programs::run(job, true, &mut |line| lock(&turns).say(number, line));
            ran.is_early = is_early;
            lock(&turns).end(number);
            let mut results = lock(&results);
            results.1.add(counted);
            results.0.insert(number, ran);
        }
    };
    let lane = &lane;
    let built = thread::scope(|scope| {
        (0..LANES).for_each(|number| drop(scope.spawn(move || lane(number))));
        // The lanes end even if it does not return.
        let close = Close(&queue);
        let built = build(&queue);
        lock(&turns).go_live();
        drop(close);
        built
    });
    let (ran, _) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    (built, ran.into_values().collect())
}

/// Closes a queue.
struct Close<'q>(&'q Queue);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.finish(Vec::new());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whose output is printed.
struct Turns<'p> {
    /// The first job of which nothing was printed yet, or not all.
    first: usize,
    /// What jobs have printed that waits, and whether they have ended.
    waiting: BTreeMap<usize, (Vec<u8>, bool)>,
    /// Whether the first prints at once.
    is_live: bool,
    print: &'p mut (dyn FnMut(&[u8]) + Send),
}

impl Turns<'_> {
    /// Prints, or keeps, what a job says.
    fn say(&mut self, number: usize, bytes: &[u8]) {
        if number == self.first && self.is_live {
            (self.print)(bytes);
        } else {
            self.waiting.entry(number).or_default().0.extend_from_slice(bytes);
        }
    }

    /// A job has ended: if it was the first, what waited is printed, up to the next that runs.
    fn end(&mut self, number: usize) {
        self.waiting.entry(number).or_default().1 = true;
        self.pass_on();
    }

    /// From now on the first prints at once.
    fn go_live(&mut self) {
        self.is_live = true;
        self.pass_on();
    }

    /// Prints what need not wait any more.
    fn pass_on(&mut self) {
        let may_print = |is_live: bool, entry: &(Vec<u8>, bool)| is_live || entry.1;
        while self.waiting.get(&self.first).is_some_and(|entry| may_print(self.is_live, entry)) {
            let Some((bytes, is_ended)) = self.waiting.remove(&self.first) else { return };
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
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    fn job(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { name: name.to_string(), package: "p".into(), command }
    }

    fn run<R>(build: impl FnOnce(&Queue) -> R) -> (String, Totals, Vec<Ran>) {
        let (mut text, mut totals) = (Vec::new(), Totals::default());
        let mut print = |line: &[u8]| text.extend_from_slice(line);
        let (_, ran) = run_printing(&["long", "less"], &mut totals, &mut print, build);
        (String::from_utf8(text).unwrap(), totals, ran)
    }

    fn names(ran: &[Ran]) -> Vec<&str> {
        ran.iter().map(|one| one.name.as_str()).collect()
    }

    /// A job whose standard input is one end of these: it reads there what it is told, and says something by `>&0`.
    fn talking_job(name: &str, script: &str, end: UnixStream) -> Job {
        let mut job = job(name, script);
        job.command.stdin(OwnedFd::from(end));
        job
    }

    /// Two ends. If nothing comes, nothing ever will.
    fn ends() -> [UnixStream; 2] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        [ours, theirs]
    }

    /// What a job says next.
    fn said(by: &UnixStream) -> String {
        let mut line = String::new();
        BufReader::new(by).read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    #[test]
    fn output_comes_in_the_order_of_the_jobs_and_is_not_mixed() {
        let script = |number: usize| {
            format!("echo {number} begins; echo 'test result: ok. 1 passed'; echo {number} ends")
        };
        let (text, totals, ran) = run(|queue| {
            (0..9).for_each(|number| queue.add(job(&number.to_string(), &script(number))))
        });
        let wanted = |number| {
            format!("\n---- {number}\n{number} begins\ntest result: ok. 1 passed\n{number} ends\n")
        };
        assert_eq!(text, (0..9).map(wanted).collect::<String>());
        assert_eq!(names(&ran), (0..9).map(|number| number.to_string()).collect::<Vec<_>>());
        assert_eq!(totals.passed, 9);
    }

    #[test]
    fn jobs_run_while_there_is_a_build_and_one_at_once() {
        let [first, its] = ends();
        let (_, _, ran) = run(|queue| {
            // It waits for the second, which therefore does not begin before the build has ended.
            queue.add(talking_job("1", "echo begun >&0; read line", its));
            assert_eq!(said(&first), "begun");
            queue.add(talking_job("2", "echo go >&0", first));
            // The other lane takes none. If it has one already, the build is still there as well.
            let next = queue.pick(&mut lock(&queue.state), 1);
            assert!(next.is_pending(), "two jobs ran beside the build");
        });
        assert_eq!(ran.iter().map(|one| one.is_early).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn the_longest_that_is_there_begins_first() {
        let [mut first, its] = ends();
        let (_, _, ran) = run(|queue| {
            queue.add(talking_job("a", "echo begun >&0; read line", its));
            assert_eq!(said(&first), "begun");
            ["b", "less", "c", "long"].into_iter().for_each(|name| queue.add(job(name, "true")));
            first.write_all(b"go\n").unwrap();
        });
        assert_eq!(names(&ran), ["a", "long", "less", "b", "c"]);
    }

    #[test]
    fn the_last_jobs_begin_together_and_with_all_cores() {
        let (_, _, ran) = run(|queue| {
            let names = ["a", "b", "less", "long"];
            let all = names.map(|_| ends());
            let script = "echo begun >&0; [ -z \"$RUST_TEST_THREADS\" ]";
            let jobs = names.into_iter().zip(all);
            let (ours, jobs): (Vec<_>, Vec<_>) =
                jobs.map(|(name, [ours, its])| (ours, talking_job(name, script, its))).unzip();
            queue.finish(jobs);
            // Before the build returns.
            ours.iter().for_each(|end| assert_eq!(said(end), "begun"));
        });
        assert_eq!(names(&ran), ["long", "less", "a", "b"]);
        assert!(ran.iter().all(|one| !one.is_early));
    }

    #[test]
    fn only_the_longest_takes_all_cores_beside_a_build() {
        run(|queue| {
            for (name, threads) in [("less", "1"), ("long", "all")] {
                let [ours, its] = ends();
                queue.add(talking_job(name, "echo \"${RUST_TEST_THREADS-all}\" >&0", its));
                assert_eq!(said(&ours), threads);
            }
        });
    }

    #[test]
    fn a_build_that_fails_leaves_what_has_not_begun() {
        let [mut first, its] = ends();
        let (_, totals, ran) = run(|queue| {
            queue.add(talking_job("a", "echo begun >&0; read line; exit 3", its));
            assert_eq!(said(&first), "begun");
            queue.add(job("b", "true"));
            queue.clear();
            first.write_all(b"go\n").unwrap();
        });
        assert_eq!(names(&ran), ["a"]);
        assert_eq!(
            (totals.failed, totals.failures[0].as_str()),
            (1, "a: exit status: 3, and no test failed")
        );
    }

    #[test]
    fn what_a_later_job_says_waits_for_the_end_of_earlier_ones() {
        let mut text = Vec::new();
        let mut print = |bytes: &[u8]| text.extend_from_slice(bytes);
        let mut turns =
            Turns { first: 0, waiting: BTreeMap::new(), is_live: true, print: &mut print };
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

    #[test]
    fn beside_a_build_a_job_is_printed_when_it_has_ended() {
        let mut texts: Vec<Vec<u8>> = Vec::new();
        let mut print = |bytes: &[u8]| texts.push(bytes.to_vec());
        let mut turns =
            Turns { first: 0, waiting: BTreeMap::new(), is_live: false, print: &mut print };
        turns.say(0, b"a");
        turns.say(0, b"b");
        turns.end(0);
        turns.say(1, b"c");
        turns.go_live();
        turns.say(1, b"d");
        turns.end(1);
        assert_eq!(texts, [&b"ab"[..], b"c", b"d", b""]);
    }
}
