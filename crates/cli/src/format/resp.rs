//! Keys of all types as requests of the protocol of Redis, for `redis-cli --pipe`.

use everleaf_server::transfer::{Part, Value};
use std::io::{self, Write};

/// Writes the requests that make a key what it is, whatever was there before: those for a part of it.
pub fn write_part(out: &mut dyn Write, key: &[u8], part: Part<'_>) -> io::Result<()> {
    match part {
        Part::String(value) => write_request(out, b"SET", key, [value].into_iter()),
        Part::Begin => write_request(out, b"DEL", key, std::iter::empty()),
        Part::Members(members) => write_members(out, key, members),
        Part::End(None) => Ok(()),
        Part::End(Some(time)) => {
            write_request(out, b"PEXPIREAT", key, [time.to_string().as_bytes()].into_iter())
        }
    }
}

/// Writes the request that adds members, of which there are not too many for one.
fn write_members(out: &mut dyn Write, key: &[u8], members: &Value) -> io::Result<()> {
    match members {
        Value::String(_) => Ok(()),
        Value::List(elements) => {
            write_request(out, b"RPUSH", key, elements.iter().map(Vec::as_slice))
        }
        Value::Set(members) => write_request(out, b"SADD", key, members.iter().map(Vec::as_slice)),
        Value::Hash(fields) => {
            let words: Vec<&[u8]> =
                fields.iter().flat_map(|(field, value)| [&field[..], &value[..]]).collect();
            write_request(out, b"HSET", key, words.into_iter())
        }
        Value::SortedSet(members) => {
            let scores: Vec<Vec<u8>> =
                members.iter().map(|(_, score)| score_text(*score)).collect();
            let pairs = scores.iter().zip(members);
            let words: Vec<&[u8]> =
                pairs.flat_map(|(score, (member, _))| [&score[..], &member[..]]).collect();
            write_request(out, b"ZADD", key, words.into_iter())
        }
    }
}

/// Writes the request that chooses a database.
pub fn write_select(out: &mut dyn Write, database: u64) -> io::Result<()> {
    write_request(out, b"SELECT", database.to_string().as_bytes(), std::iter::empty())
}

fn write_request<'a>(
    out: &mut dyn Write,
    command: &'a [u8],
    key: &'a [u8],
    rest: impl ExactSizeIterator<Item = &'a [u8]>,
) -> io::Result<()> {
    write!(out, "*{}\r\n", 2 + rest.len())?;
    for word in [command, key].into_iter().chain(rest) {
        write!(out, "${}\r\n", word.len())?;
        out.write_all(word)?;
        out.write_all(b"\r\n")?;
    }
    Ok(())
}

/// The shortest digits that are this score.
fn score_text(score: f64) -> Vec<u8> {
    if score.is_infinite() {
        return if score > 0.0 { b"+inf".to_vec() } else { b"-inf".to_vec() };
    }
    format!("{score:?}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[Part<'_>]) -> String {
        let mut out = Vec::new();
        for part in parts {
            write_part(&mut out, b"k", *part).expect("memory takes it");
        }
        String::from_utf8(out).expect("it is text").replace("\r\n", " ")
    }

    #[test]
    fn requests_make_the_key_what_it_is() {
        assert_eq!(
            written(&[Part::String(b"v"), Part::End(Some(9))]),
            "*3 $3 SET $1 k $1 v *3 $9 PEXPIREAT $1 k $1 9 "
        );
        let scores = Value::SortedSet(vec![(b"a".to_vec(), -0.1), (b"b".to_vec(), f64::INFINITY)]);
        assert_eq!(
            written(&[Part::Begin, Part::Members(&scores), Part::End(None)]),
            "*2 $3 DEL $1 k *6 $4 ZADD $1 k $4 -0.1 $1 a $4 +inf $1 b "
        );
        let fields = Value::Hash(vec![(b"f".to_vec(), b"v".to_vec())]);
        assert_eq!(written(&[Part::Members(&fields)]), "*4 $4 HSET $1 k $1 f $1 v ");
        let elements = Value::List(vec![b"e".to_vec(); 2]);
        assert_eq!(written(&[Part::Members(&elements)]), "*4 $5 RPUSH $1 k $1 e $1 e ");
        let members = Value::Set(vec![b"m".to_vec()]);
        assert_eq!(written(&[Part::Members(&members)]), "*3 $4 SADD $1 k $1 m ");
    }
}
