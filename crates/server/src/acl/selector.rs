//! A set of permissions: commands, patterns of keys, patterns of channels.
//!
//! A user has one at least, its root; what any of them allows as a whole is allowed. The rules are those of the
//! protocol's original server, and so are the words in which they are told back: the fewest categories and commands
//! that say the same. There are no channels here; their patterns are kept for clients that set them.

use std::collections::BTreeMap;

use super::commands::{self, BITS_SIZE, FUTURE};
use super::facts::{Access, CATEGORIES, CHANGES, READS, WRITES};
use crate::glob::Pattern;

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    Unknown,
    Syntax,
    KeysAfterAll,
    ChannelsAfterAll,
    NoSuchPassword,
    BadHash,
    LongPassword,
    ArgumentOfSubcommand,
}

impl RuleError {
    /// As clients know it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Self::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::LongPassword => "A password may have 64 KiB",
            Self::ArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

/// One bit per command, subcommand, category without commands, and one for commands that do not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits([u64; BITS_SIZE]);

impl Bits {
    const NONE: Bits = Bits([0; BITS_SIZE]);
    const ALL: Bits = Bits([u64::MAX; BITS_SIZE]);

    fn get(&self, id: usize) -> bool {
        self.0.get(id / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    fn set(&mut self, id: usize, value: bool) {
        if let Some(word) = self.0.get_mut(id / 64) {
            let bit = 1 << (id % 64);
            *word = if value { *word | bit } else { *word & !bit };
        }
    }

    /// A command with its subcommands.
    fn set_command(&mut self, id: usize, value: bool) {
        self.set(id, value);
        commands::subcommands_of(id).for_each(|sub| self.set(sub, value));
    }

    /// All commands of a category, each with its subcommands.
    fn set_category(&mut self, category: u32, value: bool) {
        for (id, command) in commands::all().iter().enumerate() {
            if command.categories & category != 0 {
                self.set_command(id, value);
            }
        }
    }
}

/// Keys that may be used.
#[derive(Clone, Debug)]
struct KeyPattern {
    access: Access,
    /// As it was given.
    pattern: Vec<u8>,
    /// As it is matched.
    parts: Pattern,
}

impl KeyPattern {
    fn describe(&self, text: &mut Vec<u8>) {
        let mark: &[u8] = match self.access {
            READS => b"%R~",
            WRITES => b"%W~",
            _ => b"~",
        };
        text.extend_from_slice(mark);
        text.extend_from_slice(&self.pattern);
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// The command.
    Command,
    /// The key that is the argument of this index.
    Key(usize),
}

/// A set of permissions.
#[derive(Clone, Debug)]
pub struct Selector {
    bits: Bits,
    all_keys: bool,
    all_channels: bool,
    keys: Vec<KeyPattern>,
    channels: Vec<Vec<u8>>,
    /// Commands that are allowed with these first arguments only.
    first_args: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Selector {
    /// Allows nothing.
    pub fn new() -> Self {
        Selector {
            bits: Bits::NONE,
            all_keys: false,
            all_channels: false,
            keys: Vec::new(),
            channels: Vec::new(),
            first_args: BTreeMap::new(),
        }
    }

    /// Allows all.
    pub fn all() -> Self {
        Selector { bits: Bits::ALL, all_keys: true, all_channels: true, ..Self::new() }
    }

    /// Whether nothing is refused.
    pub fn allows_all(&self) -> bool {
        self.all_keys && self.bits == Bits::ALL
    }

    /// Changes it by a rule.
    pub fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => (self.all_keys, self.keys) = (true, Vec::new()),
            b"resetkeys" => (self.all_keys, self.keys) = (false, Vec::new()),
            b"allchannels" | b"&*" => (self.all_channels, self.channels) = (true, Vec::new()),
            b"resetchannels" => (self.all_channels, self.channels) = (false, Vec::new()),
            b"allcommands" | b"+@all" => self.set_all(Bits::ALL),
            b"nocommands" | b"-@all" => self.set_all(Bits::NONE),
            [b'+' | b'-', b'@', name @ ..] => {
                let category = commands::category(name).ok_or(RuleError::Unknown)?;
                let value = rule.starts_with(b"+");
                self.bits.set_category(category, value);
                let with_args: Vec<usize> = self.first_args.keys().copied().collect();
                for id in with_args {
                    if commands::all().get(id).is_some_and(|known| known.categories & category != 0)
                    {
                        self.first_args.remove(&id);
                    }
                }
            }
            [b'+', ..] => return self.allow(&rule[1..]),
            [b'-', name @ ..] => {
                self.set_command(commands::find_full(name).ok_or(RuleError::Unknown)?, false);
            }
            [b'~' | b'%', ..] => return self.add_keys(rule),
            [b'&', ..] => return self.add_channels(&rule[1..]),
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_all(&mut self, bits: Bits) {
        self.bits = bits;
        self.first_args.clear();
    }

    fn set_command(&mut self, id: usize, value: bool) {
        self.bits.set_command(id, value);
        self.first_args.remove(&id);
    }

    /// `+command`, `+command|subcommand`, `+command|argument`.
    fn allow(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|byte| *byte == b'|') else {
            self.set_command(commands::find_full(name).ok_or(RuleError::Unknown)?, true);
            return Ok(());
        };
        let (command, argument) = (&name[..bar], &name[bar + 1..]);
        let id = commands::find_full(command).ok_or(RuleError::Unknown)?;
        if commands::is_subcommand(id) {
            return Err(RuleError::ArgumentOfSubcommand);
        }
        if argument.is_empty() || has_space(argument) {
            return Err(RuleError::Syntax);
        }
        if commands::subcommands_of(id).next().is_some() {
            self.set_command(commands::find_full(name).ok_or(RuleError::Unknown)?, true);
            return Ok(());
        }
        let known = self.first_args.entry(id).or_default();
        if !known.iter().any(|known| known.eq_ignore_ascii_case(argument)) {
            known.push(argument.to_vec());
        }
        Ok(())
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeysAfterAll);
        }
        let (mut access, mut rest) = (CHANGES, &rule[1..]);
        if rule[0] == b'%' {
            access = 0;
            loop {
                let permission = match rest {
                    [b'~', ..] => break,
                    [b'R' | b'r', ..] => READS,
                    [b'W' | b'w', ..] => WRITES,
                    _ => return Err(RuleError::Syntax),
                };
                if access & permission != 0 {
                    return Err(RuleError::Syntax);
                }
                (access, rest) = (access | permission, &rest[1..]);
            }
            // `%~` would say neither.
            if access == 0 {
                return Err(RuleError::Syntax);
            }
            rest = &rest[1..];
        }
        if has_space(rest) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == rest) {
            Some(known) => known.access |= access,
            None => {
                let (pattern, parts) = (rest.to_vec(), Pattern::new(rest));
                self.keys.push(KeyPattern { access, pattern, parts });
            }
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelsAfterAll);
        }
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    /// Whether the command of this number may be run with these arguments.
    pub fn check(&self, id: usize, args: &[&[u8]], keys: &[(usize, Access)]) -> Result<(), Denied> {
        if !self.allows_command(id, args) {
            return Err(Denied::Command);
        }
        if self.all_keys {
            return Ok(());
        }
        for (at, access) in keys {
            let key = args.get(*at).copied().unwrap_or(b"");
            let allowed = self
                .keys
                .iter()
                .any(|known| known.access & access == *access && known.parts.matches(key));
            if !allowed {
                return Err(Denied::Key(*at));
            }
        }
        // What returns the values of keys that it does not name.
        if commands::reads_everywhere(id) && !self.reads_all_keys() {
            return Err(Denied::Key(1));
        }
        Ok(())
    }

