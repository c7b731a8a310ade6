//! What stands at one place of a file: a record, or what tells of records.

use super::Value;
use super::read::{Reader, is_fit};
use super::record::RdbRecord;
use super::unsupported::{MODULE, unsupported_name};

const SLOT: u8 = 0xf4;
const FUNCTION: u8 = 0xf5;
const FUNCTION_OLD: u8 = 0xf6;
const MODULE_AUX: u8 = 0xf7;
const IDLE: u8 = 0xf8;
const FREQUENCY: u8 = 0xf9;
const NOTE: u8 = 0xfa;
const SIZES: u8 = 0xfb;
const TIME_MS: u8 = 0xfc;
const TIME_S: u8 = 0xfd;
const DATABASE: u8 = 0xfe;
pub(super) const END: u8 = 0xff;

/// The note of a snapshot for replicas that names the database of the stream behind it.
const STREAM_DATABASE: &[u8] = b"repl-stream-db";
/// The notes of a file that an append-only file begins with (up to Redis 6), or goes with (since Redis 7), if it says
/// 1.
const APPENDED: [&[u8]; 2] = [b"aof-preamble", b"aof-base"];

/// What stands at one place.
pub(super) enum Part {
    Record(RdbRecord),
    /// The beginning of what there is not here: its type, its key if it is one, and what it holds. The rest is still to
    /// be passed over.
    Unsupported(u8, Option<Vec<u8>>, &'static str),
    /// Of the key that follows; `None` says that it has none.
    Expiry(Option<u64>),
    Database(u64),
    StreamDatabase(u64),
    /// Changes are elsewhere.
    Appended,
    /// Nothing that concerns us.
    Nothing,
    End,
}

/// What stands here; `None` if it is damaged, or not there as a whole.
pub(super) fn part(reader: &mut Reader<'_>, database: u64, expiry_ms: Option<u64>) -> Option<Part> {
    let [kind] = reader.array()?;
    Some(match kind {
        END => Part::End,
        DATABASE => Part::Database(reader.length()?),
        TIME_MS => {
            // A time before 1970 has come, but for the one that says that there is none.
            let time = i64::from_le_bytes(reader.array()?);
            Part::Expiry((time != -1).then(|| u64::try_from(time).unwrap_or(0)))
        }
        TIME_S => {
            // One before 1970 has come, as with milliseconds.
            let seconds = i32::from_le_bytes(reader.array()?);
            Part::Expiry(Some(u64::try_from(seconds).unwrap_or(0) * 1000))
        }
        SIZES => {
            reader.length()?;
            reader.length()?;
            Part::Nothing
        }
        // Of a cluster, since Valkey 8: the number of a slot, and how many keys it has, and how many that expire.
        SLOT => {
            for _ in 0..3 {
                reader.length()?;
            }
            Part::Nothing
        }
        NOTE => {
            let (name, text) = (reader.string()?, reader.string()?);
            let number = || std::str::from_utf8(&text).ok()?.parse().ok();
            match &name[..] {
                STREAM_DATABASE => number().map_or(Part::Nothing, Part::StreamDatabase),
                name if APPENDED.contains(&name) && text == b"1" => Part::Appended,
                _ => Part::Nothing,
            }
        }
        FREQUENCY => {
            reader.take(1)?;
            Part::Nothing
        }
        IDLE => {
            reader.length()?;
            Part::Nothing
        }
        MODULE_AUX => {
            // As of a value.
            Part::Unsupported(MODULE, None, "data of a module")
        }
        FUNCTION => {
            reader.string()?;
            let what = "a library of functions";
            Part::Record(RdbRecord::Unsupported { database, key: None, what })
        }
        FUNCTION_OLD => return None,
        kind => {
            let key = reader.string()?;
            if let Some(what) = unsupported_name(kind) {
                return Some(Part::Unsupported(kind, Some(key), what));
            }
            let value = reader.value(kind)?;
            if value.count() == 0 && !matches!(value, Value::String(_)) {
                return Some(Part::Record(RdbRecord::Empty));
            }
            let value = Some(value).filter(is_fit)?;
            Part::Record(RdbRecord::Key { database, key, expiry_ms, value })
        }
    })
}
