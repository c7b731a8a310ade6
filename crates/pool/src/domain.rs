//! Persistence domains: when a store counts as durable.

use std::fmt;
use std::str::FromStr;

/// When a store to the pool is durable: a property of the opened pool, not of what is built on it.
///
/// | domain | who has it | a store is durable when |
/// |---|---|---|
/// | `Line` | persistent memory without flush-on-fail (ADR, CXL) | its line is flushed and the flush is drained |
/// | `Visible` | persistent memory with persistent CPU caches (eADR, GPF) | it is globally visible |
/// | `Process` | any mapped file | it is globally visible; it then survives the death of the process, not of the machine |
///
/// # Example
/// ```
/// use everleaf_pool::Domain;
/// assert_eq!("visible".parse(), Ok(Domain::Visible));
/// assert_eq!(Domain::Line.to_string(), "line");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Domain {
    /// Durable once flushed and drained; survives loss of power.
    Line = 1,
    /// Durable once globally visible; survives loss of power.
    Visible = 2,
    /// Durable once globally visible; survives the death of the process only.
    Process = 3,
}

impl Domain {
    /// All domains.
    pub const ALL: [Domain; 3] = [Domain::Line, Domain::Visible, Domain::Process];

    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Domain::Line => "line",
            Domain::Visible => "visible",
            Domain::Process => "process",
        }
    }

    /// The domain from its byte in the format.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&domain| domain as u8 == byte)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no [`Domain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDomain(String);

impl fmt::Display for UnknownDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(f, "{text:?} is no persistence domain: use line, visible or process")
    }
}

impl std::error::Error for UnknownDomain {}

impl FromStr for Domain {
    type Err = UnknownDomain;

    /// The inverse of [`Domain::name`]; exact, lower case.
    fn from_str(text: &str) -> Result<Self, UnknownDomain> {
        let found = Self::ALL.into_iter().find(|domain| domain.name() == text);
        found.ok_or_else(|| UnknownDomain(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bytes_lead_back_to_the_domain() {
        for domain in Domain::ALL {
            assert_eq!(domain.to_string().parse(), Ok(domain));
            assert_eq!(Domain::from_byte(domain as u8), Some(domain));
        }
        assert_eq!(Domain::from_byte(0), None);
        assert_eq!(Domain::from_byte(4), None);
        let error = "Line".parse::<Domain>().unwrap_err();
        assert!(error.to_string().contains("line, visible or process"));
    }
}
