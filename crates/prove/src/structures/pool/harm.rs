//! What is done to copies of a pool before each opening: a bit of one copy of the header is flipped, and the other
//! counts; or the pool is opened to be read, and nothing of it may change.

use everleaf_machine::check_sum::crc32c;
use everleaf_machine::simulated::Memory;
use everleaf_pool::KNOWN_FEATURES;
use everleaf_pool::layout::{HEADER_OFFSETS, HEADER_SIZE};

use crate::machine::backing::read_pool;
use crate::structures::maps::{bytes_of, copy_of};

/// Bytes of a pool whose sum says which bit it is.
const SUMMED: usize = 16 << 10;

/// Demands that a pool, of whose header both copies are whole, says the same of itself when a bit of one is not as it
/// was.
pub(super) fn demand_whole(memory: Memory) -> Result<(), String> {
    let bytes = bytes_of(&memory);
    let copies = HEADER_OFFSETS.map(|offset| &bytes[offset as usize..][..HEADER_SIZE as usize]);
    if copies[0] != copies[1] {
        return Err("the copies of a header differ behind an opening".to_owned());
    }
    // Others in each state of the pool, and the same whenever it is run.
    let chance = crc32c(&bytes[..SUMMED]) as usize;
    let bit = chance / 2 % (8 * HEADER_SIZE as usize);
    let mut harmed = bytes.to_vec();
    harmed[HEADER_OFFSETS[chance % 2] as usize + bit / 8] ^= 1 << (bit % 8);
    let harmed = copy_of(&harmed, memory.domain());
    let told = |memory| {
        let pool = read_pool(memory).map_err(|error| error.to_string())?;
        Ok::<_, String>((pool.max_size(), pool.features(), pool.size()))
    };
    let (whole, found) = (told(memory)?, told(harmed.memory()));
    if found != Ok(whole) {
        return Err(format!("bit {bit} of a header is flipped, and {found:?} was {whole:?}"));
    }
    Ok(())
}

/// Demands that a reader changes nothing, and is refused what would.
pub(super) fn demand_unchanged(memory: Memory) -> Result<(), String> {
    let bytes = bytes_of(&memory);
    let copy = copy_of(bytes, memory.domain());
    let pool = read_pool(copy.memory()).map_err(|error| error.to_string())?;
    let changes = [
        pool.next_id().is_ok(),
        pool.create_root("of a reader", 0, 0).is_ok(),
        pool.enable_features(KNOWN_FEATURES).is_ok(),
        pool.set_clean().is_ok(),
    ];
    if changes != [false; 4] || bytes_of(&copy.memory()) != bytes {
        return Err(format!("a reader changes the pool: {changes:?}"));
    }
    Ok(())
}
