//! Nothing acknowledged is lost: a real process with several writing threads is killed with SIGKILL
//! at random moments, again and again, on one pool.
//!
//! Each writer's operations follow from a seed, so the parent knows what operation `n` of writer `t`
//! was. The child reports each operation after it returned. After the kill the pool must hold, for
//! each writer, exactly the effect of all reported operations, with or without the next one (it may
//! have been done and not reported). The check must be clean: no key twice, nothing leaked.
//!
//! A second test kills two processes in a row that open the pool at once, each while what opening has left is restored
//! or has not been begun, and then opens it so itself.
//!
//! Rounds: 20, or as many as `EVERLEAF_KILL_ROUNDS` says.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use everleaf::random::mix;
use everleaf::{Event, Options, Store, Tree};

const WRITERS: u64 = 3;
const KEYS: u64 = 400;
const CHILD: &str = "EVERLEAF_KILL_CHILD";

/// The effect of one operation.
#[derive(Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}

/// Operation `n` of `writer` in `round`.
fn step(round: u64, writer: u64, n: u64) -> Step {
    let dice = mix(round << 48 ^ writer << 40 ^ n);
    // Writers' keys lie side by side, so that they meet in the same leaves.
    let key = format!("key:{:08}:{writer}", mix(dice) % KEYS).into_bytes();
    if dice.is_multiple_of(3) {
        return Step::Remove(key);
    }
    let length = (dice >> 8) as usize % if dice % 64 == 1 { 9000 } else { 120 };
    let mut value = format!("{round}:{writer}:{n}:").into_bytes();
    value.resize(value.len() + length, b'v');
    Step::Put(key, value)
}

fn options(at_once: bool) -> Options {
    let options = Options::new().create(true).max_size_bytes(1 << 30);
    if at_once { options.tree(Tree::HashedLeaf).open_at_once(true) } else { options }
}

/// The child: writes until it is killed, and reports to one file per writer.
fn write_for_ever(folder: &Path, round: u64, at_once: bool) {
    let options = options(at_once);
    let store = options.open(folder.join("pool")).expect("the pool opens");
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || {
                let report = folder.join(format!("report.{writer}"));
                let mut report = File::create(report).expect("the report is writable");
                for n in 0.. {
                    match step(round, writer, n) {
                        Step::Put(key, value) => {
                            let _ = store.default_map().put(&key, &value).expect("room");
                        }
                        Step::Remove(key) => {
                            let _ = store.default_map().remove(&key).expect("writable");
                        }
                    }
                    // One byte an operation: the file's length is the number of reports.
                    report.write_all(b".").expect("the report is writable");
                }
            });
        }
    });
}

#[test]
fn child_process() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let parts: Vec<&str> = task.splitn(3, ' ').collect();
    let [round, way, folder] = parts[..] else { panic!("round, way and folder: {task}") };
    write_for_ever(Path::new(folder), round.parse().expect("a number"), way == "at-once");
}

