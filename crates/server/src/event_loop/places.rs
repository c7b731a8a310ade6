//! Places of connections in an event loop.

/// Places of connections, each once.
#[derive(Debug, Default)]
pub(super) struct Places {
    list: Vec<usize>,
    is_listed: Vec<bool>,
}

impl Places {
    /// Adds a place, unless it is there.
    pub(super) fn add(&mut self, place: usize) {
        if place >= self.is_listed.len() {
            self.is_listed.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.is_listed[place], true) {
            self.list.push(place);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes all out, in the order in which they came.
    pub(super) fn take(&mut self) -> Vec<usize> {
        let list = std::mem::take(&mut self.list);
        list.iter().for_each(|&place| self.is_listed[place] = false);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    /// A connection with an event that also had more to do was served, and listed, twice in each turn.
    #[test]
    fn a_place_is_listed_once_until_it_is_taken() {
        let mut places = Places::default();
        for place in [7, 0, 7, 3, 0] {
            places.add(place);
        }
        assert_eq!(places.take(), [7, 0, 3]);
        assert!(places.is_empty());
        places.add(3);
        assert_eq!(places.take(), [3]);
    }
}
