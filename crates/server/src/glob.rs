//! Glob patterns for keys: `*`, `?`, `[abc]`, `[a-z]`, `[^a]`, and `\` to take a byte as it is.
//!
//! A pattern is taken apart once, so that each step of a match takes the same time, however long its classes are
//! written. Matching is iterative and remembers only the last `*`: a hostile pattern costs at most the bytes of the
//! text times those between two stars, never a deep recursion or an exponential search. A text that is too short for
//! what is left of the pattern is given up at once, and what is behind the last star is compared with the end of the
//! text, once.

/// Bytes that a pattern may ask for: no key is longer, and none is matched by one that asks for more.
const LENGTH_MAX: usize = everleaf::KEY_SIZE_MAX;

#[cfg(test)]
thread_local! {
    /// Patterns that this thread has taken apart.
    pub static TAKEN_COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    /// Those of them that there are, and the most that there were.
    static LIVE_COUNT: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
    pub static PEAK_COUNT: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
impl Drop for Pattern {
    fn drop(&mut self) {
        LIVE_COUNT.set(LIVE_COUNT.get() - 1);
    }
}

/// A pattern that was taken apart.
#[derive(Clone, Debug)]
pub struct Pattern {
    parts: Vec<Part>,
    classes: Vec<Class>,
    /// How many bytes it takes at least: each part takes one, but for the stars.
    length: usize,
    /// The part behind the last star.
    behind_last_star: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// `*`; never two of them.
    Star,
    /// `?`
    Any,
    Byte(u8),
    /// By its index.
    Class(u32),
}

/// A bit for each byte.
type Class = [u64; 4];

impl Pattern {
    pub fn new(pattern: &[u8]) -> Self {
        #[cfg(test)]
        {
            TAKEN_COUNT.set(TAKEN_COUNT.get() + 1);
            LIVE_COUNT.set(LIVE_COUNT.get() + 1);
            PEAK_COUNT.set(PEAK_COUNT.get().max(LIVE_COUNT.get()));
        }
        let mut taken =
            Pattern { parts: Vec::new(), classes: Vec::new(), length: 0, behind_last_star: None };
        let mut rest = pattern;
        // One more than any key has is enough to match none.
        while taken.length <= LENGTH_MAX {
            let (part, after) = match rest {
                [] => break,
                [b'*', after @ ..] => (Part::Star, after),
                [b'?', after @ ..] => (Part::Any, after),
                [b'[', class @ ..] => {
                    let (class, after) = take_class(class);
                    taken.classes.push(class);
                    (Part::Class(taken.classes.len() as u32 - 1), after)
                }
                [b'\\', byte, after @ ..] | [byte, after @ ..] => (Part::Byte(*byte), after),
            };
            rest = after;
            if part != Part::Star {
                taken.length += 1;
                taken.parts.push(part);
            } else if taken.parts.last() != Some(&Part::Star) {
                taken.parts.push(part);
                taken.behind_last_star = Some(taken.parts.len());
            }
        }
        taken
    }

    /// How many bytes it takes at least.
    pub fn len_min(&self) -> usize {
        self.length
    }

    /// True if all of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        // How many bytes the parts from this one on take.
        let (mut part, mut at, mut left) = (0, 0, self.length);
        // Where to go on after the last `*`, the text position it was tried at, and what was left there.
        let mut retry: Option<(usize, usize, usize)> = None;
        loop {
            // A longer stretch for the `*` leaves even less text.
            if text.len() < at + left {
                return false;
            }
            match self.parts.get(part) {
                None if at == text.len() => return true,
                Some(Part::Star) => {
                    part += 1;
                    retry = Some((part, at, left));
                    if self.behind_last_star == Some(part) {
                        (at, retry) = (text.len() - left, None);
                    }
                    continue;
                }
                Some(one) if text.get(at).is_some_and(|byte| self.takes(*one, *byte)) => {
                    (part, at, left) = (part + 1, at + 1, left - 1);
                    continue;
                }
                None | Some(_) => {}
            }
            let Some((after, tried, were_left)) = retry else { return false };
            retry = Some((after, tried + 1, were_left));
            (part, at, left) = (after, tried + 1, were_left);
        }
    }

    /// Whether a part that is no star takes a byte.
    fn takes(&self, part: Part, byte: u8) -> bool {
        match part {
            Part::Star => false,
            Part::Any => true,
            Part::Byte(wanted) => wanted == byte,
            Part::Class(index) => has(&self.classes[index as usize], byte),
        }
    }
}

/// The bytes every match starts with.
pub fn literal_prefix(pattern: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::new();
    let mut rest = pattern;
    loop {
        rest = match rest {
            [] | [b'*' | b'?' | b'[', ..] => return prefix,
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                prefix.push(*byte);
                after
            }
        };
    }
}

