//! Reading payloads, whatever they hold.

use std::collections::BTreeSet;

use everleaf::VALUE_SIZE_MAX;

use super::check_sum::crc64;
use super::listpack::{entries, integers};
use super::lzf::{decompressed, size_max};
use super::unpacked::{ITEM_OVERHEAD, Unpacked};
use super::ziplist::{ziplist, zipmap};
use super::{Damage, FOOTER_SIZE, VERSION_READ_MAX, Value, kind};
use crate::score;

/// Bytes that all that a payload holds may take, with what each item takes besides itself: the longest value, with its
/// key.
pub const SIZE_MAX: usize = VALUE_SIZE_MAX + (1 << 20);

#[cfg(test)]
thread_local! {
    static READ_COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many payloads this thread has read.
#[cfg(test)]
pub fn read_count() -> usize {
    READ_COUNT.get()
}

/// What a payload holds.
pub fn read(payload: &[u8]) -> Result<Value, Damage> {
    #[cfg(test)]
    READ_COUNT.set(READ_COUNT.get() + 1);
    let body_size = payload.len().checked_sub(FOOTER_SIZE).ok_or(Damage::Footer)?;
    let (body, footer) = payload.split_at(body_size);
    let (version, sum) = footer.split_at(2);
    if u16::from_le_bytes([version[0], version[1]]) > VERSION_READ_MAX
        || crc64(&payload[..body_size + 2]).to_le_bytes() != sum
    {
        return Err(Damage::Footer);
    }
    let (&kind, rest) = body.split_first().ok_or(Damage::Format)?;
    let mut reader = Reader::new(rest);
    let Some(value) = reader.value(kind) else {
        return Err(if reader.is_over { Damage::TooLarge } else { Damage::Format });
    };
    // There, too, what follows the value is not looked at.
    if is_fit(&value) { Ok(value) } else { Err(Damage::Format) }
}

/// Whether a payload is whole, and of a version that is newer than what is read.
pub fn is_newer(payload: &[u8]) -> bool {
    let Some((rest, sum)) = payload.split_last_chunk::<8>() else { return false };
    let Some((_, version)) = rest.split_last_chunk() else { return false };
    u16::from_le_bytes(*version) > VERSION_READ_MAX && crc64(rest).to_le_bytes() == *sum
}

/// Whether a collection has members, and each of them once.
pub(super) fn is_fit(value: &Value) -> bool {
    fn are_different<'a>(members: impl Iterator<Item = &'a Vec<u8>>) -> bool {
        let mut seen = BTreeSet::new();
        let mut members = members.peekable();
        members.peek().is_some() && members.all(|member| seen.insert(member))
    }
    match value {
        Value::String(_) => true,
        Value::List(elements) => !elements.is_empty(),
        Value::Set(members) => are_different(members.iter()),
        Value::Hash(fields) => are_different(fields.iter().map(|(field, _)| field)),
        Value::SortedSet(members) => {
            are_different(members.iter().map(|(member, _)| member)) && has_numbers(value)
        }
    }
}

/// Whether all scores are numbers, if it has some.
pub(super) fn has_numbers(value: &Value) -> bool {
    match value {
        Value::SortedSet(members) => members.iter().all(|(_, score)| !score.is_nan()),
        _ => true,
    }
}

/// Takes a string apart that packs many.
type Unpack = fn(&[u8], &mut Unpacked) -> Option<()>;

/// What is left to be read.
pub(super) struct Reader<'a> {
    pub rest: &'a [u8],
    /// Bytes that may still be taken for it.
    budget: usize,
    /// More bytes were wanted than there are.
    pub is_short: bool,
    /// More was to be kept than may be.
    pub is_over: bool,
}

/// A length, or that an encoding of another kind follows.
pub(super) enum Length {
    Of(u64),
    Special(u8),
}

