//! Glob patterns for keys: `*`, `?`, `[abc]`, `[a-z]`, `[^a]`, and `\` to take a byte as it is.
//!
//! Matching is iterative and remembers only the last `*`, so a hostile pattern costs at most
//! pattern length times key length, never a deep recursion or an exponential search.

/// True if all of `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut rest, mut at) = (pattern, 0);
    // Where to go on after the last `*`, and the text position it was tried at.
    let mut retry: Option<(&[u8], usize)> = None;
    loop {
        if let [b'*', after @ ..] = rest {
            retry = Some((after, at));
            rest = after;
            continue;
        }
        match text.get(at) {
            None if rest.is_empty() => return true,
            // A longer stretch for the `*` leaves even less text.
            None => return false,
            Some(&byte) => {
                if let Some(after) = match_one(rest, byte) {
                    rest = after;
                    at += 1;
                    continue;
                }
            }
        }
        let Some((after, tried)) = retry else { return false };
        retry = Some((after, tried + 1));
        rest = after;
        at = tried + 1;
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

/// Matches one byte with the head of the pattern; what is left of the pattern if it does.
fn match_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', after @ ..] => Some(after),
        [b'[', class @ ..] => {
            let (inside, after) = match_class(class, byte);
            inside.then_some(after)
        }
        [b'\\', literal, after @ ..] | [literal, after @ ..] => (*literal == byte).then_some(after),
    }
}

/// Matches one byte with a class, whose `[` is already taken; an unclosed class ends with the
/// pattern.
fn match_class(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', after @ ..] => (true, after),
        _ => (false, class),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => return (found != negated, rest),
            [b']', after @ ..] => return (found != negated, after),
            [b'\\', literal, after @ ..] => {
                found |= *literal == byte;
                after
            }
            // As in Redis the end of a range may be a bracket, too.
            [low, b'-', high, after @ ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                after
            }
            [literal, after @ ..] => {
                found |= *literal == byte;
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