/// Runs the child, kills it after `life`, and returns how many operations each writer reported.
fn run_and_kill(folder: &Path, round: u64, life: Duration, at_once: bool) -> Vec<u64> {
    let reports = (0..WRITERS).map(|writer| folder.join(format!("report.{writer}")));
    let reports: Vec<_> = reports.collect();
    for report in &reports {
        File::create(report).expect("the report is writable");
    }
    let mut child = Command::new(std::env::current_exe().expect("the test has a path"))
        .args(["--exact", "kill::child_process", "--test-threads=1"])
        .env(
            CHILD,
            format!("{round} {} {}", if at_once { "at-once" } else { "whole" }, folder.display()),
        )
        .stdout(Stdio::null())
        .spawn()
        .expect("the child starts");
    std::thread::sleep(life);
    child.kill().expect("the child can be killed");
    let status = child.wait().expect("the child can be awaited");
    assert_eq!(status.code(), None, "round {round}: the child ended by itself");
    let length = |report| std::fs::metadata(report).expect("the report exists").len();
    reports.iter().map(length).collect()
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(contents: &mut Contents, step: Step) {
    match step {
        Step::Put(key, value) => drop(contents.insert(key, value)),
        Step::Remove(key) => drop(contents.remove(&key)),
    }
}

/// One writer's part of the contents.
fn of_writer(contents: &Contents, writer: u64) -> Contents {
    let ending = format!(":{writer}").into_bytes();
    let own = contents.iter().filter(|(key, _)| key.ends_with(&ending));
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn rounds() -> u64 {
    std::env::var("EVERLEAF_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

#[test]
fn a_killed_process_loses_nothing_it_reported() {
    let rounds = rounds();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pool");
    let mut contents = Contents::new();
    let mut operations = 0;
    for round in 0..rounds {
        // Short lives hit opening and recovery, longer ones splits, merges and growth.
        let life = Duration::from_micros(3_000 + mix(round) % 120_000);
        let counts = run_and_kill(folder.path(), round, life, false);
        operations += counts.iter().sum::<u64>();
        if !path.exists() {
            assert_eq!(counts.iter().sum::<u64>(), 0, "no pool, so nothing was reported");
            continue;
        }
        let store = Store::open(&path, options(false)).expect("the pool opens again");
        let found: Contents = store.default_map().iter().map(Result::unwrap).collect();
        for writer in 0..WRITERS {
            let mut expected = of_writer(&contents, writer);
            let count = counts[writer as usize];
            (0..count).for_each(|n| apply(&mut expected, step(round, writer, n)));
            let actual = of_writer(&found, writer);
            if actual != expected {
                apply(&mut expected, step(round, writer, count));
                assert!(actual == expected, "round {round}, writer {writer}, {count} reported");
            }
        }
        assert_eq!(store.default_map().len(), found.len() as u64, "round {round}");
        let report = store.check().expect("the check runs");
        assert!(report.is_clean(), "round {round}: {:?}", report.problems);
        store.close().expect("the pool closes");
        contents = found;
    }
    println!("{rounds} kills, {operations} operations reported, {} keys", contents.len());
    assert!(operations > rounds, "the children hardly wrote: {operations} operations");
}

/// What a writer may have left that reported so many operations and was killed in the next.
fn outcomes(before: &[Contents], round: u64, writer: u64, count: u64) -> Vec<Contents> {
    let mut outcomes = vec![];
    for before in before {
        let mut contents = before.clone();
        (0..count).for_each(|n| apply(&mut contents, step(round, writer, n)));
        outcomes.push(contents.clone());
        apply(&mut contents, step(round, writer, count));
        outcomes.push(contents);
    }
    outcomes
}

#[test]
fn processes_that_open_at_once_and_are_killed_lose_nothing() {
    let rounds = rounds();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("pool");
    // Many leaves, of which the writers come to some.
    let ballast = 30_000_u64;
    {
        let store = options(true).open(&path).expect("a new pool");
        for number in 0..ballast {
            let (key, value) = (format!("key:{:08}:ballast", mix(number) % 100_000_000), [7; 90]);
            let _ = store.default_map().put(key, value).expect("room");
        }
        store.close().expect("the pool closes");
    }
    let (mut contents, mut operations, mut left) = (Contents::new(), 0, 0);
    for round in 0..rounds {
        let life = |part: u64| Duration::from_micros(3_000 + mix(2 * round + part) % 90_000);
        let first = run_and_kill(folder.path(), 2 * round, life(0), true);
        let second = run_and_kill(folder.path(), 2 * round + 1, life(1), true);
        operations += first.iter().chain(&second).sum::<u64>();
        let (tell, told) = std::sync::mpsc::channel();
        let options = options(true).events(move |event| {
            if let Event::Restored = event {
                let _ = tell.send(());
            }
        });
        let store = options.open(&path).expect("the pool opens again");
        left += store.statistics().unrestored_leaves;
        if round % 2 == 1 && !store.statistics().was_clean {
            // Nobody else comes to them: the store's own thread restores all.
            told.recv_timeout(Duration::from_secs(60)).expect("it is told");
            assert_eq!(store.statistics().unrestored_leaves, 0);
        }
        let found: Contents = store.default_map().iter().map(Result::unwrap).collect();
        for writer in 0..WRITERS {
            let before = [of_writer(&contents, writer)];
            let between = outcomes(&before, 2 * round, writer, first[writer as usize]);
            let allowed = outcomes(&between, 2 * round + 1, writer, second[writer as usize]);
            assert!(allowed.contains(&of_writer(&found, writer)), "round {round}, writer {writer}");
        }
        assert_eq!(store.default_map().len(), found.len() as u64, "round {round}");
        let report = store.check().expect("the check runs");
        assert!(report.is_clean(), "round {round}: {:?}", report.problems);
        assert_eq!(store.statistics().unrestored_leaves, 0);
        store.close().expect("the pool closes");
        contents = found;
    }
    println!("{rounds} times two kills, {operations} operations reported, {left} leaves were left");
    assert!(operations > rounds && left > 0, "{operations} operations, {left} leaves");
}
