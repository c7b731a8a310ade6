//! A process killed at any instant leaves a pool that opens with everything it had reported.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::{BufRead, BufReader};

use crate::common::{Scratch, alone, child_path, create, open, start_child};

/// Not a test by itself: changes the pool it is told and reports each change when it is done, until
/// it is killed.
#[test]
#[ignore = "a part of the other test, which runs it as a process of its own"]
fn child_that_changes_a_pool() {
    let Some(path) = child_path() else { return };
    let pool = open(&path).unwrap();
    println!("open");
    loop {
        let id = pool.next_id().unwrap();
        println!("id {id}");
        let root = pool.create_root(&format!("root {id}"), 7, id).unwrap();
        println!("root {id}");
        pool.set_root_value(root.index, id, id + 1_000_000).unwrap();
        println!("value {id}");
        if !id.is_multiple_of(16) {
            pool.remove_root(root.index).unwrap();
            println!("removed {id}");
        }
        if id.is_multiple_of(40) {
            let size = pool.grow(pool.size() + 1).unwrap();
            println!("size {size}");
        }
    }
}

/// The last thing reported of each kind, and the ids whose roots were reported.
#[derive(Default)]
struct Reported {
    id: u32,
    size: u64,
    roots: Vec<(u32, u32)>,
}

impl Reported {
    fn note(&mut self, line: &str) {
        let Some((kind, number)) = line.split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        let id = number as u32;
        match kind {
            "id" => self.id = id,
            "size" => self.size = number,
            "root" => self.roots.push((id, id)),
            "value" => self.roots.last_mut().expect("its root came first").1 += 1_000_000,
            "removed" => drop(self.roots.pop()),
            _ => {}
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_reported() {
    let _alone = alone();
    let rounds = 25;
    let mut changes = 0;
    for round in 0..rounds {
        let scratch = Scratch::new();
        drop(create(&scratch.path).unwrap());
        let mut child = start_child("kill::child_that_changes_a_pool", &scratch.path);
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut reported = Reported::default();
        // Killed after another number of reports each time, wherever the child is by then.
        for _ in 0..20 + round * 7 {
            reported.note(&output.next().expect("the child goes on").unwrap());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What was still in the pipe was reported too; a last line cut short was not.
        output.map_while(Result::ok).for_each(|line| reported.note(&line));

        let pool = open(&scratch.path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(!pool.was_clean());
        assert!(pool.next_id().unwrap() > reported.id, "an id came back");
        assert!(pool.size() >= reported.size, "growth was lost");
        assert!(std::fs::metadata(&scratch.path).unwrap().len() >= pool.size());
        let roots = pool.roots();
        for (id, value) in &reported.roots {
            let root = pool.root(&format!("root {id}"));
            // The removal of the last root may have been under way, or done and not yet reported.
            let removed = *id == reported.id && !id.is_multiple_of(16);
            let Some(root) = root else {
                assert!(removed, "round {round}: root {id} was lost");
                continue;
            };
            let later = root.value == id + 1_000_000;
            assert!(root.kind == 7 && (root.value == *value || later), "{root:?}");
        }
        // At most the one change that was under way was not reported.
        assert!(roots.len() <= reported.roots.len() + 1);
        changes += roots.len();
    }
    assert!(changes > rounds, "the children did something");
}
