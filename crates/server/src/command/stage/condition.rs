//! What a transaction that is made while others write depends on.
//!
//! Of a collection that is its header: a command that changes a member changes it, too. Scans wait for no batch, so
//! they may show members of one that then is rolled back for lack of space, and behind that the header is as it was.
//! So that none was rolled back since the first read is a condition besides. It is looked at behind the header, whose
//! stripe such a batch has until it is counted.

use std::ops::ControlFlow;

use everleaf::{Expiry, Store, WriteBatch};

use super::{Seen, Stage};
use crate::databases::Databases;

impl Stage {
    /// Makes a batch depend on what was read.
    pub fn expect_read(&self, batch: &mut WriteBatch, databases: &Databases) {
        for part in &self.parts {
            let map = databases.map(part.place);
            for (key, seen) in &part.read {
                match seen {
                    Seen::Same(Some((value, expiry))) => {
                        batch.expect_with_expiry(map, key, value, *expiry)
                    }
                    Seen::Same(None) => batch.expect(map, key, None),
                    Seen::Unwritten(watch) => batch.expect_unwritten(watch),
                };
            }
        }
        if let Some(count) = self.rollback_count.filter(|_| self.has_read()) {
            batch.expect_no_rollback(count);
        }
    }

    /// Whether it depends on anything.
    fn has_read(&self) -> bool {
        self.parts.iter().any(|part| !part.read.is_empty())
    }

    /// Whether all that was read is as it was. Of each database at one moment: a key that is what it was may have been
    /// another in between, and another key then, too, so that there need be no moment at which both were what was read.
    pub fn still_holds(&self, databases: &Databases, store: &Store) -> everleaf::Result<bool> {
        for part in &self.parts {
            let map = databases.map(part.place);
            let (mut keys, mut expected, mut watches) = (vec![], vec![], vec![]);
            for (key, seen) in &part.read {
                match seen {
                    Seen::Unwritten(watch) => watches.push(watch),
                    Seen::Same(value) => {
                        keys.push(&key[..]);
                        expected.push(value);
                    }
                }
            }
            let is_same = |index: usize, found: Option<(&[u8], Expiry)>| {
                let expected =
                    expected[index].as_ref().map(|(value, expiry)| (&value[..], *expiry));
                expected == found
            };
            let mut holds = true;
            match (keys.len(), watches.len()) {
                (0, 0 | 1) => {}
                (1, 0) => {
                    let same = |value: &[u8], expiry| is_same(0, Some((value, expiry)));
                    holds = map.get_with_expiry(keys[0], same)?.unwrap_or(expected[0].is_none());
                }
                _ => {
                    // A thread that was writing one of these has marked it at that moment. They are not looked at.
                    keys.extend(watches.iter().map(|watch| watch.key()));
                    let count = expected.len();
                    map.get_many_at_once(&keys, &mut |index, found: Option<(&[u8], Expiry)>| {
                        holds = index >= count || is_same(index, found);
                        match holds && index + 1 < count {
                            true => ControlFlow::Continue(()),
                            false => ControlFlow::Break(()),
                        }
                    })?;
                }
            }
            // Behind that moment: what was not written until now was not before.
            if !holds || watches.iter().any(|watch| watch.is_broken()) {
                return Ok(false);
            }
        }
        Ok(self.rollback_count.is_none_or(|count| store.rollback_count() == count))
    }
}

