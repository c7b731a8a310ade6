//! Where a transaction reads what it has not written: the store while others write, or while nobody else does.

use std::ops::ControlFlow;

use everleaf::{Alone, Expiry, Map, Store, Watch};

use super::walk::{Bounds, directed, walk, walk_with_pauses};
use crate::read_size::counted;

pub use super::walk::Visit;

/// Sees a key that was reached now and then, be it one that has expired, and says whether to go on.
pub type Pause<'a> = dyn FnMut(&[u8]) -> ControlFlow<()> + 'a;

/// Goes on.
pub fn without_pause(_: &[u8]) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// What is shown of a value, and when it expires.
pub type See<'a> = dyn FnMut(&[u8], Expiry) + 'a;

/// Where a transaction reads what it has not written.
pub trait Source {
    /// Shows a key of a database as it is, with its time, which may have come; while others write, what has expired may
    /// be hidden. Returns whether it was shown.
    fn read(&mut self, map: &Map, key: &[u8], see: &mut See<'_>) -> everleaf::Result<bool>;
    /// Visits the keys of a database inside bounds that have not expired: by this time, and while others write by that
    /// of each look.
    fn scan(
        &mut self,
        map: &Map,
        bounds: &Bounds,
        reverse: bool,
        now_ms: u64,
        visit: &mut Visit<'_>,
        pause: &mut Pause<'_>,
    ) -> everleaf::Result<()>;
    /// The number of keys.
    fn len(&mut self, map: &Map) -> everleaf::Result<u64>;
    /// Frees a key if its time has come, so that it does not count any more: nobody sees another difference, whatever
    /// becomes of the transaction.
    fn purge(&mut self, map: &Map, key: &[u8]) -> everleaf::Result<()>;
    /// Watches a key; `None` if nobody else writes.
    fn watch(&mut self, map: &Map, key: &[u8]) -> everleaf::Result<Option<Watch>>;
    /// Whether others write meanwhile.
    fn has_others(&self) -> bool;
    /// Shows what a member of a collection has. Returns whether it is there.
    fn read_member(
        &mut self,
        members: &Map,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]),
    ) -> everleaf::Result<bool>;
    /// Visits the members inside bounds.
    fn scan_members(
        &mut self,
        members: &Map,
        bounds: &Bounds,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> everleaf::Result<()>;
    /// The same in ascending order, where nobody looks at what members have: it need not be read.
    fn pass_members(
        &mut self,
        members: &Map,
        bounds: &Bounds,
        visit: &mut Visit<'_>,
    ) -> everleaf::Result<()> {
        self.scan_members(members, bounds, false, visit)
    }
}

/// While others write.
impl Source for &Store {
    fn read(&mut self, map: &Map, key: &[u8], see: &mut See<'_>) -> everleaf::Result<bool> {
        Ok(map.get_with_expiry(key, |value, expiry| see(counted(value), expiry))?.is_some())
    }

    fn scan(
        &mut self,
        map: &Map,
        bounds: &Bounds,
        reverse: bool,
        _: u64,
        visit: &mut Visit<'_>,
        pause: &mut Pause<'_>,
    ) -> everleaf::Result<()> {
        walk_with_pauses(map, bounds, reverse, visit, pause)
    }

    fn len(&mut self, map: &Map) -> everleaf::Result<u64> {
        Ok(map.len())
    }

    fn purge(&mut self, map: &Map, key: &[u8]) -> everleaf::Result<()> {
        map.purge(key).map(drop)
    }

    fn watch(&mut self, map: &Map, key: &[u8]) -> everleaf::Result<Option<Watch>> {
        map.watch(key).map(Some)
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
        Ok(members.get_with(key, |value| see(counted(value)))?.is_some())
    }

