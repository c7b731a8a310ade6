//! Frees what is left of collections that are gone: removed, replaced, or expired.
//!
//! Each collection has noted its key in the map of the members. A command that removes the key of a
//! collection does nothing else; a thread goes round these notes, and where the key no more holds the collection of
//! that number, it removes the members, a few at a time, and the note last. A process that dies in
//! between leaves the note, and the next one goes on.
//!
//! A note is written in one batch with the header, and no batch adds members to a collection whose header
//! is gone (the header is its condition), so what is gone stays so.
//!
//! A renamed collection has its header under another key, and a note that says so; one that is moved to another
//! database has its note there, too. So a key without the
//! header may mean no more than that the note was read too early: it is read again, and then the key, while
//! the key is watched. If it was not written in between, note and key were so at one moment.
//!
//! What has expired still has its header, in the pool until the sweep comes by, and in the log behind that. It is
//! removed durably before the first member is: a clock that is set back, or a rebuild by an earlier one, must not bring
//! back a collection without its members.

use std::ops::{Bound, ControlFlow};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use everleaf::behind_damage::first_readable;
use everleaf::{Error, Map, Store, WriteBatch};
use rustix::time::{ClockId, clock_gettime};

use super::header::Header;
use super::list::LACKING;
use super::notes::{TRIMMED, live_key, live_number, trimmed_key};
use super::ready::Ready;
use super::runs::{self, EntryKey, Side};
use super::state::Types;
use crate::command::walk::{Bounds, PageSize, page_of, walk};
use crate::databases::{Databases, MapNumber};

/// Keys of members that are removed without a break.
const KEYS: PageSize = PageSize { pairs: 512, bytes: usize::MAX, value_bytes: 0 };
/// Notes that are looked at without a break.
const NOTES: PageSize = PageSize { value_bytes: usize::MAX, ..KEYS };
/// So often in a row a list that is being changed is tried again; then it waits for the next round.
const REFUSED_COUNT_MAX: u32 = 100;
/// Between two rounds, at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two rounds while nothing is asked.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The thread's clock and end.
#[derive(Debug, Default)]
pub struct Collector {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Collector {
    /// Goes round until it is stopped: while `activity` goes up or there is much to free, and otherwise seldom, for
    /// what expires.
    pub fn run(
        &self,
        types: &Types,
        databases: &Databases,
        store: &Store,
        activity: impl Fn() -> u64,
    ) {
        // What is removed of one page waits for the disk once.
        store.defer_sync();
        let (mut seen, mut silence, mut pause) = (None, Duration::ZERO, PAUSE);
        let mut last = Work::default();
        loop {
            let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.changed.wait_timeout_while(stopped, pause, |stopped| !*stopped);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
            silence += pause;
            let now = Some(activity());
            let is_silent = now == seen && silence < SILENCE_MAX && !last.was_much();
            if types.ready().is_none() || is_silent {
                continue;
            }
            (seen, silence) = (now, Duration::ZERO);
            types.write_owed_mark(store);
            let start = processor_time();
            let (mut all, mut damage) = (databases.existing(), Damage::default());
            last = Work::default();
            let done = all
                .try_for_each(|place| {
                    damage.keep(self.round(types, databases, place, store, &mut last))
                })
                .and_then(|()| self.trim_lists(types, databases, store))
                .and_then(|()| damage.end());
            if let Err(error) = done {
                tracing::warn!("what is left of removed collections cannot be freed now: {error}");
            }
            pause = last.pause_behind(start);
        }
    }

    /// Ends it soon.
    pub fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at every collection of a database once, and frees those that are gone.
    fn round(
        &self,
        types: &Types,
        databases: &Databases,
        place: MapNumber,
        store: &Store,
        work: &mut Work,
    ) -> everleaf::Result<()> {
        let Some(ready) = types.ready() else { return Ok(()) };
        let keys = Keys { types, map: databases.map(place), place };
        self.each_note(&ready.members, live_number(place), store, |id, key| {
            work.looked += 1;
            work.freed += u64::from(self.free_if_gone(ready, &keys, &key, id, store)?);
            Ok(())
        })
    }

