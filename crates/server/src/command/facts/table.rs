//! What is known of all commands, in one table, sorted by the length of the name, then by name. What runs them is in
//! `command/table.rs`.

use super::subcommands::{SUBCOMMANDS, Subcommands};
use crate::failure::Failure;
use crate::resp::Request;
use crate::shown::shown;

/// Where it is said what is not as in Redis.
pub const DIFFERENCES: &str = "(what differs from Redis: docs/redis-differences.md)";

/// One command.
pub struct Command {
    /// In small letters.
    pub name: &'static str,
    /// The number of arguments, the name included; negative: at least so many.
    pub arity: i8,
    flags: u16,
    /// Index of the first key, 0 if there is none.
    pub first_key: i8,
    /// Index of the last key; -1 is the last argument.
    pub last_key: i8,
    /// From key to key.
    pub key_step: i8,
    /// The family it belongs to.
    pub group: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
}

const WRITE: u16 = 1;
const READ: u16 = 2;
const ADMIN: u16 = 4;
const FAST: u16 = 8;
const BEFORE_AUTH: u16 = 16;
/// A write that needs room.
const GROWS: u16 = 32;
/// Refused between `MULTI` and `EXEC`.
const NO_MULTI: u16 = 64;
/// Reads or writes collections: always run on a stage.
const TYPED: u16 = 128;
/// Reads several keys as one step: run on a stage, too.
const STEP: u16 = 256;
/// Waits until it can be done.
const WAITS: u16 = 512;
const FLAG_NAMES: [(u16, &str); 8] = [
    (WRITE, "write"),
    (READ, "readonly"),
    (GROWS, "denyoom"),
    (ADMIN, "admin"),
    (FAST, "fast"),
    (WAITS, "blocking"),
    (BEFORE_AUTH, "no_auth"),
    (NO_MULTI, "no_multi"),
];

impl Command {
    /// True if a request with so many arguments, the name included, can be run.
    pub fn accepts(&self, arg_count: usize) -> bool {
        has_arity(arg_count, self.arity)
    }

    /// The subcommands, if it has some.
    fn subcommands(&self) -> Option<Subcommands> {
        SUBCOMMANDS.iter().find(|(name, _)| *name == self.name).map(|(_, known)| *known)
    }

    /// True if it has subcommands.
    pub fn has_subcommands(&self) -> bool {
        self.subcommands().is_some()
    }

