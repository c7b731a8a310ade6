//! Size classes of records: 16-byte steps up to 128 bytes, then four steps per doubling.
//!
//! The waste inside a record is below 16 bytes up to 128 and below 20 % above.

use crate::layout::{CHUNK_HEADER_SIZE, RECORD_ALIGN};

/// Number of size classes.
pub const CLASS_COUNT: usize = 44;
/// The largest size that has a class, in bytes; larger records own whole chunks.
pub const CLASS_SIZE_MAX: usize = class_size(CLASS_COUNT - 1);

const LINEAR: usize = 8;

/// Bytes of a record of `class`.
pub const fn class_size(class: usize) -> usize {
    if class < LINEAR {
        (class + 1) * RECORD_ALIGN
    } else {
        let doubling = (class - LINEAR) / 4;
        let step = (class - LINEAR) % 4 + 1;
        (128 + 32 * step) << doubling
    }
}

/// The smallest class that holds `size` bytes (at least 1); `None` if only chunks do.
pub fn class_of(size: usize) -> Option<usize> {
    if size <= 128 {
        return Some(size.div_ceil(RECORD_ALIGN).max(1) - 1);
    }
    if size > CLASS_SIZE_MAX {
        return None;
    }
    // 128 << doubling < size <= 256 << doubling
    let doubling = (usize::BITS - (size - 1).leading_zeros()) as usize - 8;
    let step = (size - (128 << doubling)).div_ceil(32 << doubling);
    Some(LINEAR + doubling * 4 + step - 1)
}

/// Records of `class` that fit a chunk of `chunk_size` bytes.
pub fn slots_per_chunk(class: usize, chunk_size: usize) -> usize {
    (chunk_size - CHUNK_HEADER_SIZE) / class_size(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_holds_it() {
        for size in 1..=CLASS_SIZE_MAX {
            let class = class_of(size).expect("below the largest class");
            assert!(class_size(class) >= size, "size {size} class {class}");
            assert!(class == 0 || class_size(class - 1) < size, "size {size} class {class}");
            assert_eq!(class_size(class) % RECORD_ALIGN, 0);
        }
        assert_eq!(class_of(CLASS_SIZE_MAX + 1), None);
        assert_eq!(CLASS_SIZE_MAX, 65_536);
    }
}
