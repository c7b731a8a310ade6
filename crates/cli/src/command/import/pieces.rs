//! Collections that are too large for `DUMP`, read some members at a time.
//!
//! A scan may show a member twice and, if it comes or goes meanwhile, not at all; so the number of members is told
//! at the end, and a comparison finds a difference if another is there.

use super::item::Item;
use super::kind::Kind;
use super::live::Live;
use super::refusal::{refused, shown};
use crate::failure::Failure;
use crate::redis::client::Reply;
use everleaf_server::transfer::Extent;

/// Bytes that are asked for at once, about, and members at most.
const PAGE_SIZE: usize = 4 << 20;
const MEMBER_COUNT_MAX: usize = 10_000;
/// Members that are asked for first, when nobody knows how large they are.
const MEMBER_COUNT_FIRST: usize = 16;

impl Live {
    /// Shows a collection in pieces: its beginning, its members, and how many it has.
    pub(super) fn pieces(
        &mut self,
        database: u64,
        key: &[u8],
        kind: Kind,
        see: &mut dyn FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        see(Item::Begin { database, key: key.to_vec(), offset: None })?;
        let (mut cursor, mut first, mut wanted) = (b"0".to_vec(), 0_u64, MEMBER_COUNT_FIRST);
        loop {
            let (next, items) = if kind.is_list() {
                let (start, last) = (first.to_string(), (first + wanted as u64 - 1).to_string());
                let reply = self.must(&[b"LRANGE", key, start.as_bytes(), last.as_bytes()])?;
                (None, texts_of(reply))
            } else {
                let count = wanted.to_string();
                let scan = [kind.scan.as_bytes(), key, &cursor, b"COUNT", count.as_bytes()];
                match self.must(&scan)? {
                    Reply::Array(parts) => match <[Reply; 2]>::try_from(parts) {
                        Ok([Reply::Text(next), items]) => (Some(next), texts_of(items)),
                        _ => (None, None),
                    },
                    _ => (None, None),
                }
            };
            let items = items.ok_or_else(|| self.strange(kind.scan))?;
            let (count, size) = (items.len(), items.iter().map(Vec::len).sum::<usize>());
            if kind.is_hash() {
                self.demand_fields_that_stay(database, key, &items)?;
            }
            let members = kind.value_of(items).ok_or_else(|| self.strange(kind.scan))?;
            if count > 0 {
                see(Item::Members { database, key: key.to_vec(), first, members })?;
            }
            first += count as u64;
            let is_last = match next {
                Some(next) => {
                    cursor = next;
                    cursor == b"0"
                }
                None => count < wanted,
            };
            if is_last {
                break;
            }
            if count > 0 {
                wanted = (PAGE_SIZE * count / size.max(1)).clamp(1, MEMBER_COUNT_MAX);
            }
        }
        let expiry_ms = self.expiry_of(key)?;
        let count = match self.must(&[kind.length.as_bytes(), key])? {
            Reply::Number(count) => u64::try_from(count).unwrap_or(0),
            _ => return Err(self.strange(kind.length)),
        };
        let extent = Extent { count, expiry_ms };
        let slack_ms = self.slack_ms;
        see(Item::End { database, key: key.to_vec(), extent, slack_ms, is_exact: false })
    }
}

impl Live {
    /// Refuses a hash of which fields expire: there is nothing like it here. What it has is given as fields and values
    /// in turn.
    fn demand_fields_that_stay(
        &mut self,
        database: u64,
        key: &[u8],
        items: &[Vec<u8>],
    ) -> Result<(), Failure> {
        if !self.may_know_field_times || items.is_empty() {
            return Ok(());
        }
        let count = items.len().div_ceil(2).to_string();
        let mut request = vec![&b"HPEXPIRETIME"[..], key, b"FIELDS", count.as_bytes()];
        request.extend(items.iter().step_by(2).map(Vec::as_slice));
        match self.ask(&request)? {
            Reply::Error(error) if error.starts_with("ERR unknown command") => {
                self.may_know_field_times = false;
                Ok(())
            }
            Reply::Array(times) if times.iter().any(|time| matches!(time, Reply::Number(0..))) => {
                let why = "holds a hash whose fields expire, which Everleaf does not have";
                Err(refused(format!("{} {why}", shown(database, key))))
            }
            // It went meanwhile, or none of them does.
            Reply::Array(_) | Reply::Null => Ok(()),
            Reply::Error(error) => Err(self.refusal("HPEXPIRETIME", &error)),
            _ => Err(self.strange("HPEXPIRETIME")),
        }
    }
}

fn texts_of(reply: Reply) -> Option<Vec<Vec<u8>>> {
    let Reply::Array(items) = reply else { return None };
    let text_of = |item| match item {
        Reply::Text(text) => Some(text),
        _ => None,
    };
    items.into_iter().map(text_of).collect()
}
