//! The table that finds a command by a hash of its name.

use super::table::{COMMANDS, COUNT, NAME_SIZE_MAX};

/// Places of the table that finds a command by a hash of its name: so many more than commands that one is free.
pub const PLACE_COUNT: usize = 512;
/// What a free place has.
const FREE: u8 = u8::MAX;
const _: () = assert!(COUNT < FREE as usize);

/// Where the command of a name is looked for first, whatever the case of its letters.
pub const fn place_of(name: u128, length: usize) -> usize {
    // Setting this bit makes a capital letter small.
    let small = name | u128::from_le_bytes([0x20; NAME_SIZE_MAX]);
    let mixed = (small as u64 ^ (small >> 64) as u64 ^ length as u64).wrapping_mul(MULTIPLIER);
    (mixed >> (u64::BITS - PLACE_COUNT.ilog2())) as usize
}

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The indexes of all commands, each in the first free place from the one on where it is looked for.
pub static PLACES: [u8; PLACE_COUNT] = places();

const fn places() -> [u8; PLACE_COUNT] {
    let (mut places, mut index) = ([FREE; PLACE_COUNT], 0);
    while index < COUNT {
        let name = COMMANDS[index].name.as_bytes();
        let (mut bytes, mut at) = ([0; NAME_SIZE_MAX], 0);
        while at < name.len() {
            bytes[at] = name[at];
            at += 1;
        }
        let mut place = place_of(u128::from_le_bytes(bytes), name.len());
        while places[place] != FREE {
            place = (place + 1) % PLACE_COUNT;
        }
        places[place] = index as u8;
        index += 1;
    }
    places
}
