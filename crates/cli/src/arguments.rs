//! Arguments that several commands share: the pool and what follows it, the encoding of keys and
//! values, ranges of keys, and the properties of a new pool.

use crate::failure::Failure;
use clap::{Args, ValueEnum};
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use everleaf::{Domain, Options, Tree, behind_prefix, human_size};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The environment variable that names the pool when the command line does not.
pub const POOL_VARIABLE: &str = "EVERLEAF_POOL";

/// Splits positional arguments into the pool and at least as many others as `names` lists.
///
/// The first argument is the pool, unless there are exactly as many as `names` and the environment
/// names the pool.
pub fn pool_and_rest(
    pool: Option<OsString>,
    rest: Vec<OsString>,
    names: &[&str],
) -> Result<(PathBuf, Vec<OsString>), Failure> {
    let mut all: Vec<OsString> = pool.into_iter().chain(rest).collect();
    if all.len() > names.len() {
        let rest = all.split_off(1);
        return Ok((PathBuf::from(all.remove(0)), rest));
    }
    match pool_from_environment() {
        Some(pool) if all.len() == names.len() => Ok((pool, all)),
        Some(_) => Err(Failure::usage(format!(
            "give {} (the pool comes from {POOL_VARIABLE}); --help shows examples",
            names.join(" and ")
        ))),
        None => {
            let wanted: Vec<&str> = std::iter::once("POOL").chain(names.iter().copied()).collect();
            Err(Failure::usage(format!(
                "give {} (or name the pool in {POOL_VARIABLE}); --help shows examples",
                wanted.join(" and ")
            )))
        }
    }
}

/// The pool that [`POOL_VARIABLE`] names, if it is set and not empty.
pub fn pool_from_environment() -> Option<PathBuf> {
    std::env::var_os(POOL_VARIABLE).filter(|pool| !pool.is_empty()).map(PathBuf::from)
}

/// How keys and values are written on the command line and in plain output.
#[derive(Args, Clone, Debug)]
pub struct EncodingArgs {
    /// Keys and values are hexadecimal, here and in plain output
    #[arg(long, conflicts_with = "base64")]
    pub hex: bool,
    /// Keys and values are base64, here and in plain output
    #[arg(long)]
    pub base64: bool,
}

impl EncodingArgs {
    /// True when neither `--hex` nor `--base64` is given.
    pub fn is_plain(&self) -> bool {
        !self.hex && !self.base64
    }

    /// The bytes that the argument `name` stands for.
    pub fn decode(&self, name: &str, argument: &OsStr) -> Result<Vec<u8>, Failure> {
        let bytes = argument.as_bytes();
        let (decoded, encoding) = if self.hex {
            (HEXLOWER_PERMISSIVE.decode(bytes), "hexadecimal")
        } else if self.base64 {
            (BASE64.decode(bytes), "base64")
        } else {
            return Ok(bytes.to_vec());
        };
        decoded.map_err(|error| {
            let argument = argument.to_string_lossy();
            Failure::usage(format!("{name} {argument:?} is not {encoding}: {error}"))
        })
    }

    /// The bytes as plain output shows them.
    pub fn encode<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.hex {
            Cow::Owned(HEXLOWER_PERMISSIVE.encode(bytes).into_bytes())
        } else if self.base64 {
            Cow::Owned(BASE64.encode(bytes).into_bytes())
        } else {
            Cow::Borrowed(bytes)
        }
    }
}

/// Which keys: all of them unless bounded.
#[derive(Args, Clone, Debug)]
pub struct RangeArgs {
    /// The first key, included
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub from: Option<OsString>,
    /// The key to stop before, not included; in `export` also redis-cluster://HOST:PORT (see below)
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub to: Option<OsString>,
    /// Only keys that start with this
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    pub prefix: Option<OsString>,
}

impl RangeArgs {
    /// The range of keys; `None` if it is empty whatever the pool holds.
    pub fn bounds(&self, encoding: &EncodingArgs) -> Result<Option<KeyRange>, Failure> {
        let decode = |name: &str, argument: &Option<OsString>| {
            argument.as_deref().map(|argument| encoding.decode(name, argument)).transpose()
        };
        let mut from = decode("--from", &self.from)?.unwrap_or_default();
        let mut to = decode("--to", &self.to)?;
        if let Some(prefix) = decode("--prefix", &self.prefix)? {
            if let Some(end) = behind_prefix(&prefix) {
                to = Some(to.map_or(end.clone(), |to| to.min(end)));
            }
            from = from.max(prefix);
        }
        let is_empty = to.as_ref().is_some_and(|to| *to <= from);
        Ok((!is_empty).then_some(KeyRange { from, to }))
    }
}

/// The keys from `from` on, up to but without `to`; never empty by itself.
#[derive(Debug, PartialEq, Eq)]
pub struct KeyRange {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
}

impl KeyRange {
    /// The bounds as the store takes them.
    pub fn as_bounds(&self) -> (std::ops::Bound<&[u8]>, std::ops::Bound<&[u8]>) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        (Included(&self.from), self.to.as_deref().map_or(Unbounded, Excluded))
    }

    /// True when every key is in the range.
    pub fn is_everything(&self) -> bool {
        self.from.is_empty() && self.to.is_none()
    }
}

