//! A transaction that is being made: what it has read, and what it will write. What it holds beside the commands is
//! limited. A short value that was read is kept, and becomes a condition; of a long one only a watch is kept, and it is
//! read where it lies. A transaction that runs alone keeps nothing of what it reads. What is to be written counts until
//! the batch is done; beyond the limit the transaction fails as a whole.
//!
//! All of it is judged by one time (`moment.rs`): what has not expired at its first look at a key that expires is there
//! to the end of it.

pub mod ahead;
mod append;
mod changes;
mod condition;
mod current;
mod each;
mod exchanges;
mod expiries;
mod fill;
mod gaps;
mod key_count;
mod key_difference;
mod known_orders;
mod list_end;
mod list_ends;
mod looked_up;
mod moment;
mod orders;
mod rollback;
mod walks;

use std::collections::{BTreeMap, BTreeSet};

use everleaf::{Action, Error, Expiry, KEY_SIZE_MAX, Statistics, Store, Watch, human_size};

use self::ahead::Ahead;
use self::current::Current;
use self::gaps::Gaps;
use self::key_difference::KeyCount;
use self::known_orders::Orders;
use self::list_end::ListEnd;
use self::looked_up::LookedUp;
use self::moment::Moment;
use super::limits::BATCH_SIZE_MAX;
use super::source::Source;
use super::staged_members::StagedMembers;
use super::staged_value::{ENTRY_OVERHEAD, NewExpiry, Value, Written, note_write};
use super::undo::{Before, UndoLog};
use crate::databases::{Database, Databases, MapNumber};
use crate::failure::{Failure, Result};
use crate::short_bytes::ShortBytes;
use crate::types::{HEADER_SIZE, Header, Kind, MARK_SIZE, Ready, Types};

/// What makes of a key, and when it expires, what is to be done with it.
pub type Decide<'a> = dyn FnMut(Option<(&[u8], Expiry)>) -> Action + 'a;

/// Of a value up to this size a copy is the condition, of a longer one a watch.
const COPY_SIZE_MAX: usize = 1 << 10;
/// Bytes that a watch takes besides the key, which it holds three times.
const WATCH_OVERHEAD: usize = 300;

/// A transaction that is being made, and where it reads what it has not written.
pub struct Staged<'a> {
    pub stage: &'a mut Stage,
    pub source: &'a mut (dyn Source + 'a),
    pub types: &'a Types,
    pub databases: &'a Databases,
    /// Where the database lies whose keys are meant.
    pub place: MapNumber,
}

/// What a transaction depends on, of a key that it has read.
enum Seen {
    /// The key is as it was: absent, or with a short value.
    Same(Option<Value>),
    /// The key was not written since.
    Unwritten(Watch),
}

/// What a transaction has read and written of one database.
#[derive(Default)]
struct Part {
    place: MapNumber,
    /// What was read while others write.
    read: BTreeMap<Vec<u8>, Seen>,
    /// What is to be written; `None` removes the key.
    written: Written,
    /// The keys of which only the expiry changes; of none of them anything is to be written.
    expiries: BTreeMap<Vec<u8>, NewExpiry>,
    /// How many more keys there are than in the store, if that was asked for.
    key_count: Option<KeyCount>,
    /// Where no keys are.
    gaps: Gaps,
    /// If all that the store has is to be removed, or written.
    cleared: Option<Cleared>,
}

/// A database that was emptied.
struct Cleared {
    /// The number of the mark before the command that did it.
    mark: u64,
    /// The keys that were put since; some may be removed again.
    put: BTreeSet<Vec<u8>>,
}

