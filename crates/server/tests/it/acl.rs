//! Users: what is refused, from when on, to whom; and their file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use crate::support::{Client, TestServer, encode, eventually, open};
use everleaf_server::{Config, Server};

const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

fn user(server: &TestServer, name: &str, rules: &str) -> Client {
    let mut admin = server.connect();
    assert_eq!(admin.line(&format!("ACL SETUSER {name} reset on >p {rules}")), "+OK");
    let mut client = server.connect();
    assert_eq!(client.line(&format!("AUTH {name} p")), "+OK");
    client
}

#[test]
fn pipelines_are_checked_request_by_request() {
    let server = TestServer::start();
    assert_eq!(server.connect().line("SET other secret"), "+OK");
    let mut client = user(&server, "u", "+get +set ~mine*");
    let mut stream = Vec::new();
    for _ in 0..50 {
        for request in [
            vec!["SET", "mine1", "v"],
            vec!["GET", "other"],
            vec!["SET", "other", "x"],
            vec!["GET", "mine1"],
        ] {
            stream.extend(encode(&request));
        }
    }
    client.send(&stream);
    let refused =
        "-NOPERM this user has no permissions to access one of the keys used as arguments";
    for _ in 0..50 {
        let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
        assert_eq!(replies, ["+OK", refused, refused, "\"v\""]);
    }
    assert_eq!(
        client.line("DEL mine1"),
        "-NOPERM this user has no permissions to run the 'del' command"
    );
    assert_eq!(
        client.line("CONFIG GET *"),
        "-NOPERM this user has no permissions to run the 'config|get' command"
    );
    assert_eq!(server.connect().line("GET other"), "\"secret\"");
}

/// What was refused: commands of a client that was let in without a password, which was needed when it came. It was
/// served, but held to the limits of clients that have said none.
#[test]
fn the_limits_before_the_password_end_with_it() {
    let server = TestServer::start();
    let mut admin = server.connect();
    assert_eq!(admin.line("ACL SETUSER default >p"), "+OK");
    let mut client = server.connect();
    assert!(client.line("PING").starts_with("-NOAUTH"));
    assert_eq!(admin.line("ACL SETUSER default nopass"), "+OK");
    assert_eq!(client.ask(&["SET", "k", &"v".repeat(20_000)]), "+OK");
    let pairs: Vec<&str> = ["MSET"].into_iter().chain(["k"; 40]).collect();
    assert_eq!(client.ask(&pairs), "+OK");
    // And back: a client that has said one is not asked again.
    assert_eq!(admin.line("ACL SETUSER default resetpass >p"), "+OK");
    client.send(&encode(&["SET", "k", &"v".repeat(20_000)]));
    let reply = client.reply();
    assert!(reply.starts_with("-ERR Protocol error: unauthenticated bulk length"), "{reply}");
    assert_eq!(admin.ask(&["SET", "k", &"v".repeat(20_000)]), "+OK");
}

/// Once a change is answered no other connection does what it forbids, whatever its event loop.
#[test]
fn a_change_is_in_force_when_it_is_answered() {
    let server = TestServer::start();
    let mut admin = server.connect();
    let mut clients: Vec<Client> = (0..6).map(|_| user(&server, "u", "+@all ~*")).collect();
    for round in 0..50 {
        let (rule, expected) = match round % 2 {
            0 => ("-get", "-NOPERM this user has no permissions to run the 'get' command"),
            _ => ("+get", "nil"),
        };
        assert_eq!(admin.line(&format!("ACL SETUSER u {rule}")), "+OK");
        for client in &mut clients {
            assert_eq!(client.line("GET k"), expected);
        }
    }
}

#[test]
fn a_user_that_is_deleted_is_closed_and_cannot_come_back() {
    let server = TestServer::start();
    let mut admin = server.connect();
    let mut clients: Vec<Client> = (0..4).map(|_| user(&server, "u", "+@all ~*")).collect();
    clients[0].send(&encode(&["BLPOP", "list", "0"]));
    assert_eq!(clients[1].line("ACL WHOAMI"), "\"u\"");
    assert_eq!(admin.line("ACL DELUSER u nobody"), ":1");
    clients.iter_mut().for_each(Client::assert_closed);
    assert_eq!(server.connect().line("AUTH u p"), WRONG);
    assert_eq!(admin.line("ACL DELUSER default"), "-ERR The 'default' user cannot be removed");
    // Of the same name, but another.
    let mut last = user(&server, "u", "+acl|deluser +acl|whoami");
    assert_eq!(last.line("ACL DELUSER u"), ":1");
    last.assert_closed();
    eventually("nobody is left", || admin.line("INFO clients").contains("connected_clients:1\\r"));
}

