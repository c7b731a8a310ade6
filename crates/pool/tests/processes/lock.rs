//! Which processes may have a pool open together, and what the others are told.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Child;

use crate::common::{Scratch, alone, child_path, create, open, open_read_only, start_child};
use everleaf_machine::Hardware;
use everleaf_pool::{Pool, PoolError};

/// Not a test by itself: opens the pool it is told, for writing or reading as the first line of its
/// input says, says "open", and holds the pool until its input ends.
#[test]
#[ignore = "a part of the other tests, which run it as a process of its own"]
fn child_that_holds_a_pool() {
    let Some(path) = child_path() else { return };
    let mut input = BufReader::new(std::io::stdin());
    let mut how = String::new();
    input.read_line(&mut how).unwrap();
    let pool = if how.trim() == "read" { open_read_only(&path) } else { open(&path) };
    let pool = pool.unwrap();
    println!("open");
    input.read_to_end(&mut Vec::new()).unwrap();
    drop(pool);
}

/// A process that has the pool open.
fn holding_child(path: &Path, how: &str) -> Child {
    let mut child = start_child("lock::child_that_holds_a_pool", path);
    writeln!(child.stdin.as_mut().unwrap(), "{how}").unwrap();
    let mut output = BufReader::new(child.stdout.as_mut().unwrap());
    let mut line = String::new();
    while !line.contains("open") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the child ended without opening");
    }
    child
}

fn pids(result: Result<Pool<Hardware>, PoolError>) -> Vec<u32> {
    let error = result.expect_err("the pool is locked");
    let text = error.to_string();
    let PoolError::Locked { holders, .. } = error else { panic!("{text}") };
    for holder in &holders {
        assert!(text.contains(&format!("process {} ({})", holder.pid, holder.command)), "{text}");
        assert!(!holder.command.is_empty(), "{text}");
    }
    holders.iter().map(|holder| holder.pid).collect()
}

#[test]
fn a_second_opener_is_told_the_process_that_holds_the_pool() {
    let _alone = alone();
    let scratch = Scratch::with_pool();
    let mut child = holding_child(&scratch.path, "write");
    assert_eq!(pids(open(&scratch.path)), [child.id()]);
    assert_eq!(pids(open_read_only(&scratch.path)), [child.id()]);
    drop(child.stdin.take());
    child.wait().unwrap();
    open(&scratch.path).unwrap();
}

#[test]
fn a_killed_holder_holds_nothing_and_is_not_named() {
    let _alone = alone();
    let scratch = Scratch::with_pool();
    let mut killed = holding_child(&scratch.path, "write");
    killed.kill().unwrap();
    killed.wait().unwrap();
    // The file still has the record of the killed process.
    let second = holding_child(&scratch.path, "read");
    assert_eq!(pids(open(&scratch.path)), [second.id()]);
    let mut second = second;
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(!open(&scratch.path).unwrap().was_clean());
}

#[test]
fn many_may_read_while_none_writes() {
    let _alone = alone();
    let scratch = Scratch::with_pool();
    let mut child = holding_child(&scratch.path, "read");
    let here = open_read_only(&scratch.path).unwrap();
    let also_here = open_read_only(&scratch.path).unwrap();
    let mut expected = vec![child.id(), std::process::id()];
    expected.sort_unstable();
    assert_eq!(pids(open(&scratch.path)), expected);
    drop((here, also_here));
    assert_eq!(pids(open(&scratch.path)), [child.id()]);
    drop(child.stdin.take());
    child.wait().unwrap();
    open(&scratch.path).unwrap();
}

#[test]
fn a_process_cannot_open_a_pool_twice() {
    let _alone = alone();
    let scratch = Scratch::new();
    let pool = create(&scratch.path).unwrap();
    let error = open(&scratch.path).unwrap_err();
    assert!(error.to_string().contains("which is this process"), "{error}");
    assert_eq!(pids(open(&scratch.path)), [std::process::id()]);
    drop(pool);
    open(&scratch.path).unwrap();
}

#[test]
fn a_pool_is_locked_from_the_moment_it_has_a_name() {
    let _alone = alone();
    let scratch = Scratch::new();
    let path = scratch.path.as_path();
    let results: Vec<_> = std::thread::scope(|scope| {
        let options = everleaf_pool::PoolOptions {
            create: everleaf_pool::CreateMode::IfMissing,
            ..Default::default()
        };
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let options = options.clone();
                scope.spawn(move || Pool::<Hardware>::open(path, &options))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let opened = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(opened, 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, PoolError::Locked { .. }), "{error}");
    }
    assert_eq!(scratch.names(), ["test.pool"]);
}
