//! Mixes of any shares, and their names.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// What the name of such a mix begins with.
const PREFIX: &str = "mix-";

/// How many in a hundred operations are of which kind. They are 100 together.
///
/// # Example
/// ```
/// use everleaf_bench::Shares;
/// let shares: Shares = "mix-50-10-40-0-0".parse().unwrap();
/// assert_eq!((shares.get, shares.insert, shares.update), (50, 10, 40));
/// assert_eq!(shares.name(), "mix-50-10-40-0-0");
/// assert!("mix-50-10-10-0-0".parse::<Shares>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shares {
    /// Reads of keys that are there.
    pub get: u8,
    /// New keys.
    pub insert: u8,
    /// New values.
    pub update: u8,
    /// Keys taken.
    pub remove: u8,
    /// Runs of pairs.
    pub scan: u8,
}

impl Shares {
    /// These, if they are 100 together.
    pub fn new(get: u8, insert: u8, update: u8, remove: u8, scan: u8) -> Option<Self> {
        let sum: u32 = [get, insert, update, remove, scan].map(u32::from).iter().sum();
        (sum == 100).then_some(Shares { get, insert, update, remove, scan })
    }

    /// `mix-`, and the shares of reads, inserts, updates, removals and scans.
    pub fn name(self) -> &'static str {
        // Names of workloads are static; a program names few mixes, and each is made once.
        static NAMES: Mutex<BTreeMap<Shares, &'static str>> = Mutex::new(BTreeMap::new());
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        names.entry(self).or_insert_with(|| Box::leak(self.to_string().into_boxed_str()))
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shares { get, insert, update, remove, scan } = self;
        write!(f, "{PREFIX}{get}-{insert}-{update}-{remove}-{scan}")
    }
}

impl FromStr for Shares {
    type Err = ();

    /// The inverse of [`Shares::name`].
    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix(PREFIX).ok_or(())?;
        let shares: Result<Vec<u8>, _> = rest.split('-').map(str::parse).collect();
        match shares.as_deref() {
            Ok(&[get, insert, update, remove, scan]) => {
                Shares::new(get, insert, update, remove, scan).ok_or(())
            }
            _ => Err(()),
        }
    }
}
