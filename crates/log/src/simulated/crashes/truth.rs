//! What must be there: the model, and the examination of a disk against it.

use std::collections::BTreeMap;

use std::time::Duration;

use crate::simulated::{Faults, Random, SimulatedDisk};
use crate::{
    Error, Log, LogOptions, Lsn, Record, RecordEffect, Recovered, Result, SnapshotWriter, SyncMode,
};

/// One change, with its own bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChange {
    pub map: u32,
    pub key: Vec<u8>,
    /// `None`: the key is deleted, or keeps its value.
    pub value: Option<Vec<u8>>,
    pub keeps_value: bool,
    pub expiry: Option<u64>,
}

impl ModelChange {
    pub fn record(&self) -> Record<'_> {
        let effect = match &self.value {
            Some(value) => RecordEffect::Put(value),
            None if self.keeps_value => RecordEffect::Expire,
            None => RecordEffect::Delete,
        };
        Record { map: self.map, key: &self.key, effect, expiry: self.expiry }
    }
}

/// The records of a group.
pub fn records(group: &[ModelChange]) -> Vec<Record<'_>> {
    group.iter().map(ModelChange::record).collect()
}

/// A store: map and key to value and expiry.
pub type Pairs = BTreeMap<(u32, Vec<u8>), (Vec<u8>, Option<u64>)>;

/// Makes a change in the store.
pub fn apply(pairs: &mut Pairs, record: &Record<'_>) {
    let key = (record.map, record.key.to_vec());
    match record.effect {
        RecordEffect::Put(value) => drop(pairs.insert(key, (value.to_vec(), record.expiry))),
        RecordEffect::Delete => drop(pairs.remove(&key)),
        RecordEffect::Expire => {
            pairs.get_mut(&key).into_iter().for_each(|pair| pair.1 = record.expiry)
        }
    }
}

/// One group of the log, and what its writer had seen.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Distinct; 0 for those of which nobody sees anything.
    pub id: u64,
    /// Nothing if its place was given up.
    pub changes: Vec<ModelChange>,
    /// The groups that were in the store, for its writer to see, and had no place in the log.
    pub seen: Vec<u64>,
}

/// What was appended, and how much of it was acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// The group with LSN n is number n - 1.
    pub history: Vec<Group>,
    /// Everything up to this LSN was acknowledged.
    pub floor: Lsn,
    /// Whether the disk lies about syncs, so that nothing was really acknowledged.
    pub is_lied_to: bool,
    /// The mode is `Interval`, and this is the interval, in milliseconds.
    pub interval: Option<u64>,
    /// Lives may begin with what was never logged, and owe a snapshot for it.
    pub owes: bool,
    /// What there is needs a snapshot from behind a gap, so that the log may be refused if that rots.
    pub has_gap: bool,
    /// Whether the log may be refused: if not, all that was acknowledged is in it.
    pub may_be_refused: bool,
    /// The time, in milliseconds, and when each group was appended.
    pub now: u64,
    pub times: Vec<u64>,
}

impl Truth {
    /// The store after the groups up to LSN `end`.
    pub fn pairs(&self, end: Lsn) -> Pairs {
        let mut pairs = Pairs::new();
        for group in self.history.iter().take(end as usize) {
            group.changes.iter().for_each(|change| apply(&mut pairs, &change.record()));
        }
        pairs
    }

    /// The first group up to LSN `end` whose writer had seen another that is not there.
    fn effect_without_cause(&self, end: Lsn) -> Option<(Lsn, u64)> {
        let groups = || self.history.iter().take(end as usize);
        let is_there = |id: &u64| groups().any(|group| group.id == *id);
        (1..).zip(groups()).find_map(|(lsn, group)| {
            group.seen.iter().find(|id| !is_there(id)).map(|id| (lsn, *id))
        })
    }

    /// A place was taken for a group.
    pub fn note_place(&mut self, lsn: Lsn, group: Group) {
        assert_eq!(lsn, self.history.len() as Lsn + 1, "LSNs are dense");
        self.history.push(group);
        self.times.push(self.now);
    }

    /// The place with this LSN was given up, and maybe its LSN will be given once more.
    pub fn note_given_up(&mut self, lsn: Lsn, is_given_again: bool) {
        if is_given_again {
            self.history.truncate(lsn as usize - 1);
            self.times.truncate(lsn as usize - 1);
        } else {
            self.history[lsn as usize - 1].changes.clear();
        }
    }