    /// True if these arguments, the name included, are as many as it, or its subcommand, wants.
    pub fn accepts_with_subcommand(&self, args: &[&[u8]]) -> bool {
        let known = self.subcommands().zip(args.get(1));
        let found = known.and_then(|(known, given)| {
            known.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(given))
        });
        self.accepts(args.len()) && found.is_none_or(|(_, arity)| has_arity(args.len(), *arity))
    }

    /// Which of its subcommands it is, if it has some. Refuses one that is not known, or has the wrong number of
    /// arguments. The request has as many arguments as the command wants.
    pub fn check_subcommand(&self, request: &Request<'_>) -> Result<Option<usize>, Failure> {
        let Some(known) = self.subcommands() else { return Ok(None) };
        // `COMMAND` may stand alone.
        let Some(subcommand) = request.get(1) else { return Ok(None) };
        let is = |(name, _): &(&str, i8)| name.as_bytes().eq_ignore_ascii_case(subcommand);
        let found = known.iter().position(is);
        match found.map(|position| known[position]) {
            Some((_, arity)) if has_arity(request.len(), arity) => Ok(found),
            Some((name, _)) => Err(Failure::text(format!(
                "ERR wrong number of arguments for '{}|{name}' command",
                self.name
            ))),
            None => Err(Failure::text(format!(
                "ERR unknown subcommand '{}'. {} knows {}. {DIFFERENCES}",
                shown(subcommand),
                self.name.to_ascii_uppercase(),
                known
                    .iter()
                    .map(|(name, _)| name.to_ascii_uppercase())
                    .collect::<Vec<_>>()
                    .join(", ")
            ))),
        }
    }

    /// True if it is refused between `MULTI` and `EXEC`.
    pub fn is_refused_in_multi(&self) -> bool {
        self.flags & NO_MULTI != 0
    }

    /// True if it concerns single keys at most: a transaction of such commands can be run while
    /// others write.
    pub fn is_of_keys(&self) -> bool {
        self.first_key != 0 || matches!(self.name, "ping" | "echo" | "select")
    }

    /// True if it is always run on a stage: it reads or writes collections, or several keys as one step.
    pub fn is_staged(&self) -> bool {
        self.flags & (TYPED | STEP) != 0
    }

    /// True if others of its kind may be done in one step with it: it reads or writes the collection of one key, and
    /// nothing else that the commands beside it could have changed in another way.
    const fn is_serial(&self) -> bool {
        self.flags & (TYPED | WAITS) == TYPED
            && self.first_key == 1
            && self.last_key == 1
            && !same(self.group.as_bytes(), b"generic")
            // These name their sources behind a count.
            && !matches!(self.name.as_bytes(), [.., b's', b't', b'o', b'r', b'e'])
    }

    /// True if it may make a collection.
    pub fn makes_collections(&self) -> bool {
        self.flags & (TYPED | GROWS) == TYPED | GROWS
    }

    /// True if it waits until it can be done.
    pub fn can_wait(&self) -> bool {
        self.flags & WAITS != 0
    }

    /// True if it exchanges databases: run while nobody else runs a command.
    pub fn exchanges(&self) -> bool {
        self.name == "swapdb"
    }

    /// True if it writes.
    pub fn writes(&self) -> bool {
        self.flags & WRITE != 0
    }

    /// True if it may be used without the password.
    pub fn before_auth(&self) -> bool {
        self.flags & BEFORE_AUTH != 0
    }

    /// The flags by the names clients know.
    pub fn flag_names(&self) -> Vec<&'static str> {
        let set = FLAG_NAMES.iter().filter(|(flag, _)| self.flags & flag != 0);
        set.map(|(_, name)| *name).collect()
    }
}

/// Whether two names are the same.
pub const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

fn has_arity(arg_count: usize, arity: i8) -> bool {
    let needed = usize::from(arity.unsigned_abs());
    if arity < 0 { arg_count >= needed } else { arg_count == needed }
}

/// One line of the table below.
macro_rules! commands {
    ($($name:literal $arity:literal [$($flags:tt)*] ($first:literal $last:literal $step:literal)
       $group:literal, $summary:literal;)*) => {
        [$(Command {
            name: $name,
            arity: $arity,
            flags: $($flags)*,
            first_key: $first,
            last_key: $last,
            key_step: $step,
            group: $group,
            summary: $summary,
        }),*]
    };
}

/// The number of commands.
pub const COUNT: usize = 180;

