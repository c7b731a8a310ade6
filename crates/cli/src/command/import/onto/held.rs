//! Times of keys that are held back while the target is behind the source.
//!
//! A replica of Redis lets no key expire: its source sends a `DEL` when one has. The target lets keys expire by its
//! own clock, and while it is behind it would do so before it comes to the command that moved the time on: a
//! session that is prolonged during the copy would be gone. So until both are in step a key gets a time that is far
//! away, and the one that it has is noted. In step the target is behind by a moment still, in which the time of a key
//! may come that was prolonged or renamed at the source just before. So a key gets a time that is a little later than
//! that of the source, whose `DEL` comes first, until the source is followed no more: then a key that still has the
//! later time gets what was noted. Whenever the target falls behind by more than a moment, times that come soon are
//! held back again.

use super::super::clock::now_ms;
use super::changes::Command;
use super::replica::UNHEARD;
use super::times;
use std::collections::HashMap;
use std::mem;

/// Times that are further away than this come behind any copy, in milliseconds.
const NEAR: u64 = 24 * 3600 * 1000;
/// How far away the time is that keys have meanwhile.
const FAR: u64 = 366 * NEAR;

/// Times that are no further away are held back while the target has fallen behind, and is looked after that often.
const SOON: u64 = 60 * 1000;
/// So much later a time is at the target while both are in step. A user who ends the program meanwhile leaves that
/// behind.
const LATER: u64 = 15 * 1000;
// Or a key would be gone before it is seen that the source is not heard.
const _: () = assert!(LATER as u128 > UNHEARD.as_millis());
/// Times are looked through for those that have come when there are twice as many as were left, and at least so many.
const PRUNE_COUNT_MIN: usize = 4096;

/// Keys with their databases, each with a time.
#[cfg(test)]
type Times = Vec<((u64, Vec<u8>), u64)>;
/// Keys with their databases, each with the time that it has at the target, and another that it is to have.
pub type Exchanges = Vec<((u64, Vec<u8>), u64, u64)>;

/// Times that are held back.
pub struct Held {
    /// Times before it are held back, unless both are in step.
    near: u64,
    far: u64,
    /// Both are in step.
    is_in_step: bool,
    /// How many times were left when they were looked through.
    left: usize,
    times: HashMap<(u64, Vec<u8>), u64>,
}

impl Held {
    /// None so far, in front of a copy that begins now.
    pub fn new() -> Self {
        let now = now_ms();
        let (near, far) = (now + NEAR, now + FAR);
        Held { near, far, is_in_step: false, left: 0, times: HashMap::new() }
    }

    /// The time that a key has at the target which has this one at the source.
    pub fn given(&self, time: u64) -> u64 {
        if !self.is_in_step && time < self.near { self.far } else { later(time) }
    }

    /// Both are in step from now on. Returns the times that were held back, with the keys and what these have instead.
    pub fn reach(&mut self) -> Exchanges {
        self.is_in_step = true;
        let (far, near) = (self.far, self.near);
        self.exchanges(|time| (time < near).then_some((far, later(time))))
    }

    /// The target is behind. Returns the times that are held back from now on, as [`Self::reach`] does; this is to be
    /// called again and again until it is.
    pub fn fall_behind(&mut self) -> Exchanges {
        let now = now_ms();
        let (far, before) = (self.far, if self.is_in_step { 0 } else { self.near });
        if before > now + SOON / 2 {
            return Vec::new();
        }
        self.is_in_step = false;
        self.near = now + SOON;
        // What has come at the target, too, is gone there.
        let new = before.max(now.saturating_sub(LATER))..self.near;
        self.exchanges(|time| new.contains(&time).then_some((later(time), far)))
    }

    /// The source is followed no more. Returns the times that keys have there, as [`Self::reach`] does.
    pub fn end(&self) -> Exchanges {
        self.exchanges(|time| Some((self.given(time), time)))
    }

    /// What is to become of the keys that are noted.
    fn exchanges(&self, of: impl Fn(u64) -> Option<(u64, u64)>) -> Exchanges {
        let noted = self.times.iter();
        let mut found: Exchanges = noted
            .filter_map(|(key, time)| of(*time).map(|(old, new)| (key.clone(), old, new)))
            .collect();
        found.sort_unstable_by_key(|((database, _), ..)| *database);
        found
    }

    /// The times that are noted.
    #[cfg(test)]
    fn times(&self) -> Times {
        self.times.iter().map(|(key, time)| (key.clone(), *time)).collect()
    }