/// What a transaction has read and written so far.
#[derive(Default)]
pub struct Stage {
    /// One for each database that it touched: nearly always one.
    parts: Vec<Part>,
    /// What is to be written of the members of collections, which never expire.
    members: StagedMembers,
    /// Where no members are.
    member_gaps: Gaps,
    /// What is known of the orders of sorted sets that change.
    orders: Orders,
    /// The ends of lists that change.
    ends: Vec<ListEnd>,
    /// Those that were open at the last mark, as they were.
    ends_before: Vec<ListEnd>,
    /// What was drawn ahead.
    pub ahead: Ahead,
    /// Members that were looked up before they are asked for.
    pub looked_up: LookedUp,
    /// The collection that was changed last.
    current: Option<Current>,
    /// Whether something was rolled back: what is kept between steps may not be taken for what is here then.
    was_rolled_back: bool,
    /// The time by which all of it is judged.
    moment: Moment,
    /// Where databases lie once it is done, if it exchanges some, and which they are.
    places: Option<Vec<MapNumber>>,
    exchanged: BTreeSet<Database>,
    /// For `INFO`: taken before, because a stage that is alone must not ask the store.
    pub statistics: Option<Statistics>,
    /// The keys that were given what has the size of a header, in this order.
    made: Vec<(MapNumber, Vec<u8>)>,
    /// How often something was written.
    change_count: u64,
    /// Bytes that all of it takes.
    size: usize,
    size_max: usize,
    /// Of these, what was read; it stays when a command is rolled back.
    read_size: usize,
    /// How often a mark was set.
    mark_count: u64,
    /// What was written since the last mark replaced, if there is one.
    undo: Option<UndoLog>,
    /// How many batches had been rolled back before the first read, if others write meanwhile.
    rollback_count: Option<u64>,
}

impl Stage {
    /// A stage that may hold so many bytes.
    pub fn new(size_max: usize) -> Self {
        Stage { size_max, ..Stage::default() }
    }

    /// The same, while others write.
    pub fn beside_others(size_max: usize, store: &Store) -> Self {
        Stage { rollback_count: Some(store.rollback_count()), ..Stage::new(size_max) }
    }

    /// Makes room for what many commands write.
    pub fn expect_many(&mut self) {
        self.members.expect_many();
    }

    /// The time by which all of it is judged, in milliseconds since 1970-01-01 UTC.
    pub fn now_ms(&self) -> u64 {
        self.moment.ms()
    }

    fn part(&self, place: MapNumber) -> Option<&Part> {
        self.parts.iter().find(|part| part.place == place)
    }

    fn part_mut(&mut self, place: MapNumber) -> &mut Part {
        let index = self.part_index(place);
        &mut self.parts[index]
    }

    fn part_index(&mut self, place: MapNumber) -> usize {
        let index = self.parts.iter().position(|part| part.place == place);
        index.unwrap_or_else(|| {
            self.parts.push(Part { place, ..Part::default() });
            self.parts.len() - 1
        })
    }

    /// What is to be written of a key, if anything is.
    fn written(&self, place: MapNumber, key: &[u8]) -> Option<&Option<Value>> {
        self.part(place)?.written.get(key)
    }

    fn written_mut(&mut self, place: MapNumber, key: &[u8]) -> Option<&mut Option<Value>> {
        self.part_mut(place).written.get_mut(key)
    }

    /// What is depended on of a key, if it was read while others write.
    fn seen(&self, place: MapNumber, key: &[u8]) -> Option<&Seen> {
        self.part(place)?.read.get(key)
    }

    /// Where a database lies for what comes next.
    pub fn place(&self, databases: &Databases, database: Database) -> MapNumber {
        match &self.places {
            Some(places) => places[database],
            None => databases.place(database),
        }
    }

    /// The keys that may have been made collections that clients wait for, in the order in which they were.
    pub fn made(&self) -> &[(MapNumber, Vec<u8>)] {
        &self.made
    }

    /// Begins with keys that were made before.
    pub fn note_made(&mut self, keys: &[(MapNumber, Vec<u8>)]) {
        self.made.extend_from_slice(keys);
    }

    /// How often something was written.
    pub fn change_count(&self) -> u64 {
        self.change_count
    }

    /// Bytes that all of it takes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether it holds more than it may.
    pub fn is_over(&self) -> bool {
        // What is replaced has the same limit apart, so that what fits without it fits; and so have gaps.
        let undo_size = self.undo.as_ref().map_or(0, UndoLog::size);
        let is_full = |gaps: &Gaps| gaps.size() > self.size_max;
        self.size > self.size_max
            || undo_size > self.size_max
            || is_full(&self.member_gaps)
            || self.parts.iter().any(|part| is_full(&part.gaps))
    }

    /// How many elements or members a step can remove, at most.
    pub fn removal_count_max(&self) -> usize {
        self.size_max / ENTRY_OVERHEAD
    }

    /// Says that it is over.
    pub fn failure(&self) -> Failure {
        let remedy = match self.size_max < BATCH_SIZE_MAX {
            true => ", or raise --client-memory",
            false => {
                "; a value of nearly that size can be set and got, but not renamed, moved or copied"
            }
        };
        Failure::text(format!(
            "OOM what a command or transaction reads and writes in one step, {ENTRY_OVERHEAD} bytes for \
             each key and member included, takes more than {}: use several{remedy}",
            human_size(self.size_max as u64)
        ))
    }