    /// Shows the notes under a number, each with the number of its collection. Goes on behind those that are damaged,
    /// and where the function meets damage. What was removed for a page of them waits for the disk together; and the
    /// processor is left to others behind a page, not behind each collection: most are small, and where threads wait
    /// for a processor, that would be all that is done in a time slice.
    fn each_note(
        &self,
        members: &Map,
        number: u64,
        store: &Store,
        mut see: impl FnMut(u64, Vec<u8>) -> everleaf::Result<()>,
    ) -> everleaf::Result<()> {
        let mut damage = Damage::default();
        let mut bounds = Bounds::of_prefix(&number.to_be_bytes());
        while !self.is_stopped() {
            let (notes, walked) = page_of(members, &mut bounds, NOTES);
            let (are_none, is_over) = (notes.is_empty(), walked.is_ok());
            for (note, key) in notes {
                let id = note.get(8..16).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
                if let Some(id) = id {
                    damage.keep(see(id, key))?;
                }
            }
            store.wait_deferred()?;
            std::thread::yield_now();
            // Also if notes were seen before it: with its key damaged it may not be met again from there on.
            damage.keep(walked)?;
            match (are_none, is_over) {
                (false, _) => {}
                (true, true) => break,
                (true, false) => {
                    let Some(next) = behind_damage(members, &bounds)? else { break };
                    bounds.start = Bound::Included(next);
                }
            }
        }
        damage.end()
    }

    /// Frees a collection if it is gone, and returns whether it was; `key` is where its note has said that it is.
    fn free_if_gone(
        &self,
        ready: &Ready,
        keys: &Keys<'_>,
        key: &[u8],
        id: u64,
        store: &Store,
    ) -> everleaf::Result<bool> {
        if keys.holds(key, id)? {
            return Ok(false);
        }
        // Before the key is looked at again: a header that is seen then has come back, and stays. Of another key, to
        // which it was renamed since, this removes nothing that anybody can see.
        let _is_absent = keys.map.remove_expired(key)?;
        let is_gone = keys.is_gone(id)?;
        if is_gone {
            self.free(&ready.members, keys.place, id, store)?;
        }
        Ok(is_gone)
    }

    /// Frees what lists have outside of their bounds.
    fn trim_lists(
        &self,
        types: &Types,
        databases: &Databases,
        store: &Store,
    ) -> everleaf::Result<()> {
        let Some(ready) = types.ready() else { return Ok(()) };
        self.each_note(&ready.members, TRIMMED, store, |id, what| match what == LACKING {
            // What is outside may be what it lacks: it stays, until the list goes as a whole.
            true => Ok(()),
            false => self.trim(ready, databases, id, store),
        })
    }