    fn allows_command(&self, id: usize, args: &[&[u8]]) -> bool {
        if self.bits.get(id) || commands::needs_no_permission(id) {
            return true;
        }
        let Some(allowed) = self.first_args.get(&id) else { return false };
        args.get(1).is_some_and(|arg| allowed.iter().any(|known| known.eq_ignore_ascii_case(arg)))
    }

    /// Whether every key may be read.
    pub fn reads_all_keys(&self) -> bool {
        let all = |known: &KeyPattern| known.access & READS != 0 && known.pattern == b"*";
        self.all_keys || self.keys.iter().any(all)
    }

    /// The patterns of keys, as rules.
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let mut text = Vec::new();
        for (index, known) in self.keys.iter().enumerate() {
            if index > 0 {
                text.push(b' ');
            }
            known.describe(&mut text);
        }
        text
    }

    /// The patterns of channels, as rules.
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let marked: Vec<Vec<u8>> =
            self.channels.iter().map(|channel| [b"&", channel.as_slice()].concat()).collect();
        marked.join(&b' ')
    }

    /// All of it, as rules.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = self.describe_keys();
        if !text.is_empty() {
            text.push(b' ');
        }
        if !self.all_channels {
            text.extend_from_slice(b"resetchannels ");
        }
        let channels = self.describe_channels();
        if !channels.is_empty() {
            text.extend(channels);
            text.push(b' ');
        }
        text.extend(self.describe_commands());
        text
    }

    /// The commands, as rules: `+@all` or `-@all`, then the categories that fit best, then what is left.
    pub fn describe_commands(&self) -> Vec<u8> {
        let adds = !self.bits.get(FUTURE);
        let (mut text, mut told) = match adds {
            true => (b"-@all".to_vec(), Bits::NONE),
            false => (b"+@all".to_vec(), Bits::ALL),
        };
        let mark = if adds { " +" } else { " -" };
        let mut rest = self.bits;
        let mut applied = 0;
        while let Some(index) = best_category(&rest, adds, applied) {
            let category = 1 << index;
            told.set_category(category, adds);
            rest.set_category(category, !adds);
            text.extend_from_slice(format!("{mark}@{}", CATEGORIES[index]).as_bytes());
            applied |= category;
        }
        self.describe_rest(&mut told, &mut text);
        text
    }

    /// The single commands in which it differs from what was told.
    fn describe_rest(&self, told: &mut Bits, text: &mut Vec<u8>) {
        for id in commands::in_order() {
            let Some(command) = commands::all().get(id) else { continue };
            let allowed = self.bits.get(id);
            if allowed != told.get(id) && !command.is_reserved {
                let mark = if allowed { " +" } else { " -" };
                text.extend_from_slice(format!("{mark}{}", command.name).as_bytes());
                told.set_command(id, allowed);
            }
            for argument in self.first_args.get(&id).filter(|_| !allowed).into_iter().flatten() {
                text.extend_from_slice(format!(" +{}|", command.name).as_bytes());
                text.extend_from_slice(argument);
            }
        }
    }
}

