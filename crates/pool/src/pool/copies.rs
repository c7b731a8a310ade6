//! What is kept twice is compared: one damaged copy is survived, and is to be told all the same.
//!
//! | record | rewritten | copies of a pool that was closed cleanly |
//! |---|---|---|
//! | header | in a session, one copy behind the other | equal |
//! | ids | likewise; a copy is one word | equal |
//! | session | to begin a session, to grow, to end it | equal, or one is a step apart, or torn |
//! | seal | before the session is ended | equal, if one is in force |
//!
//! A rewriting that a crash has cut short leaves one copy whole, and the other as it was, or torn: some of its words
//! are of before and some of after. That is no damage, and the next opening for writing ends it. So a copy that differs
//! is damaged if no such rewriting can have left it: behind a clean close the words are known that could be there, but
//! for a session that was about to begin. In a pool that was not closed, only words count that no rewriting changes,
//! and values that none of them gets.

use everleaf_machine::Machine;

use super::{Pool, ids};
use crate::header::{self, HeaderWords};
use crate::layout::{
    FEATURE_LOG_NOTE, HEADER_OFFSETS, HEADER_WORDS, IDS_OFFSETS, KNOWN_FEATURES, SEAL_OFFSETS,
    SEAL_WORDS, SESSION_OFFSETS, SESSION_WORDS, SIZE_GRANULE, SIZE_MIN,
};
use crate::session_record::{self, SessionRecord, SessionWords};
use crate::{Domain, Seal};

/// Words of a header that a rewriting changes: features, maximum size, generation, the log and check sum.
const HEADER_CHANGES: [usize; 7] = [2, 3, 9, 12, 13, 14, 15];
/// The word of a session record that is written last. With it the record is whole.
const CHECKSUM: usize = SESSION_WORDS - 1;

impl<M: Machine> Pool<M> {
    /// What is wrong with records that are kept twice, in sentences: of a pool that is open for reading only, what no
    /// crash can have left; of another, in which opening has made the copies equal, whatever differs.
    ///
    /// *Blocking:* takes the locks of roots and growth.
    pub fn copy_problems(&self) -> Vec<String> {
        let _roots = self.directory_lock.lock();
        let session = self.session.lock();
        let view = self.view();
        let headers: [HeaderWords; 2] = HEADER_OFFSETS.map(|offset| view.read(offset));
        let sessions: [SessionWords; 2] = SESSION_OFFSETS.map(|offset| view.read(offset));
        let ids: [[u64; 1]; 2] = IDS_OFFSETS.map(|offset| view.read(offset));
        let seals: [[u64; SEAL_WORDS]; 2] = SEAL_OFFSETS.map(|offset| view.read(offset));
        let may_differ = self.read_only;
        let mut problems = vec![];
        let mut tell = |what: &str, offsets: [u64; 2], damaged: Option<usize>| {
            if let Some(damaged) = damaged {
                problems.push(format!(
                    "byte {}: {} of the two copies of {what} is damaged; the pool goes by the other, and the next \
                     opening for writing writes it anew",
                    offsets[damaged],
                    ["the first", "the second"][damaged],
                ));
            }
        };
        let header = header::choose(&headers, self.place()).ok().map(|(_, whole, _)| whole);
        let found = damaged(&headers, header, |other, whole| {
            may_differ && !session.clean && header_may_be_torn(other, whole)
        });
        tell("the header", HEADER_OFFSETS, found);
        let whole = session_record::choose(&sessions, self.place()).ok().map(|(_, whole, _)| whole);
        let found = damaged(&sessions, whole, |other, _| {
            may_differ && session_may_be_torn(other, &session)
        });
        tell("the session record", SESSION_OFFSETS, found);
        let whole = ids::newer(ids.map(|[word]| word));
        let found = damaged(&ids, whole, |[other], [whole]| {
            may_differ && !session.clean && ids::is_a_step_behind(*other, *whole)
        });
        tell("the id counter", IDS_OFFSETS, found);
        if session.clean {
            let in_force = |words| Seal::decode(words, session.generation).is_some();
            let found = damaged(&seals, seals.iter().position(in_force), |_, _| false);
            tell("the seal", SEAL_OFFSETS, found);
        }
        problems
    }
}

