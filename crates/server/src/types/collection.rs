//! One collection as a command sees it: on the stage of a transaction.
//!
//! A command of a collection is always run on a stage, alone or with others between `MULTI` and `EXEC`.
//! What makes it one step is the header: every change writes it, and whatever is read of the members
//! depends on it, so that no other key is a condition of the batch.

use std::ops::{Bound, ControlFlow};

use everleaf::{Error, Expiry};

use super::cursor::Cursors;
use super::header::{Header, Kind};
use super::notes::live_key;
use super::places::ORDER;
use super::ready::Ready;
use crate::command::stage::Staged;
use crate::command::walk::Bounds;
use crate::failure::{Failure, Result};
use crate::short_bytes::ShortBytes;

/// Where in the order of places a member of a hash, set or sorted set lies.
pub struct MemberPlace {
    /// The hash of the member.
    pub hash: u64,
    /// The key of its entry.
    pub key: ShortBytes,
}

/// A collection on a stage.
pub struct Collection<'s, 'a> {
    pub(super) staged: &'s mut Staged<'a>,
    pub(super) ready: &'a Ready,
    key: &'s [u8],
    expiry: Expiry,
    pub header: Header,
    is_new: bool,
}

impl<'s, 'a> Collection<'s, 'a> {
    /// The collection of a key, if there is one.
    pub fn find(staged: &'s mut Staged<'a>, key: &'s [u8], kind: Kind) -> Result<Option<Self>> {
        let types = staged.types;
        if let Some(header) = staged.stage.current_header(staged.place, key) {
            return Self::of_current(staged, key, kind, header).map(Some);
        }
        let found = staged.see(key, |value, expiry| (types.header(value), expiry))?;
        let Some((header, expiry)) = found else { return Ok(None) };
        match (header, types.ready()) {
            (Some(header), Some(ready)) if header.kind == kind => {
                Ok(Some(Collection { staged, ready, key, expiry, header, is_new: false }))
            }
            _ => Err(Failure::WrongType),
        }
    }

    /// The collection of a key, or a new one that is empty.
    pub fn open(staged: &'s mut Staged<'a>, key: &'s [u8], kind: Kind) -> Result<Self> {
        let types = staged.types;
        if let Some(header) = staged.stage.current_header(staged.place, key) {
            return Self::of_current(staged, key, kind, header);
        }
        let found = staged.see(key, |value, expiry| (types.header(value), expiry))?;
        let ready = types.ready().ok_or(Failure::WrongType)?;
        match found {
            None => {
                let header = Header::of_new(kind, ready.new_id());
                let expiry = Expiry::Never;
                Ok(Collection { staged, ready, key, expiry, header, is_new: true })
            }
            Some((Some(header), expiry)) if header.kind == kind => {
                Ok(Collection { staged, ready, key, expiry, header, is_new: false })
            }
            Some(_) => Err(Failure::WrongType),
        }
    }

    /// The collection that was changed last.
    fn of_current(
        staged: &'s mut Staged<'a>,
        key: &'s [u8],
        kind: Kind,
        header: Header,
    ) -> Result<Self> {
        match staged.types.ready() {
            Some(ready) if header.kind == kind => {
                Ok(Collection { staged, ready, key, expiry: Expiry::Never, header, is_new: false })
            }
            _ => Err(Failure::WrongType),
        }
    }

    /// A new collection in place of whatever the key held.
    pub fn replace(staged: &'s mut Staged<'a>, key: &'s [u8], kind: Kind) -> Result<Self> {
        let ready = staged.types.ready().ok_or(Failure::WrongType)?;
        // Whether it was there is what the transaction depends on.
        staged.contains(key)?;
        let header = Header::of_new(kind, ready.new_id());
        Ok(Collection { staged, ready, key, expiry: Expiry::Never, header, is_new: true })
    }

    /// A collection of one of some kinds, if there is one.
    pub fn find_any(
        staged: &'s mut Staged<'a>,
        key: &'s [u8],
        kinds: &[Kind],
    ) -> Result<Option<Self>> {
        let types = staged.types;
        let kind = staged.see(key, |value, _| types.header(value).map(|header| header.kind))?;
        match kind {
            None => Ok(None),
            Some(Some(kind)) if kinds.contains(&kind) => Self::find(staged, key, kind),
            Some(_) => Err(Failure::WrongType),
        }
    }

