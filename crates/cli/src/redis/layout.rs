//! Which server of a cluster has which slot, as one of them tells it, and where it sends a request that is not its own.

use super::address::Address;
use super::client::{Client, Reply};
use super::slot::{SLOT_COUNT, slot_of};
use super::unusable;
use crate::exit_code::ExitCode;
use crate::failure::Failure;

/// The masters with their slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Host and port of each, in the order in which they were told.
    masters: Vec<(String, u16)>,
    /// Which of them has each slot.
    owners: Vec<usize>,
}

/// What an error says that is none of the request's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirection {
    /// The slot belongs to another server.
    Moved(String, u16),
    /// The slot moves, and this key is with another server already, or will be.
    Ask(String, u16),
    /// Nothing can be said yet.
    Later,
}

impl Layout {
    /// Asks a server.
    ///
    /// # Errors
    /// It is no server of a cluster, or cannot be asked; or some slot has no server.
    pub fn ask(client: &mut Client, address: &Address) -> Result<Self, Failure> {
        let place = address.place();
        let refuse = |why: &str| Failure::new(ExitCode::Io, format!("{place} {why}"));
        let asked = client.ask(&[b"CLUSTER", b"SLOTS"]);
        let ranges = match asked.map_err(|error| unusable(&place, &error))? {
            Reply::Array(ranges) => ranges,
            Reply::Error(error)
                if error.contains("cluster support disabled")
                    || error.contains("unknown command") =>
            {
                return Err(refuse(&format!(
                    "is no server of a cluster ({error}): redis:// names a single one"
                )));
            }
            Reply::Error(error) => return Err(refuse(&format!("refuses CLUSTER SLOTS: {error}"))),
            _ => return Err(refuse("answers CLUSTER SLOTS with what is no answer to it")),
        };
        let mut layout = Layout { masters: Vec::new(), owners: vec![usize::MAX; SLOT_COUNT] };
        for range in ranges {
            layout.take(range, &address.host).ok_or_else(|| {
                refuse("answers CLUSTER SLOTS with what is no range of slots and a server")
            })?;
        }
        match layout.owners.iter().filter(|owner| **owner == usize::MAX).count() {
            0 => Ok(layout),
            count => Err(refuse(&format!(
                "says that {count} of {SLOT_COUNT} slots have no server: the cluster is down"
            ))),
        }
    }

    /// Takes the first slot of a range, the last, the master, and replicas, which are of no interest.
    fn take(&mut self, range: Reply, asked_host: &str) -> Option<()> {
        let Reply::Array(parts) = range else { return None };
        let [Reply::Number(first), Reply::Number(last), Reply::Array(master), ..] = &parts[..]
        else {
            return None;
        };
        let host = match master.first()? {
            Reply::Text(host) => String::from_utf8(host.clone()).ok()?,
            Reply::Null => String::new(),
            _ => return None,
        };
        let Reply::Number(port) = master.get(1)? else { return None };
        let master = self.index_of(&known_host(host, asked_host), u16::try_from(*port).ok()?);
        let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
        self.owners.get_mut(first..last.checked_add(1)?)?.fill(master);
        Some(())
    }

    /// Whether slots that are together here are together there, too, whatever their servers are called.
    pub fn has_same_shares(&self, other: &Layout) -> bool {
        let mut there = vec![usize::MAX; self.masters.len()];
        let mut pairs = self.owners.iter().zip(&other.owners);
        let fits = pairs.all(|(own, theirs)| match there.get_mut(*own) {
            Some(known) if *known == usize::MAX => {
                *known = *theirs;
                true
            }
            known => known.is_some_and(|known| known == theirs),
        });
        there.retain(|owner| *owner != usize::MAX);
        let count = there.len();
        there.sort_unstable();
        there.dedup();
        fits && there.len() == count
    }

    /// The number of a master, which may be a new one.
    pub fn index_of(&mut self, host: &str, port: u16) -> usize {
        let known = self.masters.iter().position(|it| it.0 == host && it.1 == port);
        known.unwrap_or_else(|| {
            self.masters.push((host.to_string(), port));
            self.masters.len() - 1
        })
    }