/// All commands.
#[rustfmt::skip]
pub static COMMANDS: [Command; COUNT] = commands! {
    "acl" -2 [ADMIN] (0 0 0) "server", "Makes users, changes what they may do, and tells about them.";
    "del" -2 [WRITE] (1 -1 1) "generic", "Removes keys.";
    "get" 2 [READ | FAST] (1 1 1) "string", "Returns the value of a key.";
    "set" -3 [WRITE | GROWS] (1 1 1) "string", "Sets the value of a key.";
    "ttl" 2 [READ | FAST] (1 1 1) "generic",
        "Returns the seconds until a key expires; -1 if it does not, -2 if there is none.";
    "lcs" -3 [READ] (1 2 1) "string", "Returns the longest common subsequence of two strings.";
    "auth" -2 [FAST | BEFORE_AUTH] (0 0 0) "connection", "Gives the password.";
    "decr" 2 [WRITE | GROWS | FAST] (1 1 1) "string", "Subtracts one from an integer.";
    "echo" 2 [FAST] (0 0 0) "connection", "Returns its argument.";
    "exec" 1 [WRITE] (0 0 0) "transactions", "Runs the commands since MULTI as one.";
    "incr" 2 [WRITE | GROWS | FAST] (1 1 1) "string", "Adds one to an integer.";
    "info" -1 [READ] (0 0 0) "server", "Returns the state of the server in numbers.";
    "keys" 2 [READ] (0 0 0) "generic", "Returns all keys that match a pattern.";
    "move" 3 [TYPED | WRITE | FAST] (1 1 1) "generic", "Moves a key to another database.";
    "mget" -2 [READ | FAST] (1 -1 1) "string", "Returns the values of keys.";
    "mset" -3 [WRITE | GROWS] (1 -1 2) "string", "Sets the values of keys as one change.";
    "ping" -1 [FAST] (0 0 0) "connection", "Returns PONG or its argument.";
    "pttl" 2 [READ | FAST] (1 1 1) "generic",
        "Returns the milliseconds until a key expires; -1 if it does not, -2 if there is none.";
    "quit" -1 [FAST | BEFORE_AUTH] (0 0 0) "connection", "Closes the connection.";
    "role" 1 [FAST] (0 0 0) "server", "Tells that this is a master without replicas.";
    "scan" -2 [READ] (0 0 0) "generic", "Goes through the keys in steps.";
    "type" 2 [READ | FAST] (1 1 1) "generic", "Returns string for a key, none for no key.";
    "copy" -3 [TYPED | WRITE | GROWS] (1 2 1) "generic", "Copies what a key holds to another key.";
    "save" 1 [ADMIN | NO_MULTI] (0 0 0) "server", "Writes a snapshot, or without a log a backup, and waits for it.";
    "hget" 3 [TYPED | READ | FAST] (1 1 1) "hash", "Returns what a field has.";
    "hset" -4 [TYPED | WRITE | GROWS | FAST] (1 1 1) "hash", "Sets fields.";
    "hlen" 2 [TYPED | READ | FAST] (1 1 1) "hash", "Returns the number of fields.";
    "hdel" -3 [TYPED | WRITE | FAST] (1 1 1) "hash", "Removes fields.";
    "sadd" -3 [TYPED | WRITE | GROWS | FAST] (1 1 1) "set", "Adds members.";
    "srem" -3 [TYPED | WRITE | FAST] (1 1 1) "set", "Removes members.";
    "spop" -2 [TYPED | WRITE | FAST] (1 1 1) "set", "Removes random members and returns them.";
    "zadd" -4 [TYPED | WRITE | GROWS | FAST] (1 1 1) "sorted-set", "Adds members, or changes their scores.";
    "zrem" -3 [TYPED | WRITE | FAST] (1 1 1) "sorted-set", "Removes members.";
    "lpop" -2 [TYPED | WRITE | FAST] (1 1 1) "list", "Removes elements at the left and returns them.";
    "rpop" -2 [TYPED | WRITE | FAST] (1 1 1) "list", "Removes elements at the right and returns them.";
    "llen" 2 [TYPED | READ | FAST] (1 1 1) "list", "Returns the number of elements.";
    "lpos" -3 [TYPED | READ] (1 1 1) "list", "Returns where an element is.";
    "lset" 4 [TYPED | WRITE | GROWS] (1 1 1) "list", "Sets the element of an index.";
    "lrem" 4 [TYPED | WRITE] (1 1 1) "list", "Removes elements that are equal to one.";
    "time" 1 [FAST] (0 0 0) "server", "Returns the seconds since 1970, and the microseconds of the last one.";
    "sort" -2 [TYPED | WRITE | GROWS] (1 1 1) "generic",
        "Returns or stores the members of a collection by their weights.";
    "wait" 3 [FAST] (0 0 0) "generic", "Returns the number of replicas that have what was written: none.";
    "dump" 2 [TYPED | READ] (1 1 1) "generic", "Returns a value as bytes that RESTORE takes.";
    "getex" -2 [WRITE | FAST] (1 1 1) "string", "Returns the value of a key and sets when it expires.";
    "debug" -2 [TYPED | READ | ADMIN] (0 0 0) "server", "Does what tests need, if it is allowed.";
    "hello" -1 [FAST | BEFORE_AUTH] (0 0 0) "connection", "Chooses the version of the protocol.";
    "multi" 1 [FAST] (0 0 0) "transactions", "Begins a transaction.";
    "range" -3 [READ] (0 0 0) "range", "Returns the keys between two bounds, in order.";
    "reset" 1 [FAST | BEFORE_AUTH] (0 0 0) "connection", "Makes the connection as new.";
    "setex" 4 [WRITE | GROWS] (1 1 1) "string", "Sets a value that expires after so many seconds.";
    "setnx" 3 [WRITE | GROWS | FAST] (1 1 1) "string", "Sets the value of a key that does not exist.";
    "watch" -2 [FAST] (1 -1 1) "transactions", "Makes the next EXEC depend on keys staying as they are.";
    "hmget" -3 [TYPED | READ | FAST] (1 1 1) "hash", "Returns what fields have.";
    "hmset" -4 [TYPED | WRITE | GROWS | FAST] (1 1 1) "hash", "Sets fields.";
    "hkeys" 2 [TYPED | READ] (1 1 1) "hash", "Returns all fields.";
    "hvals" 2 [TYPED | READ] (1 1 1) "hash", "Returns what all fields have.";
    "hscan" -3 [READ] (1 1 1) "hash", "Goes through the fields in steps.";
    "scard" 2 [TYPED | READ | FAST] (1 1 1) "set", "Returns the number of members.";
    "sdiff" -2 [TYPED | READ] (1 -1 1) "set", "Returns the members of the first set that are in no other.";
    "smove" 4 [TYPED | WRITE | GROWS | FAST] (1 2 1) "set", "Moves a member from one set to another.";
    "sscan" -3 [READ] (1 1 1) "set", "Goes through the members in steps.";
    "zcard" 2 [TYPED | READ | FAST] (1 1 1) "sorted-set", "Returns the number of members.";
    "zrank" -3 [TYPED | READ | FAST] (1 1 1) "sorted-set", "Returns how many members come before one.";
    "zscan" -3 [READ] (1 1 1) "sorted-set", "Goes through the members in steps.";
    "zdiff" -3 [TYPED | READ] (0 0 0) "sorted-set", "Returns the members of the first set that are in no other.";
    "zmpop" -4 [TYPED | WRITE] (0 0 0) "sorted-set",
        "Removes the first or last members of the first set that has some.";
    "blpop" -3 [TYPED | WRITE | WAITS] (1 -2 1) "list", "Waits for an element and removes it at the left.";
    "brpop" -3 [TYPED | WRITE | WAITS] (1 -2 1) "list", "Waits for an element and removes it at the right.";
    "lpush" -3 [TYPED | WRITE | GROWS | FAST] (1 1 1) "list", "Adds elements at the left.";
    "rpush" -3 [TYPED | WRITE | GROWS | FAST] (1 1 1) "list", "Adds elements at the right.";
    "ltrim" 4 [TYPED | WRITE | GROWS] (1 1 1) "list", "Keeps only the elements between two indices.";
    "lmove" 5 [TYPED | WRITE | GROWS] (1 2 1) "list", "Moves an element from one list to another.";
    "lmpop" -4 [TYPED | WRITE] (0 0 0) "list", "Removes elements of the first list that has some.";
    "touch" -2 [READ | FAST] (1 -1 1) "generic", "Returns how many of the keys exist.";
    "bitop" -4 [STEP | WRITE | GROWS] (2 -1 1) "bitmap", "Combines the bits of strings and stores the result.";
    "rename" 3 [TYPED | WRITE] (1 2 1) "generic", "Moves what a key holds to another key.";
    "blmove" 6 [TYPED | WRITE | GROWS | WAITS] (1 2 1) "list", "Waits for an element and moves it to another list.";
    "blmpop" -5 [TYPED | WRITE | WAITS] (0 0 0) "list", "Waits for elements and removes them.";
    "bzmpop" -5 [TYPED | WRITE | WAITS] (0 0 0) "sorted-set",
        "Waits for members and removes the first or last of them.";
    "append" 3 [WRITE | GROWS | FAST] (1 1 1) "string", "Appends to a value.";
    "client" -2 [ADMIN] (0 0 0) "connection", "Tells about the connections and closes them.";
    "config" -2 [ADMIN] (0 0 0) "server", "Returns and changes settings.";
    "dbsize" 1 [READ | FAST] (0 0 0) "server", "Returns the number of keys of the database.";
    "decrby" 3 [WRITE | GROWS | FAST] (1 1 1) "string", "Subtracts from an integer.";
    "exists" -2 [READ | FAST] (1 -1 1) "generic", "Returns how many of the keys exist.";
    "expire" -3 [WRITE | FAST] (1 1 1) "generic", "Lets a key expire after so many seconds.";
    "getdel" 2 [WRITE | FAST] (1 1 1) "string", "Returns the value of a key and removes it.";
    "getset" 3 [WRITE | GROWS | FAST] (1 1 1) "string", "Sets the value of a key and returns the old one.";
    "incrby" 3 [WRITE | GROWS | FAST] (1 1 1) "string", "Adds to an integer.";
    "msetnx" -3 [WRITE | GROWS] (1 -1 2) "string", "Sets the values of keys if none of them exists.";
    "prefix" -2 [READ] (0 0 0) "range", "Returns the keys with a prefix, in order.";
    "psetex" 4 [WRITE | GROWS] (1 1 1) "string", "Sets a value that expires after so many milliseconds.";
    "select" 2 [FAST] (0 0 0) "connection", "Chooses the database.";
    "strlen" 2 [READ | FAST] (1 1 1) "string", "Returns the length of a value.";
    "substr" 4 [READ] (1 1 1) "string", "Returns a part of a value.";
    "unlink" -2 [WRITE | FAST] (1 -1 1) "generic", "Removes keys.";
    "bgsave" -1 [ADMIN] (0 0 0) "server", "Writes a snapshot, or without a log a backup, in the background.";
    "hsetnx" 4 [TYPED | WRITE | GROWS | FAST] (1 1 1) "hash", "Sets a field that does not exist.";
    "sinter" -2 [TYPED | READ] (1 -1 1) "set", "Returns the members that all sets have.";
    "sunion" -2 [TYPED | READ] (1 -1 1) "set", "Returns the members that any of the sets has.";
    "zcount" 4 [TYPED | READ | FAST] (1 1 1) "sorted-set", "Returns the number of members between two scores.";
    "zscore" 3 [TYPED | READ | FAST] (1 1 1) "sorted-set", "Returns the score of a member.";
    "zrange" -4 [TYPED | READ] (1 1 1) "sorted-set", "Returns members between two ranks, scores or members.";
    "zunion" -3 [TYPED | READ] (0 0 0) "sorted-set", "Returns the members that any of the sets has.";
    "zinter" -3 [TYPED | READ] (0 0 0) "sorted-set", "Returns the members that all sets have.";
    "lpushx" -3 [TYPED | WRITE | GROWS | FAST] (1 1 1) "list", "Adds elements at the left of a list that exists.";
    "rpushx" -3 [TYPED | WRITE | GROWS | FAST] (1 1 1) "list", "Adds elements at the right of a list that exists.";
    "lindex" 3 [TYPED | READ] (1 1 1) "list", "Returns the element of an index.";
    "lrange" 4 [TYPED | READ] (1 1 1) "list", "Returns the elements between two indices.";
    "swapdb" 3 [STEP | WRITE | FAST] (0 0 0) "server", "Exchanges the keys of two databases.";
    "setbit" 4 [WRITE | GROWS] (1 1 1) "bitmap", "Sets a bit of a value and returns the old one.";
    "getbit" 3 [READ | FAST] (1 1 1) "bitmap", "Returns a bit of a value.";
    "bitpos" -3 [READ] (1 1 1) "bitmap", "Returns where the first bit of a kind is.";
    "object" -2 [READ] (2 2 1) "generic", "Tells how a value is kept.";
    "memory" -2 [TYPED | READ] (0 0 0) "server", "Tells what a key and the server take.";
    "monitor" 1 [ADMIN] (0 0 0) "server", "Shows all commands that are run, as they are.";
    "command" -1 [READ] (0 0 0) "server", "Describes the commands.";
    "discard" 1 [FAST] (0 0 0) "transactions", "Ends a transaction without running it.";
    "flushdb" -1 [WRITE] (0 0 0) "server", "Removes all keys of the database.";
    "persist" 2 [WRITE | FAST] (1 1 1) "generic", "Lets a key never expire.";
    "pexpire" -3 [WRITE | FAST] (1 1 1) "generic", "Lets a key expire after so many milliseconds.";
    "unwatch" 1 [FAST] (0 0 0) "transactions", "Forgets the keys of WATCH.";
    "hexists" 3 [TYPED | READ | FAST] (1 1 1) "hash", "Returns whether a field exists.";
    "hgetall" 2 [TYPED | READ] (1 1 1) "hash", "Returns all fields and what they have.";
    "hincrby" 4 [TYPED | WRITE | GROWS | FAST] (1 1 1) "hash", "Adds to the integer of a field.";
    "hstrlen" 3 [TYPED | READ | FAST] (1 1 1) "hash", "Returns the length of what a field has.";
    "zincrby" 4 [TYPED | WRITE | GROWS | FAST] (1 1 1) "sorted-set", "Adds to the score of a member.";
    "zmscore" -3 [TYPED | READ | FAST] (1 1 1) "sorted-set", "Returns the scores of members.";
    "zpopmin" -2 [TYPED | WRITE | FAST] (1 1 1) "sorted-set",
        "Removes the members with the lowest scores and returns them.";
    "zpopmax" -2 [TYPED | WRITE | FAST] (1 1 1) "sorted-set",
        "Removes the members with the highest scores and returns them.";
    "linsert" 5 [TYPED | WRITE | GROWS] (1 1 1) "list", "Adds an element before or after another.";
    "sort_ro" -2 [TYPED | READ] (1 1 1) "generic", "Returns the members of a collection by their weights.";
    "slowlog" -2 [ADMIN] (0 0 0) "server", "Tells which commands took long.";
    "latency" -2 [ADMIN] (0 0 0) "server", "Tells how long commands took.";
    "restore" -4 [TYPED | WRITE | GROWS] (1 1 1) "generic", "Makes a key of what DUMP returned.";
    "bzpopmin" -3 [TYPED | WRITE | WAITS | FAST] (1 -2 1) "sorted-set",
        "Waits for a member and removes the one with the lowest score.";
    "bzpopmax" -3 [TYPED | WRITE | WAITS | FAST] (1 -2 1) "sorted-set",
        "Waits for a member and removes the one with the highest score.";
    "expireat" -3 [WRITE | FAST] (1 1 1) "generic", "Lets a key expire at a time in seconds since 1970.";
    "flushall" -1 [WRITE] (0 0 0) "server", "Removes all keys of all databases.";
    "getrange" 4 [READ] (1 1 1) "string", "Returns a part of a value.";
    "renamenx" 3 [TYPED | WRITE | FAST] (1 2 1) "generic", "Moves what a key holds to a key that does not exist.";
    "shutdown" -1 [ADMIN | NO_MULTI] (0 0 0) "server", "Stops the server.";
    "lastsave" 1 [FAST] (0 0 0) "server", "Returns when the last save ended, in seconds since 1970.";
    "smembers" 2 [TYPED | READ] (1 1 1) "set", "Returns all members.";
    "zrevrank" -3 [TYPED | READ | FAST] (1 1 1) "sorted-set", "Returns how many members come after one.";
    "bitcount" -2 [READ] (1 1 1) "bitmap", "Returns the number of ones in a value.";
    "bitfield" -2 [WRITE | GROWS] (1 1 1) "bitmap", "Reads and changes integers of any width in a value.";
    "setrange" 4 [WRITE | GROWS] (1 1 1) "string", "Overwrites a part of a value.";
    "pexpireat" -3 [WRITE | FAST] (1 1 1) "generic", "Lets a key expire at a time in milliseconds since 1970.";
    "sismember" 3 [TYPED | READ | FAST] (1 1 1) "set", "Returns whether a member is there.";
    "zlexcount" 4 [TYPED | READ | FAST] (1 1 1) "sorted-set",
        "Returns the number of members between two members of one score.";
    "zrevrange" -4 [TYPED | READ] (1 1 1) "sorted-set", "Returns members between two ranks, from the last.";
    "rpoplpush" 3 [TYPED | WRITE | GROWS] (1 2 1) "list", "Moves the last element of a list to the front of another.";
    "randomkey" 1 [READ] (0 0 0) "generic", "Returns a random key.";
    "brpoplpush" 4 [TYPED | WRITE | GROWS | WAITS] (1 2 1) "list",
        "Waits for an element at the right and moves it to the front of another list.";
    "expiretime" 2 [READ | FAST] (1 1 1) "generic", "Returns when a key expires, in seconds since 1970.";
    "hrandfield" -2 [TYPED | READ] (1 1 1) "hash", "Returns random fields.";
    "smismember" -3 [TYPED | READ | FAST] (1 1 1) "set", "Returns for each member whether it is there.";
    "sintercard" -3 [TYPED | READ] (0 0 0) "set", "Returns the number of members that all sets have.";
    "sdiffstore" -3 [TYPED | WRITE | GROWS] (1 -1 1) "set", "Stores what SDIFF returns.";
    "zdiffstore" -4 [TYPED | WRITE | GROWS] (1 1 1) "sorted-set", "Stores what ZDIFF returns.";
    "zintercard" -3 [TYPED | READ] (0 0 0) "sorted-set", "Returns the number of members that all sets have.";
    "pexpiretime" 2 [READ | FAST] (1 1 1) "generic", "Returns when a key expires, in milliseconds since 1970.";
    "sinterstore" -3 [TYPED | WRITE | GROWS] (1 -1 1) "set", "Stores what SINTER returns.";
    "srandmember" -2 [TYPED | READ] (1 1 1) "set", "Returns random members.";
    "sunionstore" -3 [TYPED | WRITE | GROWS] (1 -1 1) "set", "Stores what SUNION returns.";
    "zinterstore" -4 [TYPED | WRITE | GROWS] (1 1 1) "sorted-set", "Stores what ZINTER returns.";
    "zunionstore" -4 [TYPED | WRITE | GROWS] (1 1 1) "sorted-set", "Stores what ZUNION returns.";
    "zrangestore" -5 [TYPED | WRITE | GROWS] (1 2 1) "sorted-set", "Stores what ZRANGE returns.";
    "zrandmember" -2 [TYPED | READ] (1 1 1) "sorted-set", "Returns random members.";
    "zrangebylex" -4 [TYPED | READ] (1 1 1) "sorted-set", "Returns members between two members of one score.";
    "incrbyfloat" 3 [WRITE | GROWS | FAST] (1 1 1) "string", "Adds to a number.";
    "bitfield_ro" -2 [READ | FAST] (1 1 1) "bitmap", "Reads integers of any width in a value.";
    "hincrbyfloat" 4 [TYPED | WRITE | GROWS | FAST] (1 1 1) "hash", "Adds to the number of a field.";
    "zrangebyscore" -4 [TYPED | READ] (1 1 1) "sorted-set", "Returns members between two scores.";
    "zrevrangebylex" -4 [TYPED | READ] (1 1 1) "sorted-set",
        "Returns members between two members of one score, from the last.";
    "zremrangebylex" 4 [TYPED | WRITE] (1 1 1) "sorted-set", "Removes members between two members of one score.";
    "zremrangebyrank" 4 [TYPED | WRITE] (1 1 1) "sorted-set", "Removes members between two ranks.";
    "zremrangebyscore" 4 [TYPED | WRITE] (1 1 1) "sorted-set", "Removes members between two scores.";
    "zrevrangebyscore" -4 [TYPED | READ] (1 1 1) "sorted-set", "Returns members between two scores, from the last.";
};