    /// What is older than the interval is not lost (R4).
    pub fn note_time(&mut self) {
        if let Some(interval) = self.interval {
            let kept = self.times.partition_point(|time| time + interval < self.now);
            self.floor = self.floor.max(kept as Lsn);
        }
    }

    /// How the log of this store is opened.
    pub fn options(&self, disk: &SimulatedDisk) -> LogOptions {
        match self.interval {
            Some(interval) => {
                options(disk).sync_mode(SyncMode::Interval(Duration::from_millis(interval)))
            }
            None => options(disk),
        }
    }

    /// Opens the log on a disk and compares everything in it with the model.
    /// `None` if it cannot be recovered, because the disk has lied.
    pub fn examine(&self, disk: &SimulatedDisk) -> std::result::Result<Option<Examined>, String> {
        self.examine_as(disk, &self.options(disk))
    }

    /// As [`Self::examine`], for an owner that opens it in this way. `None` if the log is refused and may
    /// be, too.
    pub fn examine_as(
        &self,
        disk: &SimulatedDisk,
        options: &LogOptions,
    ) -> std::result::Result<Option<Examined>, String> {
        let mut is_salvaged = false;
        let (log, recovered) = match Log::open(disk.clone(), options) {
            Ok(opened) => opened,
            Err(Error::Damaged(_)) if self.may_be_refused => return Ok(None),
            Err(Error::Damaged(_)) if self.is_lied_to => {
                let salvage = self.options(disk).salvage(true);
                match Log::open(disk.clone(), &salvage) {
                    Ok(opened) => {
                        is_salvaged = true;
                        opened
                    }
                    Err(_) => return Ok(None),
                }
            }
            Err(error) => return Err(format!("the log cannot be opened: {error}")),
        };
        let end = recovered.report().end;
        let rebuilt = rebuilt(&recovered, is_salvaged);
        // A disk that lies may lose what recovery needs; it must only not pass for whole.
        let may_fail = self.is_lied_to || self.may_be_refused;
        if may_fail && matches!(rebuilt, Err(Failure::Error(_))) {
            drop(log);
            return self.examine_refused(disk, options).map(|()| None);
        }
        if end < self.floor && !self.is_lied_to {
            return Err(format!("LSN {} was acknowledged and the log ends at {end}", self.floor));
        }
        if end > self.history.len() as Lsn {
            return Err(format!("LSN {end} was never given"));
        }
        if let Some((lsn, id)) = self.effect_without_cause(end) {
            return Err(format!(
                "LSN {lsn} came of what its writer saw of group {id}, which is lost: the log ends at \
                 LSN {end}"
            ));
        }
        let (pairs, replayed) = rebuilt.map_err(|failure| failure.to_string())?;
        if replayed != end && !is_salvaged {
            return Err(format!("replay ends at LSN {replayed} and the log at {end}"));
        }
        let expected = self.pairs(replayed);
        if pairs != expected {
            return Err(format!("the store at LSN {end} is {pairs:?} and should be {expected:?}"));
        }
        // Going on after a salvage is no use on a disk that forgets the salvage, too.
        Ok((!is_salvaged).then_some(Examined { log, end }))
    }

    /// Opens a log once more of which the recovery has failed: what was missing must not pass for what never was.
    fn examine_refused(
        &self,
        disk: &SimulatedDisk,
        options: &LogOptions,
    ) -> std::result::Result<(), String> {
        let Ok((_log, recovered)) = Log::open(disk.clone(), options) else { return Ok(()) };
        match rebuilt(&recovered, false) {
            Ok((_, end)) if end < self.floor && !self.is_lied_to => {
                Err(format!("it fails, and opened again it ends at LSN {end} of {}", self.floor))
            }
            _ => Ok(()),
        }
    }

    /// The truth after a recovery that ended at `end`.
    pub fn recovered(&self, end: Lsn) -> Truth {
        let history = self.history[..end as usize].to_vec();
        let times = self.times[..end as usize].to_vec();
        Truth { history, floor: end, times, ..*self }
    }
}

/// A disk that was examined.
pub struct Examined {
    pub log: Log<SimulatedDisk>,
    /// Where the log ends.
    pub end: Lsn,
}

/// Why a store was not rebuilt.
enum Failure {
    Error(Error),
    Wrong(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Error(error) => write!(f, "recovery fails: {error}"),
            Failure::Wrong(text) => f.write_str(text),
        }
    }
}

