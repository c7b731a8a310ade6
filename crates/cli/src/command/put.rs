//! `everleaf put`: one key and its value.

use crate::arguments::{EncodingArgs, pool_and_rest};
use crate::failure::Failure;
use crate::global::Global;
use crate::input::standard_input;
use crate::open::{self, MapArgs};
use crate::output::Output;
use clap::Args;
use everleaf::{Error, KEY_SIZE_MAX, Map, Store, VALUE_SIZE_MAX};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  everleaf put words.pool apple 'a round fruit'
  everleaf put words.pool photo.png --value-file photo.png
  date | everleaf put words.pool now --value-file -
  everleaf put words.pool lock me --if-absent       ends with code 1 if the key is there
  everleaf put words.pool 00ff 0102 --hex           binary key and value

Once the command ends with code 0, the pair survives the death of any process.";

/// Set the value of a key
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, override_usage = "everleaf put [OPTIONS] [POOL] <KEY> <VALUE>")]
pub struct PutArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: Option<OsString>,
    /// The value
    #[arg(allow_negative_numbers = true)]
    pub value: Option<OsString>,
    /// Take the value from this file, byte for byte; `-` is the standard input
    #[arg(long, value_name = "FILE")]
    pub value_file: Option<PathBuf>,
    /// Only if the key is not there yet
    #[arg(long, conflicts_with = "if_present")]
    pub if_absent: bool,
    /// Only if the key is there already
    #[arg(long)]
    pub if_present: bool,
    /// Which map.
    #[command(flatten)]
    pub map: MapArgs,
    /// How key and value are written.
    #[command(flatten)]
    pub encoding: EncodingArgs,
}

/// What is told as JSON.
#[derive(Serialize)]
struct Stored {
    replaced: bool,
}

/// Puts the pair.
pub fn run(args: PutArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let names: &[&str] = if args.value_file.is_some() { &["KEY"] } else { &["KEY", "VALUE"] };
    let words = args.key.into_iter().chain(args.value).collect();
    let (pool, words) = pool_and_rest(args.pool, words, names)?;
    if words.len() > names.len() {
        return Err(Failure::usage("give either a VALUE or --value-file, not both"));
    }
    let key = args.encoding.decode("KEY", &words[0])?;
    let value = match &args.value_file {
        Some(file) => read_value(file)?,
        None => args.encoding.decode("VALUE", &words[1])?,
    };
    let store = open::for_writing(&pool, &args.map.trust, global)?;
    let condition = Condition::of(args.if_absent, args.if_present);
    let written = match map_of(&store, args.map.map.as_deref(), condition, (&key, &value))? {
        Some(map) => put(&map, condition, &key, &value)?,
        None => None,
    };
    store.close()?;
    let Some(replaced) = written else {
        let state = if args.if_absent { "is there already" } else { "is not there" };
        let key = words[0].to_string_lossy();
        return Err(Failure::not_found(format!("the key {key:?} {state}: nothing was changed")));
    };
    if global.json {
        return out.json(&Stored { replaced });
    }
    if global.quiet {
        return Ok(());
    }
    out.line(if replaced { "replaced" } else { "inserted" })
}

/// The map to put into, made if it is not there yet and the pair will be put; `None` if it would have to hold the key.
fn map_of(
    store: &Store,
    name: Option<&str>,
    condition: Condition,
    (key, value): (&[u8], &[u8]),
) -> Result<Option<Map>, Failure> {
    if key.len() > KEY_SIZE_MAX {
        return Err(Error::KeyTooLarge(key.len()).into());
    }
    if value.len() > VALUE_SIZE_MAX {
        return Err(Error::ValueTooLarge(value.len()).into());
    }
    match (condition, name) {
        (Condition::Present, Some(name)) => Ok(store.existing_map(name)?),
        _ => open::map_or_new(store, name).map(Some),
    }
}

/// When to put.
#[derive(Clone, Copy)]
enum Condition {
    Always,
    Absent,
    Present,
}

impl Condition {
    fn of(if_absent: bool, if_present: bool) -> Self {
        match (if_absent, if_present) {
            (true, _) => Self::Absent,
            (false, true) => Self::Present,
            (false, false) => Self::Always,
        }
    }
}

/// Whether a value was replaced; `None` if the condition did not hold.
fn put(map: &Map, condition: Condition, key: &[u8], value: &[u8]) -> Result<Option<bool>, Failure> {
    Ok(match condition {
        Condition::Always => Some(map.put(key, value)?),
        Condition::Absent => map.insert(key, value)?.then_some(false),
        Condition::Present => map.update(key, value)?.then_some(true),
    })
}

fn read_value(path: &Path) -> Result<Vec<u8>, Failure> {
    // One byte more than allowed, so that the store says how large a value may be.
    let limit = VALUE_SIZE_MAX as u64 + 1;
    let mut value = Vec::new();
    let read = if path == Path::new("-") {
        standard_input()?.take(limit).read_to_end(&mut value)
    } else {
        File::open(path).and_then(|file| file.take(limit).read_to_end(&mut value))
    };
    read.map_err(|error| Failure::io(&format!("cannot read {}", path.display()), &error))?;
    Ok(value)
}