/// The number of a command, by its index in the table and which of its subcommands it is.
pub fn number(index: usize, subcommand: Option<usize>) -> usize {
    index + COUNT * subcommand.map_or(0, |position| position + 1)
}

/// Numbers are below this.
pub const NUMBER_COUNT: usize = COUNT * (1 + SUBCOMMAND_COUNT_MAX);

/// The most subcommands of a command.
const SUBCOMMAND_COUNT_MAX: usize = {
    let (mut index, mut most) = (0, 0);
    while index < SUBCOMMANDS.len() {
        let count = SUBCOMMANDS[index].1.len();
        most = if count > most { count } else { most };
        index += 1;
    }
    most
};

/// Whether the command with this number is one that should be fast.
pub fn is_fast(number: usize) -> bool {
    COMMANDS[number % COUNT].flags & FAST != 0
}

/// The name of a command with this number, `client|list` for example; `None` if there is none.
pub fn full_name(number: usize) -> Option<String> {
    let command = &COMMANDS[number % COUNT];
    let Some(position) = (number / COUNT).checked_sub(1) else { return Some(command.name.into()) };
    let (name, _) = command.subcommands()?.get(position)?;
    Some(format!("{}|{name}", command.name))
}

/// The longest name, in bytes.
pub const NAME_SIZE_MAX: usize = 16;

