//! What a source sends to its replicas.

/// A command of the stream.
pub type Command = Vec<Vec<u8>>;

/// Commands that change keys, or stand around such. Nothing else is passed on, whatever a source sends: a target
/// takes from us also what is not about keys.
const CHANGES: &str = " append bitfield bitop copy decr decrby del expire expireat flushall flushdb geoadd georadius \
    georadiusbymember geosearchstore getdel getex getset hdel hincrby hincrbyfloat hmset hset hsetnx incr incrby \
    incrbyfloat linsert lmove lmpop lpop lpush lpushx lrem lset ltrim move mset msetnx persist pexpire pexpireat pfadd \
    pfmerge psetex rename renamenx restore rpop rpoplpush rpush rpushx sadd sdiffstore set setbit setex setnx setrange \
    sinterstore smove sort spop srem sunionstore swapdb unlink zadd zdiffstore zincrby zinterstore zmpop zpopmax \
    zpopmin zrangestore zrem zremrangebylex zremrangebyrank zremrangebyscore zunionstore ";

/// What is sent to replicas and changes no key.
const OTHERS: &str = " ping replconf publish spublish script ";

/// What a command of a source's stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It changes keys.
    Change,
    /// It names the database of those that follow.
    Select,
    /// It begins or ends a transaction.
    Frame,
    /// It is nothing for a target.
    Other,
    /// It is not known here.
    Unknown,
}

/// What the command of this name is.
pub fn kind_of(name: &[u8]) -> Kind {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let is_in = |list: &str| list.contains(&format!(" {name} "));
    match &name[..] {
        "select" => Kind::Select,
        "multi" | "exec" => Kind::Frame,
        _ if name.is_empty() || name.contains(' ') => Kind::Unknown,
        _ if is_in(CHANGES) => Kind::Change,
        _ if is_in(OTHERS) => Kind::Other,
        _ => Kind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_keys_is_passed_on() {
        for name in ["append", "SET", "ZUNIONSTORE", "pexpireat", "geoRadius", "rpush"] {
            assert_eq!(kind_of(name.as_bytes()), Kind::Change, "{name}");
        }
        for name in ["", " ", "set get", "shutdown", "CONFIG", "acl", "xadd", "BLPOP", "auth", "ap"]
        {
            assert_eq!(kind_of(name.as_bytes()), Kind::Unknown, "{name}");
        }
        assert_eq!(kind_of(b"Publish"), Kind::Other);
        assert_eq!(kind_of(b"EXEC"), Kind::Frame);
        assert_eq!(kind_of(b"SELECT"), Kind::Select);
    }
}
