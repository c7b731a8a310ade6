//! The subcommands of commands that have some.

/// The subcommands of a command, each with its arity.
pub type Subcommands = &'static [(&'static str, i8)];

/// The commands that have subcommands.
pub const SUBCOMMANDS: [(&str, Subcommands); 8] = [
    (
        "acl",
        &[
            ("cat", -2),
            ("deluser", -3),
            ("dryrun", -4),
            ("genpass", -2),
            ("getuser", 3),
            ("help", 2),
            ("list", 2),
            ("load", 2),
            ("log", -2),
            ("save", 2),
            ("setuser", -3),
            ("users", 2),
            ("whoami", 2),
        ],
    ),
    (
        "client",
        &[
            ("getname", 2),
            ("getredir", 2),
            ("id", 2),
            ("info", 2),
            ("kill", -3),
            ("list", -2),
            ("no-evict", 3),
            ("no-touch", 3),
            ("reply", 3),
            ("setinfo", 4),
            ("setname", 3),
            ("trackinginfo", 2),
            ("unblock", -3),
        ],
    ),
    ("command", &[("count", 2), ("docs", -2), ("getkeys", -4), ("info", -2), ("list", -2)]),
    ("config", &[("get", -3), ("resetstat", 2), ("rewrite", 2), ("set", -4)]),
    (
        "latency",
        &[
            ("doctor", 2),
            ("graph", 3),
            ("help", 2),
            ("histogram", -2),
            ("history", 3),
            ("latest", 2),
            ("reset", -2),
        ],
    ),
    ("memory", &[("doctor", 2), ("help", 2), ("stats", 2), ("usage", -3)]),
    ("object", &[("encoding", 3), ("freq", 3), ("help", 2), ("idletime", 3), ("refcount", 3)]),
    ("slowlog", &[("get", -2), ("help", 2), ("len", 2), ("reset", 2)]),
];
