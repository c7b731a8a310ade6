//! Scans tell of a value whose bytes have changed, forwards and backwards, unless they are not to look.

use everleaf::{Error, Options};

const MARK: &[u8] = b"a value of which one byte is going to change";

fn value(number: u32, size: usize) -> Vec<u8> {
    match number {
        123 => [MARK, &vec![b'.'; size]].concat(),
        _ => vec![number as u8; size],
    }
}

#[test]
fn a_changed_byte_is_told_by_scans_unless_they_do_not_verify() {
    // Sums of one stream, of three, and of many times three.
    for size in [0, 400, 9000] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let store = Options::new().create(true).open(&path).expect("it opens");
        for number in 0..300u32 {
            store.put(&number.to_be_bytes(), &value(number, size)).expect("room");
        }
        store.close().expect("closed");
        let mut bytes = std::fs::read(&path).expect("readable");
        let place = bytes.windows(MARK.len()).position(|bytes| bytes == MARK).expect("it is there");
        bytes[place + MARK.len() + size - 1] ^= 1;
        std::fs::write(&path, &bytes).expect("writable");

        let store = Options::new().read_only(true).open(&path).expect("it opens");
        let mut range = store.iter();
        assert!(range.by_ref().count() <= 123, "nothing behind it");
        assert!(matches!(range.take_error(), Some(Error::Corrupt(_))));
        let mut range = store.iter();
        assert!(range.by_ref().rev().count() <= 300 - 124, "nothing before it");
        assert!(matches!(range.take_error(), Some(Error::Corrupt(_))));
        let scanned = store.scan(.., false, |_, _| std::ops::ControlFlow::Continue(()));
        assert!(matches!(scanned, Err(Error::Corrupt(_))));
        drop(store);

        let store =
            Options::new().read_only(true).verify_scans(false).open(&path).expect("it opens");
        assert_eq!(store.iter().count(), 300);
        assert_eq!(store.iter().rev().count(), 300);
        let mut count = 0;
        let scanned = store.scan(.., false, |_, _| {
            count += 1;
            std::ops::ControlFlow::Continue(())
        });
        scanned.expect("nobody looked");
        assert_eq!(count, 300);
    }
}
