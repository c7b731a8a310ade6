//! Finding a command by its name, whatever the case of its letters: by a hash of it, in a table that is computed when
//! the server is compiled. Nearly always it is one comparison.

use super::places::{PLACE_COUNT, PLACES, place_of};
use super::table::{COMMANDS, COUNT, NAME_SIZE_MAX, is_fast, same};

/// The index of `GET` in the table.
pub const GET: usize = position("get");
/// The index of `SET` in the table.
pub const SET: usize = position("set");
/// The index of `INCR` in the table.
pub const INCR: usize = position("incr");
/// The index of `MSET` in the table.
pub const MSET: usize = position("mset");

/// Of the commands that should be fast those that may take long: they copy a whole value, go through a set, or wait for
/// others.
const LONG: [usize; 5] = [
    position("append"),
    position("move"),
    position("renamenx"),
    position("swapdb"),
    position("zlexcount"),
];

/// The index of `HRANDFIELD` in the table.
pub const HRANDFIELD: usize = position("hrandfield");
/// The index of `RESTORE` in the table.
pub const RESTORE: usize = position("restore");
/// The index of `SRANDMEMBER` in the table.
pub const SRANDMEMBER: usize = position("srandmember");
/// The index of `ZRANDMEMBER` in the table.
pub const ZRANDMEMBER: usize = position("zrandmember");

/// The index of a command that is known to exist.
const fn position(name: &str) -> usize {
    let mut index = 0;
    while index < COUNT {
        if same(COMMANDS[index].name.as_bytes(), name.as_bytes()) {
            return index;
        }
        index += 1;
    }
    panic!("there is no such command")
}

/// The index of the command of this name, whatever the case of its letters.
pub fn find(name: &[u8]) -> Option<usize> {
    if name.len() > NAME_SIZE_MAX {
        return None;
    }
    let mut bytes = [0; NAME_SIZE_MAX];
    bytes[..name.len()].copy_from_slice(name);
    let word = u128::from_le_bytes(bytes);
    let mut place = place_of(word, name.len());
    loop {
        let index = usize::from(PLACES[place]);
        let spelling = SPELLINGS.get(index)?;
        if word | spelling.letters == spelling.word && spelling.length == name.len() {
            return Some(index);
        }
        place = (place + 1) % PLACE_COUNT;
    }
}

/// Whether the command with this number takes a short time, unless it reads a long value.
#[inline]
pub fn is_short(number: usize) -> bool {
    is_fast(number) && !LONG.contains(&(number % COUNT))
}

/// The name of a command as a number, to be compared at once.
struct Spelling {
    /// In small letters.
    word: u128,
    /// The bit that makes a letter small, for each letter.
    letters: u128,
    length: usize,
}

static SPELLINGS: [Spelling; COUNT] = spellings();

const fn spellings() -> [Spelling; COUNT] {
    let mut all = [const { Spelling { word: 0, letters: 0, length: 0 } }; COUNT];
    let mut index = 0;
    while index < COUNT {
        let name = COMMANDS[index].name.as_bytes();
        let (mut word, mut letters, mut at) = ([0; NAME_SIZE_MAX], [0; NAME_SIZE_MAX], 0);
        while at < name.len() {
            word[at] = name[at];
            letters[at] = if name[at].is_ascii_alphabetic() { 0x20 } else { 0 };
            at += 1;
        }
        all[index] = Spelling {
            word: u128::from_le_bytes(word),
            letters: u128::from_le_bytes(letters),
            length: name.len(),
        };
        index += 1;
    }
    all
}
