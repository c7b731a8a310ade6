//! Going through keys and members as they would be if the transaction were done.

use std::ops::ControlFlow;

use super::{Part, Staged};
use crate::command::source::Visit;
use crate::command::staged_value::{Value, merge};
use crate::command::walk::Bounds;
use crate::failure::Result;
use crate::types::Ready;

impl Staged<'_> {
    /// Visits what there would be if the transaction were done.
    pub fn walk(&mut self, bounds: &Bounds, reverse: bool, visit: &mut Visit<'_>) -> Result<()> {
        if bounds.is_empty() {
            return Ok(());
        }
        self.stage.write_current();
        let (source, map) = (&mut self.source, self.databases.map(self.place));
        let none = Part::default();
        let part = self.stage.part(self.place).unwrap_or(&none);
        let moment = &self.stage.moment;
        // As one that is read by its name (`see`).
        let is_over = |key: &[u8]| {
            let changed = (!part.expiries.is_empty()).then(|| part.expiries.get(key)).flatten();
            changed.is_some_and(|changed| !moment.is_before(changed.new))
        };
        let written = part.written.range::<[u8], _>(bounds.as_slices()).map(|(key, value)| {
            let live = value.as_ref().filter(|value| moment.is_live(value));
            (&key[..], live.map(|(value, _)| &value[..]))
        });
        let scan = |visit: &mut Visit<'_>| {
            source.scan(map, bounds, reverse, moment.ms(), &mut |key, value| match is_over(key) {
                true => ControlFlow::Continue(()),
                false => visit(key, value),
            })
        };
        Ok(merge(written, reverse, visit, scan)?)
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
        let source = &mut self.source;
        let scan =
            |visit: &mut Visit<'_>| source.scan_members(&ready.members, bounds, reverse, visit);
        self.stage.members.sort();
        let written = self.stage.members.range(bounds.as_slices());
        Ok(merge(written, reverse, visit, scan)?)
    }

    /// Removes all keys of the database.
    pub fn clear(&mut self) -> Result<()> {
        let Staged { stage, source, databases, place, .. } = self;
        stage.write_current();
        let is_set = |(key, value): (&Vec<u8>, &Option<Value>)| value.as_ref().map(|_| key.clone());
        let keys: Vec<_> = stage
            .part(*place)
            .into_iter()
            .flat_map(|part| part.written.iter().filter_map(is_set))
            .collect();
        for key in keys {
            stage.write(*place, &key, None)?;
        }
        // All that is stored: what has expired counts until it is removed.
        source.scan(databases.map(*place), &Bounds::of_prefix(b""), false, 0, &mut |key, _| {
            if stage.write(*place, key, None).is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        stage.check()
    }
}

#[cfg(test)]
mod tests {
    use everleaf::{Expiry, Options};

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
}
