//! Ends a program that prints nothing any more, with all that it has started.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Ends a process and its children, and theirs. What is started meanwhile is looked for until there is nothing more.
pub fn end(child: &Child) {
    let Ok(first) = i32::try_from(child.id()) else { return };
    // It is stopped first, so that it starts nothing in the place of what is ended.
    send(first, Signal::STOP);
    for _ in 0..LOOKS {
        let family = family_of(first);
        family.iter().for_each(|id| send(*id, Signal::KILL));
        if family.is_empty() {
            break;
        }
    }
    send(first, Signal::KILL);
}

/// How often children are looked for.
const LOOKS: usize = 100;

/// How the totals name it.
pub fn said(silence: Duration) -> String {
    format!("ended by xtask: it printed nothing for {} minutes", silence.as_secs().div_ceil(60))
}

fn send(id: i32, signal: Signal) {
    if let Some(id) = Pid::from_raw(id) {
        // It may have ended by itself.
        let _ = kill_process(id, signal);
    }
}

/// All that descend from a process and have not ended, without itself.
fn family_of(first: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let parent = id.and_then(parent_of);
        if let (Some(id), Some(parent)) = (id, parent) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut family = vec![first];
    let mut at = 0;
    while let Some(id) = family.get(at) {
        let theirs = children.remove(id).unwrap_or_default();
        family.extend(theirs);
        at += 1;
    }
    family.split_off(1)
}

/// The parent of a process that has not ended.
fn parent_of(id: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is a name in parentheses and may hold anything; state and parent follow.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(parent)
}
