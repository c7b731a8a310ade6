//! The session: how large the pool is, and how its last use ended. Two copies, each with its
//! checksum, both written at every change.

use std::path::Path;

use everleaf_machine::Machine;

use crate::backing::is_boot_known;
use crate::checksum::crc32c_of_words;
use crate::header::{halves, whole};
use crate::layout::{SESSION_MARK, SESSION_OFFSETS, SESSION_WORDS, SIZE_GRANULE, SIZE_MIN};
use crate::view::View;
use crate::{Domain, Environment, PoolError};

/// The words of one copy.
pub type SessionWords = [u64; SESSION_WORDS];

/// What a session record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    pub generation: u64,
    pub size: u64,
    pub clean: bool,
    pub domain: Domain,
    pub boot_id: [u8; 16],
    pub dirty_shutdowns: Option<u64>,
}

/// What says that the machine crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// A part of a sentence.
    pub told: &'static str,
    /// Whether it did; otherwise it may have.
    pub is_certain: bool,
}

impl SessionRecord {
    /// The words of a copy.
    pub fn encode(&self) -> SessionWords {
        let mut words = [0; SESSION_WORDS];
        words[0] = self.generation;
        words[1] = self.size;
        words[2] = u64::from(self.clean) | (self.domain as u64) << 8;
        (words[3], words[4]) = halves(self.boot_id);
        words[5] = self.dirty_shutdowns.unwrap_or(u64::MAX);
        words[7] = seal(&words);
        words
    }

    /// Writes the session over both copies, the one that is not `whole` first, so that one stays
    /// whole at any instant (I1). On return both are durable (I2, I5).
    #[track_caller]
    pub fn write<M: Machine>(&self, view: View<M>, whole: usize) {
        let words = self.encode();
        let whole = if M::mutant("pool.whole_copy_first") { 1 - whole } else { whole };
        view.write(SESSION_OFFSETS[1 - whole], &words);
        if M::mutant("pool.second_copy_unflushed") {
            view.prepare(SESSION_OFFSETS[whole], &words);
        } else {
            view.write(SESSION_OFFSETS[whole], &words);
        }
    }

    /// Why the pool's contents cannot be relied on, if so: the session was not closed and what it
    /// stored did not outlive the machine.
    pub fn crashed_with_machine(&self, now: &Environment) -> Option<Evidence> {
        if self.clean {
            return None;
        }
        let certain = |told| Some(Evidence { told, is_certain: true });
        match self.domain {
            Domain::Process if self.boot_id == now.boot_id => None,
            Domain::Process if is_boot_known(self.boot_id) && is_boot_known(now.boot_id) => {
                certain("it was not closed, and the system has been started anew since")
            }
            Domain::Process => Some(Evidence {
                told: "it was not closed, and whether the system has been started anew since is not known: \
                       /proc/sys/kernel/random/boot_id was not to be read",
                is_certain: false,
            }),
            // Persistent memory keeps what was durable, unless its own last flush failed.
            Domain::Adr | Domain::Eadr => match (self.dirty_shutdowns, now.dirty_shutdowns) {
                (Some(then), Some(now)) if then != now => certain(
                    "it was not closed, and the memory device reports a dirty shutdown since",
                ),
                _ => None,
            },
        }
    }
}

/// Finds the session in its two copies. Returns it with the number of the copy it was found in and
/// whether the other copy is the same.
///
/// # Errors
/// `Damaged` if neither is whole.
pub fn choose(
    copies: &[SessionWords; 2],
    path: &Path,
) -> Result<(SessionRecord, usize, bool), PoolError> {
    match copies.map(|words| decode(&words)) {
        [Some(a), Some(b)] => {
            let newer = usize::from(b.generation > a.generation);
            Ok(([a, b][newer], newer, copies[0] == copies[1]))
        }
        [Some(a), None] => Ok((a, 0, false)),
        [None, Some(b)] => Ok((b, 1, false)),
        [None, None] => {
            let what = "neither copy of the session record (the pool's size) is whole".to_owned();
            Err(PoolError::Damaged { path: path.into(), offset: SESSION_OFFSETS[0], what })
        }
    }
}