/// The copy that is damaged, if one is: it is not like the one that is whole, and `may_be` says no to it.
fn damaged<const N: usize>(
    copies: &[[u64; N]; 2],
    whole: Option<usize>,
    may_be: impl Fn(&[u64; N], &[u64; N]) -> bool,
) -> Option<usize> {
    let whole = whole?;
    let other = &copies[1 - whole];
    (*other != copies[whole] && !may_be(other, &copies[whole])).then_some(1 - whole)
}

/// Whether a copy may be what a rewriting of the header has left of it that was cut short, in a pool that was not
/// closed.
fn header_may_be_torn(other: &HeaderWords, whole: &HeaderWords) -> bool {
    // Features are added only.
    let is_part = |a: u64, b: u64| a & b == a || a & b == b;
    let is_kept = |index: &usize| HEADER_CHANGES.contains(index) || other[*index] == whole[*index];
    (0..HEADER_WORDS).all(|index| is_kept(&index))
        && other[2] & !KNOWN_FEATURES == 0
        && is_part(other[2], whole[2])
        && is_part(other[3], whole[3])
        && is_size(other[9])
        && other[12].abs_diff(whole[12]) <= 1
        && ((other[2] | whole[2]) & FEATURE_LOG_NOTE != 0 || other[13] == 0 && other[14] == 0)
        && other[15] >> 32 == 0
}

fn is_size(word: u64) -> bool {
    word >= SIZE_MIN && word.is_multiple_of(SIZE_GRANULE)
}

/// Whether a copy may be what a rewriting of the session has left of it that was cut short, where the other one says
/// `session`.
fn session_may_be_torn(other: &SessionWords, session: &SessionRecord) -> bool {
    let whole = session.encode();
    if !session.clean {
        return other[0].abs_diff(whole[0]) <= 1
            && is_size(other[1])
            && is_state(other[2])
            && is_framed(other, &whole);
    }
    // The end of the session had been written to one copy, and a part of it to this one. Then sessions may have begun,
    // any number of them, by systems and devices that are not known: as long as none was written as a whole, each goes
    // by the other copy, and begins over what the one before it has left.
    let before = SessionRecord { clean: false, generation: whole[0].wrapping_sub(1), ..*session };
    let before = before.encode();
    let begins = |index: usize| match index {
        0 => other[0] == whole[0].wrapping_add(1),
        1 | 6 => other[index] == whole[index],
        2 => is_state(other[2]) && other[2] & 1 == 0,
        _ => index < CHECKSUM,
    };
    (0..=CHECKSUM).take_while(|&begun| (0..begun).all(begins)).any(|begun| {
        (begun..=SESSION_WORDS).any(|ended| {
            other[begun..ended] == whole[begun..ended] && other[ended..] == before[ended..]
        })
    })
}

/// Whether a word may be that of a mark and a domain.
fn is_state(word: u64) -> bool {
    word & !0xFF01 == 0 && Domain::from_byte((word >> 8) as u8).is_some()
}

