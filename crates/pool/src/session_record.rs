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
    /// Of the boot of the kernel, with the file's place ([`noted`]).
    pub boot_id: [u8; 16],
    pub dirty_shutdowns: Option<u64>,
}

/// What a session notes of a boot and of the place of a file, which is 0 if it is not known: the boot's id, in whose
/// last eight bytes the place is mixed. Then an older Everleaf takes the session for one of another boot, and no
/// more.
pub fn noted(boot_id: [u8; 16], place: u64) -> [u8; 16] {
    let (first, last) = halves(boot_id);
    whole([first, last ^ place])
}

/// What stands in place of the boot in the session of a pool that the disk refused to write: the page cache may show
/// what the disk has not got, and a later write that succeeds says nothing about it. No boot has this id, and an older
/// Everleaf takes it for one that is not known.
pub const WRITE_FAILED: [u8; 16] = *b"write\0\0failed\0\0\0";

/// The place that was noted with this boot; `None` with another one.
fn place_in(noted: [u8; 16], boot_id: [u8; 16]) -> Option<u64> {
    let ((first, last), (boot_first, boot_last)) = (halves(noted), halves(boot_id));
    (first == boot_first).then_some(last ^ boot_last)
}

/// Whether what a file has may be older than what was stored in it, though the kernel is the same: it was there by
/// another mount, and the kernel has forgotten it since.
fn is_forgotten(place: u64, now: &Environment) -> bool {
    let is_known = place != 0 && now.place != 0;
    // Another file is a copy, which has what the kernel had.
    let is_same_file = place as u32 == now.place as u32;
    is_known && is_same_file && place != now.place && now.is_kept == Some(false)
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

    /// Whether a write of the pool to the disk has failed, and nothing has made up for it since.
    pub fn has_failed_write(&self) -> bool {
        !self.clean && self.boot_id == WRITE_FAILED
    }

    /// Why the pool's contents cannot be relied on, if so: the session was not closed and what it
    /// stored did not outlive the machine.
    pub fn crashed_with_machine(&self, now: &Environment) -> Option<Evidence> {
        if self.clean {
            return None;
        }
        let certain = |told| Some(Evidence { told, is_certain: true });
        let place = place_in(self.boot_id, now.boot_id);
        let is_same_boot =
            self.boot_id == now.boot_id || is_boot_known(self.boot_id) && place.is_some();
        match self.domain {
            Domain::Process if self.has_failed_write() => Some(Evidence {
                told: "it was not closed, and the disk had refused a write of it, so that it may lack what \
                       memory shows",
                is_certain: false,
            }),
            Domain::Process if place.is_some_and(|place| is_forgotten(place, now)) => {
                Some(Evidence {
                    told: "it was not closed, and its file system has been mounted anew since, which loses nothing \
                       only if it was unmounted in order before",
                    is_certain: false,
                })
            }
            Domain::Process if is_same_boot => None,
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
    // Even under a checksum that fits, only what we write ourselves is believed; and there is a next generation.
    let sound = *words == session.encode()
        && session.generation < u64::MAX >> 1
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
        for (index, value) in
            [(0, u64::MAX), (1, 0), (1, (1 << 20) + 1), (2, 0x0900), (2, 0x10301), (6, 1)]
        {
            let mut words = session().encode();
            words[index] = value;
            words[7] = seal(&words);
            assert!(found([words; 2]).is_err(), "word {index} as {value:#x}");
        }
    }

    /// Only the boot was compared: what had been synced to the log was lost when a file system went and came back.
    #[test]
    fn a_file_that_the_kernel_has_forgotten_is_distrusted() {
        let place = |mount: u64, file: u64| mount << 32 | file;
        let boot_id = *b"\x11\x22\x33\x44\x55\x66\x77\x88abcdefgh";
        let now =
            |place, is_kept| Environment { boot_id, place, is_kept, ..Environment::default() };
        let is_distrusted = |then: u64, now: Environment| {
            let session = SessionRecord { boot_id: noted(boot_id, then), ..session() };
            session.crashed_with_machine(&now).is_some_and(|evidence| !evidence.is_certain)
        };
        let then = place(70, 9);
        assert!(is_distrusted(then, now(place(71, 9), Some(false))));
        // A container or a service has a mount of its own; the kernel has the file.
        assert!(!is_distrusted(then, now(place(71, 9), Some(true))));
        // The file had long been written back, and left the memory.
        assert!(!is_distrusted(then, now(then, Some(false))));
        // A copy; what cannot be told.
        assert!(!is_distrusted(then, now(place(71, 8), Some(false))));
        assert!(!is_distrusted(then, now(place(71, 9), None)));
        assert!(!is_distrusted(then, now(0, Some(false))));
        assert!(!is_distrusted(0, now(place(71, 9), Some(false))));
        // Another boot is one, wherever the file was.
        let other = Environment { boot_id: [0x77; 16], ..now(place(71, 9), Some(true)) };
        let session = SessionRecord { boot_id: noted(boot_id, then), ..session() };
        assert!(session.crashed_with_machine(&other).is_some_and(|evidence| evidence.is_certain));
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
