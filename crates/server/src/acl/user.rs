//! A user: whether it may come in, with which passwords, and what it may do.

use std::sync::{Arc, PoisonError, RwLock};

use super::commands;
use super::facts::Access;
use super::selector::{Denied, RuleError, Selector};
use crate::command::facts::DIFFERENCES;
use crate::password::{self, Hash};
use crate::resp::words;

/// What a user may do.
#[derive(Clone, Debug)]
pub struct Rules {
    is_on: bool,
    /// Any password is right.
    has_no_password: bool,
    /// What `skip-sanitize-payload` and its opposite have set; it has no effect here.
    sanitizes: Option<bool>,
    passwords: Vec<Hash>,
    root: Selector,
    others: Vec<Selector>,
}

impl Rules {
    /// A new user: switched off, with no permission.
    pub fn new() -> Self {
        Rules {
            is_on: false,
            has_no_password: false,
            sanitizes: None,
            passwords: Vec::new(),
            root: Selector::new(),
            others: Vec::new(),
        }
    }

    /// The user that connections have at first: it may do all, with this password if there is one.
    pub fn of_default(password: Option<&str>) -> Self {
        Rules {
            is_on: true,
            has_no_password: password.is_none(),
            passwords: password.and_then(|it| password::hash(it.as_bytes())).into_iter().collect(),
            root: Selector::all(),
            ..Self::new()
        }
    }

    /// Changes it by rules, all or none of them. The error is a sentence.
    pub fn apply_all(&mut self, rules: &[&[u8]]) -> Result<(), Vec<u8>> {
        let mut changed = self.clone();
        let merged = merge_selectors(rules).map_err(|first| {
            [b"Unmatched parenthesis in acl selector starting at '", first, b"'."].concat()
        })?;
        for rule in &merged {
            changed.apply(rule).map_err(|error| {
                let mut end = format!("': {}", error.text());
                // It may be one that other servers have.
                if error == RuleError::Unknown {
                    end += " ";
                    end += DIFFERENCES;
                }
                [&b"Error in ACL SETUSER modifier '"[..], rule, end.as_bytes()].concat()
            })?;
        }
        *self = changed;
        Ok(())
    }

    /// Changes it by a rule.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"skip-sanitize-payload" => self.sanitizes = Some(false),
            b"sanitize-payload" => self.sanitizes = Some(true),
            b"nopass" => (self.has_no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.has_no_password, self.passwords) = (false, Vec::new()),
            b"clearselectors" => self.others.clear(),
            b"reset" => *self = Rules { sanitizes: Some(true), ..Rules::new() },
            [b'>' | b'#' | b'<' | b'!', ..] => return self.change_passwords(rule[0], &rule[1..]),
            [b'(', .., b')'] => self.others.push(parse_selector(&rule[1..rule.len() - 1])?),
            _ => return self.root.apply(rule),
        }
        Ok(())
    }

    fn change_passwords(&mut self, mark: u8, text: &[u8]) -> Result<(), RuleError> {
        let hash = match mark {
            b'>' | b'<' => password::hash(text).ok_or(RuleError::LongPassword)?,
            _ => password::parse_hash(text).ok_or(RuleError::BadHash)?,
        };
        let known = self.passwords.iter().position(|known| *known == hash);
        match (mark, known) {
            (b'>' | b'#', Some(_)) => self.has_no_password = false,
            (b'>' | b'#', None) => {
                self.passwords.push(hash);
                self.has_no_password = false;
            }
            (_, Some(index)) => {
                self.passwords.remove(index);
            }
            (_, None) => return Err(RuleError::NoSuchPassword),
        }
        Ok(())
    }

    /// Whether it may come in with a password of this hash. The time it takes does not depend on how much of the
    /// password is right.
    pub fn admits(&self, given: &Hash) -> bool {
        let known =
            self.passwords.iter().fold(false, |known, hash| known | password::equal(hash, given));
        self.is_on & (self.has_no_password | known)
    }

    /// Whether anybody may come in.
    pub fn is_open(&self) -> bool {
        self.is_on && self.has_no_password
    }

    /// Whether any password is right.
    pub fn has_no_password(&self) -> bool {
        self.has_no_password
    }

    /// Whether nothing is refused, at a glance.
    pub fn allows_all(&self) -> bool {
        self.root.allows_all()
    }

    /// Whether the command of this number may be run with these arguments. Of several reasons why not, a key counts
    /// before the command, and the last key before the others.
    pub fn check(&self, id: usize, args: &[&[u8]]) -> Result<(), Denied> {
        let keys = commands::keys_of(id, args);
        let mut reason = Denied::Command;
        for selector in self.selectors() {
            match selector.check(id, args, &keys) {
                Ok(()) => return Ok(()),
                Err(denied) => reason = reason.max(denied),
            }
        }
        Err(reason)
    }

    /// Whether the command may be run, and read any key besides.
    pub fn check_reading_all(&self, id: usize, args: &[&[u8]]) -> bool {
        let keys: Vec<(usize, Access)> = commands::keys_of(id, args);
        let mut selectors = self.selectors();
        selectors
            .any(|selector| selector.reads_all_keys() && selector.check(id, args, &keys).is_ok())
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.others)
    }

    /// The permissions that are its own, and those in parentheses.
    pub fn parts(&self) -> (&Selector, &[Selector]) {
        (&self.root, &self.others)
    }

    /// The hashes of its passwords, as hexadecimal digits.
    pub fn passwords(&self) -> Vec<String> {
        self.passwords.iter().map(password::digits).collect()
    }

    /// What is switched on, in the words of rules.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        flags.extend(self.has_no_password.then_some("nopass"));
        flags.extend(
            self.sanitizes
                .map(|yes| if yes { "sanitize-payload" } else { "skip-sanitize-payload" }),
        );
        flags
    }

    /// All of it, as rules.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = self.flags().join(" ").into_bytes();
        for hash in self.passwords() {
            text.extend_from_slice(format!(" #{hash}").as_bytes());
        }
        text.push(b' ');
        text.extend(self.root.describe());
        for selector in &self.others {
            text.extend_from_slice(b" (");
            text.extend(selector.describe());
            text.push(b')');
        }
        text
    }
}