    fn scan_members(
        &mut self,
        members: &Map,
        bounds: &Bounds,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> everleaf::Result<()> {
        walk(members, bounds, reverse, visit)
    }

    fn pass_members(
        &mut self,
        members: &Map,
        bounds: &Bounds,
        visit: &mut Visit<'_>,
    ) -> everleaf::Result<()> {
        members.scan(bounds.as_slices()).keys_only().visit(visit)
    }
}

/// While nobody else writes.
impl Source for Alone<'_> {
    fn read(&mut self, map: &Map, key: &[u8], see: &mut See<'_>) -> everleaf::Result<bool> {
        let see = |value: &[u8], expiry| see(counted(value), expiry);
        Ok(self.on(map)?.get_stored_with_expiry(key, see)?.is_some())
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
        let mut map = self.on(map)?;
        let scan = directed(map.scan(bounds.as_slices()).as_of(now_ms), reverse);
        scan.visit_with_pauses(visit, pause)
    }

    fn len(&mut self, map: &Map) -> everleaf::Result<u64> {
        Ok(self.on(map)?.len())
    }

    fn purge(&mut self, map: &Map, key: &[u8]) -> everleaf::Result<()> {
        self.on(map)?.purge(key).map(drop)
    }

    fn watch(&mut self, _: &Map, _: &[u8]) -> everleaf::Result<Option<Watch>> {
        Ok(None)
    }

    fn has_others(&self) -> bool {
        false
    }

    fn read_member(
        &mut self,
        members: &Map,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]),
    ) -> everleaf::Result<bool> {
        Ok(self.on(members)?.get_with_expiry(key, |value, _| see(counted(value)))?.is_some())
    }

    fn scan_members(
        &mut self,
        members: &Map,
        bounds: &Bounds,
        reverse: bool,
        visit: &mut Visit<'_>,
    ) -> everleaf::Result<()> {
        let mut members = self.on(members)?;
        directed(members.scan(bounds.as_slices()), reverse).visit(visit)
    }

    fn pass_members(
        &mut self,
        members: &Map,
        bounds: &Bounds,
        visit: &mut Visit<'_>,
    ) -> everleaf::Result<()> {
        self.on(members)?.scan(bounds.as_slices()).keys_only().visit(visit)
    }
}

#[cfg(test)]
pub mod counting {
    //! A source that counts what it is asked for.

    use everleaf::{Map, Watch};

    use super::{Pause, See, Source, Visit};
    use crate::command::walk::Bounds;

    /// Another source, and how much it was asked for.
    pub struct Counting<'a> {
        source: &'a mut dyn Source,
        /// Keys that were read by their names.
        pub reads: usize,
        /// Keys and members that were visited.
        pub visits: usize,
    }

    impl<'a> Counting<'a> {
        /// Nothing was asked for yet.
        pub fn of(source: &'a mut dyn Source) -> Self {
            Counting { source, reads: 0, visits: 0 }
        }
    }

    impl Source for Counting<'_> {
        fn read(&mut self, map: &Map, key: &[u8], see: &mut See<'_>) -> everleaf::Result<bool> {
            self.reads += 1;
            self.source.read(map, key, see)
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
            let Counting { source, visits, .. } = self;
            let visit = &mut |key: &[u8], value: &[u8]| {
                *visits += 1;
                visit(key, value)
            };
            source.scan(map, bounds, reverse, now_ms, visit, pause)
        }

        fn len(&mut self, map: &Map) -> everleaf::Result<u64> {
            self.source.len(map)
        }

        fn purge(&mut self, map: &Map, key: &[u8]) -> everleaf::Result<()> {
            self.source.purge(map, key)
        }

        fn watch(&mut self, map: &Map, key: &[u8]) -> everleaf::Result<Option<Watch>> {
            self.source.watch(map, key)
        }

        fn has_others(&self) -> bool {
            self.source.has_others()
        }

        fn read_member(
            &mut self,
            members: &Map,
            key: &[u8],
            see: &mut dyn FnMut(&[u8]),
        ) -> everleaf::Result<bool> {
            self.reads += 1;
            self.source.read_member(members, key, see)
        }

        fn scan_members(
            &mut self,
            members: &Map,
            bounds: &Bounds,
            reverse: bool,
            visit: &mut Visit<'_>,
        ) -> everleaf::Result<()> {
            let Counting { source, visits, .. } = self;
            source.scan_members(members, bounds, reverse, &mut |key, value| {
                *visits += 1;
                visit(key, value)
            })
        }
    }
}
