//! Made programs by name.

use everleaf_machine::simulated::Random;
use everleaf_prove::programs::made::{KEYS, Made, ROOMS, WRITES, draw_operations, draw_phases};

#[test]
fn a_name_says_all() {
    let random = &mut Random::new(3);
    for number in 0..200 {
        let made = Made {
            slots: 2 + number % 9,
            keys: KEYS[number % 4].1,
            threads: 1 + number % 4,
            room: ROOMS[number % 5].1,
            operations: draw_operations(random),
            walk: draw_phases(random, 4),
            warm: draw_phases(random, 3),
            tail: random.next() as u32,
        };
        assert!(made.operations & WRITES != 0);
        assert_eq!(Made::from_name(&made.name()), Some(made));
    }
    for wrong in ["made/", "made/2/near/9/usual/1/-/-/1", "made/2/near/1/usual/1/-/-", "random/1"] {
        assert_eq!(Made::from_name(wrong), None, "{wrong}");
    }
}