#[test]
fn a_transaction_is_checked_when_kept_and_when_run() {
    let server = TestServer::start();
    let mut admin = server.connect();
    let mut client = user(&server, "u", "+@all ~mine*");
    assert_eq!(client.line("MULTI"), "+OK");
    assert!(client.line("SET other 1").starts_with("-NOPERM"));
    assert!(client.line("EXEC").starts_with("-EXECABORT"));
    for (rule, reason) in [
        ("-incr", "no permission to execute the command or subcommand"),
        ("resetkeys", "no permission to touch the specified keys"),
    ] {
        assert_eq!(admin.line("ACL SETUSER u resetkeys ~mine* +incr"), "+OK");
        for line in ["MULTI", "INCR mine", "PING"] {
            assert!(client.line(line).starts_with('+'));
        }
        assert_eq!(admin.line(&format!("ACL SETUSER u {rule}")), "+OK");
        let reply = client.line("EXEC");
        assert!(
            reply.starts_with("[-NOPERM ACLs rules changed") && reply.contains(reason),
            "{reply}"
        );
    }
    assert_eq!(admin.line("ACL SETUSER u -exec"), "+OK");
    assert_eq!(client.line("MULTI"), "+OK");
    assert!(client.line("EXEC").starts_with("-EXECABORT Transaction discarded because of: NOPERM"));
    assert_eq!(client.line("PING"), "+PONG");
    assert_eq!(admin.line("GET mine"), "nil");
    let log = admin.line("ACL LOG");
    assert!(log.contains("\"multi\" \"object\" \"incr\""), "{log}");
    assert_eq!(admin.line("MULTI"), "+OK");
    assert_eq!(admin.line("ACL SAVE"), "+QUEUED");
    assert_eq!(admin.line("EXEC"), "[-ERR ACL SAVE inside of a transaction is not possible]");
}

#[test]
fn what_names_no_key_tells_nothing_of_others() {
    let server = TestServer::start();
    let mut admin = server.connect();
    for line in ["SET secret 1", "RPUSH mine 1", "SET mine:x 1"] {
        assert!(!admin.line(line).starts_with('-'));
    }
    let mut client = user(&server, "u", "+@all ~mine*");
    for line in ["RANGE - + WITHVALUES", "PREFIX s WITHVALUES", "RANGE - +", "PREFIX mine"] {
        assert!(client.line(line).starts_with("-NOPERM"), "{line}");
    }
    for (line, option) in [
        ("SORT mine BY nosort GET secret*", "GET"),
        ("SORT mine BY s*", "BY"),
        ("SORT mine GET # BY s*", "GET"),
        // What stands behind it is not looked at.
        ("SORT mine GET x junk", "GET"),
        ("SORT mine BY w_* LIMIT x y", "BY"),
    ] {
        let refused =
            format!("-ERR {option} option of SORT denied due to insufficient ACL permissions.");
        assert_eq!(client.line(line), refused);
    }
    // A destination that hides behind other options.
    for line in [
        "SORT mine STORE other BY store GET mine",
        "SORT mine BY nosort STORE other LIMIT store mine",
    ] {
        assert!(client.line(line).starts_with("-NOPERM"), "{line}");
    }
    assert_eq!(
        client.line("MEMORY USAGE secret"),
        "-NOPERM this user has no permissions to access one of the keys used as arguments"
    );
    assert!(client.line("OBJECT ENCODING secret").starts_with("-NOPERM"));
    assert!(client.line("ZUNION 2 mine secret").starts_with("-NOPERM"));
    let mut reader = user(&server, "r", "+@all %R~*");
    assert_eq!(reader.line("PREFIX s WITHVALUES"), "[\"secret\" \"1\"]");
    assert_eq!(reader.line("SORT mine GET #"), "[\"1\"]");
    assert!(reader.line("SORT mine STORE other").starts_with("-NOPERM"));
    assert_eq!(admin.line("EXISTS other"), ":0");
}

#[test]
fn passwords_are_in_no_log() {
    let server = TestServer::start();
    let mut admin = server.connect();
    assert_eq!(admin.line("CONFIG SET slowlog-log-slower-than 0"), "+OK");
    assert_eq!(admin.line("ACL SETUSER u on >topsecret +@all"), "+OK");
    assert!(
        admin
            .line("ACL SETUSER u >topsecret nonsense")
            .starts_with("-ERR Error in ACL SETUSER modifier 'nonsense'")
    );
    let unknown = admin.line("ACL SETUSER u +xadd");
    let (why, page) = ("Unknown command or category name in ACL (", "docs/redis-differences.md)");
    assert!(unknown.contains(why) && unknown.ends_with(page), "{unknown}");
    assert_eq!(admin.line("AUTH u topsecret"), "+OK");
    assert_eq!(admin.line("AUTH u topsecret2"), WRONG);
    for line in
        ["SLOWLOG GET -1", "ACL LOG", "ACL LIST", "ACL GETUSER u", "CLIENT LIST", "CONFIG GET *"]
    {
        assert!(!admin.line(line).contains("topsecret"), "{line}");
    }
}

