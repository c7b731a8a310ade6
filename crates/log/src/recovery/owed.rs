//! Which segments count: those that were owed do with their snapshot only.

use std::collections::VecDeque;

use crate::layout::BLOCK_SIZE;
use crate::scan::{Gap, SegmentHeader, SegmentReader};
use crate::{Disk, Error, Lsn, Result};

/// Each segment with the last LSN that counts in it: what a later one begins with, and what follows, does
/// not. Segments of which nothing counts are left out.
pub(crate) fn limited(
    headers: impl DoubleEndedIterator<Item = SegmentHeader>,
    end: Lsn,
) -> Vec<(SegmentHeader, Lsn)> {
    let mut limit = end;
    let mut segments = Vec::new();
    for header in headers.rev() {
        if header.first - 1 <= limit {
            segments.push((header, limit));
        }
        limit = limit.min(header.first - 1);
    }
    segments.reverse();
    segments
}

/// Where the segments begin with which the last of these was owed, if it was.
pub(crate) fn first_owed<'h>(
    headers: impl DoubleEndedIterator<Item = &'h SegmentHeader> + ExactSizeIterator,
) -> Option<usize> {
    let mut headers = headers.enumerate().rev().peekable();
    headers.peek().filter(|(_, last)| last.gap.is_owed())?;
    Some(headers.find(|(_, header)| header.gap == Gap::Owed).map_or(0, |(index, _)| index))
}

/// Whether a snapshot, from this LSN on and begun in that segment if it says so, is the one with which segments count
/// that were owed. A later life, behind them, gives their LSNs again; so do its snapshots.
pub(crate) fn is_snapshot_of<'h>(
    mut owed: impl DoubleEndedIterator<Item = &'h SegmentHeader>,
    from: Lsn,
    begun_in: Option<u64>,
) -> bool {
    let Some(first) = owed.next() else { return false };
    let last = owed.next_back().unwrap_or(first);
    let is_within = begun_in.is_none_or(|begun| (first.sequence..=last.sequence).contains(&begun));
    from + 1 >= first.first && is_within
}

/// What segments that were owed say of their snapshot.
#[derive(Default)]
pub(crate) struct OwedMark {
    /// A chunk in them says that something in them is durable.
    pub(crate) is_there: bool,
    /// What of them cannot be read, where the chunk may be.
    pub(crate) unreadable: Option<Error>,
}

/// Looks in these segments that were owed for what says that their snapshot came.
pub(crate) fn mark_of_owed<'h, D: Disk>(
    disk: &D,
    uuid: &[u8; 16],
    headers: impl Iterator<Item = &'h SegmentHeader>,
) -> Result<OwedMark> {
    let mut mark = OwedMark::default();
    for header in headers {
        if disk.mutant("log.mark_unread") {
            break;
        }
        let mut reader = SegmentReader::open(disk, uuid, header.sequence)?;
        let found = reader.look_behind(header.sequence, BLOCK_SIZE)?;
        if found.is_some_and(|(durable, _)| durable + 1 >= header.first) {
            mark.is_there = true;
            break;
        }
        mark.unreadable = mark.unreadable.or_else(|| reader.unreadable_from(0));
    }
    Ok(mark)
}

/// This segment that has ended, and those that were owed and do not count, each with the end of what was written to it.
/// Best effort, for the space behind: openings that are killed again and again must not take that of a segment each.
pub(super) fn with_owed_in_vain<'h, D: Disk>(
    ended: Option<(u64, u64)>,
    disk: &D,
    uuid: &[u8; 16],
    headers: impl Iterator<Item = &'h SegmentHeader>,
) -> Vec<(u64, u64)> {
    let end = |header: &SegmentHeader| {
        let mut reader = SegmentReader::open(disk, uuid, header.sequence).ok()?;
        let end = reader.end_of_written(header.sequence).ok()?;
        // What cannot be read now may have been written.
        reader.unreadable_from(0).is_none().then_some((header.sequence, end))
    };
    ended.into_iter().chain(headers.filter_map(end)).collect()
}

/// What the segments that do not count prove of those that do: the first of them was begun when all up to the last LSN
/// before that of nobody was durable. If it is not there, neither is anything before it.
pub(super) fn proven_by_owed(headers: &VecDeque<SegmentHeader>, counting: usize) -> Lsn {
    headers.get(counting).map_or(0, |header| header.first.saturating_sub(2))
}

/// The first LSN that the segments have. Not that of a segment that was owed in vain, behind which another begins
/// before it; but if none counts, what is there does not begin with an empty store either.
pub(super) fn first_there_is(
    headers: &VecDeque<SegmentHeader>,
    counting: usize,
    end: Lsn,
) -> Option<Lsn> {
    let counted = limited(headers.range(..counting).copied(), end);
    let oldest = counted.first().map(|(header, _)| header);
    oldest.or(headers.front()).map(|header| header.first)
}

/// Whether segments are there that counted only with a snapshot that never came.
pub(super) fn leaves_out_owed(
    headers: &VecDeque<SegmentHeader>,
    counting: usize,
    end: Lsn,
) -> bool {
    let counted = limited(headers.range(..counting).copied(), end);
    let counted = counted.iter().filter(|(header, _)| header.gap.is_owed()).count();
    headers.iter().filter(|header| header.gap.is_owed()).count() > counted
}