fn decode(words: &SessionWords) -> Option<SessionRecord> {
    if words[7] != seal(words) {
        return None;
    }
    let session = SessionRecord {
        generation: words[0],
        size: words[1],
        clean: words[2] & 1 == 1,
        domain: Domain::from_byte((words[2] >> 8) as u8)?,
        boot_id: whole([words[3], words[4]]),
        dirty_shutdowns: (words[5] != u64::MAX).then_some(words[5]),
    };
    // Even under a checksum that fits, only what we write ourselves is believed.
    let sound = *words == session.encode()
        && session.size >= SIZE_MIN
        && session.size.is_multiple_of(SIZE_GRANULE);
    sound.then_some(session)
}

fn seal(words: &SessionWords) -> u64 {
    let mark = u64::from(u32::from_le_bytes(SESSION_MARK));
    mark << 32 | u64::from(crc32c_of_words(&words[..7]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionRecord {
        SessionRecord {
            generation: 8,
            size: 1 << 20,
            clean: false,
            domain: Domain::Process,
            boot_id: [7; 16],
            dirty_shutdowns: None,
        }
    }

    fn found(copies: [SessionWords; 2]) -> Result<(SessionRecord, usize, bool), PoolError> {
        choose(&copies, Path::new("test.pool"))
    }

    #[test]
    fn a_session_is_read_back_from_either_copy() {
        let words = session().encode();
        assert_eq!(found([words, words]).unwrap(), (session(), 0, true));
        assert_eq!(found([[0; 8], words]).unwrap(), (session(), 1, false));
        let later = SessionRecord { generation: 9, size: 2 << 20, ..session() }.encode();
        assert_eq!(found([words, later]).unwrap().0.size, 2 << 20);
        assert!(matches!(found([[0; 8]; 2]), Err(PoolError::Damaged { .. })));
    }

    #[test]
    fn a_sealed_session_with_impossible_numbers_is_refused() {
        for (index, value) in [(1, 0), (1, (1 << 20) + 1), (2, 0x0900), (2, 0x10301), (6, 1)] {
            let mut words = session().encode();
            words[index] = value;
            words[7] = seal(&words);
            assert!(found([words; 2]).is_err(), "word {index} as {value:#x}");
        }
    }

    #[test]
    fn only_a_machine_crash_of_an_unclean_session_is_distrusted() {
        let now = |boot, dirty| Environment {
            boot_id: [boot; 16],
            dirty_shutdowns: dirty,
            ..Environment::default()
        };
        let crashed = |session: SessionRecord, now| session.crashed_with_machine(&now).is_some();
        assert!(!crashed(session(), now(7, None)));
        assert!(crashed(session(), now(8, None)));
        // Of a machine that tells no boot, each time is another.
        let not_known = SessionRecord { boot_id: [0x0A; 16], ..session() };
        assert!(crashed(not_known, now(0x0B, None)) && crashed(not_known, now(0x48, None)));
        let certain = |session: SessionRecord, now| {
            session.crashed_with_machine(&now).is_some_and(|evidence| evidence.is_certain)
        };
        assert!(!certain(not_known, now(0x48, None)) && !certain(session(), now(7, None)));
        assert!(!crashed(SessionRecord { clean: true, ..session() }, now(8, None)));
        let memory = SessionRecord { domain: Domain::Adr, dirty_shutdowns: Some(3), ..session() };
        assert!(!crashed(memory, now(8, Some(3))));
        assert!(crashed(memory, now(8, Some(4))));
        assert!(!crashed(memory, now(8, None)));
        assert!(!crashed(SessionRecord { dirty_shutdowns: None, ..memory }, now(8, Some(4))));
    }
}
