//! Times that count from when a command is run, or are in seconds: Redis before 7.0 sends them to its replicas as they
//! were said. They become times since 1970 in milliseconds, as of the moment in which they are read, and only those
//! are held back (`held.rs`).

use super::changes::Command;

const ABSOLUTE: &[u8] = b"PXAT";

/// The time that a number with this unit is; `None` if it is no number, or none that can be a time.
fn absolute(unit: &[u8], text: &[u8], now_ms: u64) -> Option<Vec<u8>> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let (scale, start) = match unit {
        b"EX" => (1000, now_ms),
        b"PX" => (1, now_ms),
        b"EXAT" => (1000, 0),
        ABSOLUTE => (1, 0),
        _ => return None,
    };
    let time = number.checked_mul(scale)?.checked_add_unsigned(start)?;
    Some(time.to_string().into_bytes())
}

fn replace(command: &mut Command, words: &[&[u8]]) {
    *command = words.iter().map(|word| word.to_vec()).collect();
}

/// Writes a command so that its time is one since 1970 in milliseconds. What cannot be read is left to the target to
/// refuse.
pub fn make_absolute(command: &mut Command, now_ms: u64) {
    let Some(name) = command.first().map(|name| name.to_ascii_uppercase()) else { return };
    match (&name[..], command.len()) {
        (b"EXPIRE" | b"PEXPIRE" | b"EXPIREAT", 3..) => {
            let unit: &[u8] = match &name[..] {
                b"EXPIRE" => b"EX",
                b"PEXPIRE" => b"PX",
                _ => b"EXAT",
            };
            if let Some(time) = absolute(unit, &command[2], now_ms) {
                command[0] = b"PEXPIREAT".to_vec();
                command[2] = time;
            }
        }
        (b"SETEX" | b"PSETEX", 4) => {
            let unit: &[u8] = if name == b"SETEX" { b"EX" } else { b"PX" };
            if let Some(time) = absolute(unit, &command[2], now_ms) {
                let (key, value) = (command[1].clone(), command[3].clone());
                replace(command, &[b"SET", &key, &value, ABSOLUTE, &time]);
            }
        }
        (b"SET", 5..) => {
            for at in 3..command.len() - 1 {
                let unit = command[at].to_ascii_uppercase();
                if let Some(time) = absolute(&unit, &command[at + 1], now_ms) {
                    command[at] = ABSOLUTE.to_vec();
                    command[at + 1] = time;
                    return;
                }
            }
        }
        (b"GETEX", 4) => {
            let unit = command[2].to_ascii_uppercase();
            if let Some(time) = absolute(&unit, &command[3], now_ms) {
                let key = command[1].clone();
                replace(command, &[b"PEXPIREAT", &key, &time]);
            }
        }
        (b"GETEX", 3) if command[2].eq_ignore_ascii_case(b"PERSIST") => {
            let key = command[1].clone();
            replace(command, &[b"PERSIST", &key]);
        }
        // A time of 0 is none.
        (b"RESTORE", 4..) if command[2] != b"0" => {
            let is_absolute = |part: &Vec<u8>| part.eq_ignore_ascii_case(b"ABSTTL");
            if !command.iter().skip(4).any(is_absolute)
                && let Some(time) = absolute(b"PX", &command[2], now_ms)
            {
                command[2] = time;
                command.push(b"ABSTTL".to_vec());
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was lost: sessions of a source before Redis 7.0, whose times were passed on as they were said. They were
    /// not held back, and were gone at the target when the command came that prolonged them.
    #[test]
    fn times_become_those_since_1970_in_milliseconds() {
        let look = |text: &str, expected: &str| {
            let mut command: Command = text.split(' ').map(|it| it.as_bytes().to_vec()).collect();
            make_absolute(&mut command, 100_000);
            let found: Vec<_> = command.iter().map(|it| String::from_utf8_lossy(it)).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        };
        look("expire k 7", "PEXPIREAT k 107000");
        look("PEXPIRE k 7 NX", "PEXPIREAT k 100007 NX");
        look("EXPIREAT k 200", "PEXPIREAT k 200000");
        look("PEXPIREAT k 200", "PEXPIREAT k 200");
        look("EXPIRE k -200", "PEXPIREAT k -100000");
        look("SETEX k 7 v", "SET k v PXAT 107000");
        look("PSETEX k 7 v", "SET k v PXAT 100007");
        look("SET k v NX EX 7", "SET k v NX PXAT 107000");
        look("SET k v px 7 GET", "SET k v PXAT 100007 GET");
        look("SET k v EXAT 200", "SET k v PXAT 200000");
        look("SET k v PXAT 200", "SET k v PXAT 200");
        look("SET EX EX", "SET EX EX");
        look("SET EX 7 KEEPTTL", "SET EX 7 KEEPTTL");
        look("GETEX k EX 7", "PEXPIREAT k 107000");
        look("GETEX k PERSIST", "PERSIST k");
        look("GETEX k", "GETEX k");
        look("RESTORE k 7 payload REPLACE", "RESTORE k 100007 payload REPLACE ABSTTL");
        look("RESTORE k 7 payload absttl", "RESTORE k 7 payload absttl");
        look("RESTORE k 0 payload", "RESTORE k 0 payload");
        look("RESTORE ABSTTL 7 payload REPLACE", "RESTORE ABSTTL 100007 payload REPLACE ABSTTL");
        for wrong in ["EXPIRE k x", "EXPIRE k 9223372036854775807", "SET k v EX", "EXPIRE k"] {
            look(wrong, wrong);
        }
    }
}