fn parse_selector(text: &[u8]) -> Result<Selector, RuleError> {
    let mut selector = Selector::new();
    for rule in words(text).ok_or(RuleError::Syntax)? {
        // A line that is written from it must be read as the same.
        if rule.iter().any(|byte| b"\"'()".contains(byte)) {
            return Err(RuleError::Syntax);
        }
        selector.apply(&rule)?;
    }
    Ok(selector)
}

/// Puts together what stands in parentheses and was sent as several arguments. The error is where an open one begins.
/// As clients know it, one that begins inside of another takes its place.
pub fn merge_selectors<'a>(rules: &[&'a [u8]]) -> Result<Vec<Vec<u8>>, &'a [u8]> {
    let mut merged: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for rule in rules {
        if rule.starts_with(b"(") && !rule.ends_with(b")") {
            open = Some((rule, rule.to_vec()));
            continue;
        }
        let Some((_, text)) = &mut open else {
            merged.push(rule.to_vec());
            continue;
        };
        text.push(b' ');
        text.extend_from_slice(rule);
        if rule.ends_with(b")") {
            merged.extend(open.take().map(|(_, text)| text));
        }
    }
    open.map_or(Ok(merged), |(first, _)| Err(first))
}

/// A user as connections hold it: its rules change under them.
#[derive(Debug)]
pub struct User {
    pub name: Vec<u8>,
    /// `None` once it is deleted.
    rules: RwLock<Option<Arc<Rules>>>,
}

impl User {
    pub fn new(name: &[u8], rules: Rules) -> Self {
        User { name: name.to_vec(), rules: RwLock::new(Some(Arc::new(rules))) }
    }