#[test]
fn guessing_is_slow() {
    let server = TestServer::with(|config| {
        config.password = Some("right".into());
        config.wrong_password_count_max = 5;
    });
    for attempt in 0..20 {
        let mut client = server.connect();
        let reply = match attempt % 2 {
            0 => client.line("AUTH wrong"),
            _ => client.line("HELLO 3 AUTH default wrong"),
        };
        let limited = reply.starts_with("-ERR too many wrong passwords");
        assert_eq!((reply == WRONG, limited), (attempt < 5, attempt >= 5), "{reply}");
    }
    // Right or wrong is not told.
    assert!(server.connect().line("AUTH right").starts_with("-ERR too many wrong passwords"));
}

#[test]
fn users_are_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    fs::write(&file, "user alice on >a ~a* +@all\n\nuser default on nopass ~* +@all\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let server = TestServer::with(|config| config.acl_file = Some(link.clone()));
    let mut admin = server.connect();
    let mut alice = server.connect();
    assert_eq!(alice.line("AUTH alice a"), "+OK");
    assert_eq!(admin.line("ACL SETUSER bob on >b (+get ~b* %R~c)"), "+OK");
    assert_eq!(admin.line("ACL SAVE"), "+OK");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left over");
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(">b") && text.contains("(~b* %R~c resetchannels -@all +get)"), "{text}");
    let before = admin.line("ACL LIST");

    // A file with mistakes changes nothing.
    for (bad, sentence) in [
        ("user alice on\nuser alice off\n", "Duplicate user 'alice' found on line 2"),
        ("user default on\nuser x +nosuch\n", "link:2: Error in applying operation '+nosuch'"),
        ("usr x\n", "link:1 should start with user keyword"),
        ("user x (+get\n", "link:1: Unmatched parenthesis"),
        ("user a\tb on\n", "contains invalid characters"),
        ("\0\u{1}\n", "link:1 should start with user keyword"),
    ] {
        fs::write(&file, bad).unwrap();
        let reply = admin.line("ACL LOAD");
        assert!(reply.starts_with("-ERR ") && reply.contains(sentence), "{reply}");
        assert!(
            reply.ends_with("no change to the previously active ACL rules was performed"),
            "{reply}"
        );
        let config = Config { port: 0, acl_file: Some(link.clone()), ..Config::default() };
        let refused = Server::listen(config).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|text| text.contains(sentence)));
        assert_eq!(admin.line("ACL LIST"), before);
    }

    // Others than the default user are closed when the file is read again.
    fs::write(&file, &text).unwrap();
    assert_eq!(alice.line("ACL WHOAMI"), "\"alice\"");
    assert_eq!(admin.line("ACL LOAD"), "+OK");
    alice.assert_closed();
    assert_eq!(admin.line("ACL LIST"), before);
    fs::remove_file(&file).unwrap();
    assert!(admin.line("ACL LOAD").starts_with("-ERR Error loading ACLs, opening file"));
    // Nor is one written that could not be read.
    fs::write(&file, "user default on nopass ~* +@all\n").unwrap();
    for name in ["a", "b"] {
        let pattern = "x".repeat(33 << 20);
        let rule = format!("~{pattern}");
        admin.send(&encode(&["ACL", "SETUSER", name, &rule]));
        assert_eq!(admin.reply(), "+OK");
    }
    assert!(admin.line("ACL SAVE").starts_with("-ERR There was an error trying to save"));
    assert_eq!(admin.line("ACL LOAD"), "+OK");
    let refused = TestServer::start().connect().line("ACL SAVE");
    assert!(refused.starts_with("-ERR This Redis instance is not configured to use an ACL file"));
}

/// A link to the pool had the pool replaced by the users, and one to a device the device; and a device was read
/// until no memory was left.
#[test]
fn a_file_of_users_is_a_file_and_no_pool() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    fs::write(&file, "").unwrap();
    let server = TestServer::with(|config| config.acl_file = Some(file.clone()));
    let mut admin = server.connect();
    let pool = folder.path().join("pool");
    everleaf::Options::new().create(true).open(&pool).unwrap().close().unwrap();
    let before = fs::read(&pool).unwrap();
    for (target, why) in
        [(pool.to_str().unwrap(), "Everleaf pool"), ("/dev/zero", "not a regular file")]
    {
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(target, &file).unwrap();
        assert!(admin.line("ACL SAVE").starts_with("-ERR"), "{why}");
        assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
    }
    let refused = admin.line("ACL LOAD");
    assert!(refused.contains("not a regular file"), "{refused}");
    assert!(fs::read(&pool).unwrap() == before);
}

