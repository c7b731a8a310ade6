//! How large segments are, and how far a key may be from its home.

/// A configuration of the index.
pub trait Variant: Copy + Default + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Its number in the pool's directory.
    const KIND: u16;
    /// Lines of pairs in a segment, at least 1. With the line of its head they fill a record of the
    /// allocator.
    const LINES: usize;
    /// Pairs of a line that are used, 1..=4.
    const PAIRS: usize = 4;
    /// Lines in which a key is looked for, 1..=`LINES`.
    const PROBES: usize;
}

/// Segments of 16 KiB; a key is in one of four lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard;

impl Variant for Standard {
    const NAME: &'static str = "cceh";
    const KIND: u16 = 0x80;
    const LINES: usize = 255;
    const PROBES: usize = 4;
}

/// A few lines with a few pairs each: for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Small<const LINES: usize = 2, const PAIRS: usize = 2, const PROBES: usize = 2>;

impl<const LINES: usize, const PAIRS: usize, const PROBES: usize> Variant
    for Small<LINES, PAIRS, PROBES>
{
    const NAME: &'static str = "cceh-small";
    const KIND: u16 = 0x81;
    const LINES: usize = LINES;
    const PAIRS: usize = PAIRS;
    const PROBES: usize = PROBES;
}