    /// What it may do; `None` once it is deleted.
    pub fn rules(&self) -> Option<Arc<Rules>> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives it other rules, or deletes it.
    pub fn set(&self, rules: Option<Rules>) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules.map(Arc::new);
    }

    /// Its name where only text can be shown.
    pub fn shown(&self) -> String {
        crate::shown::shown(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(rules: &str) -> Rules {
        let mut user = Rules::new();
        let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
        user.apply_all(&rules).unwrap_or_else(|error| panic!("{}", error.escape_ascii()));
        user
    }

    fn may(user: &Rules, line: &str) -> Result<(), Denied> {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let id = crate::command::facts::find(args[0]).expect("it is a command");
        user.check(commands::of_request(id, &args).expect("it is known"), &args)
    }

    #[test]
    fn each_part_allows_as_a_whole() {
        let user = user("+get ~a (+set ~b) ( +mget ~c ~d* )");
        assert_eq!(may(&user, "get a"), Ok(()));
        assert_eq!(may(&user, "get b"), Err(Denied::Key(1)));
        assert_eq!(may(&user, "set b 1"), Ok(()));
        assert_eq!(may(&user, "mget c da c x"), Err(Denied::Key(4)));
        assert_eq!(may(&user, "append a b"), Err(Denied::Command));
        assert_eq!(may(&user, "range a b"), Err(Denied::Command));
    }

    #[test]
    fn reading_and_writing_are_apart() {
        let user = user("+@all %R~r* %W~w*");
        assert_eq!(may(&user, "get r"), Ok(()));
        assert_eq!(may(&user, "get w"), Err(Denied::Key(1)));
        assert_eq!(may(&user, "set w 1"), Ok(()));
        assert_eq!(may(&user, "set w 1 get"), Err(Denied::Key(1)));
        assert_eq!(may(&user, "copy r w"), Ok(()));
        assert_eq!(may(&user, "copy w r"), Err(Denied::Key(1)));
        assert_eq!(may(&user, "exists r w"), Ok(()));
        assert_eq!(may(&user, "exists x"), Err(Denied::Key(1)));
        // It names no key, and tells the values of all.
        assert_eq!(may(&user, "prefix r"), Err(Denied::Key(1)));
    }

    /// What was allowed: all keys and all values in one reply, to users without what is dangerous, as `KEYS` is.
    #[test]
    fn what_shows_all_keys_is_dangerous() {
        let user = user("+@all -@dangerous ~*");
        for line in ["keys *", "range - +", "prefix r"] {
            assert_eq!(may(&user, line), Err(Denied::Command), "{line}");
        }
        assert_eq!(may(&user, "scan 0"), Ok(()));
    }

    #[test]
    fn what_a_user_is_can_be_written_and_read() {
        for rules in ["on >a >b ~x* %R~y +@all -get (+set ~z)", "nopass &c", "off", "on reset"] {
            let told = String::from_utf8(user(rules).describe()).expect("it is ASCII");
            assert_eq!(String::from_utf8(user(&told).describe()).expect("it is ASCII"), told);
        }
    }

    #[test]
    fn passwords_come_and_go() {
        let mut user = user("on >a");
        let hash = |text: &[u8]| password::hash(text).expect("it is short");
        assert!(user.admits(&hash(b"a")) && !user.admits(&hash(b"b")));
        assert!(user.apply(b"<b").is_err() && user.apply(b"#xy").is_err());
        assert_eq!(user.apply(b"<a"), Ok(()));
        assert!(!user.admits(&hash(b"a")));
        assert_eq!(user.apply(b"nopass"), Ok(()));
        assert!(user.admits(&hash(b"any")));
        assert_eq!(user.apply(b"off"), Ok(()));
        assert!(!user.admits(&hash(b"any")));
    }

    /// What was hashed: passwords of any length, of clients that had shown none, and within transactions while
    /// everybody waited.
    #[test]
    fn a_password_that_is_longer_than_any_is_not_looked_at() {
        let longest = [b">", &[b'x'; password::SIZE_MAX][..]].concat();
        let longer = [&longest[..], b"x"].concat();
        let mut user = user("on nopass");
        assert_eq!(user.apply(&longer), Err(RuleError::LongPassword));
        assert_eq!(user.apply(&longest), Ok(()));
        assert!(password::hash(&longest[1..]).is_some_and(|it| user.admits(&it)));
        assert_eq!(password::hash(&longer[1..]), None);
    }

    #[test]
    fn a_parenthesis_that_stays_open_is_refused_and_nothing_changes() {
        let mut rules = user("on");
        let before = rules.describe();
        assert!(rules.apply_all(&[b"+get", b"(+set", b"~a"]).is_err());
        assert!(rules.apply_all(&[b"+get", b"+nosuch"]).is_err());
        assert!(rules.apply_all(&[b"("]).is_err() && rules.apply_all(&[b")"]).is_err());
        assert_eq!(rules.describe(), before);
    }
}
