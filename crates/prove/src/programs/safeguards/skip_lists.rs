//! Those of P-Skiplist. Heights are drawn by the key and the session's turn: in a session's first turn the nodes of 2
//! and 3 have two levels or more, and that of 7 has one.

use everleaf_machine::simulated::Domain;

use super::long_log;
use crate::programs::directed_case::{DirectedCase, directed};
use crate::tree::operation::Operation::{Get, Insert, Remove};

/// All of them.
pub(super) fn all() -> Vec<DirectedCase> {
    vec![
        // The insert has passed level 1 when the node is removed, and unlinks it on level 0 only. On level 1
        // it must not link the new node in front of it, where the thread that removes it does not look for it.
        directed(
            "an insert beside the removal of a tall node of its key",
            ("p-skiplist", "skiplist.before_its_like", None, 2, 2000),
            &[Insert(3, 30)],
            &[&[Insert(3, 31)], &[Remove(3)]],
        )
        .in_leaves_of(2),
        // The insert has seen that the node is not marked, and links it above when it is given back.
        directed(
            "a removal of a node that is being linked above",
            ("p-skiplist", "skiplist.retires_early", None, 1, 500),
            &[],
            &[&[Insert(2, 20)], &[Remove(2)]],
        )
        .in_leaves_of(2),
        // Nodes are two a line: the link around 3 is on another line than its place, which 9 gets.
        directed(
            "a removed node whose place is used again",
            ("p-skiplist", "skiplist.no_unlink_flush", Some(Domain::Adr), 0, 100),
            &[1, 2, 3, 4, 5, 6, 7, 8].map(|key| Insert(key, key * 10)),
            &[&[
                Remove(3),
                Remove(5),
                Remove(6),
                Remove(7),
                Insert(9, 90),
                Insert(10, 100),
                Insert(11, 110),
            ]],
        )
        .in_leaves_of(1),
        // The insert of 2 links it on level 1 just when it is removed, and leads the get to it there. On level 0
        // what is behind it is what was there then: not 7.
        directed(
            "a get that meets a removed node on level 1",
            ("p-skiplist", "skiplist.descends_from_removed", None, 2, 5000),
            &[],
            &[&[Insert(2, 20)], &[Remove(2), Insert(7, 70)], &[Get(7)]],
        )
        .in_leaves_of(2),
        // As in FAST & FAIR: the record of 2 is in the oldest chunk, and nothing but the log has it.
        directed(
            "a record of a partition that only the oldest chunk has",
            ("p-skiplist-b", "skiplist.no_forced_flush", Some(Domain::Adr), 0, 100),
            &[],
            &[&long_log()],
        )
        .in_leaves_of(2),
        // The get has found 7 in the buffer when that goes to the list, and 2 comes to its place.
        directed(
            "a get in a buffer that is emptied and written again",
            ("p-skiplist-b", "skiplist.no_validation", None, 1, 2000),
            &[Insert(7, 70)],
            &[&[Get(7)], &[Insert(10, 100), Insert(2, 20)]],
        )
        .in_leaves_of(2),
        // The get stands on 7, which is not tall, when a full buffer takes it out.
        directed(
            "a get beside a full buffer that takes its node out",
            ("p-skiplist-b", "skiplist.frees_under_readers", None, 1, 2000),
            &[Insert(7, 70), Insert(10, 100), Insert(2, 20)],
            &[&[Get(8)], &[Remove(7), Insert(11, 110)]],
        )
        .in_leaves_of(2),
        // 7 and 10 are in the list, and low; then 2, which is tall, and 11 are linked together, in front of and behind
        // them. A cut leaves the first of the two links.
        directed(
            "a new partition and a key behind it that is not linked",
            ("p-skiplist-bo", "skiplist.new_partition_flushed", Some(Domain::Adr), 0, 100),
            &[],
            &[&[7, 10, 2, 11, 3].map(|key| Insert(key, key * 10))],
        )
        .in_leaves_of(2),
    ]
}
