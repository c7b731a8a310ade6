//! What the operations of a measurement are.

use std::fmt;
use std::str::FromStr;

use crate::distribution::Distribution;

/// A kind of measurement: one operation repeated, or one of the six mixes of the Yahoo! Cloud
/// Serving Benchmark (YCSB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Inserts all keys into an empty index, in random order.
    Load,
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
}

/// What throughput and cost are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations.
    Operation,
    /// Keys: of a batch, or of a scan.
    Key,
}

impl Unit {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Operation => "op",
            Unit::Key => "key",
        }
    }
}

/// One operation of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Get,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; 14] = [
        Workload::Load,
        Workload::Get,
        Workload::GetAbsent,
        Workload::GetMany,
        Workload::Scan,
        Workload::Update,
        Workload::Insert,
        Workload::Remove,
        Workload::YcsbA,
        Workload::YcsbB,
        Workload::YcsbC,
        Workload::YcsbD,
        Workload::YcsbE,
        Workload::YcsbF,
    ];

    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Load => "load",
            Workload::Get => "get",
            Workload::GetAbsent => "get-absent",
            Workload::GetMany => "get-many",
            Workload::Scan => "scan",
            Workload::Update => "update",
            Workload::Insert => "insert",
            Workload::Remove => "remove",
            Workload::YcsbA => "ycsb-a",
            Workload::YcsbB => "ycsb-b",
            Workload::YcsbC => "ycsb-c",
            Workload::YcsbD => "ycsb-d",
            Workload::YcsbE => "ycsb-e",
            Workload::YcsbF => "ycsb-f",
        }
    }

    /// What throughput and cost are counted in.
    pub fn unit(self) -> Unit {
        match self {
            Workload::GetMany | Workload::Scan => Unit::Key,
            _ => Unit::Operation,
        }
    }

    /// Whether this is a mix of operations.
    pub fn is_mix(self) -> bool {
        self.name().starts_with("ycsb")
    }

    /// Whether each operation needs a key that no other has, so that no distribution applies.
    pub fn has_fresh_keys(self) -> bool {
        matches!(self, Workload::Load | Workload::Insert)
    }

    /// The distribution if none is asked for: that of the YCSB for its mixes, else uniform.
    pub fn default_distribution(self, theta: f64) -> Distribution {
        match self {
            Workload::YcsbD => Distribution::Latest { theta },
            mix if mix.is_mix() => Distribution::Zipfian { theta },
            _ => Distribution::Uniform,
        }
    }

    /// The actions of a mix with their shares in percent; empty for other workloads.
    pub(crate) fn mix(self) -> &'static [(Action, u64)] {
        match self {
            Workload::YcsbA => &[(Action::Get, 50), (Action::Update, 50)],
            Workload::YcsbB => &[(Action::Get, 95), (Action::Update, 5)],
            Workload::YcsbC => &[(Action::Get, 100)],
            Workload::YcsbD => &[(Action::Get, 95), (Action::Insert, 5)],
            Workload::YcsbE => &[(Action::Scan, 95), (Action::Insert, 5)],
            Workload::YcsbF => &[(Action::Get, 50), (Action::ReadModifyWrite, 50)],
            _ => &[],
        }
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
        write!(f, "{:?} is no workload: choose from {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownWorkload {}

impl FromStr for Workload {
    type Err = UnknownWorkload;

    /// The inverse of [`Workload::name`]; the mixes also by their letter, such as `a`.
    fn from_str(text: &str) -> Result<Self, UnknownWorkload> {
        let lower = text.to_ascii_lowercase();
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
        let error = "gets".parse::<Workload>().unwrap_err().to_string();
        assert!(error.contains("\"gets\"") && error.contains("get-absent"), "{error}");
    }

    #[test]
    fn the_shares_of_a_mix_are_a_whole() {
        for workload in Workload::ALL {
            let total: u64 = workload.mix().iter().map(|(_, share)| share).sum();
            assert_eq!(total, if workload.is_mix() { 100 } else { 0 }, "{workload}");
        }
    }
}
