//! Records, and what becomes of one that is changed.

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
