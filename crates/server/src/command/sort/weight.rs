//! The weights by which members are sorted, and what patterns stand for.

use std::cmp::Ordering;

use super::budget::spend;
use super::options::{Options, text};
use crate::command::copy_budget::CopyBudget;
use crate::command::stage::Staged;
use crate::failure::{Failure, Result};
use crate::score;
use crate::types::Kind;
use crate::types::collection::Collection;

/// What a pattern stands for with a member in place of its first star: the string of a key, or with
/// `->` a field of a hash; `#` is the member.
pub fn look_up(staged: &mut Staged<'_>, pattern: &[u8], member: &[u8]) -> Result<Option<Vec<u8>>> {
    if pattern == b"#" {
        return Ok(Some(member.to_vec()));
    }
    let Some((key, field)) = expanded(pattern, member) else { return Ok(None) };
    let types = staged.types;
    let Some(field) = field else {
        let string = |value: &[u8], _| (!types.is_header(value)).then(|| value.to_vec());
        return Ok(staged.see(&key, string)?.flatten());
    };
    match Collection::find(staged, &key, Kind::Hash) {
        Ok(Some(mut hash)) => hash.see(field, <[u8]>::to_vec),
        Ok(None) | Err(Failure::WrongType) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The key, and the field, of a pattern with a member in place of its first star.
fn expanded<'a>(pattern: &'a [u8], member: &[u8]) -> Option<(Vec<u8>, Option<&'a [u8]>)> {
    let star = text(pattern).iter().position(|byte| *byte == b'*')?;
    let (before, after) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = text(after).windows(2).position(|pair| pair == b"->");
    let (after, field) = match arrow {
        // Nothing behind the arrow: it belongs to the key.
        Some(at) if !text(&after[at + 2..]).is_empty() => (&after[..at], Some(&after[at + 2..])),
        _ => (after, None),
    };
    Some(([before, member, after].concat(), field))
}

/// A weight as a number. Without any bytes it is zero.
fn number(text: &[u8]) -> Option<f64> {
    // There a zero byte ends it.
    let text = text.split(|byte| *byte == 0).next().unwrap_or(b"");
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().take_while(|byte| is_space(byte)).count();
    if text.is_empty() { Some(0.0) } else { score::parse(&text[start..]) }
}

/// Members in the order of their weights.
pub fn sorted(
    staged: &mut Staged<'_>,
    members: Vec<Vec<u8>>,
    options: &Options<'_>,
    budget: &mut CopyBudget,
) -> Result<Vec<Vec<u8>>> {
    let mut weights = |member: &[u8]| match options.by {
        Some(pattern) => look_up(staged, pattern, member),
        None => Ok(Some(member.to_vec())),
    };
    if options.by_bytes {
        let mut weighed = Vec::with_capacity(members.len());
        for member in members {
            let weight = weights(&member)?;
            spend(budget, weight.as_ref().map_or(0, Vec::len))?;
            weighed.push((weight, member));
        }
        return Ok(ordered(weighed, options.descends, |a, b| a.0.cmp(&b.0)));
    }
    let (mut weighed, mut is_wrong) = (Vec::with_capacity(members.len()), false);
    for member in members {
        let weight = weights(&member)?.map_or(Some(0.0), |text| number(&text));
        is_wrong |= weight.is_none();
        weighed.push((weight.unwrap_or(0.0), member));
    }
    if is_wrong {
        return Err(Failure::text("ERR One or more scores can't be converted into double"));
    }
    // Equal weights: by the members.
    let compare = |a: &(f64, Vec<u8>), b: &(f64, Vec<u8>)| {
        a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal).then_with(|| a.1.cmp(&b.1))
    };
    Ok(ordered(weighed, options.descends, compare))
}

fn ordered<W>(
    mut weighed: Vec<(W, Vec<u8>)>,
    descends: bool,
    compare: impl Fn(&(W, Vec<u8>), &(W, Vec<u8>)) -> Ordering,
) -> Vec<Vec<u8>> {
    weighed.sort_by(|a, b| if descends { compare(b, a) } else { compare(a, b) });
    weighed.into_iter().map(|(_, member)| member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_keys_and_fields() {
        type Expected = Option<(&'static [u8], Option<&'static [u8]>)>;
        let cases: [(&[u8], Expected); 7] = [
            (b"w_*", Some((b"w_7", None))),
            (b"*", Some((b"7", None))),
            (b"w_*_*", Some((b"w_7_*", None))),
            (b"h:*->f", Some((b"h:7", Some(b"f")))),
            (b"h:*x->f", Some((b"h:7x", Some(b"f")))),
            (b"h:*->", Some((b"h:7->", None))),
            (b"none", None),
        ];
        for (pattern, expected) in cases {
            let expected = expected.map(|(key, field)| (key.to_vec(), field));
            assert_eq!(expanded(pattern, b"7"), expected, "{}", pattern.escape_ascii());
        }
    }

    #[test]
    fn weights_are_numbers_as_the_protocol_has_them() {
        assert_eq!(number(b""), Some(0.0));
        assert_eq!(number(b" 5"), Some(5.0));
        assert_eq!(number(b"-1.5e2\0x"), Some(-150.0));
        for bad in [&b"x"[..], b"5 ", b" ", b"nan", b"1e400"] {
            assert_eq!(number(bad), None, "{}", bad.escape_ascii());
        }
    }
}