/// What comes back from the file is what was saved, for users of random rules.
#[test]
fn whatever_can_be_set_can_be_saved_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    fs::write(&file, "").unwrap();
    let server = TestServer::with(|config| config.acl_file = Some(file.clone()));
    let mut admin = server.connect();
    let rules = [
        "~a\"b",
        "~(x",
        "~x)",
        "~'",
        "%R~\\x",
        "~\u{7f}\u{e9}",
        "&\"",
        "(~q\"x\"y)",
        "(~a')",
        "(~a) ~b)",
        "((~a)",
        "+select|\"a",
        "+select|a)",
        "(+select|( ~z)",
        "~",
        "&",
        "(~)",
        "#",
        ">",
        "(\"~a\" +get)",
        "('~a')",
    ];
    for (index, first) in rules.iter().enumerate() {
        for second in rules {
            admin.ask(&["ACL", "SETUSER", &format!("u{index}"), first, second]);
        }
        admin.ask(&["ACL", "SETUSER", &format!("'{index}\"("), first]);
    }
    let before = admin.line("ACL LIST");
    assert!(before.len() > 1000, "{before}");
    assert_eq!(admin.line("ACL SAVE"), "+OK");
    assert_eq!(admin.line("ACL LOAD"), "+OK");
    assert_eq!(admin.line("ACL LIST"), before);
    // And the next server takes it.
    let pool = folder.path().join("next.pool");
    let store = Arc::new(open(&pool, 1 << 30));
    let config = Config { port: 0, threads: 1, acl_file: Some(file), ..Config::default() };
    assert!(Server::bind(config, store).is_ok());
}

/// No rule, name or request that is nonsense does anything but fail.
#[test]
fn nonsense_is_refused() {
    let server = TestServer::start();
    let mut admin = server.connect();
    let long = "x".repeat(200_000);
    let deep = format!("{}{}", "(".repeat(1000), ")".repeat(1000));
    let words = [
        "",
        "+",
        "-",
        "@",
        "+@",
        "-@",
        "%",
        "~",
        "&",
        "(",
        ")",
        "()",
        "(()",
        "+|",
        "+get|",
        "+|x",
        "-|",
        "#",
        "!",
        "<",
        ">",
        "\0",
        "\r\n",
        "+acl|",
        "%R",
        "%RWR~",
        "+@all|x",
        "-config|",
        &long,
        &deep,
        "-1",
        "99999999999999999999",
    ];
    for subcommand in [
        "SETUSER", "GETUSER", "DELUSER", "DRYRUN", "CAT", "GENPASS", "LOG", "WHOAMI", "LIST",
        "USERS", "HELP", "", "x", &long,
    ] {
        for word in words {
            for other in ["", "get", &long, "u"] {
                let reply = admin.ask(&["ACL", subcommand, word, other]);
                assert!(!reply.is_empty());
                admin.ask(&["ACL", subcommand, "u", word, other]);
            }
            admin.ask(&["ACL", subcommand, word]);
        }
    }
    assert_eq!(admin.line("PING"), "+PONG");
    assert_eq!(admin.line("ACL WHOAMI"), "\"default\"");
    assert!(admin.line("ACL LIST").contains("user default on nopass ~* &* +@all"));
}

/// What was wrong: a client that waited was served, although its user had lost the command or the key meanwhile.
#[test]
fn who_waits_is_checked_when_it_is_served() {
    let server = TestServer::start();
    let mut admin = server.connect();
    for (rule, reason) in [
        ("-blpop", "-NOPERM this user has no permissions to run the 'blpop' command"),
        ("resetkeys", "-NOPERM this user has no permissions to access one of the keys"),
    ] {
        let mut client = user(&server, "u", "+blpop ~list*");
        client.send(&encode(&["BLPOP", "list", "0"]));
        eventually("it waits", || admin.line("INFO clients").contains("blocked_clients:1"));
        assert_eq!(admin.line(&format!("ACL SETUSER u {rule}")), "+OK");
        assert_eq!(admin.line("RPUSH list a"), ":1");
        let reply = client.reply();
        assert!(reply.starts_with(reason), "{reply}");
        assert_eq!(admin.line("LPOP list"), "\"a\"", "it was not taken");
        assert!(admin.line("ACL LOG 1").contains("\"username\" \"u\""));
    }
    // A client that may still do it is served.
    let mut client = user(&server, "u", "+blpop ~list*");
    client.send(&encode(&["BLPOP", "list", "0"]));
    eventually("it waits", || admin.line("INFO clients").contains("blocked_clients:1"));
    assert_eq!(admin.line("ACL SETUSER u +get"), "+OK");
    assert_eq!(admin.line("RPUSH list a"), ":1");
    assert_eq!(client.reply(), "[\"list\" \"a\"]");
}
