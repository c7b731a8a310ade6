//! Keys of all types as requests of the protocol of Redis, for `redis-cli --pipe`.

use everleaf_server::transfer::{Entry, Value};
use std::io::{self, Write};

/// Items of one request.
const ITEM_COUNT: usize = 256;

/// Writes the requests that make a key what it is, whatever was there before.
pub fn write_entry(out: &mut dyn Write, key: &[u8], entry: &Entry) -> io::Result<()> {
    match &entry.value {
        Value::String(value) => {
            write_request(out, b"SET", key, [&value[..]].into_iter())?;
        }
        Value::List(elements) => {
            write_items(out, b"RPUSH", key, elements, |element| vec![element.clone()])?;
        }
        Value::Set(members) => {
            write_items(out, b"SADD", key, members, |member| vec![member.clone()])?;
        }
        Value::Hash(fields) => {
            let pair = |(field, value): &(Vec<u8>, Vec<u8>)| vec![field.clone(), value.clone()];
            write_items(out, b"HSET", key, fields, pair)?;
        }
        Value::SortedSet(members) => {
            let pair = |(member, score): &(Vec<u8>, f64)| vec![score_text(*score), member.clone()];
            write_items(out, b"ZADD", key, members, pair)?;
        }
    }
    match entry.expiry_ms {
        None => Ok(()),
        Some(time) => {
            write_request(out, b"PEXPIREAT", key, [time.to_string().as_bytes()].into_iter())
        }
    }
}

/// Writes the request that chooses a database.
pub fn write_select(out: &mut dyn Write, database: u64) -> io::Result<()> {
    write_request(out, b"SELECT", database.to_string().as_bytes(), std::iter::empty())
}

fn write_items<T>(
    out: &mut dyn Write,
    command: &[u8],
    key: &[u8],
    items: &[T],
    words: impl Fn(&T) -> Vec<Vec<u8>>,
) -> io::Result<()> {
    write_request(out, b"DEL", key, std::iter::empty())?;
    for piece in items.chunks(ITEM_COUNT) {
        let words: Vec<Vec<u8>> = piece.iter().flat_map(&words).collect();
        write_request(out, command, key, words.iter().map(Vec::as_slice))?;
    }
    Ok(())
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

    fn written(value: Value, expiry_ms: Option<u64>) -> String {
        let mut out = Vec::new();
        write_entry(&mut out, b"k", &Entry { value, expiry_ms }).expect("memory takes it");
        String::from_utf8(out).expect("it is text").replace("\r\n", " ")
    }

    #[test]
    fn requests_make_the_key_what_it_is() {
        assert_eq!(
            written(Value::String(b"v".to_vec()), Some(9)),
            "*3 $3 SET $1 k $1 v *3 $9 PEXPIREAT $1 k $1 9 "
        );
        let scores = vec![(b"a".to_vec(), -0.1), (b"b".to_vec(), f64::INFINITY)];
        assert_eq!(
            written(Value::SortedSet(scores), None),
            "*2 $3 DEL $1 k *6 $4 ZADD $1 k $4 -0.1 $1 a $4 +inf $1 b "
        );
        let many = written(Value::List(vec![b"e".to_vec(); 600]), None);
        assert_eq!(many.matches("RPUSH").count(), 3);
        assert_eq!(many.matches(" e ").count(), 600);
    }
}
