//! Reading a file of which some parts cannot be read, because its disk has gone bad.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Result as IoResult};

/// What is tried alone when more of it cannot be read, in bytes.
const PAGE: u64 = 4096;
/// So many parts are told one by one.
const TOLD_MAX: usize = 100;

/// Reads all that can be read, and notes what cannot: that reads as zero.
pub struct Readable<R> {
    read_at: R,
    /// Parts by their first byte: the one behind their last, and why they cannot be read.
    unread: RefCell<BTreeMap<u64, (u64, String)>>,
}

impl<R: Fn(&mut [u8], u64) -> IoResult<()>> Readable<R> {
    /// What `read_at` reads: all that it is asked for, or it fails.
    pub fn new(read_at: R) -> Self {
        Readable { read_at, unread: RefCell::default() }
    }

    /// Reads what can be read of these bytes. False if the file ends before.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> bool {
        match (self.read_at)(bytes, offset) {
            Ok(()) => return true,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return false,
            Err(_) => {}
        }
        let mut rest = bytes;
        let mut at = offset;
        while !rest.is_empty() {
            let size = (PAGE - at % PAGE).min(rest.len() as u64);
            let (part, behind) = rest.split_at_mut(size as usize);
            match (self.read_at)(part, at) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return false,
                Err(error) => {
                    part.fill(0);
                    // All of the page: it is what the disk gives, and nothing is told twice.
                    let page = at / PAGE * PAGE;
                    self.unread.borrow_mut().insert(page, (page + PAGE, error.to_string()));
                }
            }
            at += size;
            rest = behind;
        }
        true
    }

    /// What could not be read, in words.
    pub fn told(&self) -> Vec<String> {
        let mut parts: Vec<(u64, u64, String)> = vec![];
        for (start, (end, why)) in self.unread.borrow().iter() {
            match parts.last_mut() {
                Some((_, last, known)) if last == start && known == why => *last = *end,
                _ => parts.push((*start, *end, why.clone())),
            }
        }
        let more = parts.len().saturating_sub(TOLD_MAX);
        let tell = |(start, end, why): &(u64, u64, String)| {
            format!("the bytes from {start} to {end} cannot be read, nor what was there: {why}")
        };
        let mut told: Vec<String> = parts.iter().take(TOLD_MAX).map(tell).collect();
        if more > 0 {
            told.push(format!("{more} further parts of the file cannot be read"));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error;

    /// All that was read together with a page that cannot be read was lost, and where nothing else missed it, nobody
    /// was told.
    #[test]
    fn an_unreadable_page_is_told_and_what_lies_beside_it_is_read() {
        let file: Vec<u8> = (0..10 * PAGE as usize).map(|at| (at / 7) as u8).collect();
        let read_at = |bytes: &mut [u8], offset: u64| {
            let (start, end) = (offset, offset + bytes.len() as u64);
            if end > file.len() as u64 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if [3, 4, 7].iter().any(|page| start < (page + 1) * PAGE && end > page * PAGE) {
                return Err(Error::from_raw_os_error(5));
            }
            bytes.copy_from_slice(&file[start as usize..end as usize]);
            Ok(())
        };
        let readable = Readable::new(read_at);
        let (start, size) = (100, 9 * PAGE as usize);
        let mut bytes = vec![1; size];
        assert!(readable.read(start, &mut bytes));
        for (at, byte) in (start as usize..).zip(&bytes) {
            let is_lost = [3, 4, 7].contains(&(at as u64 / PAGE));
            assert_eq!(*byte, if is_lost { 0 } else { file[at] }, "{at}");
        }
        assert!(readable.read(3 * PAGE + 8, &mut [0; 8]), "it is told once");
        assert!(!readable.read(9 * PAGE, &mut vec![0; 2 * PAGE as usize]), "it ends before");
        let told = readable.told();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("the bytes from 12288 to 20480 "), "{told:?}");
        assert!(told[1].starts_with("the bytes from 28672 to 32768 "), "{told:?}");
    }
}