impl<'a> Reader<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Reader { rest, budget: SIZE_MAX, is_short: false, is_over: false }
    }

    pub fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(size) else {
            self.is_short = true;
            return None;
        };
        self.rest = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// Counts what is kept.
    fn keep(&mut self, value: Vec<u8>) -> Option<Vec<u8>> {
        self.spend(value.len() + ITEM_OVERHEAD)?;
        Some(value)
    }

    fn spend(&mut self, size: usize) -> Option<()> {
        self.is_over |= size > self.budget;
        self.budget = self.budget.checked_sub(size)?;
        Some(())
    }

    pub(super) fn any_length(&mut self) -> Option<Length> {
        let [first] = self.array()?;
        let low = u64::from(first & 0x3f);
        Some(match first >> 6 {
            0 => Length::Of(low),
            1 => Length::Of(low << 8 | u64::from(self.array::<1>()?[0])),
            2 if first == 0x80 => Length::Of(u64::from(u32::from_be_bytes(self.array()?))),
            2 if first == 0x81 => Length::Of(u64::from_be_bytes(self.array()?)),
            2 => return None,
            _ => Length::Special(first & 0x3f),
        })
    }

    pub fn length(&mut self) -> Option<u64> {
        match self.any_length()? {
            Length::Of(length) => Some(length),
            Length::Special(_) => None,
        }
    }

    pub fn string(&mut self) -> Option<Vec<u8>> {
        let value = match self.any_length()? {
            Length::Of(length) => self.take(usize::try_from(length).ok()?)?.to_vec(),
            Length::Special(0) => i8::from_le_bytes(self.array()?).to_string().into_bytes(),
            Length::Special(1) => i16::from_le_bytes(self.array()?).to_string().into_bytes(),
            Length::Special(2) => i32::from_le_bytes(self.array()?).to_string().into_bytes(),
            Length::Special(3) => {
                let compressed_size = usize::try_from(self.length()?).ok()?;
                let size = usize::try_from(self.length()?).ok()?;
                if size > self.budget {
                    // Neither is said of what cannot be as long as it claims, and not that it is too much before all
                    // that it is made of is there.
                    if size <= size_max(compressed_size) {
                        let is_whole = compressed_size <= self.rest.len();
                        (self.is_over, self.is_short) = (is_whole, !is_whole);
                    }
                    return None;
                }
                decompressed(self.take(compressed_size)?, size)?
            }
            Length::Special(_) => return None,
        };
        self.keep(value)
    }

    /// A number as digits behind their count, or one of three that has none.
    fn score_of_digits(&mut self) -> Option<f64> {
        match self.array()? {
            [253] => None,
            [254] => Some(f64::INFINITY),
            [255] => Some(f64::NEG_INFINITY),
            [size] => score::parse(self.take(usize::from(size))?),
        }
    }

    /// Bytes that what was kept takes.
    fn kept(&self) -> usize {
        SIZE_MAX - self.budget
    }

    /// Adds an item of a collection to the members before it.
    fn item(&mut self, kind: u8, members: &mut Value) -> Option<()> {
        match (kind, members) {
            (kind::LIST, Value::List(members)) | (kind::SET, Value::Set(members)) => {
                members.push(self.string()?);
            }
            (kind::HASH, Value::Hash(fields)) => fields.push((self.string()?, self.string()?)),
            (kind::SORTED_SET, Value::SortedSet(members)) => {
                members.push((self.string()?, f64::from_le_bytes(self.array()?)));
            }
            (kind::SORTED_SET_OF_DIGITS, Value::SortedSet(members)) => {
                members.push((self.string()?, self.score_of_digits()?));
            }
            (kind::LIST_OF_ZIPLISTS, Value::List(members)) => members.extend(self.packed(ziplist)?),
            (kind::LIST_OF_LISTPACKS, Value::List(members)) => match self.length()? {
                1 => members.push(self.string().filter(|element| !element.is_empty())?),
                2 => members.extend(self.packed(entries)?),
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }

    /// The next of the items that are left of a collection, until they take so many bytes or what was read ends: their
    /// members, and how many items they were. `None` if not one of them is there, or it is damaged.
    pub fn items(&mut self, kind: u8, left: u64, size_max: usize) -> Option<(Value, u64)> {
        let (mut members, mut count) = (collection_of(kind)?, 0);
        while count < left && self.kept() < size_max {
            let before = self.rest;
            if self.item(kind, &mut members).is_none() {
                if count == 0 {
                    return None;
                }
                // It is looked at again, with more bytes or as the first.
                (self.rest, self.is_short, self.is_over) = (before, false, false);
                break;
            }
            count += 1;
        }
        Some((members, count))
    }

    /// The entries of a string that packs many.
    fn packed(&mut self, unpack: Unpack) -> Option<Vec<Vec<u8>>> {
        self.unpacked(unpack, false).map(|unpacked| unpacked.entries)
    }

    /// Every two of them.
    fn pairs(&mut self, unpack: Unpack) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let unpacked = self.unpacked(unpack, true)?;
        unpacked.entries.is_empty().then_some(unpacked.pairs)
    }

    fn unpacked(&mut self, unpack: Unpack, is_paired: bool) -> Option<Unpacked> {
        let packed = self.string()?;
        // The entries are kept instead of what they were packed in.
        self.budget += packed.len() + ITEM_OVERHEAD;
        let mut unpacked = Unpacked { room: self.budget, is_paired, ..Unpacked::default() };
        let is_read = unpack(&packed, &mut unpacked).is_some();
        (self.budget, self.is_over) = (unpacked.room, self.is_over | unpacked.is_over);
        is_read.then_some(unpacked)
    }

    pub fn value(&mut self, kind: u8) -> Option<Value> {
        if let Some(mut members) = collection_of(kind) {
            for _ in 0..self.length()? {
                self.item(kind, &mut members)?;
            }
            return Some(members);
        }
        Some(match kind {
            kind::STRING => Value::String(self.string()?),
            kind::HASH_ZIPMAP => Value::Hash(self.pairs(zipmap)?),
            kind::HASH_ZIPLIST => Value::Hash(self.pairs(ziplist)?),
            kind::LIST_ZIPLIST => Value::List(self.packed(ziplist)?),
            kind::SORTED_SET_ZIPLIST => scored(self.pairs(ziplist)?)?,
            kind::SET_LISTPACK => Value::Set(self.packed(entries)?),
            kind::INTEGER_SET => Value::Set(self.packed(integers)?),
            kind::HASH_LISTPACK => Value::Hash(self.pairs(entries)?),
            kind::SORTED_SET_LISTPACK => scored(self.pairs(entries)?)?,
            _ => return None,
        })
    }
}

