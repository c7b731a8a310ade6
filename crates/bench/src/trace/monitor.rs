//! Lines that `MONITOR` of Redis prints: time, database and client, then the words of a command,
//! each in quotation marks.
//!
//! The commands on strings become reads, writes and removals; a counter is a read, then a write of
//! 8 bytes. All others are counted and left out.

use super::line::hex_byte;
use super::operations::Trace;
use crate::workload::Action;

/// Bytes of a counter.
const COUNTER_SIZE: u32 = 8;

/// Adds the operations of a line, or says why it cannot.
pub(super) fn parse(line: &[u8], trace: &mut Trace) -> Result<(), String> {
    let words = words_of(line).ok_or(
        "this looks like output of MONITOR, but is not `TIME [DATABASE CLIENT] \"COMMAND\" ..`",
    )?;
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let [command, arguments @ ..] = words.as_slice() else {
        return Err("a command is missing".to_owned());
    };
    add(&command.to_ascii_lowercase(), arguments, trace);
    Ok(())
}

fn add(command: &[u8], arguments: &[&[u8]], trace: &mut Trace) {
    match (command, arguments) {
        (b"get" | b"strlen" | b"getrange" | b"substr" | b"getex", [key, ..]) => {
            trace.add(Action::Get, 0, key);
        }
        (b"mget" | b"exists", keys @ [_, ..]) => {
            keys.iter().for_each(|key| trace.add(Action::Get, 0, key));
        }
        (b"set" | b"setnx" | b"getset" | b"append", [key, value, ..])
        | (b"setex" | b"psetex", [key, _, value]) => {
            trace.add(Action::Put, value.len() as u32, key);
        }
        (b"mset" | b"msetnx", pairs @ [_, _, ..]) => {
            let pairs = pairs.chunks_exact(2);
            pairs.for_each(|pair| trace.add(Action::Put, pair[1].len() as u32, pair[0]));
        }
        (b"incr" | b"decr" | b"incrby" | b"decrby" | b"incrbyfloat", [key, ..]) => {
            trace.add(Action::Get, 0, key);
            trace.add(Action::Put, COUNTER_SIZE, key);
        }
        (b"del" | b"unlink" | b"getdel", keys @ [_, ..]) => {
            keys.iter().for_each(|key| trace.add(Action::Remove, 0, key));
        }
        _ => trace.skipped += 1,
    }
}

/// The words in quotation marks, after the bracket that closes.
fn words_of(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let open = line.iter().position(|byte| *byte == b'[')?;
    let close = open + line[open..].windows(2).position(|pair| pair == b"] ")?;
    let (mut words, mut rest) = (Vec::new(), line[close + 1..].trim_ascii_start());
    while let [b'"', after @ ..] = rest {
        let (word, behind) = word_of(after)?;
        words.push(word);
        rest = behind.trim_ascii_start();
    }
    (rest.is_empty() && !words.is_empty()).then_some(words)
}

/// A word up to its closing mark, and what is behind it.
fn word_of(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut word, mut rest) = (Vec::new(), text);
    loop {
        let (byte, behind) = match rest {
            [b'"', behind @ ..] => return Some((word, behind)),
            [b'\\', b'x', high, low, behind @ ..] => (hex_byte(*high, *low)?, behind),
            [b'\\', escaped, behind @ ..] => (unescaped(*escaped), behind),
            [byte, behind @ ..] => (*byte, behind),
            [] => return None,
        };
        word.push(byte);
        rest = behind;
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 7,
        b'b' => 8,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_on_strings_become_operations_and_others_are_counted() {
        let lines: [&[u8]; 6] = [
            br#"1339518083.107412 [0 127.0.0.1:60866] "SET" "a key" "\x00\"v\n" "EX" "10""#,
            br#"1339518083.107413 [0 [::1]:60866] "mget" "a" "b""#,
            br#"1339518083.107414 [0 unix:/tmp/s] "setex" "c" "60" "xyz""#,
            br#"1339518083.107415 [0 lua] "incr" "n""#,
            br#"1339518083.107416 [0 1.2.3.4:5] "unlink" "a" "b""#,
            br#"1339518083.107417 [0 1.2.3.4:5] "zadd" "z" "1" "m""#,
        ];
        let mut trace = Trace::default();
        lines.iter().for_each(|line| parse(line, &mut trace).unwrap());
        let found: Vec<_> = trace
            .operations
            .iter()
            .map(|(step, range)| (step.action, step.length, &trace.texts[range.clone()]))
            .collect();
        assert_eq!(
            found,
            [
                (Action::Put, 4, &b"a key"[..]),
                (Action::Get, 0, b"a"),
                (Action::Get, 0, b"b"),
                (Action::Put, 3, b"c"),
                (Action::Get, 0, b"n"),
                (Action::Put, 8, b"n"),
                (Action::Remove, 0, b"a"),
                (Action::Remove, 0, b"b"),
            ]
        );
        assert_eq!(trace.skipped(), 1);
    }
}
