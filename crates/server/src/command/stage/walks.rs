//! Going through keys and members as they would be if the transaction were done.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::gaps::walk_between;
use super::{Cleared, Part, Stage, Staged};
use crate::command::source::{Pause, Visit, without_pause};
use crate::command::staged_value::ShowChange;
use crate::command::walk::Bounds;
use crate::failure::Result;
use crate::types::Ready;

impl Staged<'_> {
    /// Visits what there would be if the transaction were done.
    pub fn walk(&mut self, bounds: &Bounds, reverse: bool, visit: &mut Visit<'_>) -> Result<()> {
        self.walk_with_pauses(bounds, reverse, visit, &mut without_pause)
    }

    /// The same until `visit` breaks, or `pause` does: nothing behind the key that it saw is visited, and all before
    /// it.
    pub fn walk_with_pauses(
        &mut self,
        bounds: &Bounds,
        reverse: bool,
        visit: &mut Visit<'_>,
        pause: &mut Pause<'_>,
    ) -> Result<()> {
        if bounds.is_empty() {
            return Ok(());
        }
        self.stage.write_current();
        let (source, map) = (&mut self.source, self.databases.map(self.place));
        let index = self.stage.part_index(self.place);
        let Stage { parts, moment, .. } = &mut *self.stage;
        let (part, moment) = (&mut parts[index], &*moment);
        let Part { written, expiries, gaps, .. } = part;
        // As one that is read by its name (`see`).
        let is_over = |key: &[u8]| {
            let changed = (!expiries.is_empty()).then(|| expiries.get(key)).flatten();
            changed.is_some_and(|changed| !moment.is_before(changed.new))
        };
        let written = |bounds: &Bounds| {
            written.range::<[u8], _>(bounds.as_slices()).map(|(key, value)| {
                let live = value.as_ref().filter(|value| moment.is_live(value));
                (&key[..], live.map(|(value, _)| &value[..]))
            })
        };
        let scan = |bounds: &Bounds, show: &mut ShowChange<'_>| {
            let mut reached = None;
            let visit =
                &mut |key: &[u8], value: &[u8]| show((key, (!is_over(key)).then_some(value)));
            let pause = &mut |key: &[u8]| {
                let flow = pause(key);
                reached = flow.is_break().then(|| key.to_vec());
                flow
            };
            source.scan(map, bounds, reverse, moment.ms(), visit, pause)?;
            Ok(reached)
        };
        Ok(walk_between(gaps, bounds, reverse, visit, written, scan)?)
    }

    /// Shows what a member of a collection has to the transaction, if it is there.
    pub fn see_member<R>(
        &mut self,
        ready: &Ready,
        key: &[u8],
        see: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let known = self.stage.looked_up.take(key);
        if let Some(value) = self.stage.members.get(key) {
            return Ok(value.map(see));
        }
        if let Some(value) = known {
            return Ok(value.map(|value| see(&value)));
        }
        let (mut see, mut result) = (Some(see), None);
        self.source.read_member(&ready.members, key, &mut |value| {
            result = see.take().map(|see| see(value));
        })?;
        Ok(result)
    }

    /// Whether a member is removed on the stage.
    pub fn is_removed(&self, key: &[u8]) -> bool {
        self.stage.members.get(key) == Some(None)
    }

    /// Visits the members inside bounds as they would be if the transaction were done.
    pub fn walk_members(
        &mut self,
        ready: &Ready,
        bounds: &Bounds,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        self.stage.write_ends();
        self.stage.write_counts();
        self.walk_written(ready, bounds, reverse, visit)
    }

    /// Visits the members of a collection that is no list, where nobody looks at what they have.
    pub fn pass_members(
        &mut self,
        ready: &Ready,
        bounds: &Bounds,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        if bounds.is_empty() {
            return Ok(());
        }
        let Staged { stage, source, .. } = self;
        stage.members.sort();
        let Stage { members, member_gaps, .. } = &mut **stage;
        let written = |bounds: &Bounds| members.range(bounds.as_slices());
        let scan = |bounds: &Bounds, show: &mut ShowChange<'_>| {
            source
                .pass_members(&ready.members, bounds, &mut |key, value| show((key, Some(value))))?;
            Ok(None)
        };
        Ok(walk_between(member_gaps, bounds, false, visit, written, scan)?)
    }

    /// The same without the counts that changed in memory, and without the open ends of lists.
    pub fn walk_written(
        &mut self,
        ready: &Ready,
        bounds: &Bounds,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        if bounds.is_empty() {
            return Ok(());
        }
        let Staged { stage, source, .. } = self;
        stage.members.sort();
        let Stage { members, member_gaps, .. } = &mut **stage;
        let written = |bounds: &Bounds| members.range(bounds.as_slices());
        let scan = |bounds: &Bounds, show: &mut ShowChange<'_>| {
            source.scan_members(&ready.members, bounds, reverse, &mut |key, value| {
                show((key, Some(value)))
            })?;
            Ok(None)
        };
        Ok(walk_between(member_gaps, bounds, reverse, visit, written, scan)?)
    }

    /// Removes all keys of the database.
    pub fn clear(&mut self) -> Result<()> {
        let Staged { stage, source, databases, place, .. } = self;
        stage.write_current();
        let mark = stage.mark_count;
        let part = stage.part_mut(*place);
        let before = part.cleared.replace(Cleared { mark, put: BTreeSet::new() });
        let is_cleared = before.is_some();
        let is_put = |key: &Vec<u8>| part.written.get(key).is_some_and(Option::is_some);
        let keys: Vec<Vec<u8>> = match before {
            Some(before) => before.put.into_iter().filter(is_put).collect(),
            None => part.written.keys().filter(|key| is_put(key)).cloned().collect(),
        };
        for key in keys {
            stage.write(*place, &key, None)?;
        }
        if is_cleared {
            return Ok(());
        }
        // All that is stored: what has expired counts until it is removed.
        let map = databases.map(*place);
        let remove = &mut |key: &[u8], _: &[u8]| {
            if stage.write(*place, key, None).is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        source.scan(map, &Bounds::of_prefix(b""), false, 0, remove, &mut without_pause)?;
        stage.check()
    }
}