/// The category that says most of what is left to be told, of those that were not told.
fn best_category(rest: &Bits, adds: bool, applied: u32) -> Option<usize> {
    let mut best = None;
    let (mut least, mut most) = (usize::MAX, 0);
    for index in 0..CATEGORIES.len() {
        if applied & (1 << index) != 0 {
            continue;
        }
        let members = commands::all().iter().enumerate();
        let members = members.filter(|(_, command)| command.categories & (1 << index) != 0);
        let (allowed, refused): (Vec<_>, Vec<_>) = members.partition(|(id, _)| rest.get(*id));
        let (same, different) = match adds {
            true => (allowed.len(), refused.len()),
            false => (refused.len(), allowed.len()),
        };
        if same > different && (different < least || (different == least && same > most)) {
            (best, least, most) = (Some(index), different, same);
        }
    }
    best
}

/// White space or a zero byte, which no name and no pattern may have, so that rules can be written in a line.
pub fn has_space(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(rules: &str) -> Selector {
        let mut selector = Selector::new();
        for rule in rules.split(' ') {
            selector.apply(rule.as_bytes()).unwrap_or_else(|error| panic!("{rule}: {error:?}"));
        }
        selector
    }

    fn commands_of(rules: &str) -> String {
        String::from_utf8(with(rules).describe_commands()).expect("names are ASCII")
    }

    #[test]
    fn what_is_told_says_the_same() {
        for rules in [
            "-@all",
            "+@all",
            "+@all -get",
            "+@all -@string +set",
            "-@all +get +config|get",
            "+@read -@hash +hget",
            "+@all -client +client|id",
            "-@all +select|0 +select|1",
            "+@all -@scripting",
            "+@geo -@all +@pubsub",
            "+@all -@dangerous +keys -config|set",
            "+@fast -@slow",
            "+@slow +@write -@set",
        ] {
            let told = commands_of(rules);
            let again = with(&told);
            assert_eq!(again.bits, with(rules).bits, "{rules}: {told}");
            assert_eq!(again.first_args, with(rules).first_args, "{rules}: {told}");
            assert_eq!(commands_of(&told), told);
        }
    }

    #[test]
    fn a_category_is_told_as_itself() {
        for category in CATEGORIES {
            assert_eq!(commands_of(&format!("+@all -@{category}")), format!("+@all -@{category}"));
            assert_eq!(commands_of(&format!("-@all +@{category}")), format!("-@all +@{category}"));
        }
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let mut selector = Selector::all();
        for (rule, error) in [
            ("~a", RuleError::KeysAfterAll),
            ("&a", RuleError::ChannelsAfterAll),
            ("+nosuch", RuleError::Unknown),
            ("+@nosuch", RuleError::Unknown),
            ("-get|a", RuleError::Unknown),
            ("+config|nosuch", RuleError::Unknown),
            ("+get|a|b", RuleError::Unknown),
            ("+config|get|a", RuleError::ArgumentOfSubcommand),
            ("+get|", RuleError::Syntax),
            ("x", RuleError::Syntax),
            ("", RuleError::Syntax),
            ("%", RuleError::KeysAfterAll),
        ] {
            assert_eq!(selector.apply(rule.as_bytes()), Err(error), "{rule}");
        }
        let mut selector = Selector::new();
        for rule in ["%", "%~a", "%RR~a", "%X~a", "%R", "~a b", "&a\n", "~a\0"] {
            assert_eq!(selector.apply(rule.as_bytes()), Err(RuleError::Syntax), "{rule}");
        }
    }
}