fn has(class: &Class, byte: u8) -> bool {
    class[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
}

/// The bytes from one to another.
fn range_of(low: u8, high: u8) -> Class {
    // Of each word those from a byte on.
    let from = |byte: u16| {
        [0, 64, 128, 192].map(|first| match byte.saturating_sub(first) {
            skipped @ 0..64 => u64::MAX << skipped,
            _ => 0,
        })
    };
    let (from_low, behind) = (from(low.into()), from(u16::from(high) + 1));
    std::array::from_fn(|word| from_low[word] & !behind[word])
}

/// Takes a class whose `[` is already taken, and what is behind it; an unclosed class ends with the
/// pattern.
fn take_class(class: &[u8]) -> (Class, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', after @ ..] => (true, after),
        _ => (false, class),
    };
    let mut bits = [0; 4];
    let mut add = |low: u8, high: u8| {
        if low == high {
            bits[usize::from(low / 64)] |= 1 << (low % 64);
        } else {
            bits.iter_mut().zip(range_of(low, high)).for_each(|(bits, range)| *bits |= range);
        }
    };
    let after = loop {
        rest = match rest {
            [] => break rest,
            [b']', after @ ..] => break after,
            [b'\\', literal, after @ ..] => {
                add(*literal, *literal);
                after
            }
            // As in Redis the end of a range may be a bracket, too.
            [low, b'-', high, after @ ..] => {
                add(*low.min(high), *low.max(high));
                after
            }
            [literal, after @ ..] => {
                add(*literal, *literal);
                after
            }
        };
    };
    (if negated { bits.map(|word: u64| !word) } else { bits }, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf::random::next;
    use std::time::{Duration, Instant};

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Pattern::new(pattern).matches(text)
    }

    /// What a pattern means, one way after the other.
    fn means(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            ([b'*', after @ ..], _) => (0..=text.len()).any(|at| means(after, &text[at..])),
            (_, []) => false,
            ([b'?', after @ ..], [_, text @ ..]) => means(after, text),
            ([b'[', class @ ..], [byte, text @ ..]) => {
                let (class, after) = take_class(class);
                has(&class, *byte) && means(after, text)
            }
            ([b'\\', literal, after @ ..] | [literal, after @ ..], [byte, text @ ..]) => {
                literal == byte && means(after, text)
            }
        }
    }

    #[test]
    fn random_patterns_match_what_they_mean() {
        let (mut state, mut matched) = (7, 0);
        let mut random = |letters: &[u8], length_max: u64| -> Vec<u8> {
            let length = next(&mut state) % (length_max + 1);
            (0..length)
                .map(|_| letters[(next(&mut state) % letters.len() as u64) as usize])
                .collect()
        };
        for _ in 0..200_000 {
            let (pattern, text) = (random(b"aab?**[]^-\\", 9), random(b"aaab-]", 7));
            let expected = means(&pattern, &text);
            matched += usize::from(expected);
            let shown = (pattern.escape_ascii(), text.escape_ascii());
            assert_eq!(matches(&pattern, &text), expected, "{} {}", shown.0, shown.1);
        }
        assert!(matched > 10_000, "{matched}");
    }

    /// What was wrong: a class was gone through for each byte of each text, and the rest of a pattern tried at each.
    #[test]
    fn a_long_pattern_costs_no_more_than_it_is_long() {
        let began = Instant::now();
        let class = [b"*[", &b"a".repeat(1 << 20)[..]].concat();
        assert!(!matches(&class, &b"b".repeat(60_000)));
        let class = [&class, &b"]"[..]].concat();
        assert!(matches(&class, &[&b"b".repeat(60_000)[..], b"a"].concat()));
        // Behind the last star, and where it is longer than the text.
        let text = b"a".repeat(64_000);
        assert!(!matches(&[b"*", &text[..32_000], b"b"].concat(), &text));
        assert!(!matches(&[&text[..], b"*", &text[..], b"?*b"].concat(), &text));
        assert!(!matches(&b"?".repeat(16 << 20), &text));
        assert!(matches(&b"*".repeat(16 << 20), &text));
        // It took minutes.
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }

    #[test]
    fn a_range_has_all_bytes_between_its_ends() {
        for low in 0..=255u8 {
            for high in low..=255 {
                let range = range_of(low, high);
                let wrong =
                    (0..=255).find(|byte| has(&range, *byte) != (low..=high).contains(byte));
                assert_eq!(wrong, None, "{low} to {high}");
            }
        }
    }

    #[test]
    fn every_wildcard_does_what_it_says() {
        let yes = [
            ("", ""),
            ("*", ""),
            ("*", "anything"),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h*llo", "hllo"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("h[c-a]llo", "hbllo"),
            ("[a-]", "_"),
            ("[Z-]]", "["),
            ("a\\*b", "a*b"),
            ("a[\\]]b", "a]b"),
            ("*a*b*c", "xxaxxbxxbxc"),
            ("**", "x"),
            ("a\\", "a\\"),
            ("[abc", "c"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn what_differs_does_not_match() {
        let no = [
            ("", "a"),
            ("a", ""),
            ("?", ""),
            ("h?llo", "hllo"),
            ("h[ae]llo", "hillo"),
            ("h[^e]llo", "hello"),
            ("a\\*b", "axb"),
            ("*a", "ab"),
            ("a*", "ba"),
            ("[", ""),
            ("[]", "a"),
            ("[a-]", "-"),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn the_literal_prefix_stops_at_the_first_wildcard() {
        assert_eq!(literal_prefix(b"user:*"), b"user:");
        assert_eq!(literal_prefix(b"us\\*er?"), b"us*er");
        assert_eq!(literal_prefix(b"[a]"), b"");
        assert_eq!(literal_prefix(b"plain"), b"plain");
    }

    #[test]
    fn a_hostile_pattern_is_not_exponential() {
        let pattern = b"*a".repeat(2_000);
        let text = b"a".repeat(1_999);
        assert!(!matches(&pattern, &text));
    }
}