    fn check(&self) -> Result<()> {
        if self.is_over() { Err(self.failure()) } else { Ok(()) }
    }

    /// Sets what is to be written of a key.
    pub fn write(&mut self, place: MapNumber, key: &[u8], value: Option<Value>) -> Result<()> {
        self.write_current();
        check_key(key)?;
        if may_be_waited_for(&value) && !self.written(place, key).is_some_and(may_be_waited_for) {
            self.size += key.len() + ENTRY_OVERHEAD;
            self.made.push((place, key.to_vec()));
        }
        self.change_count += 1;
        self.forget_expiry(place, key);
        self.note_count(place, key, &value);
        let mut size = self.size;
        let part = self.part_mut(place);
        if value.is_some() {
            part.gaps.open(key);
            if let Some(cleared) = &mut part.cleared {
                cleared.put.insert(key.to_vec());
            }
        }
        let old = note_write(&mut part.written, &mut size, key, value);
        self.size = size;
        if let Some(undo) = &mut self.undo {
            undo.note_key(place, key, Before::Written(old));
        }
        self.check()
    }

    /// Sets the header of a collection.
    pub fn write_header(
        &mut self,
        place: MapNumber,
        key: &[u8],
        header: &Header,
        ready: &Ready,
        expiry: Expiry,
    ) -> Result<()> {
        let can_be_current = self.undo.is_none() && expiry == Expiry::Never;
        if can_be_current && self.change_current(place, key, header) {
            self.change_count += 1;
            return self.check();
        }
        self.write(place, key, Some((ready.encode(header).to_vec(), expiry)))?;
        if can_be_current {
            self.set_current(place, key, header);
        }
        Ok(())
    }

    /// Sets what is to be written of a member of a collection.
    pub fn write_member(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_key(key)?;
        self.change_count += 1;
        self.set_member(key, value);
        self.check()
    }

    fn set_member(&mut self, key: &[u8], value: Option<&[u8]>) {
        if let Some(undo) = &mut self.undo {
            let before = self.members.get(key).map(|value| value.map(ShortBytes::from));
            undo.note_member(ShortBytes::from(key), before);
        }
        self.size += value.map_or(0, <[u8]>::len);
        if value.is_some() {
            self.member_gaps.open(key);
        }
        match self.members.set(key, Some(value)) {
            Some(old_size) => self.size -= old_size,
            None => self.size += key.len() + ENTRY_OVERHEAD,
        }
    }
}

/// Whether a value may be a collection of a kind that clients wait for.
fn may_be_waited_for(value: &Option<Value>) -> bool {
    let Some((value, _)) = value else { return false };
    value.len() == HEADER_SIZE && Kind::of(value[MARK_SIZE]).is_some_and(Kind::is_waited_for)
}

/// Refuses what the store would refuse: then only the command fails, and not the whole batch.
fn check_key(key: &[u8]) -> Result<()> {
    match key.len() > KEY_SIZE_MAX {
        true => Err(Error::KeyTooLarge(key.len()).into()),
        false => Ok(()),
    }
}

