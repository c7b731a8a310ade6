//! The parts of a pool that had no space when it was opened.

/// First byte, and the one behind the last, of each part, in ascending order.
#[derive(Debug, Default)]
pub struct Holes(pub Vec<(u64, u64)>);

impl Holes {
    /// What of them lies from `start` to `end`. Finding the first takes the logarithm of their number.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.0.partition_point(|(_, to)| *to <= start);
        let parts = self.0[first..].iter().take_while(move |(from, _)| *from < end);
        parts.map(move |(from, to)| (*from.max(&start), *to.min(&end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_to_what_is_asked_about() {
        let holes = Holes(vec![(0, 10), (20, 30), (40, 50)]);
        let within = |start, end| holes.within(start, end).collect::<Vec<_>>();
        assert_eq!(within(5, 45), [(5, 10), (20, 30), (40, 45)]);
        assert_eq!(within(22, 25), [(22, 25)]);
        assert_eq!(within(10, 20), []);
        assert_eq!(within(30, 40), []);
        assert_eq!(within(50, 60), []);
        assert_eq!(within(0, 100), holes.0);
    }
}
