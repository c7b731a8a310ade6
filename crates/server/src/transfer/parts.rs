//! What keys hold, shown a part at a time, so that a collection may have any size; and compared.

use std::ops::{Bound, ControlFlow};

use everleaf::Expiry;

use super::chunks::has;
use super::{Entry, Keyspace, text_of};
use crate::command::stage::Staged;
use crate::failure::{Failure, Result};
use crate::rdb::Value;
use crate::types::Kind;
use crate::types::collection::Collection;

/// Members, and bytes of them, that are shown at once.
const MEMBER_COUNT: u64 = 256;
const MEMBERS_SIZE: usize = 1 << 20;

/// A part of what a key holds, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// A string: all of it.
    String(&'a [u8]),
    /// A collection begins.
    Begin,
    /// Some of its members, those of a list in their order.
    Members(&'a Value),
    /// Nothing more follows; when the key expires, in milliseconds since 1970-01-01 UTC.
    End(Option<u64>),
}

fn moment_of(expiry: Expiry) -> Option<u64> {
    (expiry != Expiry::Never).then(|| expiry.as_unix_ms())
}

impl Keyspace<'_> {
    /// Shows all keys of a database, in order, until the function fails.
    ///
    /// # Errors
    /// The store cannot be read: in words; and what the function fails with.
    pub fn each<E: From<String>>(
        &mut self,
        database: u64,
        mut see: impl FnMut(&[u8], Part<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut behind = None;
        loop {
            let keys = self.keys_after(database, behind.as_deref())?;
            if keys.is_empty() {
                return Ok(());
            }
            for key in &keys {
                self.show(database, key, &mut |part| see(key, part))?;
            }
            behind = keys.into_iter().next_back();
        }
    }

    /// Shows what a key holds, if it is there.
    fn show<E: From<String>>(
        &mut self,
        database: u64,
        key: &[u8],
        see: &mut dyn FnMut(Part<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(place) = self.existing(database) else { return Ok(()) };
        let mut failed = None;
        let mut keep = |part: Part<'_>| match see(part) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        };
        let shown = self.staged(place, |staged| show(staged, key, &mut keep));
        self.forget_read();
        match failed {
            Some(error) => Err(error),
            None => Ok(shown.map_err(|failure| text_of(&failure))?),
        }
    }

    /// When a key expires, in milliseconds since 1970-01-01 UTC, if it is there and does.
    ///
    /// # Errors
    /// The store cannot be read: in words.
    pub fn expiry(
        &mut self,
        database: u64,
        key: &[u8],
    ) -> std::result::Result<Option<u64>, String> {
        let Some(place) = self.existing(database) else { return Ok(None) };
        let seen = self.staged(place, |staged| staged.see(key, |_, expiry| moment_of(expiry)));
        self.forget_read();
        Ok(seen.map_err(|failure| text_of(&failure))?.flatten())
    }

    /// Whether a key is as an entry says, with each of its members once.
    ///
    /// # Errors
    /// The store cannot be read: in words.
    pub fn holds(
        &mut self,
        database: u64,
        key: &[u8],
        entry: &Entry,
    ) -> std::result::Result<bool, String> {
        let Some(place) = self.existing(database) else { return Ok(false) };
        let held = self.staged(place, |staged| holds(staged, key, entry));
        self.forget_read();
        held.map_err(|failure| text_of(&failure))
    }
}

fn holds(staged: &mut Staged<'_>, key: &[u8], entry: &Entry) -> Result<bool> {
    let types = staged.types;
    let seen = staged.see(key, |value, expiry| {
        let header = types.header(value);
        let is_like = match (&entry.value, header) {
            (Value::String(text), None) => text == value,
            (Value::String(_), Some(_)) | (_, None) => false,
            (members, Some(header)) => {
                header.kind == kind_of(members) && header.count == members.count()
            }
        };
        is_like && moment_of(expiry) == entry.expiry_ms
    })?;
    match (seen, &entry.value) {
        (Some(true), Value::String(_)) => Ok(true),
        (Some(true), members) => has(staged, key, 0, members),
        _ => Ok(false),
    }
}

fn kind_of(members: &Value) -> Kind {
    match members {
        Value::String(_) | Value::List(_) => Kind::List,
        Value::Set(_) => Kind::Set,
        Value::Hash(_) => Kind::Hash,
        Value::SortedSet(_) => Kind::SortedSet,
    }
}

type See<'s> = dyn FnMut(Part<'_>) -> ControlFlow<()> + 's;

fn show(staged: &mut Staged<'_>, key: &[u8], see: &mut See<'_>) -> Result<()> {
    let types = staged.types;
    let seen = staged.see(key, |value, expiry| match types.header(value) {
        Some(header) => (ControlFlow::Continue(()), Some(header.kind), expiry),
        None => (see(Part::String(value)), None, expiry),
    })?;
    let Some((mut flow, kind, expiry)) = seen else { return Ok(()) };
    if let Some(kind) = kind {
        flow = show_collection(staged, key, kind, see)?;
    }
    if flow.is_continue() {
        // What it answers to the last part stops nothing any more.
        let _ = see(Part::End(moment_of(expiry)));
    }
    Ok(())
}

/// The members that are shown next.
struct Gathered<'s, 'f> {
    members: Value,
    size: usize,
    /// How many were taken.
    count: u64,
    see: &'s mut See<'f>,
    flow: ControlFlow<()>,
}

impl Gathered<'_, '_> {
    /// Takes a member, of so many bytes, and shows what there is if that is enough.
    fn take(&mut self, size: usize, add: impl FnOnce(&mut Value)) -> ControlFlow<()> {
        add(&mut self.members);
        self.size += size;
        self.count += 1;
        if self.members.count() == MEMBER_COUNT || self.size > MEMBERS_SIZE {
            self.show();
        }
        self.flow
    }

    fn show(&mut self) {
        if self.flow.is_continue() && self.members.count() > 0 {
            self.flow = (self.see)(Part::Members(&self.members));
        }
        self.size = 0;
        match &mut self.members {
            Value::String(_) => {}
            Value::List(members) | Value::Set(members) => members.clear(),
            Value::Hash(fields) => fields.clear(),
            Value::SortedSet(members) => members.clear(),
        }
    }
}

fn show_collection(
    staged: &mut Staged<'_>,
    key: &[u8],
    kind: Kind,
    see: &mut See<'_>,
) -> Result<ControlFlow<()>> {
    let Some(mut collection) = Collection::find(staged, key, kind)? else {
        return Ok(ControlFlow::Continue(()));
    };
    let flow = see(Part::Begin);
    let members = match kind {
        Kind::List => Value::List(Vec::new()),
        Kind::Set => Value::Set(Vec::new()),
        Kind::Hash => Value::Hash(Vec::new()),
        Kind::SortedSet => Value::SortedSet(Vec::new()),
    };
    let mut gathered = Gathered { members, size: 0, count: 0, see, flow };
    let counted = collection.header.count;
    if flow.is_break() {
        return Ok(flow);
    }
    match kind {
        Kind::List => {
            let last = collection.header.count.saturating_sub(1);
            collection.walk_elements(0, last, false, |_, element| {
                gathered.take(element.len(), |members| {
                    if let Value::List(elements) = members {
                        elements.push(element.to_vec());
                    }
                })
            })?;
        }
        Kind::SortedSet => {
            let all = (Bound::Unbounded, Bound::Unbounded);
            collection.walk_order(&all, true, |member, score| {
                gathered.take(member.len(), |members| {
                    if let Value::SortedSet(members) = members {
                        members.push((member.to_vec(), score));
                    }
                })
            })?;
        }
        Kind::Set | Kind::Hash => collection.walk(|member, value| {
            gathered.take(member.len() + value.len(), |members| match members {
                Value::Set(members) => members.push(member.to_vec()),
                Value::Hash(fields) => fields.push((member.to_vec(), value.to_vec())),
                Value::String(_) | Value::List(_) | Value::SortedSet(_) => {}
            })
        })?,
    }
    gathered.show();
    if gathered.flow.is_continue() && gathered.count != counted {
        return Err(Failure::text(format!(
            "the {} \"{}\" counts {counted} members and has {}: everleaf check names what is wrong",
            kind.name(),
            key.escape_ascii(),
            gathered.count
        )));
    }
    Ok(gathered.flow)
}
