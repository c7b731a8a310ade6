//! The polynomial judge, for long recorded histories in which every write has a value of its own.
//!
//! A value's *cluster* is the call that wrote it and all calls that found it. From the first reply
//! in the cluster to its last invocation the key certainly had that value: a *forward zone*. Then
//! (after Gibbons and Korach, SIAM J. Comput. 1997, with absence added):
//!
//! * two forward zones of one key never overlap;
//! * no call of another cluster, and no proof of absence, lies wholly inside a forward zone;
//! * a value is found only after its write was invoked, is replaced at most once, and is not found
//!   by a call invoked after the one that replaced it has replied;
//! * absence after a completed write needs a removal that can have come between.
//!
//! O(n log n) per key; never a false alarm; some exotic violations pass.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{Call, Reply};

/// One call of a recorded history. Call a precedes call b if `a.responded < b.invoked`; times are
/// of one clock, any unit.
///
/// A call that was pending at a crash has the time of the crash as `responded` and
/// [`Reply::Unknown`]; what was recovered is a [`Call::Get`] of each key at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: u64,
    /// The call.
    pub call: Call,
    /// Its reply. A pending call that may never have happened has [`Reply::Unknown`].
    pub reply: Reply,
    /// When the call was sent.
    pub invoked: u64,
    /// When its reply had arrived.
    pub responded: u64,
}

/// Why a recorded history is impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneViolation {
    /// The key.
    pub key: u64,
    /// What is wrong with it, in words.
    pub message: String,
}

impl fmt::Display for ZoneViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}: {}", self.key, self.message)
    }
}

impl std::error::Error for ZoneViolation {}

/// Judges a history that started from `initial` (key, value).
///
/// # Errors
/// A key whose calls cannot be put in any order.
///
/// # Example
/// ```
/// use everleaf_machine::simulated::history::{Call, Reply, zones::{Record, check}};
/// let insert = Record { key: 1, call: Call::Insert(7), reply: Reply::Done(true), invoked: 1, responded: 2 };
/// // A crash at time 3 lost the acknowledged insert.
/// let recovered = Record { key: 1, call: Call::Get, reply: Reply::Previous(None), invoked: 3, responded: 3 };
/// assert!(check(&[insert, recovered], &[]).is_err());
/// ```
pub fn check(records: &[Record], initial: &[(u64, u64)]) -> Result<(), ZoneViolation> {
    let mut keys: BTreeMap<u64, Vec<&Record>> = BTreeMap::new();
    for record in records {
        keys.entry(record.key).or_default().push(record);
    }
    let initial: HashMap<u64, u64> = initial.iter().copied().collect();
    for (key, records) in keys {
        KeyHistory::collect(&records, initial.get(&key).copied())
            .and_then(|history| history.check())
            .map_err(|message| ZoneViolation { key, message })?;
    }
    Ok(())
}

/// A closed span of time, or the span between two events.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: u64,
    to: u64,
}

/// All calls that wrote or found one value.
#[derive(Clone, Debug)]
struct Cluster {
    value: u64,
    /// When its write was invoked; none if nobody wrote it.
    written: Option<u64>,
    /// Whether the write is known to have happened.
    is_certain: bool,
    first_reply: u64,
    last_invocation: u64,
    /// The first reply of a call that found the value (not of the write).
    first_found: u64,
    /// When the call that replaced it was over.
    replaced: Option<u64>,
    replacements: u32,
    /// Of the calls that found the value and did not replace it.
    last_found: u64,
}

impl Cluster {
    fn new(value: u64) -> Self {
        Cluster {
            value,
            written: None,
            is_certain: false,
            first_reply: u64::MAX,
            last_invocation: 0,
            first_found: u64::MAX,
            replaced: None,
            replacements: 0,
            last_found: 0,
        }
    }

    fn join(&mut self, record: &Record) {
        self.first_reply = self.first_reply.min(record.responded);
        self.last_invocation = self.last_invocation.max(record.invoked);
    }
}

