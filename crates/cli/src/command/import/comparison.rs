//! Whether a pool has what a source shows, key by key.

use super::clock::may_have_expired;
use super::item::Item;
use super::refusal::shown;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::progress::Progress;
use everleaf_server::transfer::Keyspace;

/// Keys between two updates of the progress bar.
const PROGRESS_STEP: u64 = 512;
/// Keys that are named if they differ.
pub(super) const NAMED_COUNT_MAX: usize = 5;

/// What was compared so far.
pub(in crate::command) struct Comparison {
    /// Keys that the source showed.
    pub compared: u64,
    /// Those of them that are not the same here.
    pub different: u64,
    named: Vec<String>,
    /// Of a collection that comes in pieces: whether those so far are the same.
    is_same_so_far: bool,
    progress: Progress,
}

impl Comparison {
    /// Nothing yet.
    pub fn new(progress: Progress) -> Self {
        Self { compared: 0, different: 0, named: Vec::new(), is_same_so_far: true, progress }
    }

    /// The names of the first keys that differ.
    pub fn named(&self) -> String {
        self.named.join(", ")
    }

    /// Compares what a source shows next.
    pub fn take(&mut self, keyspace: &mut Keyspace<'_>, item: Item) -> Result<(), Failure> {
        match item {
            Item::Key { database, key, mut entry, slack_ms, .. } => {
                let expiry_ms = &mut entry.expiry_ms;
                *expiry_ms = within_slack(keyspace, database, &key, *expiry_ms, slack_ms)?;
                // The clock last: what went before it was read has expired by it, too.
                let is_same = keyspace.holds(database, &key, &entry).map_err(unreadable)?;
                let is_same = is_same || may_have_expired(entry.expiry_ms, slack_ms);
                self.judge(database, &key, is_same);
            }
            Item::Unsupported { database, key: Some(key), .. } => {
                let found = keyspace.contains(database, &key);
                let found = found.map_err(|error| unreadable(error.to_string()))?;
                self.judge(database, &key, !found);
            }
            Item::Unsupported { key: None, .. } | Item::Empty => {}
            Item::Begin { .. } => self.is_same_so_far = true,
            Item::Members { database, key, first, members } => {
                let found = keyspace.has_chunk(database, &key, first, &members);
                self.is_same_so_far &= found.map_err(unreadable)?;
            }
            Item::End { database, key, mut extent, slack_ms, .. } => {
                let found = keyspace.extent(database, &key).map_err(unreadable)?;
                // Then it goes here, too, behind the comparison.
                let is_gone = extent.count == 0;
                extent.expiry_ms =
                    within_slack(keyspace, database, &key, extent.expiry_ms, slack_ms)?;
                let is_same = is_gone || self.is_same_so_far && found == Some(extent);
                let is_same = is_same || may_have_expired(extent.expiry_ms, slack_ms);
                self.judge(database, &key, is_same);
            }
        }
        Ok(())
    }

    /// Counts a key that is not the same, or is.
    pub fn judge(&mut self, database: u64, key: &[u8], is_same: bool) {
        self.compared += 1;
        if !is_same {
            self.different += 1;
            if self.named.len() < NAMED_COUNT_MAX {
                self.named.push(shown(database, key));
            }
        }
        if self.compared.is_multiple_of(PROGRESS_STEP) {
            self.progress.set(self.compared);
        }
    }
}

/// The time of a key at the source, which may be off by so much: what it is here, if that may be it.
fn within_slack(
    keyspace: &mut Keyspace<'_>,
    database: u64,
    key: &[u8],
    expiry_ms: Option<u64>,
    slack_ms: u64,
) -> Result<Option<u64>, Failure> {
    let Some(there) = expiry_ms.filter(|_| slack_ms > 0) else { return Ok(expiry_ms) };
    let here = keyspace.expiry(database, key).map_err(unreadable)?;
    Ok(here.filter(|here| here.abs_diff(there) <= slack_ms).or(expiry_ms))
}

fn unreadable(why: String) -> Failure {
    Failure::new(ExitCode::Pool, format!("the pool cannot be read: {why}"))
}

#[cfg(test)]
mod tests {
    use super::super::clock::now_ms;
    use super::*;
    use everleaf_server::transfer::{Entry, Extent, Value};

    fn compare(see: impl FnOnce(&mut Keyspace<'_>, &mut Comparison)) -> Comparison {
        let folder = tempfile::tempdir().expect("a folder");
        let options = everleaf::Options::new().create(true).sweep(false);
        let store = options.open(folder.path().join("p")).expect("the pool opens");
        let mut keyspace = Keyspace::new(&store).expect("it can be read");
        let mut comparison = Comparison::new(Progress::pairs(false, "comparing", 0));
        see(&mut keyspace, &mut comparison);
        comparison
    }

    fn entry(expiry_ms: u64) -> Entry {
        Entry { value: Value::String(b"v".to_vec()), expiry_ms: Some(expiry_ms) }
    }

    fn item(entry: Entry, slack_ms: u64) -> Item {
        Item::Key { database: 0, key: b"k".to_vec(), entry, slack_ms, offset: None }
    }

    /// What was wrong: the clock was read before the pool, so that a key whose time came between the two differed, and
    /// a sound import was refused.
    #[test]
    fn a_key_may_expire_while_it_is_compared() {
        let compared = compare(|keyspace, comparison| {
            for length_ms in 1..=40 {
                let time = now_ms() + length_ms;
                keyspace.put(0, b"k", &entry(time)).expect("room");
                keyspace.flush().expect("room");
                while now_ms() <= time {
                    assert!(comparison.take(keyspace, item(entry(time), 0)).is_ok());
                }
            }
        });
        assert_eq!((compared.different, compared.compared > 40), (0, true));
    }

    /// The same of a source that tells a later time than it has.
    #[test]
    fn a_key_whose_time_is_off_may_have_expired() {
        const SLACK_MS: u64 = 60_000;
        let judge = |slack_ms: u64| {
            let compared = compare(|keyspace, comparison| {
                let there = now_ms() + SLACK_MS;
                assert!(comparison.take(keyspace, item(entry(there), slack_ms)).is_ok());
                let extent = Extent { count: 1, expiry_ms: Some(there) };
                let (database, key, is_exact) = (0, b"l".to_vec(), false);
                let end = Item::End { database, key, extent, slack_ms, is_exact };
                assert!(comparison.take(keyspace, end).is_ok());
            });
            compared.different
        };
        assert_eq!((judge(SLACK_MS), judge(0)), (0, 2));
    }
}
