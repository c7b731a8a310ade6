//! What the operations of a measurement are.

use std::fmt;
use std::str::FromStr;

use crate::distribution::Distribution;
use crate::shares::Shares;
use crate::tpcc::mix::TpccMix;

/// A kind of measurement: one operation repeated, a mix of operations, the transactions of a
/// database, or what another program once did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Inserts all keys into an empty index, in random order.
    Load,
    /// Inserts all keys into an empty index, in ascending order (each thread a range of its own).
    LoadSequential,
    /// Reads keys that are there.
    Get,
    /// Looks for keys that are not there.
    GetAbsent,
    /// Reads keys that are there, a batch at a time.
    GetMany,
    /// Reads runs of pairs from random keys on.
    Scan,
    /// Replaces values.
    Update,
    /// Replaces values, a batch of keys at a time.
    UpdateMany,
    /// Replaces values by the call that would also add the key.
    Put,
    /// Adds keys, so that the index grows.
    Insert,
    /// Removes keys, each once; they are put back outside the clock.
    Remove,
    /// YCSB A: half reads, half updates.
    YcsbA,
    /// YCSB B: 95 % reads, 5 % updates.
    YcsbB,
    /// YCSB C: reads only.
    YcsbC,
    /// YCSB D: 95 % reads of the latest keys, 5 % inserts.
    YcsbD,
    /// YCSB E: 95 % scans of 1 to the scan length, 5 % inserts.
    YcsbE,
    /// YCSB F: half reads, half reads followed by an update of the same key.
    YcsbF,
    /// Updates in this share of the operations, reads in the others: the sweep of NBTree.
    Writes {
        /// The share of the updates, 0 to 100.
        percent: u8,
    },
    /// Four inserts, sixteen reads, one removal, and again: the mix of FAST & FAIR and F3-tree.
    Mix4To16To1,
    /// Reads, inserts, updates and removals, a quarter each: the mix of RNTree.
    MixQuarters,
    /// Reads, inserts, updates, removals and scans in these shares.
    Shares(Shares),
    /// Transactions of TPC-C on the index that holds all its tables, as FAST & FAIR measures it.
    Tpcc(TpccMix),
    /// The operations of [`Settings::trace`](crate::measure::Settings::trace).
    Trace,
}

/// What throughput and cost are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations.
    Operation,
    /// Keys: of a batch, or of a scan.
    Key,
    /// Transactions, of many operations each.
    Transaction,
}

impl Unit {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Operation => "op",
            Unit::Key => "key",
            Unit::Transaction => "tx",
        }
    }
}

/// One operation of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Get,
    Update,
    Put,
    Insert,
    Remove,
    Scan,
    ReadModifyWrite,
}

/// How the operations of a mix follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Each is drawn by itself.
    Drawn,
    /// All of the first action, then all of the second, and so on, again and again.
    Cycle,
}

/// The names of [`Workload::Writes`]: made once, so that all names are static.
const WRITES_NAMES: [[u8; 9]; 101] = {
    let mut names = [*b"write-   "; 101];
    let mut percent = 0;
    while percent < 101 {
        let mut at = 6;
        if percent == 100 {
            names[percent][at] = b'1';
            at += 1;
        }
        if percent >= 10 {
            names[percent][at] = b'0' + (percent / 10 % 10) as u8;
            at += 1;
        }
        names[percent][at] = b'0' + (percent % 10) as u8;
        percent += 1;
    }
    names
};

fn writes_name(percent: u8) -> &'static str {
    let name = &WRITES_NAMES[usize::from(percent.min(100))];
    std::str::from_utf8(name).expect("letters and digits only").trim_end()
}

