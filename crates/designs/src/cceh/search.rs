//! Lookups, and walks over all segments.

use everleaf_machine::Machine;

use super::Cceh;
use super::layout::{Segment, hash_of};
use super::variant::Variant;
use crate::node::version_lock::Retry;

impl<V: Variant, M: Machine> Cceh<V, M> {
    /// The value of `key`. The caller is pinned.
    ///
    /// *Linearizes at* the load of the version before the pairs, which is found unchanged behind them.
    #[inline(always)]
    pub(super) fn read(&self, key: u64) -> Option<u64> {
        let hash = hash_of(key);
        self.look(hash, |segment| {
            if V::BUFFERED
                && let Some((_, value)) = self.node(segment, hash).find(key)
            {
                return value;
            }
            segment.find(hash, key).map(|pair| pair.value())
        })
    }

    /// What `see` makes of the segment of a hash, at one instant.
    #[inline(always)]
    fn look<R>(&self, hash: u64, see: impl Fn(Segment<'_, V, M>) -> R) -> R {
        let mut attempt = 0;
        loop {
            let segment = self.segment_of(hash);
            segment.prefetch(hash);
            let seen = segment.head.lock.stable_or_wait(self.generation).and_then(|version| {
                let (is_own, seen) = (segment.covers(hash), see(segment));
                let is_stable = segment.head.lock.validate(self.generation, version)
                    || M::mutant("cceh.no_validation");
                // Not its own: it was split since the directory was read.
                if is_stable && is_own { Ok(seen) } else { Err(Retry::Now) }
            });
            match seen {
                Ok(seen) => return seen,
                Err(retry) => {
                    M::mark("cceh.read_again");
                    retry.pause::<M>(&mut attempt);
                }
            }
        }
    }

    /// Keys and segments there are; exact when nobody writes. The caller is pinned.
    pub(super) fn count(&self) -> (u64, u64) {
        let (mut keys, mut segments, mut hash) = (0, 0, Some(0));
        while let Some(low) = hash {
            let (more, depth) =
                self.look(low, |segment| (self.key_count(segment), segment.depth()));
            keys += more;
            segments += 1;
            hash = low.checked_add(1 << (64 - depth));
        }
        (keys, segments)
    }
}
