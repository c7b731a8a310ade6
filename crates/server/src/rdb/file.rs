//! A file of Redis or Valkey (`dump.rdb`), read from its start to its end.
//!
//! ```text
//!   REDIS | version (4 digits) | records | 0xff | check sum (8)      record: time, database, key and value ..
//! ```
//!
//! The file is read in pieces. A record that is not there as a whole yet is tried again when there is more of it, twice
//! as much each time; so a file may be larger than the memory. A collection that is long is read some members at a
//! time; any other record may take 512 MiB, which is as long as a string can be. What a record says is believed only as
//! far as bytes follow; the check sum is compared at the end, and until then nothing that was read should get its final
//! name.

use std::fmt;
use std::io::{self, Read};

use super::VERSION_READ_MAX;
use super::check_sum::crc64_from;
use super::part::{END, Part, part};
use super::read::{Beginning, Reader, SIZE_MAX, beginning, has_numbers};
use super::record::RdbRecord;

const MAGIC: &[u8] = b"REDIS";
/// What a file begins with: the magic, and four digits.
const START_SIZE: usize = 9;
/// The first version with a check sum.
const VERSION_WITH_SUM: u16 = 5;
/// Bytes that are read at once, at first.
const READ_SIZE: usize = 256 << 10;
/// A longer record is read in pieces, if it is a collection whose items can be told from each other.
const WHOLE_SIZE_MAX: usize = 16 << 20;
/// Bytes of the members that are read at once, about.
const MEMBERS_SIZE: usize = 1 << 20;
/// What is said of a record that is no value of ours.
const TOO_LARGE: &str = "a value of more than 512 MiB, which is more than there can be here";

/// What is said where a file ends too early.
const CUT_SHORT: &str = "the file ends in the middle of a record";

/// What is said of such a file.
const WITH_CHANGES_ELSEWHERE: &str = "the dump that an append-only file is based on: what changed since is behind it \
    or in the *.incr.aof files, which are not read; make a dump of its own (SAVE), or import from the running server";
/// What is said where a file goes on.
const GOES_ON: &str = "the dump ends here, and the file does not: what follows (commands of an append-only file, or \
    the rest of an older file) would be lost; make a dump of its own (SAVE), or import from the running server";

/// A file that is being read.
pub struct Rdb<R> {
    input: R,
    /// What was read, from `start` on not looked at.
    buffer: Vec<u8>,
    start: usize,
    /// Where `start` is in the file.
    offset: u64,
    /// The end of the file was read.
    is_ended: bool,
    version: u16,
    /// The check sum of what was looked at.
    sum: u64,
    database: u64,
    stream_database: Option<u64>,
    expiry_ms: Option<u64>,
    /// The collection that is being read in pieces.
    open: Option<Open>,
}

/// A collection of which some members were read.
struct Open {
    kind: u8,
    key: Vec<u8>,
    /// Items that are left.
    left: u64,
    /// Members that were read.
    count: u64,
}

/// Why a file cannot be read (on).
#[derive(Debug)]
pub struct RdbError {
    /// Where in the file.
    pub offset: u64,
    /// What is wrong there.
    pub reason: String,
    /// Whether it is not the file that is wrong: the system could not read it.
    pub is_io: bool,
}

impl fmt::Display for RdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.reason)
    }
}

impl std::error::Error for RdbError {}

/// Why something could not be read.
struct Failed {
    /// Bytes before that.
    read: usize,
    /// More bytes were wanted than there are.
    is_short: bool,
    /// More was to be kept than may be.
    is_over: bool,
}

impl<R: Read> Rdb<R> {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// It is no such file, or of a version that is not known.
    pub fn open(input: R) -> Result<Self, RdbError> {
        let mut file = Rdb {
            input,
            buffer: Vec::new(),
            start: 0,
            offset: 0,
            is_ended: false,
            version: 0,
            sum: 0,
            database: 0,
            stream_database: None,
            expiry_ms: None,
            open: None,
        };
        file.fill(START_SIZE)?;
        let start = &file.buffer[..file.buffer.len().min(START_SIZE)];
        if start.starts_with(b"VALKEY") {
            return Err(file.error(
                "a format that only Valkey 9 and later read: DUMP it with an older version",
            ));
        }
        let digits = start.strip_prefix(MAGIC).filter(|digits| digits.len() == 4);
        let version = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let Some(version) = version else {
            return Err(
                file.error("this is no RDB file: it does not begin with REDIS and a version")
            );
        };
        if !(1..=VERSION_READ_MAX).contains(&version) {
            return Err(file.error(&format!(
                "version {version} of the format is not known: the newest that is read is \
                 {VERSION_READ_MAX} (Redis 7.2, Valkey 8); import from the running server into a pool instead"
            )));
        }
        file.version = version;
        file.consume(START_SIZE);
        Ok(file)
    }