    /// The place of a hash value: those of a sorted set leave the upper half to its order.
    pub fn place(&self, hash: u64) -> u64 {
        if self.header.kind == Kind::SortedSet { hash >> 1 } else { hash }
    }

    /// What cursors of scans are made with.
    pub fn cursors(&self) -> &'a Cursors {
        &self.ready.cursors
    }

    /// Where a member lies.
    pub fn place_of(&self, member: &[u8]) -> MemberPlace {
        let hash = self.ready.hash_of(member);
        let (id, place) = (self.header.id.to_be_bytes(), self.place(hash).to_be_bytes());
        MemberPlace { hash, key: ShortBytes::of_parts([&id, &place, member]) }
    }

    /// Looks members up that the next commands ask for, in their order.
    pub fn look_up<'m>(&mut self, members: impl Iterator<Item = &'m [u8]>) -> Result<()> {
        let mut keys = self.staged.stage.looked_up.begin();
        keys.extend(members.map(|member| self.place_of(member).key));
        self.staged.look_up(self.ready, keys)
    }

    /// Shows what a member has, if it is there.
    pub fn see<R>(&mut self, member: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let place = self.place_of(member);
        self.staged.see_member(self.ready, &place.key, see)
    }

    /// Whether a member is there.
    pub fn contains(&mut self, member: &[u8]) -> Result<bool> {
        Ok(self.see(member, |_| ())?.is_some())
    }

    /// Sets what a member has, which nothing is written for if it has it. Returns whether it is new.
    pub fn set(&mut self, member: &[u8], value: &[u8]) -> Result<bool> {
        // Nothing is there of a collection that is new and empty.
        let is_empty = self.is_new && self.header.count == 0;
        let place = self.place_of(member);
        let is_same = match is_empty {
            true => None,
            false => self.staged.see_member(self.ready, &place.key, |old| old == value)?,
        };
        // One that has it already need not be written: a client that watches the key is told by the header.
        if is_same != Some(true) {
            self.set_at(&place, value, is_same.is_some())?;
        }
        Ok(is_same.is_none())
    }

    /// Sets what a member has, of which it is known whether it is there.
    pub(super) fn set_at(
        &mut self,
        place: &MemberPlace,
        value: &[u8],
        is_there: bool,
    ) -> Result<()> {
        // It checks the size of the key.
        self.staged.stage.write_member(&place.key, Some(value))?;
        self.header.count += u64::from(!is_there);
        Ok(())
    }

    /// Adds a member unless it is there. Returns whether it was added.
    pub fn add(&mut self, member: &[u8]) -> Result<bool> {
        let is_empty = self.is_new && self.header.count == 0;
        let place = self.place_of(member);
        if !is_empty && self.staged.see_member(self.ready, &place.key, |_| ())?.is_some() {
            return Ok(false);
        }
        self.set_at(&place, b"", false)?;
        Ok(true)
    }

    /// Removes a member. Returns whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> Result<bool> {
        let place = self.place_of(member);
        let is_there = self.staged.see_member(self.ready, &place.key, |_| ())?.is_some();
        if is_there {
            self.remove_at(&place)?;
        }
        Ok(is_there)
    }

    /// Removes a member that is known to be there.
    pub fn remove_known(&mut self, member: &[u8]) -> Result<()> {
        let place = self.place_of(member);
        self.remove_at(&place)
    }

    /// Removes a member of a set that is drawn: of a large one in the order of the places from a drawn place on, of a
    /// small one in any order. `draw` finds so many of them, the first ones first.
    pub fn pop_drawn(
        &mut self,
        draw: impl Fn(&mut Self, usize) -> Result<Vec<Vec<u8>>>,
    ) -> Result<Option<Vec<u8>>> {
        let id = self.header.id;
        while let Some(drawn) = self.staged.stage.ahead.next_drawn(id) {
            let place = self.place_of(&drawn);
            // It may have been removed since it was drawn.
            if !self.staged.is_removed(&place.key) {
                self.remove_at(&place)?;
                return Ok(Some(drawn));
            }
        }
        let count = self.staged.stage.ahead.count_to_draw(id);
        let mut members = draw(self, count)?;
        members.reverse();
        let Some(drawn) = members.pop() else { return Ok(None) };
        self.staged.stage.ahead.keep_drawn(members);
        self.remove_known(&drawn)?;
        Ok(Some(drawn))
    }

    /// Removes a member that is known to be there.
    pub(super) fn remove_at(&mut self, place: &MemberPlace) -> Result<()> {
        self.staged.stage.write_member(&place.key, None)?;
        // What is read while others write need not fit the count; then it is read again.
        self.header.count = self.header.count.saturating_sub(1);
        Ok(())
    }

    /// Visits the members from a place in their order on: the place, the member, and what it has.
    pub fn walk_ordered(
        &mut self,
        start: u64,
        mut visit: impl FnMut(u64, &[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let bounds = self.members_from(start);
        self.staged.walk_members(self.ready, &bounds, false, &mut |key, value| {
            let place = key.get(8..16).and_then(|place| place.try_into().ok());
            visit(place.map_or(0, u64::from_be_bytes), member_of(key), value)
        })
    }

    /// Visits the members from a place on for those who look at no values: they are not read.
    pub fn pass_from(
        &mut self,
        start: u64,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let bounds = self.members_from(start);
        self.staged.pass_members(self.ready, &bounds, &mut |key, _| visit(member_of(key)))
    }

    /// Where the members from a place on lie.
    fn members_from(&self, start: u64) -> Bounds {
        let id = self.header.id.to_be_bytes();
        let start = [id, start.to_be_bytes()].concat();
        let end = if self.header.kind == Kind::SortedSet {
            Bound::Excluded([&id[..], &[ORDER]].concat())
        } else {
            Bounds::of_prefix(&id).end
        };
        Bounds { start: Bound::Included(start), end }
    }

    /// The same without the place.
    pub fn walk_from(
        &mut self,
        start: u64,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.walk_ordered(start, |_, member, value| visit(member, value))
    }

    /// Visits all members, and what they have.
    pub fn walk(&mut self, visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        self.walk_from(0, visit)
    }

    /// Removes all members at once: they are freed later.
    pub fn clear(self) -> Result<()> {
        self.staged.stage.forget_separators(self.header.id);
        self.staged.stage.write(self.staged.place, self.key, None)
    }

    /// Ends a change: the header is written, or goes if nothing is left.
    pub fn finish(mut self) -> Result<()> {
        self.header.changes += 1;
        if self.header.count == 0 {
            return self.finish_empty();
        }
        let (place, stage) = (self.staged.place, &mut self.staged.stage);
        if self.is_new {
            stage.write_member(&live_key(place, self.header.id), Some(self.key))?;
        }
        if self.header.kind == Kind::SortedSet {
            stage.note_changes(self.header.id, self.header.changes);
        }
        stage.write_header(place, self.key, &self.header, self.ready, self.expiry)
    }

    /// Whether there is anything under its number.
    fn has_rest(&mut self) -> Result<bool> {
        let mut has_some = false;
        let all = Bounds::of_prefix(&self.header.id.to_be_bytes());
        let walked = self.staged.walk_members(self.ready, &all, false, &mut |_, _| {
            has_some = true;
            ControlFlow::Break(())
        });
        match walked {
            Err(Failure::Store(Error::Corrupt(_))) => Ok(true),
            walked => walked.map(|()| has_some),
        }
    }

    /// Ends a change that leaves nothing.
    fn finish_empty(mut self) -> Result<()> {
        self.staged.stage.forget_separators(self.header.id);
        self.remove_starts()?;
        // With the note the collector frees what is left: elements that were trimmed, and of a damaged collection what
        // its header has not counted.
        let is_bare = match self.header.kind {
            Kind::Hash | Kind::Set | Kind::SortedSet => true,
            Kind::List => !self.is_trimmed()?,
        } && (self.is_new || !self.has_rest()?);
        let place = self.staged.place;
        let live = live_key(place, self.header.id);
        let stage = &mut self.staged.stage;
        if is_bare {
            stage.write_member(&live, None)?;
        } else if self.is_new {
            stage.write_member(&live, Some(self.key))?;
        }
        match self.is_new {
            true => Ok(()),
            false => stage.write(place, self.key, None),
        }
    }
}

/// The member, of the key of its entry.
fn member_of(key: &[u8]) -> &[u8] {
    key.get(16..).unwrap_or(b"")
}
