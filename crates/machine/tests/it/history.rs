//! The judges judged: the monitor against brute force, the zone judge against the monitor.

use std::collections::BTreeSet;

use everleaf_machine::simulated::Random;
use everleaf_machine::simulated::history::zones::{self, Record};
use everleaf_machine::simulated::history::{Call, Monitor, Reply};

/// A call of a small history of one key, in units of events.
#[derive(Clone, Copy, Debug)]
struct Op {
    thread: usize,
    call: Call,
    /// None: still pending at the end.
    reply: Option<Reply>,
    invoked: u64,
    responded: u64,
}

/// Makes calls at random. `distinct`: every written value is new.
struct Maker {
    random: Random,
    distinct: bool,
    next: u64,
}

impl Maker {
    fn value(&mut self) -> u64 {
        self.next += 1;
        if self.distinct { 10 + self.next } else { 10 + self.random.below(3) }
    }

    fn known(&mut self) -> u64 {
        10 + self.random.below(if self.distinct { self.next + 1 } else { 3 })
    }

    fn call(&mut self) -> Call {
        match self.random.below(6) {
            0 => Call::Get,
            1 => Call::Insert(self.value()),
            2 => Call::Update(self.value()),
            3 => Call::Upsert(self.value()),
            4 => Call::Remove,
            _ => Call::CompareExchange { expected: self.known(), new: self.value() },
        }
    }

    fn reply(&mut self, call: Call, state: Option<u64>) -> Reply {
        match self.random.below(12) {
            0 => Reply::Unknown,
            1 => Reply::Refused,
            2..5 => Reply::Done(call.succeeds(state)),
            _ => Reply::Previous(state),
        }
    }

    /// A history that is linearizable by construction: each call takes effect at some moment
    /// between its invocation and its reply.
    fn history(&mut self, threads: usize, calls: usize, initial: Option<u64>) -> Vec<Op> {
        let mut ops: Vec<Op> = Vec::new();
        // Per thread: the running op, and whether it has taken effect.
        let mut running: Vec<Option<(usize, bool)>> = vec![None; threads];
        let (mut state, mut time) = (initial, 0);
        while ops.len() < calls || (running.iter().any(Option::is_some) && !self.random.one_in(12))
        {
            time += 1;
            let thread = self.random.below(threads as u64) as usize;
            match running[thread] {
                None if ops.len() < calls => {
                    let call = self.call();
                    ops.push(Op { thread, call, reply: None, invoked: time, responded: u64::MAX });
                    running[thread] = Some((ops.len() - 1, false));
                }
                None => {}
                Some((index, false)) => {
                    let call = ops[index].call;
                    let reply = self.reply(call, state);
                    if reply != Reply::Refused {
                        state = call.apply(state);
                    }
                    ops[index].reply = Some(reply);
                    running[thread] = Some((index, true));
                }
                Some((index, true)) => {
                    ops[index].responded = time;
                    running[thread] = None;
                }
            }
        }
        // What did not respond has no reply, whether it took effect or not.
        for op in ops.iter_mut().filter(|op| op.responded == u64::MAX) {
            op.reply = None;
        }
        ops
    }

    /// Changes one reply of a history.
    fn spoil(&mut self, ops: &mut [Op]) {
        let index = self.random.below(ops.len() as u64) as usize;
        if let Some(reply) = &mut ops[index].reply {
            *reply = match *reply {
                Reply::Done(done) => Reply::Done(!done),
                Reply::Previous(Some(_)) if self.random.one_in(2) => Reply::Previous(None),
                _ => Reply::Previous(Some(self.known())),
            };
        }
    }
}

/// All final states of all orders that explain the history; empty if there is none.
fn brute_force(ops: &[Op], initial: Option<u64>) -> BTreeSet<Option<u64>> {
    fn search(ops: &[Op], placed: u32, state: Option<u64>, out: &mut BTreeSet<Option<u64>>) {
        let placed_all = ops
            .iter()
            .enumerate()
            .all(|(index, op)| placed >> index & 1 == 1 || op.responded == u64::MAX);
        if placed_all {
            out.insert(state);
        }
        for (index, op) in ops.iter().enumerate() {
            if placed >> index & 1 == 1 {
                continue;
            }
            let blocked = ops
                .iter()
                .enumerate()
                .any(|(other, before)| placed >> other & 1 == 0 && before.responded < op.invoked);
            if !blocked && op.reply == Some(Reply::Refused) {
                search(ops, placed | 1 << index, state, out);
            } else if !blocked && op.reply.is_none_or(|reply| reply.fits(op.call, state)) {
                search(ops, placed | 1 << index, op.call.apply(state), out);
            }
        }
    }
    let mut out = BTreeSet::new();
    search(ops, 0, initial, &mut out);
    out
}

