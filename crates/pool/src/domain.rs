//! Persistence domains: when a store counts as durable.

use std::fmt;
use std::str::FromStr;

/// When a store to the pool is durable: a property of the opened pool, not of what is built on it.
///
/// | domain | what has it | a store is durable when |
/// |---|---|---|
/// | `Adr` | persistent memory without flush-on-fail (ADR, CXL) | its line is flushed and the flush is drained |
/// | `Eadr` | persistent memory with persistent CPU caches (eADR, GPF) | it is globally visible |
/// | `Process` | any mapped file | it is globally visible; it then survives the death of the process, not of the machine |
///
/// # Example
/// ```
/// use everleaf_pool::Domain;
/// assert_eq!("eadr".parse(), Ok(Domain::Eadr));
/// assert_eq!(Domain::Adr.to_string(), "adr");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Domain {
    /// Durable once flushed and drained; survives loss of power.
    Adr = 1,
    /// Durable once globally visible; survives loss of power.
    Eadr = 2,
    /// Durable once globally visible; survives the death of the process only.
    #[default]
    Process = 3,
}

impl Domain {
    /// All domains.
    pub const ALL: [Domain; 3] = [Domain::Adr, Domain::Eadr, Domain::Process];

    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Domain::Adr => "adr",
            Domain::Eadr => "eadr",
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
        write!(f, "{text:?} is no persistence domain: use adr, eadr or process")
    }
}

impl std::error::Error for UnknownDomain {}

impl FromStr for Domain {
    type Err = UnknownDomain;

    /// The inverse of [`Domain::name`]; exact, lower case. `line` and `visible`, the names of older
    /// versions, are known too.
    fn from_str(text: &str) -> Result<Self, UnknownDomain> {
        let name = match text {
            "line" => "adr",
            "visible" => "eadr",
            _ => text,
        };
        let found = Self::ALL.into_iter().find(|domain| domain.name() == name);
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
        assert_eq!("line".parse(), Ok(Domain::Adr));
        assert_eq!("visible".parse(), Ok(Domain::Eadr));
        let error = "Line".parse::<Domain>().unwrap_err();
        assert!(error.to_string().contains("adr, eadr or process"));
    }
}