impl Workload {
    /// All workloads that are known by name alone: all but [`Workload::Writes`] and
    /// [`Workload::Shares`], which are families, and [`Workload::Trace`], which needs a file.
    pub const ALL: [Workload; 23] = [
        Workload::Load,
        Workload::LoadSequential,
        Workload::Get,
        Workload::GetAbsent,
        Workload::GetMany,
        Workload::Scan,
        Workload::Update,
        Workload::UpdateMany,
        Workload::Put,
        Workload::Insert,
        Workload::Remove,
        Workload::YcsbA,
        Workload::YcsbB,
        Workload::YcsbC,
        Workload::YcsbD,
        Workload::YcsbE,
        Workload::YcsbF,
        Workload::Mix4To16To1,
        Workload::MixQuarters,
        Workload::Tpcc(TpccMix::W1),
        Workload::Tpcc(TpccMix::W2),
        Workload::Tpcc(TpccMix::W3),
        Workload::Tpcc(TpccMix::W4),
    ];

    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Load => "load",
            Workload::LoadSequential => "load-sequential",
            Workload::Get => "get",
            Workload::GetAbsent => "get-absent",
            Workload::GetMany => "get-many",
            Workload::Scan => "scan",
            Workload::Update => "update",
            Workload::UpdateMany => "update-many",
            Workload::Put => "put",
            Workload::Insert => "insert",
            Workload::Remove => "remove",
            Workload::YcsbA => "ycsb-a",
            Workload::YcsbB => "ycsb-b",
            Workload::YcsbC => "ycsb-c",
            Workload::YcsbD => "ycsb-d",
            Workload::YcsbE => "ycsb-e",
            Workload::YcsbF => "ycsb-f",
            Workload::Writes { percent } => writes_name(percent),
            Workload::Mix4To16To1 => "mix-4-16-1",
            Workload::MixQuarters => "mix-quarters",
            Workload::Shares(shares) => shares.name(),
            Workload::Tpcc(TpccMix::W1) => "tpcc-w1",
            Workload::Tpcc(TpccMix::W2) => "tpcc-w2",
            Workload::Tpcc(TpccMix::W3) => "tpcc-w3",
            Workload::Tpcc(TpccMix::W4) => "tpcc-w4",
            Workload::Trace => "trace",
        }
    }

    /// What throughput and cost are counted in.
    pub fn unit(self) -> Unit {
        match self {
            Workload::GetMany | Workload::UpdateMany | Workload::Scan => Unit::Key,
            Workload::Tpcc(_) => Unit::Transaction,
            _ => Unit::Operation,
        }
    }

    /// Whether each call is of a batch of keys.
    pub fn is_batched(self) -> bool {
        matches!(self, Workload::GetMany | Workload::UpdateMany)
    }

    /// Whether this is a mix of operations.
    pub fn is_mix(self) -> bool {
        !self.mix().is_empty()
    }

    /// Whether this needs an index that has its keys in order. (A trace may.)
    pub fn scans(self) -> bool {
        let has_scans = || self.mix().iter().any(|(action, _)| *action == Action::Scan);
        matches!(self, Workload::Scan | Workload::Tpcc(_)) || has_scans()
    }

    /// Whether each operation needs a key that no other has, so that no distribution applies.
    pub fn has_fresh_keys(self) -> bool {
        self.is_load() || self == Workload::Insert
    }

    /// Whether this fills an empty index with the keys of all other workloads.
    pub fn is_load(self) -> bool {
        matches!(self, Workload::Load | Workload::LoadSequential)
    }

    /// Whether this has an index of its own, filled with other keys, so that no distribution
    /// applies.
    pub fn has_own_keys(self) -> bool {
        matches!(self, Workload::Tpcc(_) | Workload::Trace)
    }

    /// Whether keys are chosen by a distribution.
    pub fn has_distribution(self) -> bool {
        !self.has_fresh_keys() && !self.has_own_keys()
    }

    /// The distribution if none is asked for: that of the YCSB for its mixes and of the paper for
    /// others, else uniform.
    pub fn default_distribution(self, theta: f64) -> Distribution {
        match self {
            Workload::YcsbD => Distribution::Latest { theta },
            Workload::Mix4To16To1 | Workload::MixQuarters | Workload::Shares(_) => {
                Distribution::Uniform
            }
            mix if mix.is_mix() => Distribution::Zipfian { theta },
            _ => Distribution::Uniform,
        }
    }

    /// The actions of a mix with their shares of the whole; empty for other workloads.
    pub(crate) fn mix(self) -> Vec<(Action, u64)> {
        match self {
            Workload::YcsbA => vec![(Action::Get, 50), (Action::Update, 50)],
            Workload::YcsbB => vec![(Action::Get, 95), (Action::Update, 5)],
            Workload::YcsbC => vec![(Action::Get, 100)],
            Workload::YcsbD => vec![(Action::Get, 95), (Action::Insert, 5)],
            Workload::YcsbE => vec![(Action::Scan, 95), (Action::Insert, 5)],
            Workload::YcsbF => vec![(Action::Get, 50), (Action::ReadModifyWrite, 50)],
            Workload::Writes { percent } => {
                let writes = u64::from(percent.min(100));
                vec![(Action::Get, 100 - writes), (Action::Update, writes)]
            }
            Workload::Shares(shares) => [
                (Action::Get, shares.get),
                (Action::Insert, shares.insert),
                (Action::Update, shares.update),
                (Action::Remove, shares.remove),
                (Action::Scan, shares.scan),
            ]
            .into_iter()
            .filter(|(_, share)| *share > 0)
            .map(|(action, share)| (action, u64::from(share)))
            .collect(),
            Workload::Mix4To16To1 => {
                vec![(Action::Insert, 4), (Action::Get, 16), (Action::Remove, 1)]
            }
            Workload::MixQuarters => [Action::Get, Action::Insert, Action::Update, Action::Remove]
                .map(|action| (action, 25))
                .to_vec(),
            _ => vec![],
        }
    }

    /// How the actions of a mix follow each other.
    pub(crate) fn order(self) -> Order {
        if self == Workload::Mix4To16To1 { Order::Cycle } else { Order::Drawn }
    }

    /// The share of removals.
    pub(crate) fn removal_share(self) -> f64 {
        if self == Workload::Remove {
            return 1.0;
        }
        let mix = self.mix();
        let whole: u64 = mix.iter().map(|(_, share)| share).sum();
        let removals = mix.iter().find(|(action, _)| *action == Action::Remove);
        removals.map_or(0.0, |(_, share)| *share as f64 / whole as f64)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no [`Workload`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWorkload(String);

impl fmt::Display for UnknownWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Workload::ALL.iter().map(|workload| workload.name()).collect();
        let names = names.join(", ");
        write!(
            f,
            "{:?} is no workload: choose from {names}, write-0 to write-100, and mixes such as \
             mix-50-10-30-5-5 (percent of reads, inserts, updates, removals, scans; 100 in all)",
            self.0
        )
    }
}

