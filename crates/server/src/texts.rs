//! Many byte strings in one buffer, each behind its length: what an item takes besides itself is less than a reply
//! takes for it, so that whatever fits into a reply can be held until it is written.

/// Bits of a length in a byte, and the mark that more follow.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

/// Byte strings, in order.
#[derive(Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    len: usize,
}

impl Texts {
    /// Adds one behind the others.
    pub fn push(&mut self, text: &[u8]) {
        let mut rest = text.len();
        while rest >= usize::from(MORE) {
            self.bytes.push(rest as u8 | MORE);
            rest >>= BITS;
        }
        self.bytes.push(rest as u8);
        self.bytes.extend_from_slice(text);
        self.len += 1;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first one.
    pub fn first(&self) -> Option<&[u8]> {
        self.iter().next()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (mut size, mut shift) = (0, 0);
            loop {
                let (&byte, behind) = rest.split_first()?;
                rest = behind;
                size |= usize::from(byte & !MORE) << shift;
                if byte & MORE == 0 {
                    break;
                }
                shift += BITS;
            }
            let (text, behind) = rest.split_at(size);
            rest = behind;
            Some(text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_come_back_in_order() {
        let wanted: Vec<Vec<u8>> = [0, 1, 127, 128, 0, 300, 16_383, 16_384, 3_000_000]
            .into_iter()
            .enumerate()
            .map(|(number, size)| vec![number as u8; size])
            .collect();
        let mut texts = Texts::default();
        assert!(texts.is_empty() && texts.first().is_none());
        wanted.iter().for_each(|text| texts.push(text));
        assert_eq!(texts.iter().collect::<Vec<_>>(), wanted);
        assert_eq!((texts.len(), texts.first()), (wanted.len(), Some(&b""[..])));
    }
}