impl Staged<'_> {
    /// Shows what a key is to the transaction, if it is there.
    pub fn see<R>(
        &mut self,
        key: &[u8],
        see: impl FnOnce(&[u8], Expiry) -> R,
    ) -> Result<Option<R>> {
        self.stage.write_current();
        if let Some(value) = self.stage.written(self.place, key) {
            let live = value.as_ref().filter(|value| self.stage.moment.is_live(value));
            return Ok(live.map(|(value, expiry)| see(value, *expiry)));
        }
        if self.source.has_others() && self.stage.seen(self.place, key).is_none() {
            self.note(key)?;
        }
        if let Some(Seen::Same(value)) = self.stage.seen(self.place, key) {
            return Ok(value.as_ref().map(|(value, expiry)| see(value, *expiry)));
        }
        let (mut see, mut result) = (Some(see), None);
        let changed = self.stage.new_expiry(self.place, key);
        let moment = &self.stage.moment;
        self.source.read(self.databases.map(self.place), key, &mut |value, expiry| {
            let expiry = changed.map_or(expiry, |changed| changed.new);
            if moment.is_before(expiry) {
                result = see.take().map(|see| see(value, expiry));
            }
        })?;
        Ok(result)
    }

    /// Makes the transaction depend on a key.
    fn note(&mut self, key: &[u8]) -> Result<()> {
        let mut seen = Some(Seen::Same(None));
        let mut size = key.len() + ENTRY_OVERHEAD;
        let moment = &self.stage.moment;
        self.source.read(self.databases.map(self.place), key, &mut |value, expiry| {
            if !moment.is_before(expiry) {
                return;
            }
            let is_short = value.len() <= COPY_SIZE_MAX;
            seen = is_short.then(|| Seen::Same(Some((value.to_vec(), expiry))));
            size += if is_short { value.len() } else { 0 };
        })?;
        if seen.is_none() {
            size += 3 * key.len() + WATCH_OVERHEAD;
            seen = self.source.watch(self.databases.map(self.place), key)?.map(Seen::Unwritten);
        }
        if let Some(seen) = seen {
            self.stage.size += size;
            self.stage.read_size += size;
            self.stage.part_mut(self.place).read.insert(key.to_vec(), seen);
        }
        self.stage.check()
    }

    /// The kind of collection that a key holds, if it does.
    pub fn kind(&mut self, key: &[u8]) -> Result<Option<Kind>> {
        let types = self.types;
        let kind = self.see(key, |value, _| types.header(value).map(|header| header.kind))?;
        Ok(kind.flatten())
    }

    /// Whether a key is there.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.see(key, |_, _| ())?.is_some())
    }

    /// A copy of a value and its time.
    fn copy(&mut self, key: &[u8]) -> Result<Option<Value>> {
        self.see(key, |value, expiry| (value.to_vec(), expiry))
    }

    /// Sets a string that never expires.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.types.check_string(value)?;
        self.stage.write(self.place, key, Some((value.to_vec(), Expiry::Never)))
    }

    /// Removes a key. Returns whether it was there. One whose time has come is not, and does not count any more.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let present = self.contains(key)?;
        let written = self.stage.written(self.place, key).map(Option::is_some);
        if written == Some(true) || present || self.stage.new_expiry(self.place, key).is_some() {
            self.stage.write(self.place, key, None)?;
        } else if written.is_none() {
            self.source.purge(self.databases.map(self.place), key)?;
        }
        Ok(present)
    }

    pub fn update_with(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let (mut old_expiry, mut is_long) = (None, false);
        let decided = self.see(key, |value, expiry| {
            old_expiry = Some(expiry);
            is_long = value.len() > COPY_SIZE_MAX;
            decide(Some((value, expiry)))
        })?;
        let decided = decided.unwrap_or_else(|| decide(None));
        if let Action::Put(string) | Action::PutWithExpiry(string, _) = &decided {
            self.types.check_string(string)?;
        }
        let new = match decided {
            Action::Keep => return Ok(()),
            Action::Expire(_) | Action::Remove if old_expiry.is_none() => return Ok(()),
            Action::Put(value) => Some((value, old_expiry.unwrap_or(Expiry::Never))),
            Action::PutWithExpiry(value, expiry) => Some((value, expiry)),
            Action::Expire(new) => {
                if let Some(Some(_)) = self.stage.written(self.place, key) {
                    self.stage.note_count_at(self.place, key, new);
                }
                if let Some(Some((_, expiry))) = self.stage.written_mut(self.place, key) {
                    let old = std::mem::replace(expiry, new);
                    self.stage.change_count += 1;
                    if let Some(undo) = &mut self.stage.undo {
                        undo.note_key(self.place, key, Before::Time(old));
                    }
                    return Ok(());
                }
                if let (true, Some(seen)) = (is_long, old_expiry) {
                    return self.stage.write_expiry(self.place, key, seen, new);
                }
                self.copy(key)?.map(|(value, _)| (value, new))
            }
            Action::Remove => None,
        };
        self.stage.write(self.place, key, new)
    }

    /// Where a database lies.
    pub fn place_of(&self, database: Database) -> MapNumber {
        self.stage.place(self.databases, database)
    }

    /// Does something in another database.
    pub fn within<R>(&mut self, place: MapNumber, act: impl FnOnce(&mut Self) -> R) -> R {
        let before = std::mem::replace(&mut self.place, place);
        let result = act(self);
        self.place = before;
        result
    }
}