/// Whether the command at an index may be done in one step with others of its kind. O(1): it is asked with every
/// request.
#[inline]
pub fn is_serial(index: usize) -> bool {
    static SERIAL: [bool; COUNT] = {
        let (mut all, mut index) = ([false; COUNT], 0);
        while index < COUNT {
            all[index] = COMMANDS[index].is_serial();
            index += 1;
        }
        all
    };
    SERIAL[index]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::facts::places::{PLACE_COUNT, PLACES, place_of};
    use crate::command::facts::{GET, SET, find};

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert_eq!(find(command.name.as_bytes()), Some(index), "{}", command.name);
            assert_eq!(find(command.name.to_ascii_uppercase().as_bytes()), Some(index));
        }
        assert_eq!((COMMANDS[GET].name, COMMANDS[SET].name), ("get", "set"));
        // Nearly always at the first place.
        let looked_at = |index: usize| {
            let first = COMMANDS[index].name.as_bytes();
            let mut bytes = [0; NAME_SIZE_MAX];
            bytes[..first.len()].copy_from_slice(first);
            let place = place_of(u128::from_le_bytes(bytes), first.len());
            (0..).find(|step| usize::from(PLACES[(place + step) % PLACE_COUNT]) == index).unwrap()
        };
        let all: Vec<usize> = (0..COUNT).map(looked_at).collect();
        assert!(all.iter().filter(|steps| **steps > 0).count() < COUNT / 3, "{all:?}");
        assert!(all.iter().all(|steps| *steps < 16), "{all:?}");
    }

    #[test]
    fn commands_of_one_collection_may_follow_each_other_in_a_step() {
        let is_serial = |name: &str| is_serial(find(name.as_bytes()).unwrap());
        for name in ["sadd", "zadd", "hset", "hget", "lpush", "zpopmin", "spop", "lrange"] {
            assert!(is_serial(name), "{name}");
        }
        let others =
            ["zunionstore", "sinterstore", "zrangestore", "blpop", "smove", "rename", "sort"];
        for name in others.into_iter().chain(["get", "mset", "zmpop", "sinter", "exec", "type"]) {
            assert!(!is_serial(name), "{name}");
        }
    }

    #[test]
    fn what_is_no_command_is_not_found() {
        let long = [b'x'; 1000];
        for name in [&b""[..], b"ge", b"gett", b"nosuchcommand", b"\xff\xff\xff", &long] {
            assert_eq!(find(name), None, "{}", name.escape_ascii());
        }
        // What only has the bits of the letters, or ends with what a shorter name is filled up with.
        let cut = |command: &Command, byte: u8| [command.name.as_bytes(), &[byte]].concat();
        for command in &COMMANDS {
            for (at, letter) in command.name.bytes().enumerate() {
                for bit in [0x01, 0x10, 0x40, 0x80] {
                    let mut name = command.name.as_bytes().to_vec();
                    name[at] = letter ^ bit;
                    let found = find(&name).map(|index| COMMANDS[index].name.as_bytes());
                    assert!(found.is_none_or(|found| found == name), "{}", name.escape_ascii());
                }
            }
            for byte in [0, b' '] {
                assert_eq!(find(&cut(command, byte)), None, "{}", command.name);
            }
        }
    }

    #[test]
    fn the_table_is_sorted_by_length_and_has_no_twins() {
        for pair in COMMANDS.windows(2) {
            assert!(pair[0].name.len() <= pair[1].name.len(), "{}", pair[1].name);
            assert_ne!(pair[0].name, pair[1].name);
        }
    }

    #[test]
    fn arity_counts_the_name_and_may_be_a_minimum() {
        let get = &COMMANDS[GET];
        assert!(get.accepts(2) && !get.accepts(1) && !get.accepts(3));
        let set = &COMMANDS[SET];
        assert!(set.accepts(3) && set.accepts(9) && !set.accepts(2));
    }
}