/// The same by the monitor.
fn monitored(ops: &[Op], initial: Option<u64>) -> BTreeSet<Option<u64>> {
    const KEY: u64 = 5;
    let contents: Vec<(u64, u64)> = initial.iter().map(|&value| (KEY, value)).collect();
    let mut monitor = Monitor::new(&contents);
    let mut events: Vec<(u64, bool, &Op)> = Vec::new();
    for op in ops {
        events.push((op.invoked, true, op));
        if op.responded != u64::MAX {
            events.push((op.responded, false, op));
        }
    }
    events.sort_by_key(|&(time, _, _)| time);
    for (_, is_invocation, op) in events {
        if is_invocation {
            monitor.invoke(op.thread, &[(KEY, op.call)]);
        } else if monitor.respond(op.thread, &[op.reply.expect("it responded")]).is_err() {
            return BTreeSet::new();
        }
    }
    monitor.allowed(KEY).into_iter().collect()
}

#[test]
fn the_monitor_agrees_with_brute_force_on_many_histories() {
    let mut maker = Maker { random: Random::new(42), distinct: false, next: 0 };
    let (mut good, mut bad) = (0, 0);
    for round in 0..100_000u64 {
        maker.next = 0;
        let initial = (round % 3 == 0).then_some(10);
        let threads = 2 + (round % 3) as usize;
        let calls = 2 + maker.random.below(5) as usize;
        let mut ops = maker.history(threads, calls, initial);
        if round % 2 == 1 {
            maker.spoil(&mut ops);
        }
        let expected = brute_force(&ops, initial);
        let got = monitored(&ops, initial);
        assert_eq!(got, expected, "round {round}: {ops:?} from {initial:?}");
        assert!(round % 2 == 1 || !expected.is_empty(), "made linearizable, judged not");
        if expected.is_empty() { bad += 1 } else { good += 1 }
    }
    assert!(good > 50_000 && bad > 10_000, "{good} good, {bad} bad");
}

fn records(ops: &[Op], end: u64) -> Vec<Record> {
    ops.iter()
        .map(|op| Record {
            key: 5,
            call: op.call,
            reply: op.reply.unwrap_or(Reply::Unknown),
            invoked: op.invoked,
            responded: op.responded.min(end),
        })
        .collect()
}

#[test]
fn the_zone_judge_never_raises_a_false_alarm_and_catches_most() {
    let mut maker = Maker { random: Random::new(7), distinct: true, next: 0 };
    let (mut bad, mut caught) = (0, 0);
    for round in 0..20_000u64 {
        maker.next = 0;
        let initial = (round % 3 == 0).then_some(10);
        let calls = 4 + maker.random.below(12) as usize;
        let mut ops = maker.history(3, calls, initial);
        if round % 2 == 1 {
            maker.spoil(&mut ops);
        }
        // The contents after a crash at the end: possible ones, or any.
        let end = 1 + ops.iter().map(|op| op.responded.wrapping_add(1)).max().unwrap_or(0).max(400);
        let allowed = monitored(&ops, initial);
        let mut history = records(&ops, end);
        let mut is_good = !allowed.is_empty();
        let found = if maker.random.one_in(4) {
            Some(maker.known()).filter(|_| maker.random.one_in(2))
        } else {
            allowed.iter().next().copied().flatten()
        };
        is_good &= allowed.contains(&found);
        let reply = Reply::Previous(found);
        history.push(Record {
            key: 5,
            call: Call::Get,
            reply,
            invoked: end + 1,
            responded: end + 1,
        });
        let initial: Vec<(u64, u64)> = initial.iter().map(|&value| (5, value)).collect();
        let verdict = zones::check(&history, &initial);
        if is_good {
            assert_eq!(verdict, Ok(()), "round {round}: {history:?}");
        } else {
            bad += 1;
            caught += u64::from(verdict.is_err());
        }
    }
    println!("{caught} of {bad} violations caught");
    assert!(bad > 5000 && caught * 10 >= bad * 7, "{caught} of {bad}");
}

fn record(call: Call, reply: Reply, invoked: u64, responded: u64) -> Record {
    Record { key: 1, call, reply, invoked, responded }
}

