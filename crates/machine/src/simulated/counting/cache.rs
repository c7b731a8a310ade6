//! One level of cache: tags and dirty bits, least recently used goes first.

/// The shape of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Its capacity in bytes.
    pub bytes: usize,
    /// Lines per set.
    pub ways: usize,
}

/// A line in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    pub line: u64,
    pub dirty: bool,
}

const EMPTY: Resident = Resident { line: u64::MAX, dirty: false };

/// A set-associative write-back cache. Within a set the most recently used line comes first.
pub struct Cache {
    ways: usize,
    sets: usize,
    lines: Vec<Resident>,
}

impl Cache {
    /// # Panics
    /// If the shape has no whole, positive number of sets.
    pub fn new(shape: CacheShape) -> Self {
        let sets = shape.bytes / 64 / shape.ways;
        assert!(sets > 0 && sets * shape.ways * 64 == shape.bytes, "a whole number of sets");
        Cache { ways: shape.ways, sets, lines: vec![EMPTY; sets * shape.ways] }
    }

    fn set(&mut self, line: u64) -> &mut [Resident] {
        let set = (line % self.sets as u64) as usize;
        &mut self.lines[set * self.ways..(set + 1) * self.ways]
    }

    /// Finds a line and makes it the most recently used.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<&mut Resident> {
        let set = self.set(line);
        let way = set.iter().position(|resident| resident.line == line)?;
        set[..=way].rotate_right(1);
        Some(&mut set[0])
    }

    /// Finds a line without using it.
    pub fn find(&mut self, line: u64) -> Option<&mut Resident> {
        self.set(line).iter_mut().find(|resident| resident.line == line)
    }

    /// Takes a line out.
    pub fn take(&mut self, line: u64) -> Option<Resident> {
        let set = self.set(line);
        let way = set.iter().position(|resident| resident.line == line)?;
        let taken = set[way];
        set[way..].rotate_left(1);
        if let Some(last) = set.last_mut() {
            *last = EMPTY;
        }
        Some(taken)
    }

    /// Puts a line that is not there in as the most recently used; gives the line it displaces.
    pub fn insert(&mut self, resident: Resident) -> Option<Resident> {
        let set = self.set(resident.line);
        set.rotate_right(1);
        let displaced = std::mem::replace(&mut set[0], resident);
        (displaced != EMPTY).then_some(displaced)
    }

    /// Empties the cache; gives all that was in it.
    pub fn empty(&mut self) -> Vec<Resident> {
        let all = self.lines.iter().copied().filter(|resident| *resident != EMPTY).collect();
        self.lines.fill(EMPTY);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(line: u64) -> Resident {
        Resident { line, dirty: false }
    }

    #[test]
    fn the_least_recently_used_line_of_a_full_set_goes() {
        // Two sets of two ways.
        let mut cache = Cache::new(CacheShape { bytes: 256, ways: 2 });
        assert_eq!(cache.insert(clean(0)), None);
        assert_eq!(cache.insert(clean(2)), None);
        assert_eq!(cache.insert(clean(1)), None);
        assert!(cache.touch(0).is_some());
        assert_eq!(cache.insert(clean(4)), Some(clean(2)));
        assert!(cache.touch(1).is_some() && cache.touch(2).is_none());
        assert_eq!(cache.take(0), Some(clean(0)));
        assert_eq!(cache.insert(clean(6)), None);
    }
}