/// Whether a copy has what all sessions have.
fn is_framed(other: &SessionWords, whole: &SessionWords) -> bool {
    other[6] == 0 && other[7] >> 32 == whole[7] >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Header, LogNote};

    fn session(clean: bool, generation: u64) -> SessionRecord {
        SessionRecord {
            generation,
            size: 1 << 20,
            clean,
            domain: Domain::Process,
            boot_id: [7; 16],
            dirty_shutdowns: None,
        }
    }

    /// All that sessions can leave of both copies, of which each is cut short after any number of words: `lives` of
    /// them, by systems that have all started anew.
    fn cut_short(lives: u8) -> std::collections::HashSet<[SessionWords; 2]> {
        let place = std::path::Path::new("test.pool");
        let mut states = std::collections::HashSet::from([[session(true, 8).encode(); 2]]);
        for life in 1..=lives {
            for copies in states.clone() {
                let (last, whole, _) = session_record::choose(&copies, place).unwrap();
                let boot_id = [life; 16];
                let begun = SessionRecord {
                    clean: false,
                    generation: last.generation + 1,
                    boot_id,
                    ..last
                };
                let grown = SessionRecord {
                    size: 2 * last.size,
                    generation: begun.generation + 1,
                    ..begun
                };
                let ended = |last: SessionRecord| SessionRecord {
                    clean: true,
                    generation: last.generation + 1,
                    ..last
                };
                let mut rewrite = |from: [SessionWords; 2], new: SessionRecord, first: usize| {
                    let mut now = from;
                    for copy in [first, 1 - first] {
                        for torn in torn(from[copy], new.encode()) {
                            now[copy] = torn;
                            states.insert(now);
                        }
                    }
                    now
                };
                let in_use = rewrite(copies, begun, 1 - whole);
                rewrite(in_use, ended(begun), 1);
                let in_use = rewrite(in_use, grown, 1);
                rewrite(in_use, ended(grown), 1);
            }
        }
        states
    }

    /// What was told as damage: an end that was cut short, and a beginning over what that had left.
    #[test]
    fn sessions_cut_short_one_after_the_other_are_no_damage() {
        for copies in cut_short(3) {
            let chosen = session_record::choose(&copies, std::path::Path::new("test.pool"));
            let (session, whole, _) = chosen.unwrap();
            let may_be =
                |other: &SessionWords, _: &SessionWords| session_may_be_torn(other, &session);
            assert_eq!(damaged(&copies, Some(whole), may_be), None, "{copies:x?}");
        }
    }

    /// The words of `new` over those of `old`, as far as they were written.
    fn torn<const N: usize>(old: [u64; N], new: [u64; N]) -> impl Iterator<Item = [u64; N]> {
        let word = move |count, at| if at < count { new[at] } else { old[at] };
        (0..=N).map(move |count| std::array::from_fn(|at| word(count, at)))
    }

    /// Every rewriting of the session, cut short after any word, with the copy that counts then.
    #[test]
    fn a_session_that_was_cut_short_is_no_damage() {
        let grown = SessionRecord { size: 2 << 20, ..session(false, 9) };
        let other_boot = SessionRecord { boot_id: [9; 16], ..session(false, 9) };
        let rewritings = [
            (session(false, 8), session(true, 9)),
            (session(false, 8), grown),
            (session(true, 8), session(false, 9)),
            (session(true, 8), other_boot),
            (session(false, 8), other_boot),
        ];
        for (old, new) in rewritings {
            for torn in torn(old.encode(), new.encode()) {
                if torn != old.encode() && torn != new.encode() {
                    assert!(session_may_be_torn(&torn, &old), "first copy, {new:?}: {torn:x?}");
                }
                if torn != new.encode() {
                    assert!(session_may_be_torn(&torn, &new), "second copy, {new:?}: {torn:x?}");
                }
            }
        }
    }

    #[test]
    fn a_header_that_was_cut_short_is_no_damage() {
        let old = Header {
            uuid: [7; 16],
            max_size: 1 << 30,
            created_ns: 77,
            domain: Domain::Process,
            generation: 3,
            features: 1,
            compatible: 0,
            log: LogNote::default(),
        };
        let changes = [
            Header { generation: 4, features: KNOWN_FEATURES, ..old },
            Header { generation: 4, compatible: 1 << 40, ..old },
            Header { generation: 4, max_size: 2 << 30, ..old },
            Header {
                generation: 4,
                features: KNOWN_FEATURES,
                log: LogNote { log: 3, generation: 5 },
                ..old
            },
        ];
        for new in changes.map(|new| new.encode()) {
            for torn in torn(old.encode(), new) {
                assert!(header_may_be_torn(&torn, &old.encode()), "first copy: {torn:x?}");
                assert!(header_may_be_torn(&torn, &new), "second copy: {torn:x?}");
            }
        }
    }
}
