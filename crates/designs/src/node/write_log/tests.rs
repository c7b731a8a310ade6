//! Records, and what becomes of one that is changed; heads of chunks and links.

use super::*;

#[test]
fn a_record_survives_encoding_and_no_flipped_bit_does() {
    let records = [
        Record { key: 7, value: Some(70), sequence: 1, link: 0 },
        Record { key: u64::MAX - 1, value: None, sequence: (1 << 47) - 1, link: (1 << 48) - 64 },
    ];
    for record in records {
        let words = record.encode([5, 8]);
        assert_eq!(Record::decode(words, [5, 8]), Some(record));
        assert_eq!(Record::decode(words, [6, 8]), None);
        assert_eq!(Record::decode(words, [5, 9]), None);
        for bit in 0..256 {
            let mut flipped = words;
            flipped[bit / 64] ^= 1 << (bit % 64);
            assert_eq!(Record::decode(flipped, [5, 8]), None, "bit {bit}");
        }
    }
}

#[test]
fn a_record_that_is_turned_is_one_of_a_removal() {
    let record = Record { key: 7, value: Some(70), sequence: 5, link: 64 };
    let words = record.encode([5, 8]);
    let mut turned = words;
    turned[3] = removal_meta([5, 8], words);
    assert_eq!(Record::decode(turned, [5, 8]), Some(Record { value: None, ..record }));
    assert_eq!(Record::decode(turned, [5, 9]), None);
}

#[test]
fn no_flipped_bit_of_a_head_or_a_link_is_missed() {
    let (place, mark, before) = (3 << 18 | 64, [7 << 32 | 5, 12], 2046);
    for bit in 0..64 {
        let flip = 1 << bit;
        let sum = chunk::head_sum(place, mark, before);
        assert_ne!(chunk::head_sum(place, [mark[0] ^ flip, mark[1]], before), sum, "bit {bit}");
        assert_ne!(chunk::head_sum(place, [mark[0], mark[1] ^ flip], before), sum, "bit {bit}");
        assert_ne!(chunk::head_sum(place, mark, before ^ flip), sum, "bit {bit}");
        // What it leads to then is another place, or its sum is another one.
        let flipped = link(5, place, mark) ^ flip;
        let reached = flipped & ((1 << 48) - 1);
        assert_ne!(link(5, reached, mark), flipped, "bit {bit}");
    }
    // A word of the root object that was lost is no end of a log.
    assert!((0..24).all(|log| no_link(log) != 0));
}