impl std::error::Error for UnknownWorkload {}

impl FromStr for Workload {
    type Err = UnknownWorkload;

    /// The inverse of [`Workload::name`]; the mixes also by their letter, such as `a`.
    fn from_str(text: &str) -> Result<Self, UnknownWorkload> {
        let lower = text.to_ascii_lowercase();
        if let Some(percent) = lower.strip_prefix("write-") {
            let percent = percent.parse().ok().filter(|percent| *percent <= 100);
            let workload = percent.map(|percent| Workload::Writes { percent });
            return workload.ok_or_else(|| UnknownWorkload(text.to_owned()));
        }
        if let Ok(shares) = lower.parse() {
            return Ok(Workload::Shares(shares));
        }
        let is_named = |workload: &Workload| {
            workload.name() == lower || workload.name().strip_prefix("ycsb-") == Some(&lower)
        };
        Self::ALL.into_iter().find(is_named).ok_or_else(|| UnknownWorkload(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_the_workload() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse(), Ok(workload));
        }
        assert_eq!("E".parse(), Ok(Workload::YcsbE));
        assert_eq!("YCSB-a".parse(), Ok(Workload::YcsbA));
        let shares: Workload = "mix-20-20-20-20-20".parse().unwrap();
        assert_eq!((shares.name(), shares.mix().len()), ("mix-20-20-20-20-20", 5));
        assert_eq!("mix-0-100-0-0-0".parse::<Workload>().unwrap().mix().len(), 1);
        for wrong in ["mix-1-2", "mix-50-50-0-0-1", "mix-300-0-0-0-0", "mix-x-0-0-0-0"] {
            assert!(wrong.parse::<Workload>().is_err(), "{wrong}");
        }
        let error = "gets".parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains("\"gets\"") && error.contains("get-absent"), "{error}");
    }

    #[test]
    fn the_shares_of_writes_have_names_from_0_to_100() {
        for percent in 0..=100 {
            let workload = Workload::Writes { percent };
            assert_eq!(workload.name(), format!("write-{percent}"));
            assert_eq!(workload.name().parse(), Ok(workload));
        }
        assert!("write-101".parse::<Workload>().is_err() && "write-".parse::<Workload>().is_err());
    }

    #[test]
    fn the_shares_of_a_mix_are_a_whole() {
        let writes = (0..=100).map(|percent| Workload::Writes { percent });
        for workload in Workload::ALL.into_iter().chain(writes) {
            let total: u64 = workload.mix().iter().map(|(_, share)| share).sum();
            let whole = match workload {
                Workload::Mix4To16To1 => 21,
                _ if workload.is_mix() => 100,
                _ => 0,
            };
            assert_eq!(total, whole, "{workload}");
        }
        assert_eq!(Workload::MixQuarters.removal_share(), 0.25);
        assert_eq!(Workload::YcsbA.removal_share(), 0.0);
    }
}