    /// The database that the stream behind a snapshot is in, if its replica has told so: it passes on what it gets
    /// itself, and does not name the database anew.
    pub fn stream_database(&self) -> Option<u64> {
        self.stream_database
    }

    /// How far it is read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record; `None` if there is no more, and the check sum is right.
    ///
    /// # Errors
    /// The file is damaged, or cannot be read.
    pub fn next_record(&mut self) -> Result<Option<RdbRecord>, RdbError> {
        if let Some(open) = self.open.take() {
            return self.next_piece(open).map(Some);
        }
        loop {
            let offset = self.offset;
            match self.next_part()? {
                Part::Record(record) => {
                    if self.open.is_none() {
                        self.expiry_ms = None;
                    }
                    return Ok(Some(record));
                }
                Part::Unsupported(kind, key, what) => {
                    self.skip_unsupported(kind)?;
                    self.expiry_ms = None;
                    return Ok(Some(RdbRecord::Unsupported { database: self.database, key, what }));
                }
                Part::Expiry(time) => self.expiry_ms = time,
                Part::Database(database) => self.database = database,
                Part::StreamDatabase(database) => self.stream_database = Some(database),
                Part::Appended => {
                    return Err(RdbError {
                        offset,
                        reason: WITH_CHANGES_ELSEWHERE.to_string(),
                        is_io: false,
                    });
                }
                Part::Nothing => {}
                Part::End => {
                    self.check_sum()?;
                    return Ok(None);
                }
            }
        }
    }

    /// Refuses what follows a file that was read to its end.
    ///
    /// # Errors
    /// Something does, or it cannot be read.
    pub fn demand_end(&mut self) -> Result<(), RdbError> {
        self.fill(1)?;
        match self.buffer.len() == self.start {
            true => Ok(()),
            false => Err(self.error(GOES_ON)),
        }
    }

    fn next_part(&mut self) -> Result<Part, RdbError> {
        let mut wanted = 1;
        loop {
            self.fill(wanted)?;
            let bytes = &self.buffer[self.start..];
            let mut reader = Reader::new(bytes);
            let part = part(&mut reader, self.database, self.expiry_ms);
            let read = bytes.len() - reader.rest.len();
            match part {
                Some(part) => {
                    self.consume(read);
                    return Ok(part);
                }
                None => {
                    let failed =
                        Failed { read, is_short: reader.is_short, is_over: reader.is_over };
                    let is_long = bytes.len() > WHOLE_SIZE_MAX && reader.is_short;
                    let begun = if is_long || reader.is_over { beginning(bytes) } else { None };
                    if let Some(begun) = begun.filter(|begun| begun.count > 0) {
                        return Ok(Part::Record(self.begin(begun)));
                    }
                    let kind = bytes.first().copied().unwrap_or(END);
                    let what = format!("a record of type {kind}");
                    wanted = self.more_than(&failed, &what)?;
                }
            }
        }
    }

    /// Begins a collection that is read in pieces.
    fn begin(&mut self, begun: Beginning) -> RdbRecord {
        self.consume(begun.size);
        let Beginning { kind, key, count, .. } = begun;
        self.open = Some(Open { kind, key: key.clone(), left: count, count: 0 });
        RdbRecord::Begin { database: self.database, key }
    }

    /// Some members of the collection that is open, or its end.
    fn next_piece(&mut self, mut open: Open) -> Result<RdbRecord, RdbError> {
        let (database, first) = (self.database, open.count);
        if open.left == 0 {
            let (key, expiry_ms) = (open.key, self.expiry_ms.take());
            return Ok(RdbRecord::End { database, key, expiry_ms, count: first });
        }
        let mut wanted = READ_SIZE;
        loop {
            self.fill(wanted)?;
            let bytes = &self.buffer[self.start..];
            let mut reader = Reader::new(bytes);
            let items = reader.items(open.kind, open.left, MEMBERS_SIZE);
            let read = bytes.len() - reader.rest.len();
            if let Some((members, count)) = items.filter(|(members, _)| has_numbers(members)) {
                self.consume(read);
                open.left -= count;
                open.count += members.count();
                let key = open.key.clone();
                self.open = Some(open);
                return Ok(RdbRecord::Members { database, key, first, members });
            }
            let failed = Failed { read, is_short: reader.is_short, is_over: reader.is_over };
            wanted = self.more_than(&failed, "an item of a collection")?;
        }
    }