#[test]
fn the_zone_judge_catches_what_a_crash_must_not_do() {
    let insert = record(Call::Insert(7), Reply::Done(true), 1, 2);
    let get = |value, time| record(Call::Get, Reply::Previous(value), time, time);
    // A lost insert, a lost removal, a lost update, a value from nowhere.
    assert!(zones::check(&[insert, get(None, 9)], &[]).is_err());
    let remove = record(Call::Remove, Reply::Done(true), 3, 4);
    assert!(zones::check(&[insert, remove, get(Some(7), 9)], &[]).is_err());
    assert!(zones::check(&[insert, remove, get(None, 9)], &[]).is_ok());
    let update = record(Call::Update(8), Reply::Done(true), 3, 4);
    assert!(zones::check(&[insert, update, get(Some(7), 9)], &[]).is_err());
    assert!(zones::check(&[insert, update, get(Some(8), 9)], &[]).is_ok());
    assert!(zones::check(&[insert, get(Some(6), 9)], &[]).is_err());
    // A pending update may have happened or not, but not come back later.
    let pending = record(Call::Update(8), Reply::Unknown, 3, 5);
    assert!(zones::check(&[insert, pending, get(Some(7), 9)], &[]).is_ok());
    assert!(zones::check(&[insert, pending, get(Some(8), 9)], &[]).is_ok());
    assert!(zones::check(&[insert, pending, get(Some(7), 6), get(Some(8), 9)], &[]).is_err());
    // Two removals of one value.
    let taken = |from| record(Call::Remove, Reply::Previous(Some(7)), from, from + 5);
    assert!(zones::check(&[insert, taken(3), taken(4)], &[]).is_err());
    // A value found again after it was taken, while its write is still unanswered.
    let slow = record(Call::Insert(7), Reply::Done(true), 1, 20);
    let found = record(Call::Get, Reply::Previous(Some(7)), 9, 10);
    assert!(zones::check(&[slow, taken(3), found], &[]).is_err());
    assert!(zones::check(&[slow, taken(5), found], &[]).is_ok());
}

#[test]
fn a_crash_leaves_a_pending_call_done_or_undone_for_ever() {
    let mut monitor = Monitor::new(&[(1, 10)]);
    monitor.invoke(0, &[(1, Call::Upsert(11))]);
    let mut other = monitor.clone();
    assert!(monitor.crash(&[(1, 10)]).is_ok());
    assert_eq!(monitor.allowed(1), [Some(10)]);
    assert!(other.crash(&[(1, 11)]).is_ok());
    assert_eq!(other.allowed(1), [Some(11)]);
    assert!(other.clone().crash(&[]).is_err());
    assert!(other.admits(&[(1, 11), (2, 5)]).is_err());
}

/// The states of the life before the crash were allowed behind the next one, too.
#[test]
fn a_second_crash_brings_back_nothing_that_the_first_took() {
    let mut monitor = Monitor::deferring(&[(1, 10)]);
    monitor.invoke(0, &[(1, Call::Remove)]);
    assert!(monitor.respond(0, &[Reply::Previous(Some(10))]).is_ok());
    assert!(monitor.crash(&[]).is_ok());
    assert!(monitor.clone().admits(&[(1, 10)]).is_err());
    monitor.invoke(0, &[(1, Call::Upsert(12))]);
    assert!(monitor.respond(0, &[Reply::Previous(None)]).is_ok());
    for (contents, is_possible) in [(&[][..], true), (&[(1, 12)], true), (&[(1, 10)], false)] {
        assert_eq!(monitor.admits(contents).is_ok(), is_possible, "{contents:?}");
    }
    monitor.reset(&[(1, 13)]);
    assert!(monitor.admits(&[(1, 13)]).is_ok());
    assert!(monitor.admits(&[(1, 12)]).is_err());
}

#[test]
fn a_scan_is_judged_key_by_key() {
    let mut monitor = Monitor::new(&[(1, 10), (2, 20)]);
    monitor.invoke(0, &[(1, Call::Get), (2, Call::Get), (3, Call::Get)]);
    monitor.invoke(1, &[(2, Call::Remove)]);
    assert!(monitor.respond(1, &[Reply::Done(true)]).is_ok());
    let scan = |second| [Reply::Previous(Some(10)), Reply::Previous(second), Reply::Previous(None)];
    assert!(monitor.clone().respond(0, &scan(Some(20))).is_ok());
    assert!(monitor.clone().respond(0, &scan(None)).is_ok());
    assert!(monitor.respond(0, &scan(Some(21))).is_err());
}