/// An empty collection, if this is the type of one whose items follow their number one by one.
fn collection_of(kind: u8) -> Option<Value> {
    match kind {
        kind::LIST | kind::LIST_OF_ZIPLISTS | kind::LIST_OF_LISTPACKS => {
            Some(Value::List(Vec::new()))
        }
        kind::SET => Some(Value::Set(Vec::new())),
        kind::HASH => Some(Value::Hash(Vec::new())),
        kind::SORTED_SET | kind::SORTED_SET_OF_DIGITS => Some(Value::SortedSet(Vec::new())),
        _ => None,
    }
}

/// A collection at the beginning of a record, if its items follow one by one.
pub(super) struct Beginning {
    pub kind: u8,
    pub key: Vec<u8>,
    /// How many items there are.
    pub count: u64,
    /// Bytes before the first.
    pub size: usize,
}

/// The collection at the beginning of a record, if it is one whose items can be read one by one.
pub(super) fn beginning(record: &[u8]) -> Option<Beginning> {
    let mut reader = Reader::new(record);
    let [kind] = reader.array()?;
    collection_of(kind)?;
    let (key, count) = (reader.string()?, reader.length()?);
    Some(Beginning { kind, key, count, size: record.len() - reader.rest.len() })
}

/// Members with the texts of their scores.
fn scored(pairs: Vec<(Vec<u8>, Vec<u8>)>) -> Option<Value> {
    let scored = |(member, score): (Vec<u8>, Vec<u8>)| Some((member, score::parse(&score)?));
    Some(Value::SortedSet(pairs.into_iter().map(scored).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::super::{VERSION, Writer};
    use super::*;
    use crate::types::Kind;

    #[test]
    fn what_is_written_is_read() {
        for size in [0, 1, 63, 64, 16_383, 16_384, 70_000] {
            let value = vec![b'x'; size];
            assert_eq!(read(&Writer::string(&value).finish()), Ok(Value::String(value)));
        }
        let mut writer = Writer::collection(Kind::SortedSet, 2);
        for (member, score) in [(&b"a"[..], -1.5), (b"b", f64::INFINITY)] {
            writer.push(member);
            writer.push_score(score);
        }
        let expected = vec![(b"a".to_vec(), -1.5), (b"b".to_vec(), f64::INFINITY)];
        assert_eq!(read(&writer.finish()), Ok(Value::SortedSet(expected)));
    }

    /// As Redis 7.0 writes them.
    #[test]
    fn payloads_of_the_original_server_are_read() {
        let sum = |body: &[u8]| [body, &crc64(body).to_le_bytes()].concat();
        let payload = sum(b"\x00\xc0\x7b\x0a\x00");
        assert_eq!(read(&payload), Ok(Value::String(b"123".to_vec())));
        let payload = sum(b"\x12\x01\x02\x0b\x0b\0\0\0\x02\0\x01\x01\x02\x01\xff\x0a\x00");
        assert_eq!(read(&payload), Ok(Value::List(vec![b"1".to_vec(), b"2".to_vec()])));
    }

    /// What was held for a payload of many short items: twice what they were counted as, and for a hash more.
    #[test]
    fn short_items_count_as_what_they_take() {
        let six = [&b"\x13\0\0\0\x06\0"[..], &b"\x05\x01".repeat(6), b"\xff"].concat();
        let body = [&[six.len() as u8][..], &six].concat();
        for kind in [kind::SET_LISTPACK, kind::HASH_LISTPACK, kind::SORTED_SET_LISTPACK] {
            let read = |budget| {
                let mut reader = Reader { budget, ..Reader::new(&body) };
                (reader.value(kind).is_some(), reader.is_over)
            };
            // The least that memory is given in.
            let size = 6 * (size_of::<Vec<u8>>() + 32);
            assert_eq!(read(size), (false, true), "type {kind}");
            assert_eq!(read(6 * (1 + ITEM_OVERHEAD)), (true, false), "type {kind}");
        }
        // One without another.
        let odd = b"\x09\0\0\0\x01\0\x05\x01\xff";
        let body = [&[9][..], odd].concat();
        assert_eq!(Reader::new(&body).value(kind::HASH_LISTPACK), None);
        assert!(Reader::new(&body).value(kind::SET_LISTPACK).is_some());
    }

    /// A long list comes in many nodes, of which each is unpacked and then gone.
    #[test]
    fn a_long_list_may_be_packed() {
        const NODE_COUNT: usize = 32;
        let mut entries = Vec::new();
        for _ in 0..16 {
            let element = [&b"\xf0\x00\x00\x01\x00"[..], &[b'x'; 1 << 16]].concat();
            // The size of an entry once more, seven bits at a time, the highest first.
            entries.extend([&element[..], b"\x04\x80\x85"].concat());
        }
        let node =
            [&(7 + entries.len() as u32).to_le_bytes()[..], b"\x10\0", &entries, b"\xff"].concat();
        let mut body = vec![NODE_COUNT as u8];
        for _ in 0..NODE_COUNT {
            body.extend([&b"\x02\x80"[..], &(node.len() as u32).to_be_bytes(), &node].concat());
        }
        match Reader::new(&body).value(kind::LIST_OF_LISTPACKS) {
            Some(Value::List(elements)) => assert_eq!(elements.len(), 16 * NODE_COUNT),
            other => panic!("{} bytes are read as {}", body.len(), other.is_some()),
        }
    }

    /// An element of a packed list may be as long as any: what was refused as if it were many short ones. Many short
    /// ones are refused when they are too many, and not before.
    #[test]
    fn what_is_packed_counts_as_what_it_holds() {
        const SIZE: usize = 2 << 20;
        let ziplist = |count: u16, entries: &[u8]| {
            let size = (11 + entries.len() as u32).to_le_bytes();
            let list = [&size[..], &[0; 4], &count.to_le_bytes(), entries, b"\xff"].concat();
            [&b"\x80"[..], &(list.len() as u32).to_be_bytes(), &list].concat()
        };
        let element = [&b"\x00\x80"[..], &(SIZE as u32).to_be_bytes(), &vec![b'x'; SIZE]].concat();
        for (kind, count) in [(kind::LIST_ZIPLIST, None), (kind::LIST_OF_ZIPLISTS, Some(1))] {
            let body: Vec<u8> = count.into_iter().chain(ziplist(1, &element)).collect();
            match (Reader { budget: 2 * SIZE, ..Reader::new(&body) }).value(kind) {
                Some(Value::List(elements)) => {
                    assert_eq!(elements.iter().map(Vec::len).collect::<Vec<_>>(), [SIZE]);
                }
                other => panic!("one element is read as {}", other.is_some()),
            }
        }
        let many = ziplist(u16::MAX, &b"\x00\xf1".repeat(SIZE / 2));
        let mut reader = Reader { budget: 2 * SIZE, ..Reader::new(&many) };
        assert!(reader.value(kind::LIST_ZIPLIST).is_none() && reader.is_over);
    }

    #[test]
    fn a_newer_payload_is_told_from_a_damaged_one() {
        let payload_of = |version: u16| {
            let body = [&b"\x00\x01v"[..], &version.to_le_bytes()].concat();
            [&body[..], &crc64(&body).to_le_bytes()].concat()
        };
        assert!(!is_newer(&payload_of(VERSION_READ_MAX)));
        let newer = payload_of(VERSION_READ_MAX + 1);
        assert!(is_newer(&newer));
        for index in 0..newer.len() {
            let mut damaged = newer.clone();
            damaged[index] ^= 1;
            assert!(!is_newer(&damaged) && !is_newer(&newer[..index]), "{index}");
        }
    }

    /// What was refused: a long collection in a file, whose part that was read ended inside of the item that was too
    /// much.
    #[test]
    fn too_much_that_is_not_there_yet_is_short() {
        // It says that ten bytes hold 200.
        let whole = [&b"\xc3\x0a\x40\xc8"[..], &[0; 10]].concat();
        for (size, is_whole) in [(whole.len(), true), (whole.len() - 1, false), (4, false)] {
            let mut reader = Reader { budget: 100, ..Reader::new(&whole[..size]) };
            assert_eq!(reader.string(), None);
            assert_eq!((reader.is_over, reader.is_short), (is_whole, !is_whole), "{size}");
        }
        // Two bytes cannot.
        let mut reader = Reader { budget: 100, ..Reader::new(b"\xc3\x02\x7f\xff\x00\x00") };
        assert_eq!(reader.string(), None);
        assert!(!reader.is_over && !reader.is_short);
    }

    #[test]
    fn every_damage_is_found() {
        let mut writer = Writer::collection(Kind::Hash, 1);
        writer.push(b"field");
        writer.push(b"value");
        let payload = writer.finish();
        for index in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[index] ^= 1;
            assert_eq!(read(&damaged), Err(Damage::Footer), "{index}");
            assert_eq!(read(&payload[..index]), Err(Damage::Footer), "{index}");
        }
    }

    /// With a check sum that fits, the rest may be anything: nothing of it may panic, or take much memory.
    #[test]
    fn forged_payloads_are_refused_or_read() {
        let bodies: [&[u8]; 7] = [
            b"\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x02\x02\x01a\x01a",
            b"\x04\x01\x01a",
            b"\x00\xc3\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x00a",
            b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8\x7f",
            b"\x01\x00",
            b"\x63",
        ];
        for body in bodies {
            let body = [body, &VERSION.to_le_bytes()].concat();
            let payload = [&body[..], &crc64(&body).to_le_bytes()].concat();
            assert_eq!(read(&payload), Err(Damage::Format), "{}", body.escape_ascii());
        }
        let mut state = 7u64;
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..24 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bytes.push((state >> 33) as u8);
            }
            bytes[0] %= 20;
            bytes.extend_from_slice(&VERSION.to_le_bytes());
            let sum = crc64(&bytes);
            let payload = [&bytes[..], &sum.to_le_bytes()].concat();
            assert_ne!(read(&payload), Err(Damage::Footer));
        }
    }
}
