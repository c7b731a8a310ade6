//! Addresses of servers: `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, and of clusters, of which one server is
//! named: `redis-cluster://[USER[:PASSWORD]@]HOST[:PORT]`; with TLS `rediss://` and `rediss-cluster://`.

use crate::failure::Failure;

/// The port of Redis.
const PORT: u16 = 6379;
/// The environment variable that holds the password, as that of redis-cli.
const PASSWORD_VARIABLE: &str = "REDISCLI_AUTH";

/// How addresses begin, whether what is there is reached by TLS, and whether it is a cluster.
const SCHEMES: [(&str, bool, bool); 4] = [
    ("redis://", false, false),
    ("rediss://", true, false),
    ("redis-cluster://", false, true),
    ("rediss-cluster://", true, true),
];

/// Where a server is, and how to come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
    pub is_tls: bool,
    /// Whether all servers of the cluster are meant that this one is of.
    pub is_cluster: bool,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: Option<u64>,
}

impl Address {
    /// The place alone, for messages.
    pub fn place(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Another server, where the same ones are let in.
    pub fn at(&self, host: &str, port: u16) -> Self {
        Self { host: host.to_string(), port, ..self.clone() }
    }

    /// The cluster that this server is of, as it is named here, without who we are.
    pub fn of_cluster(&self) -> String {
        let is_meant =
            |(_, is_tls, is_cluster): &&(_, bool, bool)| *is_cluster && *is_tls == self.is_tls;
        let scheme = SCHEMES.iter().find(is_meant).map_or("", |(scheme, ..)| scheme);
        format!("{scheme}{}", self.place())
    }

    /// Whether a text can only be meant as an address.
    pub fn is_like(text: &str) -> bool {
        SCHEMES.iter().any(|(scheme, ..)| text.starts_with(scheme))
    }

    /// The address, if it is one and not the name of a file.
    pub fn parse(text: &str) -> Result<Option<Self>, Failure> {
        let found = SCHEMES.iter().find_map(|(scheme, is_tls, is_cluster)| {
            Some((text.strip_prefix(scheme)?, *is_tls, *is_cluster))
        });
        let Some((rest, is_tls, is_cluster)) = found else {
            return match text.contains("://") {
                true => Err(wrong(
                    text,
                    "it begins with redis://, or rediss:// for TLS, or for a cluster with redis-cluster:// or \
                     rediss-cluster://",
                )),
                false => Ok(None),
            };
        };
        let (rest, database) = match rest.split_once('/') {
            None | Some((_, "")) => (rest.trim_end_matches('/'), None),
            Some((rest, number)) => {
                let number = number.parse().map_err(|_| wrong(text, "behind the / is a number"))?;
                (rest, Some(number))
            }
        };
        if is_cluster && database.is_some_and(|number: u64| number > 0) {
            return Err(wrong(text, "a cluster has database 0 only"));
        }
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            Some((user, password)) => (decoded(text, user)?, decoded(text, password)?),
            None => (None, None),
        };
        // An address of version 6 of the protocol has colons, and stands in brackets.
        let (host, port) = match place.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, port))) => (host, port.strip_prefix(':')),
            Some(None) => return Err(wrong(text, "a bracket is not closed")),
            None => match place.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        let port = port.map_or(Ok(PORT), str::parse);
        let port = port.map_err(|_| wrong(text, "the port is a number below 65,536"))?;
        if host.is_empty() {
            return Err(wrong(text, "it names no host"));
        }
        let password = password.or_else(|| std::env::var(PASSWORD_VARIABLE).ok());
        let host = host.to_string();
        Ok(Some(Address { host, port, is_tls, is_cluster, user, password, database }))
    }
}

/// An address without what may be a password.
pub fn without_password(text: &str) -> &str {
    text.rsplit_once('@').map_or(text, |(_, place)| place)
}

fn wrong(text: &str, why: &str) -> Failure {
    Failure::usage(format!("{}: {why}", without_password(text)))
}

/// A part in which `%40` stands for `@` and the like; `None` if it is empty.
fn decoded(text: &str, part: &str) -> Result<Option<String>, Failure> {
    let (mut bytes, mut rest) = (Vec::new(), part.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(value.ok_or_else(|| wrong(text, "behind % are two hexadecimal digits"))?);
        rest = &rest[2..];
    }
    let decoded =
        String::from_utf8(bytes).map_err(|_| wrong(text, "user and password are UTF-8"))?;
    Ok(Some(decoded).filter(|decoded| !decoded.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Address>, String> {
        Address::parse(text).map_err(|failure| failure.message)
    }

    #[test]
    fn all_parts_are_found() {
        let address = parse("rediss://ann:p%40ss%3A@[::1]:7000/3").unwrap().unwrap();
        assert_eq!((&*address.host, address.port, address.is_tls), ("::1", 7000, true));
        assert_eq!(address.user.as_deref(), Some("ann"));
        assert_eq!(address.password.as_deref(), Some("p@ss:"));
        assert_eq!(address.database, Some(3));
        let address = parse("redis://host/").unwrap().unwrap();
        assert_eq!((&*address.host, address.port, address.database), ("host", 6379, None));
        assert_eq!(parse("redis://:secret@host").unwrap().unwrap().user, None);
        assert_eq!(parse("dump.rdb"), Ok(None));
        let cluster = parse("rediss-cluster://:secret@[::1]:7000").unwrap().unwrap();
        assert_eq!((cluster.is_tls, cluster.is_cluster, cluster.database), (true, true, None));
        assert_eq!(cluster.place(), "[::1]:7000");
        assert_eq!(cluster.of_cluster(), "rediss-cluster://[::1]:7000");
        let single = parse("redis://ann:secret@h/2").unwrap().unwrap();
        assert_eq!(single.of_cluster(), "redis-cluster://h:6379");
        let other = cluster.at("10.0.0.7", 7001);
        assert_eq!((other.place().as_str(), other.password), ("10.0.0.7:7001", cluster.password));
        assert_eq!(parse("redis-cluster://h/0").unwrap().unwrap().database, Some(0));
        assert!(Address::is_like("redis-cluster://h") && !Address::is_like("http://h"));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_password() {
        for (text, part) in [
            ("http://x", "redis://"),
            ("redis://", "no host"),
            ("redis://u:secret@host:70000", "port"),
            ("redis://host/x", "number"),
            ("redis-cluster://u:secret@host/3", "database 0 only"),
            ("redis://[::1", "bracket"),
            ("redis://u:secret%4@host", "hexadecimal"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(part) && !message.contains("secret"), "{message}");
        }
    }
}