impl Stage {
    /// Calls `tell` with each key that was read and is not what it was. What cannot be read is told, too.
    pub fn tell_changed(&self, databases: &Databases, tell: &mut dyn FnMut(&[u8])) {
        for part in &self.parts {
            let map = databases.map(part.place);
            for (key, seen) in &part.read {
                let is_same = match seen {
                    Seen::Unwritten(watch) => !watch.is_broken(),
                    Seen::Same(None) => matches!(map.contains(key), Ok(false)),
                    Seen::Same(Some((value, expiry))) => {
                        let same = |found: &[u8], at| found == value && at == *expiry;
                        matches!(map.get_with_expiry(key, same), Ok(Some(true)))
                    }
                };
                if !is_same {
                    tell(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use everleaf::{Map, Options, Watch};

    use super::*;
    use crate::command::source::{Pause, See, Source, Visit};
    use crate::command::stage::Staged;
    use crate::command::walk::Bounds;
    use crate::databases::MapNumber;
    use crate::types::{Header, Kind, Types};

    /// Beside the scan of the members a batch is made and, for lack of space, rolled back.
    struct BesideRollback<'s>(&'s Store);

    /// Fills the store, and makes room piece by piece until a batch of many small puts is rolled back.
    fn roll_one_back(store: &Store) {
        let map = store.map("filling").unwrap();
        let spread = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        let is_put = |number: &u32| map.put(number.to_be_bytes(), [7; 60_000]).is_ok();
        let pieces = (0..).take_while(is_put).count() as u32;
        let count = (0..).take_while(|it| map.put(spread(*it), b"").is_ok()).count() as u64;
        let mut batch = WriteBatch::new();
        for number in count..count + 30_000 {
            batch.put(&map, spread(number), b"");
        }
        let before = store.rollback_count();
        for number in 0..pieces {
            map.remove(number.to_be_bytes()).unwrap();
            assert!(store.write(&batch).is_err());
            if store.rollback_count() > before {
                return;
            }
        }
        panic!("none was rolled back");
    }

    impl Source for BesideRollback<'_> {
        fn read(&mut self, map: &Map, key: &[u8], see: &mut See<'_>) -> everleaf::Result<bool> {
            self.0.read(map, key, see)
        }

        fn scan(
            &mut self,
            map: &Map,
            bounds: &Bounds,
            reverse: bool,
            now_ms: u64,
            visit: &mut Visit<'_>,
            pause: &mut Pause<'_>,
        ) -> everleaf::Result<()> {
            self.0.scan(map, bounds, reverse, now_ms, visit, pause)
        }

        fn len(&mut self, map: &Map) -> everleaf::Result<u64> {
            Source::len(&mut self.0, map)
        }

        fn purge(&mut self, map: &Map, key: &[u8]) -> everleaf::Result<()> {
            Source::purge(&mut self.0, map, key)
        }

        fn watch(&mut self, map: &Map, key: &[u8]) -> everleaf::Result<Option<Watch>> {
            self.0.watch(map, key)
        }

        fn has_others(&self) -> bool {
            true
        }

        fn read_member(
            &mut self,
            members: &Map,
            key: &[u8],
            see: &mut dyn FnMut(&[u8]),
        ) -> everleaf::Result<bool> {
            self.0.read_member(members, key, see)
        }

        fn scan_members(
            &mut self,
            members: &Map,
            bounds: &Bounds,
            reverse: bool,
            visit: &mut Visit<'_>,
        ) -> everleaf::Result<()> {
            let mut flow = ControlFlow::Continue(());
            self.0.scan_members(members, bounds, reverse, &mut |key, value| {
                flow = visit(key, value);
                flow
            })?;
            // The member that the batch has put so far.
            if let (std::ops::Bound::Included(start), ControlFlow::Continue(())) =
                (&bounds.start, flow)
            {
                let _ = visit(&[&start[..8], &[0xFF; 8]].concat(), b"never was");
            }
            roll_one_back(self.0);
            Ok(())
        }
    }

    /// Members of a batch that then was rolled back were read, the header was what it had been before, and so they were
    /// shown, and stored under other keys.
    #[test]
    fn what_was_read_beside_a_rolled_back_batch_does_not_hold() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().create(true).max_size_bytes(8 << 20).sweep(false);
        let store = options.open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        types.begin(&store).unwrap();
        let ready = types.ready().unwrap();
        let header = Header {
            kind: Kind::Set,
            id: ready.new_id(),
            count: 1,
            changes: 1,
            extra: 0,
            has_outside: false,
            reaches: [false; 2],
        };
        ready.members.put([header.id.to_be_bytes(), [1; 8]].concat(), b"member").unwrap();
        store.default_map().put(b"set", ready.encode(&header)).unwrap();

        let mut stage = Stage::beside_others(1 << 20, &store);
        let mut source = BesideRollback(&store);
        let mut staged = Staged {
            stage: &mut stage,
            source: &mut source,
            types: &types,
            databases: &databases,
            place: MapNumber::default(),
        };
        assert_eq!(staged.kind(b"set").unwrap(), Some(Kind::Set));
        let mut seen = Vec::new();
        let members = Bounds::of_prefix(&header.id.to_be_bytes());
        let walked = staged.walk_members(ready, &members, false, &mut |_, value| {
            seen.extend_from_slice(value);
            ControlFlow::Continue(())
        });
        walked.unwrap();
        assert_eq!(seen, b"membernever was");
        staged.stage.write(MapNumber::default(), b"copy", Some((seen, Expiry::Never))).unwrap();
        assert!(!stage.still_holds(&databases, &store).unwrap());
        let mut batch = WriteBatch::new();
        stage.expect_read(&mut batch, &databases);
        stage.fill(&mut batch, &databases, &types);
        assert!(!store.write(&batch).unwrap().is_done());
        assert_eq!(store.default_map().get(b"copy").unwrap(), None);
    }
}