    /// How many bytes there must be to read again what could not be read, which is called so.
    ///
    /// # Errors
    /// Why there is no use in that.
    fn more_than(&mut self, failed: &Failed, what: &str) -> Result<usize, RdbError> {
        let size = self.buffer.len() - self.start;
        if failed.is_short && !self.is_ended {
            return match size > SIZE_MAX {
                true => Err(self.error(TOO_LARGE)),
                false => Ok((2 * size).max(READ_SIZE)),
            };
        }
        self.offset += failed.read as u64;
        Err(match (failed.is_short, failed.is_over) {
            (true, _) => self.error(CUT_SHORT),
            (_, true) => self.error(TOO_LARGE),
            _ => self.error(&format!("{what} is not as it must be")),
        })
    }

    /// Compares the check sum of all that was read with the one that follows.
    fn check_sum(&mut self) -> Result<(), RdbError> {
        if self.version < VERSION_WITH_SUM {
            return Ok(());
        }
        let sum = self.sum;
        self.fill(8)?;
        let found = self.buffer[self.start..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        match found {
            None => Err(self.error("the file ends before its check sum")),
            // It was switched off where the file was written.
            Some(found) if found == sum || found == 0 => {
                self.consume(8);
                Ok(())
            }
            Some(found) => Err(self.error(&format!(
                "the check sum is wrong: the file says {found:016x}, and its bytes {sum:016x}"
            ))),
        }
    }

    /// Has so many bytes in the buffer, if the file has.
    fn fill(&mut self, wanted: usize) -> Result<(), RdbError> {
        if self.start > 0 && self.buffer.len() - self.start < wanted {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let mut left = wanted.saturating_sub(self.buffer.len() - self.start);
        if left > 0 {
            left = left.max(READ_SIZE);
        }
        while left > 0 && !self.is_ended {
            let read = (&mut self.input).take(left as u64).read_to_end(&mut self.buffer);
            let read = read.map_err(|error: io::Error| {
                let offset = self.offset + (self.buffer.len() - self.start) as u64;
                RdbError { offset, reason: format!("cannot be read: {error}"), is_io: true }
            })?;
            left -= read;
            self.is_ended = read == 0;
        }
        Ok(())
    }

    /// Goes on behind so many bytes.
    fn consume(&mut self, size: usize) {
        self.sum = crc64_from(self.sum, &self.buffer[self.start..self.start + size]);
        self.start += size;
        self.offset += size as u64;
    }

    /// Passes over so many bytes, of which no more are kept at once than are read at once.
    pub(super) fn pass(&mut self, size: u64) -> Result<(), RdbError> {
        let mut left = size;
        while left > 0 {
            self.fill(1)?;
            let there = (self.buffer.len() - self.start) as u64;
            if there == 0 {
                return Err(self.error(CUT_SHORT));
            }
            let passed = there.min(left);
            self.consume(passed as usize);
            left -= passed;
        }
        Ok(())
    }

    /// Passes over as many bytes as there is room for, and copies them there.
    pub(super) fn pass_into(&mut self, bytes: &mut [u8]) -> Result<(), RdbError> {
        self.fill(bytes.len())?;
        let there = self.buffer[self.start..].get(..bytes.len());
        bytes.copy_from_slice(there.ok_or_else(|| self.error(CUT_SHORT))?);
        self.consume(bytes.len());
        Ok(())
    }

    pub(super) fn error(&self, reason: &str) -> RdbError {
        RdbError { offset: self.offset, reason: reason.to_string(), is_io: false }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Value;
    use super::*;

    #[test]
    fn times_before_1970_have_come() {
        let expiry_of = |time: i64| {
            let record = [&b"REDIS0009\xfc"[..], &time.to_le_bytes(), b"\x00\x01k\x01v"].concat();
            match Rdb::open(&record[..]).unwrap().next_record().unwrap() {
                Some(RdbRecord::Key { expiry_ms, .. }) => expiry_ms,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(expiry_of(7), Some(7));
        assert_eq!(expiry_of(i64::MAX), Some(i64::MAX as u64));
        for time in [0, -2, i64::MIN] {
            assert_eq!(expiry_of(time), Some(0), "{time}");
        }
        assert_eq!(expiry_of(-1), None);
        // Of the first versions, in seconds.
        let seconds = b"REDIS0002\xfd\xff\xff\xff\xff\x00\x01k\x01v";
        let record = Rdb::open(&seconds[..]).unwrap().next_record().unwrap();
        assert!(matches!(record, Some(RdbRecord::Key { expiry_ms: Some(0), .. })), "{record:?}");
    }

    /// What was wrong: a file with one was refused as damaged. Redis loads it, and leaves the key away.
    #[test]
    fn a_collection_without_members_is_no_key() {
        let packed = |packed: &[u8]| [&[packed.len() as u8], packed].concat();
        let ziplist = packed(b"\x0b\0\0\0\x0a\0\0\0\0\0\xff");
        let listpack = packed(b"\x07\0\0\0\0\0\xff");
        let nodes = [&b"\x01"[..], &ziplist].concat();
        for (kind, value) in
            [1, 2, 3, 4, 5, 14, 18].map(|kind| (kind, &b"\0"[..])).into_iter().chain([
                (10, &ziplist[..]),
                (12, &ziplist),
                (13, &ziplist),
                (14, &nodes),
                (16, &listpack),
                (17, &listpack),
                (20, &listpack),
            ])
        {
            let head = b"REDIS0009\xfe\x03\xfc\x07\0\0\0\0\0\0\0";
            let (empty, rest) = ([kind, 1, b'h'], b"\0\x01k\x01v\xff\0\0\0\0\0\0\0\0");
            let file = [&head[..], &empty, value, rest].concat();
            let mut records = Rdb::open(&file[..]).unwrap();
            assert_eq!(records.next_record().unwrap(), Some(RdbRecord::Empty), "{kind}");
            let key = RdbRecord::Key {
                database: 3,
                key: b"k".to_vec(),
                expiry_ms: None,
                value: Value::String(b"v".to_vec()),
            };
            assert_eq!(records.next_record().unwrap(), Some(key), "its time went with it");
            assert_eq!(records.next_record().unwrap(), None);
        }
    }

    /// A file of a cluster of Valkey 8 says of each slot how large it is. It was refused as damaged.
    #[test]
    fn what_is_said_of_slots_is_passed_over() {
        let file = b"REDIS0011\xfe\x00\xf4\x40\x64\x01\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
        let mut records = Rdb::open(&file[..]).unwrap();
        let key = RdbRecord::Key {
            database: 0,
            key: b"k".to_vec(),
            expiry_ms: None,
            value: Value::String(b"v".to_vec()),
        };
        assert_eq!(records.next_record().unwrap(), Some(key));
        assert_eq!(records.next_record().unwrap(), None);
    }

    /// What was lost: all that was written since the last rewrite of an append-only file, which begins with a dump or
    /// goes with one: the dump alone was read.
    #[test]
    fn a_dump_with_changes_behind_it_is_no_whole() {
        let mut sound = b"REDIS0009\xfa\x08aof-base\xc0\x00\x00\x01k\x01v\xff".to_vec();
        sound.extend(crc64_from(0, &sound).to_le_bytes());
        let read = |file: &[u8]| -> Result<(), RdbError> {
            let mut records = Rdb::open(file)?;
            while records.next_record()?.is_some() {}
            records.demand_end()
        };
        assert!(read(&sound).is_ok());
        let old = b"REDIS0004\x00\x01k\x01v\xff";
        assert!(read(old).is_ok(), "it has no check sum");
        for file in [&sound[..], &old[..]] {
            let error = read(&[file, b"\n"].concat()).unwrap_err();
            assert_eq!(error.offset, file.len() as u64);
            assert!(error.reason.contains("the file does not"), "{error}");
        }
        for name in [&b"\x08aof-base"[..], b"\x0caof-preamble"] {
            let file = [&b"REDIS0009\xfe\0\xfa"[..], name, b"\xc0\x01\xff", &[0; 8]].concat();
            let error = read(&file).unwrap_err();
            assert_eq!((error.offset, error.reason.contains("append-only")), (11, true), "{error}");
        }
    }

    /// What was lost: a stream or a value of a module of more than 512 MiB, which was to be left away, was refused with
    /// all that the file has.
    #[test]
    fn what_is_left_away_may_be_of_any_size() {
        const SIZE: u64 = 8 << 20;
        let long = |size: u64| [&[0x81][..], &size.to_be_bytes()].concat();
        let zeros = vec![0; SIZE as usize];
        // A module's value of two strings: one as it is, and one that claims to be of 600 MiB when it is decompressed.
        let plain = [&[5][..], &long(SIZE), &zeros].concat();
        let compressed = [&b"\x05\xc3"[..], &long(SIZE), &long(600 << 20), &zeros].concat();
        let end = b"\x00\x00\x01k\x01v\xff";
        let mut file = [&b"REDIS0009\x07\x01m\x2a"[..], &plain, &compressed, &end[..]].concat();
        file.extend(crc64_from(0, &file).to_le_bytes());
        let mut records = Rdb::open(&file[..]).unwrap();
        let (key, what) = (Some(b"m".to_vec()), "a value of a module");
        let left_away = RdbRecord::Unsupported { database: 0, key, what };
        assert_eq!(records.next_record().unwrap(), Some(left_away));
        assert!(records.buffer.capacity() <= 4 * READ_SIZE, "{}", records.buffer.capacity());
        assert!(matches!(records.next_record().unwrap(), Some(RdbRecord::Key { .. })));
        assert_eq!(records.next_record().unwrap(), None, "the sum is that of all bytes");
        let cut = Rdb::open(&file[..file.len() / 2]).unwrap().next_record().unwrap_err();
        assert!(cut.to_string().contains("in the middle of a record"), "{cut}");
        file[13] = 9;
        let strange = Rdb::open(&file[..]).unwrap().next_record().unwrap_err();
        assert!(strange.to_string().contains("not as it must be"), "{strange}");
    }

    /// A set of so many members, of which each is told from the others by its first bytes, and a key behind it.
    fn file_with_set(count: u32, sum: Option<u64>) -> Vec<u8> {
        let mut file = b"REDIS0009\xfc".to_vec();
        file.extend(7_u64.to_le_bytes());
        file.extend(b"\x02\x01s\x80");
        file.extend(count.to_be_bytes());
        for number in 0..count {
            file.extend([&b"\x0c"[..], &number.to_be_bytes(), b"a member"].concat());
        }
        file.extend(b"\x00\x01k\x01v\xff");
        let sum = sum.unwrap_or_else(|| crc64_from(0, &file));
        file.extend(sum.to_le_bytes());
        file
    }

    /// A collection of more than 512 MiB, or of so many short members that they take as much in memory, was refused
    /// with all that the file has.
    #[test]
    fn a_long_collection_is_read_in_pieces() {
        let count = 2 * WHOLE_SIZE_MAX as u32 / 13;
        let file = file_with_set(count, None);
        let mut records = Rdb::open(&file[..]).unwrap();
        let (database, key) = (0, b"s".to_vec());
        let begin = RdbRecord::Begin { database, key: key.clone() };
        assert_eq!(records.next_record().unwrap(), Some(begin));
        let mut seen = 0_u32;
        let end = loop {
            match records.next_record().unwrap().unwrap() {
                RdbRecord::Members { first, members: Value::Set(members), .. } => {
                    assert_eq!(first, u64::from(seen));
                    assert!(members.len() <= 2 * MEMBERS_SIZE / 12);
                    for member in members {
                        assert_eq!(member, [&seen.to_be_bytes()[..], b"a member"].concat());
                        seen += 1;
                    }
                }
                other => break other,
            }
        };
        let total = u64::from(count);
        assert_eq!(end, RdbRecord::End { database, key, expiry_ms: Some(7), count: total });
        let key = b"k".to_vec();
        let value = Value::String(b"v".to_vec());
        let next = RdbRecord::Key { database, key, expiry_ms: None, value };
        assert_eq!(records.next_record().unwrap(), Some(next));
        assert_eq!(records.next_record().unwrap(), None, "the sum is that of all pieces");

        let refused = |file: &[u8]| {
            let mut records = Rdb::open(file).unwrap();
            loop {
                match records.next_record() {
                    Ok(Some(_)) => {}
                    Ok(None) => break String::new(),
                    Err(error) => break error.to_string(),
                }
            }
        };
        assert!(refused(&file_with_set(count, Some(1))).contains("check sum is wrong"));
        let cut = &file[..file.len() / 2 + WHOLE_SIZE_MAX / 4];
        assert!(refused(cut).contains("in the middle of a record"), "{}", refused(cut));
        let mut strange = file;
        strange[10 + 8 + 8 + 13 * (count as usize - 9)] = 0xc5;
        assert!(refused(&strange).contains("an item of a collection"), "{}", refused(&strange));
    }
}