/// The evidence about one key.
#[derive(Default)]
struct KeyHistory {
    clusters: HashMap<u64, Cluster>,
    /// Calls during which the key was certainly absent at some instant.
    absences: Vec<Span>,
    /// Writes that certainly happened.
    writes: Vec<Span>,
    /// Removals that may have happened.
    removals: Vec<Span>,
}

impl KeyHistory {
    fn cluster(&mut self, value: u64) -> &mut Cluster {
        self.clusters.entry(value).or_insert_with(|| Cluster::new(value))
    }

    fn collect(records: &[&Record], initial: Option<u64>) -> Result<Self, String> {
        let mut history = KeyHistory::default();
        if let Some(value) = initial {
            let cluster = history.cluster(value);
            (cluster.written, cluster.is_certain, cluster.first_reply) = (Some(0), true, 0);
            history.writes.push(Span { from: 0, to: 0 });
        }
        for record in records {
            history.add(record)?;
        }
        Ok(history)
    }

    fn add(&mut self, record: &Record) -> Result<(), String> {
        if record.reply == Reply::Refused {
            return Ok(());
        }
        let span = Span { from: record.invoked, to: record.responded };
        let previous = match record.reply {
            Reply::Previous(previous) => Some(previous),
            Reply::Done(_) | Reply::Unknown | Reply::Refused => None,
        };
        let done = match record.reply {
            Reply::Unknown | Reply::Refused => None,
            Reply::Done(done) => Some(done),
            Reply::Previous(state) => Some(record.call.succeeds(state)),
        };
        self.add_write(record, done)?;
        self.add_found(record, previous, done);
        // A refused update or removal, or a successful insert, found the key absent.
        let found_absent = match (record.call, done) {
            _ if previous == Some(None) => true,
            (Call::Update(_) | Call::Remove, Some(false)) | (Call::Insert(_), Some(true)) => true,
            // A successful removal leaves it so.
            (Call::Remove, Some(true)) => true,
            _ => false,
        };
        if found_absent {
            self.absences.push(span);
        }
        if record.call == Call::Remove && done != Some(false) {
            self.removals.push(span);
        }
        Ok(())
    }

    fn add_write(&mut self, record: &Record, done: Option<bool>) -> Result<(), String> {
        let value = match record.call {
            Call::Insert(value) | Call::Update(value) | Call::Upsert(value) => value,
            Call::CompareExchange { new, .. } => new,
            Call::Get | Call::Remove => return Ok(()),
        };
        if done == Some(false) {
            return Ok(());
        }
        let cluster = self.cluster(value);
        if cluster.written.is_some() {
            return Err(format!("value {value} is written twice; the judge needs distinct values"));
        }
        cluster.written = Some(record.invoked);
        // The write's reply bounds the zone only if it happened; a pending one that was found has
        // happened before the crash, which is its `responded`.
        cluster.is_certain |= done == Some(true);
        cluster.join(record);
        if done == Some(true) {
            self.writes.push(Span { from: record.invoked, to: record.responded });
        }
        Ok(())
    }

    fn add_found(&mut self, record: &Record, previous: Option<Option<u64>>, done: Option<bool>) {
        let found = match (record.call, previous) {
            (_, Some(Some(value))) => value,
            (Call::CompareExchange { expected, .. }, None) if done == Some(true) => expected,
            _ => return,
        };
        let replaces = done == Some(true) && !record.call.is_read();
        let cluster = self.cluster(found);
        cluster.is_certain = true;
        cluster.join(record);
        cluster.first_found = cluster.first_found.min(record.responded);
        if replaces {
            cluster.replacements += 1;
            cluster.replaced = Some(record.responded);
        } else {
            cluster.last_found = cluster.last_found.max(record.invoked);
        }
    }

