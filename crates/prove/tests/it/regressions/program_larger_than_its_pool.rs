//! A tiny program of byte strings was larger than its pool, and a refused insertion counted as a failure of the tree.
//!
//! Found by chance, with trees of all three kinds. At the opening, three of the four sessions had taken a chunk of
//! three blocks each for the two that they are to have at hand, and the fourth the five that were free. With seven
//! leaves that lived, those were seven chunks; six more had records of six classes. There are thirteen in a pool of
//! 128 KiB, so a split found none for the four blocks that it asks for.

use everleaf_machine::simulated::Config;
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::structures::find;

#[test]
fn a_tiny_program_of_byte_strings_fits_its_pool() {
    for name in ["nbtree-bytes", "hashed-leaf-bytes", "hashed-leaf-bytes-at-once"] {
        let structure = find(name).expect("it is there");
        let case = structure.case("crowd/2/far/usual/a3231917").expect("it is known");
        let config = exhaustive(&Config::default(), 1);
        let (report, failure) = case.explore(&config, 20);
        assert!(failure.is_none(), "{name}: {failure:?}");
        assert!(report.counts.schedules > 0);
    }
}