#[cfg(test)]
mod tests {
    use everleaf::{Expiry, Options};

    use crate::command::source::counting::Counting;
    use crate::command::stage::{Stage, Staged};
    use crate::databases::{Databases, MapNumber};
    use crate::failure::Failure;
    use crate::types::Types;

    /// What was wrong: `FLUSHALL` and `DEL` of a transaction left what had expired and was not swept, and `DBSIZE` went
    /// on counting it, in the transaction and behind it.
    #[test]
    fn what_has_expired_goes_with_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().create(true).sweep(false);
        let store = options.open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        let (map, past) = (store.default_map(), Expiry::from_unix_ms(1));
        let run = |act: &mut dyn FnMut(&mut Staged<'_>) -> crate::failure::Result<u64>| {
            map.put_with_expiry("gone", "v", past).unwrap();
            map.put("kept", "v").unwrap();
            let (mut stage, mut count) = (Stage::new(1 << 20), None);
            let done = store.write_alone(|alone, batch| {
                let mut staged = Staged {
                    stage: &mut stage,
                    source: alone,
                    types: &types,
                    databases: &databases,
                    place: MapNumber::default(),
                };
                count = Some(act(&mut staged)?);
                stage.fill(batch, &databases, &types);
                Ok::<(), Failure>(())
            });
            assert!(done.is_ok_and(|written| written.is_done()));
            assert_eq!(Some(map.len()), count);
            count
        };
        let cleared = run(&mut |staged| {
            assert_eq!(staged.len()?, 2);
            staged.clear()?;
            staged.len()
        });
        assert_eq!(cleared, Some(0));
        let removed = run(&mut |staged| {
            assert!(!staged.remove(b"gone")?);
            staged.len()
        });
        assert_eq!(removed, Some(1));
        // What it has written itself, too.
        let removed = run(&mut |staged| {
            staged.stage.write(staged.place, b"own", Some((vec![1], past)))?;
            assert!(!staged.remove(b"own")?);
            assert!(staged.remove(b"kept")?);
            // Its removal stands, and what is stored is not touched.
            assert!(!staged.remove(b"kept")?);
            assert!(!staged.remove(b"gone")?);
            staged.len()
        });
        assert_eq!(removed, Some(0));
    }

    /// What was quadratic: each `FLUSHDB` of a transaction removed all keys of the database once more.
    #[test]
    fn a_database_is_emptied_once_and_then_of_what_came_since() {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(true).open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        for number in 0..500_u32 {
            store.default_map().put(number.to_be_bytes(), "v").unwrap();
        }
        let (mut stage, mut visits) = (Stage::new(1 << 24), 0);
        let done = store.write_alone(|alone, batch| {
            let mut source = Counting::of(alone);
            for number in 0..200_u32 {
                let mark = stage.mark();
                let mut staged = Staged {
                    stage: &mut stage,
                    source: &mut source,
                    types: &types,
                    databases: &databases,
                    place: MapNumber::default(),
                };
                if number > 0 {
                    assert_eq!(staged.len()?, 1);
                }
                staged.clear()?;
                assert_eq!(staged.len()?, 0);
                if number % 50 == 7 {
                    // As if it had failed behind that.
                    stage.roll_back(&mark);
                    continue;
                }
                staged.put(b"between", b"v")?;
            }
            visits = source.visits;
            stage.fill(batch, &databases, &types);
            Ok::<(), Failure>(())
        });
        assert!(done.is_ok_and(|written| written.is_done()));
        assert_eq!(store.default_map().len(), 1);
        assert!(visits <= 500 * 5, "{visits} were visited");
    }
}