    /// Host and port of each master.
    pub fn masters(&self) -> &[(String, u16)] {
        &self.masters
    }

    /// The number of the master that has a key.
    pub fn owner_of(&self, key: &[u8]) -> usize {
        self.owners[slot_of(key)]
    }

    /// From now on a master has the slot of a key.
    pub fn give(&mut self, key: &[u8], master: usize) {
        self.owners[slot_of(key)] = master;
    }
}

/// The host that a server means, which need not know its own name.
fn known_host(told: String, asked_host: &str) -> String {
    match told.is_empty() || told == "?" {
        true => asked_host.to_string(),
        false => told,
    }
}

impl Redirection {
    /// Reads an error of a server; `None` if it is one of the request. `Err` if it says nowhere.
    pub fn of(error: &str, asked_host: &str) -> Result<Option<Self>, ()> {
        let mut words = error.split(' ');
        let make: fn(String, u16) -> Self = match words.next() {
            Some("MOVED") => Self::Moved,
            Some("ASK") => Self::Ask,
            Some("TRYAGAIN" | "CLUSTERDOWN") => return Ok(Some(Self::Later)),
            _ => return Ok(None),
        };
        // Behind the last colon, as an address of version 6 has some of its own.
        let place = words.nth(1).and_then(|place| place.rsplit_once(':')).ok_or(())?;
        let host = place.0.trim_start_matches('[').trim_end_matches(']').to_string();
        let port = place.1.parse().map_err(|_| ())?;
        Ok(Some(make(known_host(host, asked_host), port)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_the_same_whatever_servers_are_called() {
        let layout = |owners: [usize; 3], names: &[&str]| {
            let masters = names.iter().map(|name| (name.to_string(), 1)).collect();
            let owners = (0..SLOT_COUNT).map(|slot| owners[slot * 3 / SLOT_COUNT]).collect();
            Layout { masters, owners }
        };
        let here = layout([0, 1, 1], &["a", "b"]);
        assert!(here.has_same_shares(&layout([1, 0, 0], &["y", "x"])));
        for other in [layout([0, 0, 0], &["a"]), layout([0, 0, 1], &["a", "b"])] {
            assert!(!here.has_same_shares(&other) && !other.has_same_shares(&here));
        }
        let three = layout([0, 1, 2], &["a", "b", "c"]);
        assert!(!here.has_same_shares(&three) && !three.has_same_shares(&here));
        let mut moved = here.clone();
        moved.owners[7] = 1;
        assert!(!here.has_same_shares(&moved) && !moved.has_same_shares(&here));
    }

    #[test]
    fn redirections_are_read_with_hosts_of_all_kinds() {
        let of = |error| Redirection::of(error, "seed");
        let moved = |host: &str, port| Ok(Some(Redirection::Moved(host.to_string(), port)));
        assert_eq!(of("MOVED 3999 127.0.0.1:6381"), moved("127.0.0.1", 6381));
        assert_eq!(of("MOVED 3999 ::1:6381"), moved("::1", 6381));
        assert_eq!(of("MOVED 3999 [::1]:6381"), moved("::1", 6381));
        assert_eq!(of("MOVED 3999 :6381"), moved("seed", 6381));
        assert_eq!(of("MOVED 3999 ?:6381"), moved("seed", 6381));
        assert_eq!(of("ASK 1 host:7"), Ok(Some(Redirection::Ask("host".to_string(), 7))));
        assert_eq!(of("TRYAGAIN Multiple keys"), Ok(Some(Redirection::Later)));
        assert_eq!(of("CLUSTERDOWN Hash slot not served"), Ok(Some(Redirection::Later)));
        assert_eq!(of("OOM command not allowed"), Ok(None));
        for wrong in ["MOVED", "MOVED 1", "ASK 1 host", "ASK 1 host:", "MOVED 1 host:70000"] {
            assert_eq!(of(wrong), Err(()), "{wrong}");
        }
    }
}
