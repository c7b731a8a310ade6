//! The time by which a command or transaction is judged.
//!
//! A key may be looked at several times on the way: if its time came between two looks, the command would act on two
//! states, and not be one step. So the clock is read once, when the first key is met that expires, and a key has
//! expired for all of the stage or for none of it. A stage that is tried again begins with another.

use std::cell::Cell;

use everleaf::Expiry;

use crate::command::staged_value::Value;
use crate::wall_clock::now_ms;

/// One time, read when it is first needed.
#[derive(Default)]
pub(super) struct Moment(Cell<Option<u64>>);

impl Moment {
    /// In milliseconds since 1970-01-01 UTC.
    pub fn ms(&self) -> u64 {
        let ms = self.0.get().unwrap_or_else(now_ms);
        self.0.set(Some(ms));
        ms
    }

    /// Whether a time has not come yet.
    #[inline]
    pub fn is_before(&self, expiry: Expiry) -> bool {
        expiry == Expiry::Never || expiry.as_unix_ms() > self.ms()
    }

    /// Whether a value is there, or its time has come.
    pub fn is_live(&self, (_, expiry): &Value) -> bool {
        self.is_before(*expiry)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::time::Duration;

    use everleaf::Options;

    use super::*;
    use crate::command::stage::{Stage, Staged};
    use crate::command::walk::Bounds;
    use crate::databases::{Databases, MapNumber};
    use crate::failure::Failure;
    use crate::types::Types;

    /// What was wrong: while nobody else wrote, a key was looked for by the time of each look. So one command found its
    /// source at first and not behind that, and answered nothing, or made a new list, or said that it had moved a key.
    #[test]
    fn a_command_alone_finds_to_the_end_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(true).open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        let map = store.default_map();
        let find = |length: usize, time: Expiry| {
            map.put_with_expiry("key", vec![7; length], time).unwrap();
            let (mut stage, mut is_in_time) = (Stage::new(1 << 20), false);
            let done = store.write_alone(|alone, _| {
                let mut staged = Staged {
                    stage: &mut stage,
                    source: alone,
                    types: &types,
                    databases: &databases,
                    place: MapNumber::default(),
                };
                is_in_time = staged.contains(b"key")?;
                while now_ms() < time.as_unix_ms() {
                    std::thread::yield_now();
                }
                assert_eq!(staged.contains(b"key")?, is_in_time, "{length} bytes");
                let mut count = 0;
                staged.walk(&Bounds::of_prefix(b""), false, &mut |_, _| {
                    count += 1;
                    ControlFlow::Continue(())
                })?;
                assert_eq!(count, usize::from(is_in_time), "{length} bytes");
                assert_eq!(staged.rename(b"key", b"other")?, is_in_time, "{length} bytes");
                assert_eq!(staged.contains(b"other")?, is_in_time, "{length} bytes");
                Ok::<(), Failure>(())
            });
            assert!(done.is_ok());
            assert_eq!(map.get("key").unwrap(), None);
            is_in_time
        };
        for length in [10, 5000] {
            // A busy machine may be late for the first look.
            let mut lengths_ms = [10, 100, 1000, 10_000].into_iter();
            assert!(lengths_ms.any(|it| find(length, Expiry::after(Duration::from_millis(it)))));
        }
    }
}