    /// Forgets keys whose times have come at the target, too: their number must not grow with what is followed.
    fn prune(&mut self) {
        if self.is_in_step && self.times.len() >= PRUNE_COUNT_MIN.max(2 * self.left) {
            let now = now_ms();
            self.times.retain(|_, time| time.saturating_add(LATER) > now);
            self.left = self.times.len();
        }
    }

    /// The time that a key gets meanwhile.
    pub fn hold(&mut self, database: u64, key: &[u8], time: u64) -> u64 {
        self.prune();
        self.times.insert((database, key.to_vec()), time);
        self.given(time)
    }

    /// Puts the time of a command for `database` off, and notes where a time goes with its key.
    pub fn look_at(&mut self, database: u64, command: &mut Command) {
        times::make_absolute(command, now_ms());
        let Some(name) = command.first().map(|name| name.to_ascii_uppercase()) else { return };
        match (&name[..], command.len()) {
            (b"PEXPIREAT", 3..) => {
                // `GT` and its like were decided at the source, by the time that the key has there.
                command.truncate(3);
                self.put_off(database, command, 2);
            }
            (b"SET", 3..) => {
                let is = |part: &Vec<u8>, word: &[u8]| part.eq_ignore_ascii_case(word);
                if let Some(at) = command.iter().skip(3).position(|part| is(part, b"PXAT")) {
                    self.put_off(database, command, at + 4);
                } else if command.len() == 3 {
                    self.forget(database, &command[1..2]);
                }
            }
            (b"DEL" | b"UNLINK", 2..) => self.forget(database, &command[1..]),
            (b"PERSIST" | b"GETDEL", 2) => self.forget(database, &command[1..]),
            (b"FLUSHDB", _) => self.times.retain(|(of, _), _| *of != database),
            (b"FLUSHALL", _) => self.times.clear(),
            // A time of 0 is none.
            (b"RESTORE", 5..) if command[2] != b"0" => {
                let is_time = |part: &Vec<u8>| part.eq_ignore_ascii_case(b"ABSTTL");
                if command.iter().skip(4).any(is_time) {
                    self.put_off(database, command, 2);
                }
            }
            (b"SWAPDB", 3) => {
                if let (Some(one), Some(other)) = (number(&command[1]), number(&command[2])) {
                    self.exchange(one, other);
                }
            }
            (b"RENAME" | b"RENAMENX" | b"COPY", 3..) => {
                let is_database = |part: &Vec<u8>| part.eq_ignore_ascii_case(b"DB");
                let at = command.iter().skip(3).position(is_database).map(|at| at + 4);
                let other = at.and_then(|at| number(command.get(at)?)).unwrap_or(database);
                self.goes_with(database, &command[1], other, &command[2]);
                if name != b"COPY" && command[1] != command[2] {
                    self.forget(database, &command[1..2]);
                }
            }
            (b"MOVE", 3) => {
                if let Some(other) = number(&command[2]) {
                    self.goes_with(database, &command[1], other, &command[1]);
                    self.forget(database, &command[1..2]);
                }
            }
            _ => {}
        }
    }

    fn put_off(&mut self, database: u64, command: &mut Command, at: usize) {
        let Some(time) = command.get(at).and_then(|time| number(time)) else { return };
        let time = self.hold(database, &command[1].clone(), time);
        command[at] = time.to_string().into_bytes();
    }

    fn goes_with(&mut self, from: u64, key: &[u8], to: u64, other: &[u8]) {
        self.prune();
        if let Some(time) = self.times.get(&(from, key.to_vec())).copied() {
            self.times.insert((to, other.to_vec()), time);
        } else {
            // It has no time, or one that has come.
            self.times.remove(&(to, other.to_vec()));
        }
    }

    /// Forgets keys that are gone, or have no time any more: their number must not grow with what is followed.
    fn forget(&mut self, database: u64, keys: &[Vec<u8>]) {
        for key in keys {
            self.times.remove(&(database, key.clone()));
        }
    }

    /// The keys of two databases are each other's from now on.
    fn exchange(&mut self, one: u64, other: u64) {
        let place = |database| match database {
            database if database == one => other,
            database if database == other => one,
            database => database,
        };
        let times = mem::take(&mut self.times).into_iter();
        self.times = times.map(|((database, key), time)| ((place(database), key), time)).collect();
    }
}