/// The largest pool, in bytes.
const POOL_SIZE_MAX: u64 = 1 << 40;

/// The properties of a pool that does not exist yet.
#[derive(Args, Clone, Debug)]
pub struct NewPoolArgs {
    /// Size of the new file, such as 64M or 1G; it grows by itself [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Size the file may grow to, such as 10G; at most 1T [default: 64G]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_size: Option<u64>,
    /// What a write must reach to survive (persistence domain) [default: detected]
    #[arg(long, value_enum)]
    pub domain: Option<DomainArg>,
}

impl NewPoolArgs {
    /// Adds what was given to `options`; refuses a size above the maximum, and a maximum that no pool can reach.
    pub fn apply(&self, mut options: Options) -> Result<Options, Failure> {
        if let Some(size) = self.size.max(self.max_size).filter(|size| *size > POOL_SIZE_MAX) {
            return Err(Failure::usage(format!(
                "a pool of {} cannot be: one has {} at most",
                human_size(size),
                human_size(POOL_SIZE_MAX)
            )));
        }
        if let (Some(size), Some(max)) = (self.size, self.max_size)
            && size > max
        {
            return Err(Failure::usage(format!(
                "--size {} is above --max-size {}: raise --max-size",
                human_size(size),
                human_size(max)
            )));
        }
        if let Some(size) = self.size {
            options = options.initial_size_bytes(size);
        }
        if let Some(max) = self.max_size {
            options = options.max_size_bytes(max);
        }
        if let Some(domain) = self.domain {
            options = options.domain(domain.into());
        }
        Ok(options)
    }
}

/// The tree that the maps of a pool are in.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TreeArg {
    /// NBTree: the default of new pools
    Nbtree,
    /// Leaves of 4 KiB that are hash tables: faster for single keys, younger; older versions refuse such a pool
    HashedLeaf,
}

impl From<TreeArg> for Tree {
    fn from(tree: TreeArg) -> Self {
        match tree {
            TreeArg::Nbtree => Tree::NbTree,
            TreeArg::HashedLeaf => Tree::HashedLeaf,
        }
    }
}

/// The persistence domain of a pool.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DomainArg {
    /// Persistent memory: once its cache line is flushed (ADR)
    Adr,
    /// Persistent memory with persistent caches: once visible (eADR)
    Eadr,
    /// Any file: durable against the death of the process
    Process,
}

impl From<DomainArg> for Domain {
    fn from(domain: DomainArg) -> Self {
        match domain {
            DomainArg::Adr => Self::Adr,
            DomainArg::Eadr => Self::Eadr,
            DomainArg::Process => Self::Process,
        }
    }
}

/// Bytes in a size such as `4096`, `64M`, `10G`, `1GiB`; the units are powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || "write a number of bytes, or a number with K, M, G or T, such as 64M".to_string();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let shift = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let too_large = || "that is more than 16 EiB, which no file can hold".to_string();
    number.checked_mul(1 << shift).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: Option<&str>, to: Option<&str>, prefix: Option<&str>) -> Option<KeyRange> {
        let [from, to, prefix] = [from, to, prefix].map(|text| text.map(OsString::from));
        let encoding = EncodingArgs { hex: false, base64: false };
        RangeArgs { from, to, prefix }.bounds(&encoding).unwrap()
    }

    fn key_range(from: &str, to: Option<&str>) -> Option<KeyRange> {
        Some(KeyRange { from: from.into(), to: to.map(Into::into) })
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("10g"), Ok(10 << 30));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        for wrong in ["", "M", "-1", "1.5G", "64X", "1 G", "99999999999T", "18446744073709551616"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn from_to_and_prefix_meet_in_one_range() {
        assert_eq!(range(None, None, None), key_range("", None));
        assert_eq!(range(Some("b"), Some("d"), None), key_range("b", Some("d")));
        assert_eq!(range(None, None, Some("ab")), key_range("ab", Some("ac")));
        assert_eq!(range(Some("abc"), Some("b"), Some("ab")), key_range("abc", Some("ac")));
        assert_eq!(range(Some("a"), Some("abx"), Some("ab")), key_range("ab", Some("abx")));
        assert_eq!(range(Some("d"), Some("b"), None), None);
        assert_eq!(range(Some("b"), Some("b"), None), None);
        assert_eq!(range(Some("x"), None, Some("ab")), None);
        assert_eq!(range(None, Some("d"), Some("")), key_range("", Some("d")));
    }

    #[test]
    fn an_encoding_reads_what_it_writes_and_names_what_it_cannot() {
        let bytes = [0, 1, 0xab, 0xff];
        for (hex, base64) in [(true, false), (false, true), (false, false)] {
            let encoding = EncodingArgs { hex, base64 };
            let text = encoding.encode(&bytes).into_owned();
            assert_eq!(encoding.decode("KEY", OsStr::from_bytes(&text)).unwrap(), bytes);
        }
        let encoding = EncodingArgs { hex: true, base64: false };
        let failure = encoding.decode("KEY", OsStr::new("xyz")).unwrap_err();
        assert!(failure.message.contains("KEY \"xyz\" is not hexadecimal"), "{}", failure.message);
        assert_eq!(encoding.decode("KEY", OsStr::new("AB")).unwrap(), [0xab]);
    }
}
