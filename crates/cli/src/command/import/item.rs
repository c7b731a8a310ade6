//! What a source shows, key by key.

use crate::exit_code::ExitCode;
use crate::failure::Failure;
use everleaf_server::transfer::{Entry, Extent, Rdb, RdbError, RdbRecord, Value};
use std::fmt::Display;
use std::io::Read;

/// A key of the source, or why there is none.
pub enum Item {
    Key {
        database: u64,
        key: Vec<u8>,
        entry: Entry,
        /// How much its time may be off.
        slack_ms: u64,
        /// Where it stands in a file, which has each key once.
        offset: Option<u64>,
    },
    /// A collection without members, of which a server makes no key.
    Empty,
    Unsupported {
        database: u64,
        key: Option<Vec<u8>>,
        what: String,
    },
    /// A large collection: it begins anew, has members (of a list those from an index on), and ends.
    Begin {
        database: u64,
        key: Vec<u8>,
        /// Where it stands in a file, which has each key once.
        offset: Option<u64>,
    },
    Members {
        database: u64,
        key: Vec<u8>,
        first: u64,
        members: Value,
    },
    End {
        database: u64,
        key: Vec<u8>,
        extent: Extent,
        slack_ms: u64,
        /// Whether the source cannot have changed meanwhile, so that there are as many members as were shown.
        is_exact: bool,
    },
}

/// Shows what a snapshot has that comes from a place. Returns the database of the stream behind it, if it names one.
pub fn each_record(
    input: impl Read,
    place: &dyn Display,
    see: &mut dyn FnMut(Item) -> Result<(), Failure>,
) -> Result<Option<u64>, Failure> {
    let mut rdb = Rdb::open(input).map_err(|error| refused(place, error))?;
    see_all(&mut rdb, place, see)?;
    Ok(rdb.stream_database())
}

/// Shows what a file has, behind which nothing may follow.
pub fn each_record_of_file(
    input: impl Read,
    place: &dyn Display,
    see: &mut dyn FnMut(Item) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut rdb = Rdb::open(input).map_err(|error| refused(place, error))?;
    see_all(&mut rdb, place, see)?;
    rdb.demand_end().map_err(|error| refused(place, error))
}

fn refused(place: &dyn Display, error: RdbError) -> Failure {
    let code = if error.is_io { ExitCode::Io } else { ExitCode::Pool };
    Failure::new(code, format!("{place}: {error}"))
}

fn see_all(
    rdb: &mut Rdb<impl Read>,
    place: &dyn Display,
    see: &mut dyn FnMut(Item) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        // Before its time, which stands in front of it.
        let offset = Some(rdb.offset());
        let record = rdb.next_record().map_err(|error| refused(place, error))?;
        let Some(record) = record else { return Ok(()) };
        see(match record {
            RdbRecord::Key { database, key, expiry_ms, value } => {
                let entry = Entry { value, expiry_ms };
                Item::Key { database, key, entry, slack_ms: 0, offset }
            }
            RdbRecord::Begin { database, key } => Item::Begin { database, key, offset },
            RdbRecord::Members { database, key, first, members } => {
                Item::Members { database, key, first, members }
            }
            RdbRecord::End { database, key, expiry_ms, count } => {
                let extent = Extent { count, expiry_ms };
                Item::End { database, key, extent, slack_ms: 0, is_exact: true }
            }
            RdbRecord::Empty => Item::Empty,
            RdbRecord::Unsupported { database, key, what } => {
                Item::Unsupported { database, key, what: what.to_string() }
            }
        })?;
    }
}
