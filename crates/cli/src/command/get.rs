//! `everleaf get`: the value of one key.

use crate::arguments::{EncodingArgs, pool_and_rest};
use crate::failure::Failure;
use crate::format::jsonl;
use crate::global::Global;
use crate::open::{self, MapArgs};
use crate::output::Output;
use clap::Args;
use everleaf_server::CollectionHeaders;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf get words.pool apple
  everleaf get words.pool photo.png > photo.png     the exact bytes of the value
  everleaf get words.pool 00ff --hex                a binary key; the value in hexadecimal
  everleaf get words.pool apple --json              {\"key\":\"apple\",\"value\":\"...\"}

The value is printed as it is; only on a terminal a line end follows it.
Ends with code 1 if there is no such key, or if it holds a list, hash, set or sorted set.";

/// Print the value of a key
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, override_usage = "everleaf get [OPTIONS] [POOL] <KEY>")]
pub struct GetArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: Option<OsString>,
    /// Which map.
    #[command(flatten)]
    pub map: MapArgs,
    /// How key and value are written.
    #[command(flatten)]
    pub encoding: EncodingArgs,
}

/// Prints the value.
pub fn run(args: GetArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, words) = pool_and_rest(args.pool, args.key.into_iter().collect(), &["KEY"])?;
    let key = args.encoding.decode("KEY", &words[0])?;
    let store = open::for_reading(&pool, &args.map.trust)?;
    let map = open::existing_map(&store, &pool, args.map.map.as_deref())?;
    let Some(value) = map.get(&key)? else {
        return Err(missing(&words[0], args.map.map.as_deref()));
    };
    if let Some(kind) = CollectionHeaders::of(&store)?.kind(&value) {
        return Err(Failure::not_found(format!(
            "the key {:?} holds a {kind}, not a string: ask a server on this pool (everleaf serve {}), or write \
             everything with `everleaf export --format resp`",
            words[0].to_string_lossy(),
            pool.display()
        )));
    }
    if global.json {
        let mut object = serde_json::Map::new();
        jsonl::insert(&mut object, "key", &key);
        jsonl::insert(&mut object, "value", &value);
        return out.json(&object);
    }
    out.bytes(&args.encoding.encode(&value))?;
    if out.is_terminal() || !args.encoding.is_plain() {
        out.bytes(b"\n")?;
    }
    Ok(())
}

/// There is no such key.
pub fn missing(key: &OsString, map: Option<&str>) -> Failure {
    let place = map.map_or_else(String::new, |map| format!(" in the map {map:?}"));
    Failure::not_found(format!("there is no key {:?}{place}", key.to_string_lossy()))
}
