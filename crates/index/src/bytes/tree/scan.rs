//! Scans between two bounds, in both directions.

use std::ops::Bound;

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::BytesTree;
use crate::api::error::IndexError;
use crate::bytes::entry::{BytesKey, BytesKind};
use crate::bytes::found::{Ordered, is_above, is_below};
use crate::bytes::record::{Record, Verify};
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::pool_trees::pool_base::PoolBase;

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    /// Visits the pairs between two bounds, ascending or with `reverse` descending, until `visit`
    /// returns false. See `nbtree/scan.rs` for what a scan promises. The pool's space is not
    /// reclaimed meanwhile: cut long scans into pieces.
    ///
    /// # Errors
    /// As [`Self::get_with`].
    pub fn scan(
        &self,
        session: &mut Session<M>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), IndexError> {
        self.scan_records(session, from, to, reverse, |record| {
            record.has_expired::<M>() || visit(record.key, record.value)
        })
    }

    /// As [`Self::scan`], with the time at which each key expires, and with those that have expired
    /// and were not removed yet. Every record is verified, and that the keys ascend (or descend).
    ///
    /// # Errors
    /// As [`Self::get_verified`], behind all pairs that come before the damage.
    pub fn scan_records(
        &self,
        session: &mut Session<M>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        mut visit: impl FnMut(Record<'_>) -> bool,
    ) -> Result<(), IndexError> {
        self.scan_shown(session, (from, to), reverse, &mut visit)
    }

    /// [`Self::scan_records`], compiled once for all callers that scan a map as a whole or rarely: each has a
    /// closure of its own, and a scan both ways through two kinds of leaves is 40 KB of code.
    #[inline(never)]
    fn scan_shown(
        &self,
        session: &mut Session<M>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        visit: &mut dyn FnMut(Record<'_>) -> bool,
    ) -> Result<(), IndexError> {
        self.scan_verified(session, bounds, reverse, Verify::Sum, visit)
    }

    /// As [`Self::scan_records`], of records that are looked at as closely as `verify` says.
    ///
    /// # Errors
    /// As [`Self::scan_records`], as far as it is looked for.
    pub fn scan_verified(
        &self,
        session: &mut Session<M>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        verify: Verify,
        mut visit: impl FnMut(Record<'_>) -> bool,
    ) -> Result<(), IndexError> {
        let (from, to) = bounds;
        self.cell.with(session, |tree, session| {
            let base = PoolBase::of(session.heap());
            let mut pairs = Ordered { last: None, bounds, reverse, verify, damage: None };
            if reverse {
                let bound = match to {
                    Bound::Included(key) if M::mutant("bytes.back_excludes") => Some(key.to_vec()),
                    Bound::Included(key) => Some(successor(key)),
                    Bound::Excluded(key) => Some(key.to_vec()),
                    Bound::Unbounded => None,
                };
                let bound = bound.as_deref().map(BytesKey::new);
                tree.scan_backward(session, bound, verify.into(), |_, entry| {
                    let record = pairs.follow(base, <BytesKind<HEADS> as Kind<M>>::payload(entry));
                    record.is_some_and(|record| !is_below(record.key, from) && visit(record))
                })?;
            } else {
                let start = match from {
                    Bound::Included(key) => key.to_vec(),
                    Bound::Excluded(key) => successor(key),
                    Bound::Unbounded => vec![],
                };
                let start = BytesKey::new(&start);
                tree.scan_forward(session, start, usize::MAX, verify.into(), |_, entry| {
                    let record = pairs.follow(base, <BytesKind<HEADS> as Kind<M>>::payload(entry));
                    record.is_some_and(|record| !is_above(record.key, to) && visit(record))
                })?;
            }
            pairs.damage.map_or(Ok(()), Err)
        })?
    }
}

/// The smallest key greater than `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