/// The time that a key has at the target in step. What is no time any more is given as it is.
fn later(time: u64) -> u64 {
    time.checked_add(LATER).filter(|it| i64::try_from(*it).is_ok()).unwrap_or(time)
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Command {
        text.split(' ').map(|part| part.as_bytes().to_vec()).collect()
    }

    /// What was lost: a key that was restored with its time while the target was behind was dropped there, since the
    /// time had come, before the command that prolonged it; one whose database was exchanged kept the far time for
    /// ever.
    #[test]
    fn times_go_with_databases_and_with_what_is_restored() {
        let mut held = Held { near: 1000, far: 9999, ..Held::new() };
        let mut look = |database, text: &str, expected: &str| {
            let mut it = command(text);
            held.look_at(database, &mut it);
            assert_eq!(it, command(expected), "{text}");
        };
        look(0, "RESTORE r 500 payload REPLACE absttl", "RESTORE r 9999 payload REPLACE absttl");
        look(0, "RESTORE later 1000 payload ABSTTL", "RESTORE later 16000 payload ABSTTL");
        look(0, "RESTORE none 0 payload ABSTTL", "RESTORE none 0 payload ABSTTL");
        look(0, "RESTORE ABSTTL 0 payload REPLACE", "RESTORE ABSTTL 0 payload REPLACE");
        look(1, "SET s v PXAT 600", "SET s v PXAT 9999");
        look(2, "PEXPIREAT stays 700", "PEXPIREAT stays 9999");
        look(2, "SWAPDB 0 1", "SWAPDB 0 1");
        look(0, "SWAPDB 1 x", "SWAPDB 1 x");
        let mut noted: Vec<_> = held.times.into_iter().collect();
        noted.sort();
        let key = |database, key: &str| (database, key.as_bytes().to_vec());
        let expected = [
            (key(0, "s"), 600),
            (key(1, "later"), 1000),
            (key(1, "r"), 500),
            (key(2, "stays"), 700),
        ];
        assert_eq!(noted, expected);
    }

    #[test]
    fn times_are_put_off_and_go_with_their_keys() {
        let mut held = Held { near: 1000, far: 9999, ..Held::new() };
        let mut look = |text: &str, expected: &str| {
            let mut it = command(text);
            held.look_at(0, &mut it);
            assert_eq!(it, command(expected), "{text}");
        };
        look("pexpireat k 500", "pexpireat k 9999");
        look("PEXPIREAT later 1000", "PEXPIREAT later 16000");
        look("PEXPIREAT k 500 LT", "PEXPIREAT k 9999");
        look("pexpireat later 1000 gt", "pexpireat later 16000");
        look("SET s v PXAT 600 NX", "SET s v PXAT 9999 NX");
        look("SET PXAT pxat", "SET PXAT pxat");
        look("SET s v KEEPTTL GET", "SET s v KEEPTTL GET");
        look("rename k other", "rename k other");
        look("COPY s t DB 3 REPLACE", "COPY s t DB 3 REPLACE");
        look("MOVE s 4", "MOVE s 4");
        look("DEL k", "DEL k");
        let mut noted: Vec<_> = held.times.into_iter().collect();
        noted.sort();
        let key = |database, key: &str| (database, key.as_bytes().to_vec());
        let expected = [
            (key(0, "later"), 1000),
            (key(0, "other"), 500),
            (key(3, "t"), 600),
            (key(4, "s"), 600),
        ];
        assert_eq!(noted, expected);
    }

    /// What was lost: in step keys had the times of the source, and one that was prolonged there just before its time
    /// came was gone at the target when the command arrived.
    #[test]
    fn in_step_a_key_lives_longer_than_at_the_source() {
        let mut held = Held { near: 1000, far: 9999, ..Held::new() };
        assert_eq!(held.hold(0, b"before", 500), 9999);
        assert_eq!(held.reach(), [((0, b"before".to_vec()), 9999, 500 + LATER)]);
        let soon = now_ms() + 12;
        let mut look = |text: &str, expected: &str| {
            let mut it = command(text);
            held.look_at(0, &mut it);
            assert_eq!(it, command(expected), "{text}");
        };
        look(&format!("SET k v PXAT {soon}"), &format!("SET k v PXAT {}", soon + LATER));
        look("RENAME k r", "RENAME k r");
        look(&format!("PEXPIREAT never {}", i64::MAX), &format!("PEXPIREAT never {}", i64::MAX));
        let key = |key: &str| (0, key.as_bytes().to_vec());
        let mut noted = held.times();
        noted.sort();
        let never = i64::MAX as u64;
        let expected = [(key("before"), 500), (key("never"), never), (key("r"), soon)];
        assert_eq!(noted, expected);
    }

    /// What grew: an entry for each key that had a time once, until that came, though source and target had the key no
    /// more, as of locks that are taken for a day and given back at once.
    #[test]
    fn keys_that_are_gone_are_forgotten() {
        let mut held = Held { near: 1000, far: 9999, ..Held::new() };
        let far_off = now_ms() + 3_600_000;
        let noted = |held: &Held| {
            let name = |((database, key), _): ((u64, Vec<u8>), u64)| {
                format!("{database}{}", String::from_utf8_lossy(&key))
            };
            let mut keys: Vec<String> = held.times().into_iter().map(name).collect();
            keys.sort();
            keys.join(" ")
        };
        for is_in_step in [false, true] {
            held.is_in_step = is_in_step;
            for key in ["a", "b", "c", "d", "e", "f"] {
                held.hold(0, key.as_bytes(), far_off);
            }
            let mut look = |database, text: &str, left: &str| {
                held.look_at(database, &mut command(text));
                assert_eq!(noted(&held), left, "{text}");
            };
            look(1, "DEL a", "0a 0b 0c 0d 0e 0f");
            look(0, "del a none b", "0c 0d 0e 0f");
            look(0, "UNLINK c", "0d 0e 0f");
            look(0, "PERSIST d", "0e 0f");
            look(0, "SET e v KEEPTTL", "0e 0f");
            look(0, "SET e v", "0f");
            look(0, "RENAME f g", "0g");
            look(0, "COPY g h", "0g 0h");
            look(0, "MOVE h 1", "0g 1h");
            look(0, "RENAME none g", "1h");
            look(1, "GETDEL h", "");
            look(0, &format!("SET a v PXAT {far_off}"), "0a");
            look(1, &format!("SET b v PXAT {far_off}"), "0a 1b");
            look(0, "FLUSHDB", "1b");
            look(0, &format!("SET a v PXAT {far_off}"), "0a 1b");
            look(0, "FLUSHALL ASYNC", "");
        }
    }

    /// What was lost: a key with a day or more to live at the copy had its own time at the target, and was gone there
    /// when it was prolonged at the last moment.
    #[test]
    fn keys_with_long_times_live_longer_too() {
        let mut held = Held { near: 1000, far: 9999, ..Held::new() };
        assert_eq!(held.hold(0, b"k", 1500), 1500 + LATER);
        held.reach();
        assert!(held.times().contains(&((0, b"k".to_vec()), 1500)));
    }

    /// What was lost: a target that had been in step once gave keys the times of the source and ten seconds, however
    /// far it fell behind, and sessions that were prolonged meanwhile were gone.
    #[test]
    fn who_falls_behind_holds_times_back_again() {
        let mut held = Held { near: 1000, far: u64::MAX / 4, ..Held::new() };
        let (far, now) = (held.far, now_ms());
        let (soon, not_soon, gone) = (now + 6_000, now + SOON + 100_000, now - LATER - 1_000);
        held.reach();
        assert_eq!(held.hold(0, b"not soon", not_soon), not_soon + LATER);
        assert_eq!(held.hold(0, b"soon", soon), soon + LATER);
        held.hold(0, b"gone", gone);
        let key = |key: &str| (0, key.as_bytes().to_vec());
        assert_eq!(held.fall_behind(), [(key("soon"), soon + LATER, far)]);
        assert_eq!(held.fall_behind(), []);
        assert_eq!(held.hold(0, b"soon", soon + 5), far);
        // As if 50 seconds had gone by.
        held.near = now + 10_000;
        assert_eq!(held.hold(0, b"another", now + 20_000), now + 20_000 + LATER);
        assert_eq!(held.fall_behind(), [(key("another"), now + 20_000 + LATER, far)]);
        let times = held.reach();
        assert!(times.contains(&(key("soon"), far, soon + 5 + LATER)), "{times:?}");
        assert!(!times.iter().any(|(it, ..)| *it == key("not soon")), "{times:?}");
        assert!(held.end().contains(&(key("not soon"), not_soon + LATER, not_soon)));
    }

    #[test]
    fn copies_of_times_that_have_come_are_forgotten() {
        let mut held = Held { near: 1000, far: 9999, is_in_step: true, ..Held::new() };
        held.hold(0, b"k", 5);
        for number in 0..2 * PRUNE_COUNT_MIN {
            held.goes_with(0, b"k", 1, &number.to_be_bytes());
        }
        assert!(held.times.len() <= PRUNE_COUNT_MIN, "{}", held.times.len());
    }

    #[test]
    fn times_that_have_come_are_forgotten() {
        let mut held = Held { near: 1000, far: 9999, is_in_step: true, ..Held::new() };
        let late = now_ms() + 3_600_000;
        held.hold(0, b"stays", late);
        for number in 0..2 * PRUNE_COUNT_MIN {
            held.hold(0, &number.to_be_bytes(), 5);
        }
        assert!(held.times.len() <= PRUNE_COUNT_MIN, "{}", held.times.len());
        assert!(held.times().contains(&((0, b"stays".to_vec()), late)));
    }
}