/// The store as recovery gives it, and the LSN it is at; every LSN must be replayed once and in
/// order.
fn rebuilt(
    recovered: &Recovered<SimulatedDisk>,
    is_salvaged: bool,
) -> std::result::Result<(Pairs, Lsn), Failure> {
    let mut pairs = Pairs::new();
    let start = recovered.replay_start()?;
    if let Some(snapshot) = &start.snapshot {
        for index in 0..snapshot.block_count() {
            snapshot.block(index)?.pairs().for_each(|pair| apply(&mut pairs, &pair));
        }
    }
    let mut last = start.from_lsn();
    let end = recovered.replay(last, |lsn, records| {
        if lsn != last + 1 {
            return Err(Failure::Wrong(format!("LSN {lsn} is replayed behind {last}")));
        }
        last = lsn;
        records.iter().for_each(|record| apply(&mut pairs, record));
        Ok(())
    })?;
    let to = start.snapshot.as_ref().map_or(0, |snapshot| snapshot.to_lsn());
    match last == end {
        false => Err(Failure::Wrong(format!("replay says {end} and ends at {last}"))),
        // A salvaged log can end before the snapshot is consistent.
        true if is_salvaged && end < to => {
            Err(Failure::Error(Error::Damaged("ends too early".into())))
        }
        true => Ok((pairs, end)),
    }
}

/// Writes a snapshot of the store as it is at the end of the log.
pub fn write_snapshot(log: &Log<SimulatedDisk>, truth: &Truth) -> Result<()> {
    let mut snapshot = SnapshotWriter::begin(log)?;
    for ((map, key), (value, expiry)) in &truth.pairs(log.last_lsn()) {
        let effect = RecordEffect::Put(value);
        snapshot.add(&Record { map: *map, key, effect, expiry: *expiry })?;
    }
    snapshot.finish().map(drop)
}

/// How logs are opened here: the caller syncs, and segments are small.
pub fn options(disk: &SimulatedDisk) -> LogOptions {
    let blocks = if disk.faults().block_size == 512 { 4 } else { 8 };
    LogOptions::new([9; 16])
        .sync_mode(SyncMode::Sync)
        .segment_size_bytes(4096 * blocks)
        .buffer_count(3)
        .background_thread(false)
}

/// The same disk, without accidents from now on.
pub fn calmed(disk: &SimulatedDisk) -> Faults {
    let Faults { block_size, tears, lies, portions, mutants, .. } = disk.faults();
    Faults { block_size, tears, lies, portions, mutants, ..Faults::default() }
}

/// A change of one of a few keys, rarely a large one.
pub fn some_change(random: &mut Random, number: u64) -> ModelChange {
    let map = random.below(2) as u32;
    let key = vec![b'a' + random.below(6) as u8; 1 + random.below(3)];
    if random.one_in(4) {
        return ModelChange { map, key, value: None, keeps_value: false, expiry: None };
    }
    let size = match random.below(12) {
        0 => random.below(9000),
        1 | 2 => random.below(600),
        _ => random.below(20),
    };
    let mut value = number.to_le_bytes().to_vec();
    value.extend((0..size).map(|_| random.bits() as u8));
    let expiry = random.one_in(5).then(|| random.bits());
    // Not drawn, so that the runs are those from before there were such records.
    match number.is_multiple_of(7) {
        true => ModelChange { map, key, value: None, keeps_value: true, expiry },
        false => ModelChange { map, key, value: Some(value), keeps_value: false, expiry },
    }
}

/// A group of one change, or of some with different keys.
pub fn some_group(random: &mut Random, number: u64) -> Vec<ModelChange> {
    let count = if random.one_in(3) { 2 + random.below(4) } else { 1 };
    let mut group: Vec<ModelChange> = Vec::new();
    for _ in 0..count {
        let change = some_change(random, number);
        if !group.iter().any(|other| (other.map, &other.key) == (change.map, &change.key)) {
            group.push(change);
        }
    }
    group
}

/// Appends to a log on its own and keeps the truth.
pub fn append(
    log: &Log<SimulatedDisk>,
    truth: &mut Truth,
    thread: usize,
    group: Vec<ModelChange>,
) -> Result<()> {
    let lsn = log.append_to(thread, &records(&group))?;
    truth.note_place(lsn, Group { changes: group, ..Group::default() });
    Ok(())
}