    fn check(mut self) -> Result<(), String> {
        for cluster in self.clusters.values() {
            check_cluster(cluster)?;
        }
        let zones = self.forward_zones()?;
        let inside = |span: &Span| {
            let after = zones.partition_point(|(zone, _)| zone.from < span.from);
            zones[..after].last().filter(|(zone, _)| zone.from < span.from && span.to < zone.to)
        };
        for cluster in self.clusters.values().filter(|cluster| cluster.is_certain) {
            let zone = Span { from: cluster.last_invocation, to: cluster.first_reply };
            if zone.from <= zone.to
                && let Some((_, value)) = inside(&zone)
            {
                return Err(format!(
                    "it had value {} at some time in {}..{}, when it certainly had value {value}",
                    cluster.value, zone.from, zone.to
                ));
            }
        }
        for absence in &self.absences {
            if let Some((_, value)) = inside(absence) {
                return Err(format!(
                    "it was absent at some time in {}..{}, when it certainly had value {value}",
                    absence.from, absence.to
                ));
            }
        }
        self.check_absences()
    }

    /// The forward zones by start, with their values.
    fn forward_zones(&self) -> Result<Vec<(Span, u64)>, String> {
        let mut zones: Vec<(Span, u64)> = self
            .clusters
            .values()
            .filter(|cluster| cluster.is_certain && cluster.first_reply < cluster.last_invocation)
            .map(|cluster| {
                (Span { from: cluster.first_reply, to: cluster.last_invocation }, cluster.value)
            })
            .collect();
        zones.sort_unstable_by_key(|(zone, _)| (zone.from, zone.to));
        for pair in zones.windows(2) {
            let [(a, first), (b, second)] = pair else { continue };
            if b.from < a.to {
                return Err(format!(
                    "it certainly had value {first} in {}..{} and value {second} in {}..{}",
                    a.from, a.to, b.from, b.to
                ));
            }
        }
        Ok(zones)
    }

    /// Absence after a write that is over needs a removal after that write began.
    fn check_absences(&mut self) -> Result<(), String> {
        self.writes.sort_unstable_by_key(|write| write.to);
        self.removals.sort_unstable_by_key(|removal| removal.from);
        // For each prefix of the writes by reply: the latest beginning.
        let latest_begin = running_max(self.writes.iter().map(|write| write.from));
        // For each prefix of the removals by invocation: the latest end.
        let latest_end = running_max(self.removals.iter().map(|removal| removal.to));
        for absence in &self.absences {
            let over = self.writes.partition_point(|write| write.to < absence.from);
            let Some(&begin) = over.checked_sub(1).and_then(|index| latest_begin.get(index)) else {
                continue;
            };
            let begun = self.removals.partition_point(|removal| removal.from <= absence.to);
            let end = begun.checked_sub(1).and_then(|index| latest_end.get(index));
            if end.is_none_or(|&end| end < begin) {
                return Err(format!(
                    "a write that began at {begin} was over before {}, no removal can have come \
                     since, yet it was absent at some time in {}..{}",
                    absence.from, absence.from, absence.to
                ));
            }
        }
        Ok(())
    }
}

fn check_cluster(cluster: &Cluster) -> Result<(), String> {
    let value = cluster.value;
    match cluster.written {
        None => return Err(format!("value {value} was found and never written")),
        Some(written) if cluster.first_found < written => {
            return Err(format!("value {value} was found before its write began at {written}"));
        }
        Some(_) => {}
    }
    if cluster.replacements > 1 {
        return Err(format!("value {value} was replaced {} times", cluster.replacements));
    }
    match cluster.replaced {
        Some(replaced) if replaced < cluster.last_found => Err(format!(
            "value {value} was found by a call begun at {}, after its replacement was over at \
             {replaced}",
            cluster.last_found
        )),
        _ => Ok(()),
    }
}

fn running_max(values: impl Iterator<Item = u64>) -> Vec<u64> {
    values
        .scan(0, |max, value| {
            *max = value.max(*max);
            Some(*max)
        })
        .collect()
}