    /// Removes the elements of a list outside of its bounds, then the note that says so: a page at a time, each
    /// of them if the list is as it was, so that an element that was pushed there meanwhile stays.
    fn trim(
        &self,
        ready: &Ready,
        databases: &Databases,
        id: u64,
        store: &Store,
    ) -> everleaf::Result<()> {
        let Ready { members, .. } = ready;
        let mut refused_count = 0;
        while !self.is_stopped() && refused_count < REFUSED_COUNT_MAX {
            let note = trimmed_key(id);
            // Elements may have been missing since the note was read: then those outside stay.
            if members.get(note)?.is_none_or(|what| what == LACKING) {
                return Ok(());
            }
            let Some((place, key)) = noted(ready, databases, id)? else { return Ok(()) };
            let map = databases.map(place);
            // What is seen of members while a batch is written may not stay.
            let rollback_count = store.rollback_count();
            // As it is: an older one may have another value for the same header.
            let see = |value: &[u8], expiry| {
                ready.header(value).map(|header| (header, value.to_vec(), expiry))
            };
            let found = map.get_with_expiry(&key, see)?.flatten();
            let Some((header, value, expiry)) = found.filter(|(header, ..)| header.id == id) else {
                // Without its header it is freed as a whole.
                return Ok(());
            };
            let Some(outside) = outside(members, &header)? else { return Ok(()) };
            let mut batch = WriteBatch::new();
            batch.expect_no_rollback(rollback_count);
            batch.expect_with_expiry(map, &key, value, expiry);
            batch.expect(members, note, Some(b""));
            for key in &outside {
                batch.remove(members, key);
            }
            if outside.is_empty() {
                batch.remove(members, note);
            }
            let is_done = store.write(&batch)?.is_done();
            store.wait_deferred()?;
            match is_done {
                true if outside.is_empty() => return Ok(()),
                true => refused_count = 0,
                // The list was changed meanwhile.
                false => refused_count += 1,
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Removes the members of a collection, then its note. The log has them in this order, so the note is never gone
    /// without them.
    fn free(
        &self,
        members: &Map,
        place: MapNumber,
        id: u64,
        store: &Store,
    ) -> everleaf::Result<()> {
        let Bounds { end, .. } = Bounds::of_prefix(&id.to_be_bytes());
        let bounds = Bounds { start: Bound::Included(id.to_be_bytes().to_vec()), end };
        loop {
            if self.is_stopped() {
                return Ok(());
            }
            // From the start each time: until nothing is there.
            let (keys, walked) = page_of(members, &mut bounds.clone(), KEYS);
            walked?;
            if keys.is_empty() {
                members.remove(trimmed_key(id))?;
                members.remove(live_key(place, id))?;
                return Ok(());
            }
            let is_whole_page = keys.len() == KEYS.pairs;
            for (key, _) in keys {
                members.remove(&key)?;
            }
            if is_whole_page {
                store.wait_deferred()?;
                std::thread::yield_now();
            }
        }
    }
}

/// Where the notes inside bounds can be read on, of which the first is damaged.
fn behind_damage(members: &Map, bounds: &Bounds) -> everleaf::Result<Option<Vec<u8>>> {
    let behind = match &bounds.start {
        Bound::Included(key) | Bound::Excluded(key) => key.as_slice(),
        Bound::Unbounded => b"",
    };
    first_readable(behind, |key| {
        let rest = Bounds { start: Bound::Included(key.to_vec()), end: bounds.end.clone() };
        match walk(members, &rest, false, |_, _| ControlFlow::Break(())) {
            Err(Error::Corrupt(_)) => Ok(false),
            read => read.map(|()| true),
        }
    })
}

/// The first damage that a round has met. It goes on behind it: one collection that is damaged must not keep all that
/// come after it from being freed, round after round.
#[derive(Default)]
struct Damage(Option<Error>);

impl Damage {
    /// Keeps damage for the end; whatever else failed ends the round.
    fn keep(&mut self, result: everleaf::Result<()>) -> everleaf::Result<()> {
        match result {
            Err(error @ Error::Corrupt(_)) => {
                self.0.get_or_insert(error);
                Ok(())
            }
            result => result,
        }
    }

    fn end(self) -> everleaf::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

/// How long this thread has had a processor.
fn processor_time() -> Duration {
    // Neither part is negative: the thread's clock began with it.
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What a round has done.
#[derive(Debug, Default)]
struct Work {
    /// Collections that were looked at.
    looked: u64,
    /// Those of them that were gone, and were freed.
    freed: u64,
}

impl Work {
    /// Whether there was so much to free that more has come meanwhile: then the next round begins at once, or clients
    /// that make and remove collections would fill the pool with what is left of them.
    fn was_much(&self) -> bool {
        self.freed >= KEYS.pairs as u64 && self.freed >= self.looked / 2
    }

    /// The pause behind the round, which began at a [`processor_time`]: a twentieth of one processor at most is spent
    /// on looking at what is not to be freed. How long a round took by the clock says nothing of what it cost: on a
    /// busy machine most of it is waiting for a processor or the disk, and space would be freed the later the busier
    /// it is.
    fn pause_behind(&self, start: Duration) -> Duration {
        if self.was_much() {
            return Duration::ZERO;
        }
        let kept = self.looked.saturating_sub(self.freed) as f64 / self.looked.max(1) as f64;
        let looking = processor_time().saturating_sub(start).mul_f64(if self.looked == 0 {
            1.0
        } else {
            kept
        });
        PAUSE.max(looking * 20).min(SILENCE_MAX)
    }
}

/// Where a collection has noted its key: in which database, and which key.
fn noted(
    ready: &Ready,
    databases: &Databases,
    id: u64,
) -> everleaf::Result<Option<(MapNumber, Vec<u8>)>> {
    for place in databases.existing() {
        if let Some(key) = ready.members.get(live_key(place, id))? {
            return Ok(Some((place, key)));
        }
    }
    Ok(None)
}

/// The keys of a place.
struct Keys<'a> {
    types: &'a Types,
    map: &'a Map,
    place: MapNumber,
}

impl Keys<'_> {
    /// Whether a key holds the header of a collection.
    fn holds(&self, key: &[u8], id: u64) -> everleaf::Result<bool> {
        let header = self.map.get_with(key, |value| self.types.header(value))?.flatten();
        Ok(header.is_some_and(|header| header.id == id))
    }

    /// Whether a collection is gone, and not only renamed or moved.
    fn is_gone(&self, id: u64) -> everleaf::Result<bool> {
        self.is_gone_after(id, || ())
    }

    /// The same, where something is done between the looks at note and key.
    fn is_gone_after(&self, id: u64, meanwhile: impl FnOnce()) -> everleaf::Result<bool> {
        let Some(ready) = self.types.ready() else { return Ok(false) };
        let note = live_key(self.place, id);
        let Some(key) = ready.members.get(note)? else { return Ok(false) };
        // A collection that came and went between the two readings of note and key has written the key.
        let watch = self.map.watch(&key)?;
        let is_noted = ready.members.get(note)?.is_some_and(|again| again == key);
        meanwhile();
        Ok(is_noted && !self.holds(&key, id)? && !watch.is_broken())
    }
}

/// Some keys of elements that a list has outside of its bounds, all of them if they are few. `None` if its first entry
/// is missing, which may be one of them.
fn outside(members: &Map, list: &Header) -> everleaf::Result<Option<Vec<Vec<u8>>>> {
    let key_of = |index: u64| [list.id.to_be_bytes(), index.to_be_bytes()].concat();
    let Some(first) = first_key(members, list)? else { return Ok(None) };
    let behind = key_of(list.extra.wrapping_add(list.count));
    let all = Bounds::of_prefix(&list.id.to_be_bytes());
    let mut before = Bounds { start: all.start, end: Bound::Excluded(first) };
    let mut after = Bounds { start: Bound::Included(behind), end: all.end };
    let (mut keys, walked) = page_of(members, &mut before, KEYS);
    walked?;
    if keys.len() < KEYS.pairs {
        let rest = PageSize { pairs: KEYS.pairs - keys.len(), ..KEYS };
        let (more, walked) = page_of(members, &mut after, rest);
        walked?;
        keys.extend(more);
    }
    Ok(Some(keys.into_iter().map(|(key, _)| key).collect()))
}

/// The key of the first entry of a list, or what is not behind it: that one may begin before the bounds.
pub(super) fn first_key(members: &Map, list: &Header) -> everleaf::Result<Option<Vec<u8>>> {
    if !list.reaches[Side::Left as usize] {
        return Ok(Some(EntryKey::before(list.id, list.extra).to_vec()));
    }
    let start = Bound::Included(EntryKey::before(list.id, runs::begin_of(list)).to_vec());
    let end = Bound::Included(EntryKey::behind(list.id, list.extra).to_vec());
    let mut found = None;
    walk(members, &Bounds { start, end }, true, |key, value| {
        found = is_inside(list, key, value).then(|| key.to_vec());
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Whether an entry of a list has elements inside of its bounds.
fn is_inside(list: &Header, key: &[u8], value: &[u8]) -> bool {
    runs::ListEntry::of_key(key).is_some_and(|place| {
        let len = runs::spans(value, place.is_run).count();
        !runs::inside(list, place, len).is_empty()
    })
}

#[cfg(test)]
mod tests;
