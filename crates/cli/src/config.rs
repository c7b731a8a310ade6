//! The configuration file of `everleaf serve`: the options of its command line, as TOML.
//!
//! A key is the long name of an option without its dashes; `pool` is the pool. A value is parsed by the
//! very code that parses the option's, each by itself, so that a mistake is told with its file, line and key.
//! What the command line says counts before the file, the file before the environment.

use crate::arguments::parse_size;
use crate::command::serve::ServeArgs;
use crate::failure::Failure;
use crate::global::Global;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use everleaf::regular_file::read_at_most;
use everleaf_server::{ConfigFile, Setting};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// A longer file is not one of options.
const FILE_SIZE_MAX: u64 = 16 << 20;
/// The command whose options the file has.
const SERVE: &str = "serve";
/// The key of the pool, which is no option.
const POOL: &str = "pool";
/// The option that names the file itself.
const CONFIG: &str = "config";
/// Two ways to say the same: the file's is passed over when the command line has the other.
const PASSWORDS: [&str; 2] = ["requirepass", "requirepass-file"];

/// The arguments of `everleaf serve`, and what every command takes: these of the command line, the first of which is
/// the program, and for what they do not say those of the file.
pub fn merged(
    file: &Path,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(ServeArgs, Global), Failure> {
    // It may be a pipe, but must have an end.
    let bytes = File::open(file).and_then(|file| read_at_most(file, FILE_SIZE_MAX));
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
    let text = text.map_err(|error| {
        Failure::io(&format!("cannot read the configuration {}", file.display()), &error)
    })?;
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let given = parse(&arguments)?;
    let settings = Settings { file, text: &text };
    let (options, pool) = settings.options(&given)?;
    // Only options without a value stand before the command, so that the first such word is it.
    let command = arguments.iter().position(|argument| argument == SERVE);
    let command = command.expect("they were parsed as arguments of this command");
    arguments.splice(command + 1..=command, options);
    let matches = parse(&arguments)?;
    let mut args = ServeArgs::from_arg_matches(&matches).map_err(|e| refusal(&e))?;
    args.pool = args.pool.or(pool);
    Ok((args, Global::from_arg_matches(&matches).map_err(|e| refusal(&e))?))
}

/// The command line with this command alone: nothing else has a configuration.
fn command_line() -> clap::Command {
    let line = clap::Command::new("everleaf").version(env!("CARGO_PKG_VERSION"));
    let serve = ServeArgs::augment_args(clap::Command::new(SERVE));
    Global::augment_args(line).propagate_version(true).subcommand_required(true).subcommand(serve)
}

/// The command with all its options, those too that every command takes.
fn serve_command() -> clap::Command {
    let mut all = command_line();
    all.build();
    all.find_subcommand(SERVE).expect("it is a command").clone()
}

/// Whether an option can be a key of the file.
fn is_key(option: &Arg) -> bool {
    let shows = [ArgAction::Help, ArgAction::HelpShort, ArgAction::HelpLong, ArgAction::Version];
    let is_shown = shows.iter().any(|action| {
        std::mem::discriminant(action) == std::mem::discriminant(option.get_action())
    });
    !is_shown && option.get_long() != Some(CONFIG)
}

/// The arguments of the command as clap sees them.
fn parse(arguments: &[OsString]) -> Result<ArgMatches, Failure> {
    let mut matches = command_line().try_get_matches_from(arguments).map_err(|e| refusal(&e))?;
    let found = matches.remove_subcommand().filter(|(name, _)| name == SERVE);
    Ok(found.expect("only this command has a configuration").1)
}

fn refusal(error: &clap::Error) -> Failure {
    Failure::usage(sentence(error))
}

/// The first paragraph of what clap says: what is wrong with what.
fn sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\n").next().unwrap_or_default().trim_end().to_string()
}

/// The file of a server that runs, which `CONFIG REWRITE` writes anew.
pub fn file(path: PathBuf) -> ConfigFile {
    // The working directory may be another one by then.
    let path = std::path::absolute(&path).unwrap_or(path);
    let place = path.clone();
    let rewrite = move |text: &str, settings: &[Setting]| rewritten(&place, text, settings);
    ConfigFile { path, rewrite: Arc::new(rewrite) }
}

/// The text with these settings in it. What stands there stays as it is, but for values that changed; what is missing
/// and is not the default comes behind it.
fn rewritten(file: &Path, text: &str, settings: &[Setting]) -> Result<String, String> {
    let table = DeTable::parse(text).map_err(|error| error.message().to_string())?;
    let (mut edits, mut added) = (Vec::new(), String::new());
    for Setting { option, value, default } in settings {
        let found = table.get_ref().iter().find(|(key, _)| key.get_ref() == option);
        match (found, value) {
            (Some((key, old)), Some(new)) => {
                let is_same = word_of(option, old.get_ref()) == Ok(format!("--{option}={new}"));
                let is_same_size = matches!(old.get_ref(), DeValue::String(size)
                    if parse_size(size).is_ok_and(|size| size.to_string() == *new));
                if !is_same && !is_same_size {
                    edits.push((old.span(), literal(new)));
                }
                debug_assert!(key.span().end <= old.span().start);
            }
            (Some((key, _)), None) => edits.push((key.span().start..key.span().start, "#".into())),
            (None, Some(new)) if Some(new) != default.as_ref() => {
                added.push_str(&format!("{option} = {}\n", literal(new)));
            }
            (None, _) => {}
        }
    }
    let mut new = text.to_string();
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    edits.into_iter().for_each(|(span, with)| new.replace_range(span, &with));
    if !added.is_empty() {
        if !new.is_empty() && !new.ends_with('\n') {
            new.push('\n');
        }
        new.push_str(&added);
    }
    let given = parse(&["everleaf", SERVE].map(OsString::from)).map_err(|wrong| wrong.message)?;
    let check = Settings { file, text: &new }.options(&given);
    check.map(|_| new.clone()).map_err(|wrong| wrong.message)
}

/// A value as TOML.
fn literal(value: &str) -> String {
    // The name of a file may have only digits, of which none may be lost.
    if value.parse::<i64>().is_ok_and(|number| number.to_string() == value) {
        return value.to_string();
    }
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text + "\""
}

/// A file of settings.
struct Settings<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Settings<'_> {
    /// The options that the file adds to what is `given`, as words of a command line, and its pool.
    fn options(&self, given: &ArgMatches) -> Result<(Vec<OsString>, Option<PathBuf>), Failure> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.wrong(at, error.message())
        })?;
        let serve = serve_command();
        let (mut options, mut pool) = (Vec::new(), None);
        for (key, value) in table.get_ref() {
            let (name, at) = (key.get_ref().as_ref(), key.span().start);
            let wrong = |what: &str| self.wrong(at, &format!("{name}: {what}"));
            if name == POOL {
                let path = value.get_ref().as_str().filter(|path| !path.is_empty());
                pool =
                    Some(path.ok_or_else(|| wrong("write the path of a file in quotes"))?.into());
                continue;
            }
            let known = serve.get_arguments().find(|arg| arg.get_long() == Some(name));
            let option = known.filter(|option| is_key(option)).ok_or_else(|| {
                wrong("there is no such key; keys are the options of `everleaf serve --help`")
            })?;
            let words = words_of(option, name, value.get_ref()).map_err(|what| wrong(&what))?;
            let alone = ["everleaf", SERVE].map(String::from).into_iter().chain(words.clone());
            command_line().try_get_matches_from(alone).map_err(|e| wrong(&sentence(&e)))?;
            if !is_given(given, &serve, name) {
                options.extend(words.into_iter().map(OsString::from));
            }
        }
        Ok((options, pool))
    }

    /// What is wrong at this byte of the file.
    fn wrong(&self, at: usize, what: &str) -> Failure {
        let line = 1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        Failure::usage(format!("{}:{line}: {what}", self.file.display()))
    }
}

/// Whether the command line has the option, or the other way to say the same.
fn is_given(given: &ArgMatches, serve: &clap::Command, name: &str) -> bool {
    let names = match PASSWORDS.contains(&name) {
        true => &PASSWORDS[..],
        false => &[name],
    };
    let options = serve.get_arguments();
    options
        .filter(|arg| arg.get_long().is_some_and(|long| names.contains(&long)))
        .any(|arg| given.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine))
}

/// The words of a command line that say the same as a key and its value.
fn words_of(option: &Arg, name: &str, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match (option.get_action(), value) {
        (ArgAction::SetTrue, DeValue::Boolean(true)) => Ok(vec![format!("--{name}")]),
        (ArgAction::SetTrue, DeValue::Boolean(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("write true or false".to_string()),
        (ArgAction::Append, DeValue::Array(values)) => {
            values.iter().map(|value| word_of(name, value.get_ref())).collect()
        }
        (_, value) => Ok(vec![word_of(name, value)?]),
    }
}

fn word_of(name: &str, value: &DeValue<'_>) -> Result<String, String> {
    let value = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().replace('_', ""),
        DeValue::Boolean(yes) => if *yes { "yes" } else { "no" }.to_string(),
        other => return Err(format!("this cannot be a value: it is a TOML {}", other.type_str())),
    };
    Ok(format!("--{name}={value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf::Durability;
    use std::time::Duration;

    /// The configuration that packages install.
    const INSTALLED: &str = include_str!("../packaging/everleaf.toml");

    fn merge(text: &str, arguments: &[&str]) -> Result<ServeArgs, String> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("e.toml");
        std::fs::write(&file, text).expect("it can be written");
        let words = ["everleaf", "serve"].iter().chain(arguments);
        let place = format!("{}/", folder.path().display());
        let merged = merged(&file, words.map(OsString::from));
        merged.map(|(args, _)| args).map_err(|f| f.message.replace(&place, ""))
    }

    /// What every command takes could be said on the command line only.
    #[test]
    fn what_every_command_takes_can_be_in_the_file() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("e.toml");
        std::fs::write(&file, "json = true\nno-progress = true\nquiet = false\n").expect("room");
        for words in [&["everleaf", "serve"][..], &["everleaf", "--json", "serve", "--quiet"]] {
            let merged = merged(&file, words.iter().map(OsString::from)).map_err(|f| f.message);
            let (_, global) = merged.expect("it says nothing twice");
            assert!(global.json && global.no_progress);
            assert_eq!(global.quiet, words.contains(&"--quiet"));
        }
    }

    #[test]
    fn a_file_says_what_options_say() {
        let text = "pool = 'p.pool'\nport = 7_000\nbind = ['127.0.0.1', '::1']\nsize = '64M'\n\
                    durability = 'interval'\ninterval = 200\nverify-reads = false\n\
                    trust-after-machine-crash = true\nlog = 'info'\n";
        let args = merge(text, &[]).unwrap();
        assert_eq!(args.pool, Some("p.pool".into()));
        assert_eq!(args.port, 7000);
        assert_eq!(args.bind, ["127.0.0.1", "::1"]);
        assert_eq!(args.new_pool.size, Some(64 << 20));
        let durability = args.durability.map(|it| it.with(args.interval).expect("they fit"));
        assert_eq!(durability, Some(Durability::Interval(Duration::from_millis(200))));
        assert!(!args.verify_reads && args.trust.trust_after_machine_crash);
        assert_eq!(args.log, tracing::Level::INFO);
    }

    #[test]
    fn the_command_line_counts_before_the_file() {
        let text = "pool = 'file.pool'\nport = 7000\nbind = '::1'\nrequirepass = 'file'\n";
        let args = merge(text, &["line.pool", "--port", "1", "--requirepass-file", "x"]).unwrap();
        assert_eq!(args.pool, Some("line.pool".into()));
        assert_eq!((args.port, &args.bind[..]), (1, &["::1".to_string()][..]));
        assert_eq!((args.requirepass, args.requirepass_file), (None, Some("x".into())));
        let args = merge(text, &["--bind", "a", "--bind", "b", "--", "-odd"]).unwrap();
        assert_eq!(
            (args.pool, &args.bind[..]),
            (Some("-odd".into()), &["a".into(), "b".into()][..])
        );
        assert_eq!(args.requirepass.as_deref(), Some("file"));
    }

    #[test]
    fn a_mistake_is_told_with_its_file_line_and_key() {
        for (text, start, part) in [
            ("\nprot = 1", "e.toml:2: prot: ", "no such key"),
            ("config = 'a'", "e.toml:1: config: ", "no such key"),
            ("json = 1", "e.toml:1: json: ", "true or false"),
            ("help = true", "e.toml:1: help: ", "no such key"),
            ("version = true", "e.toml:1: version: ", "no such key"),
            ("threads = 1\nport = 70000", "e.toml:2: port: ", "70000"),
            ("port = 0x10", "e.toml:1: port: ", "TOML integer"),
            ("size = '64X'", "e.toml:1: size: ", "such as 64M"),
            ("log = ['info']", "e.toml:1: log: ", "TOML array"),
            ("durability = 'all'", "e.toml:1: durability: ", "power"),
            ("[server]\nport = 1", "e.toml:1: server: ", "no such key"),
            ("pool = 7", "e.toml:1: pool: ", "in quotes"),
            ("trust-after-machine-crash = 'yes'", "e.toml:1: trust-", "true or false"),
            ("port = 1\nport = 2", "e.toml:2: ", "duplicate"),
            ("port 1", "e.toml:1: ", ""),
            ("requirepass = 'a'\nrequirepass-file = 'b'", "", "cannot be used with"),
        ] {
            let message = merge(text, &[]).unwrap_err();
            assert!(message.starts_with(start) && message.contains(part), "{text}: {message}");
        }
        let failure = merged(Path::new("/none/e.toml"), []).unwrap_err();
        assert!(failure.message.contains("/none/e.toml"), "{}", failure.message);
    }

    #[test]
    fn a_rewritten_file_keeps_what_is_right_and_its_comments() {
        let setting = |option, value: Option<&str>, default: Option<&str>| Setting {
            option,
            value: value.map(str::to_string),
            default: default.map(str::to_string),
        };
        let settings = [
            setting("timeout", Some("30"), Some("0")),
            setting("maxclients", Some("10000"), Some("10000")),
            setting("client-memory", Some("67108864"), Some("5")),
            setting("slowlog-log-slower-than", Some("-1"), Some("10000")),
            setting("slowlog-max-len", Some("128"), Some("128")),
            setting("tls-cert-file", Some("a \"b\".crt"), None),
            setting("tls-ca-cert-file", None, None),
        ];
        let text = "# the port\nport = 7_000 # mine\ntimeout = 5 # seconds\nclient-memory = '64M'\n\
                    tls-ca-cert-file = 'c'\n#maxclients = 3";
        let new = rewritten(Path::new("e.toml"), text, &settings).unwrap();
        assert_eq!(
            new,
            "# the port\nport = 7_000 # mine\ntimeout = 30 # seconds\nclient-memory = '64M'\n\
             #tls-ca-cert-file = 'c'\n#maxclients = 3\nslowlog-log-slower-than = -1\n\
             tls-cert-file = \"a \\\"b\\\".crt\"\n"
        );
        assert_eq!(rewritten(Path::new("e.toml"), &new, &settings).unwrap(), new);
        assert_eq!(rewritten(Path::new("e.toml"), "", &settings[1..2]).unwrap(), "");
        let odd = [
            setting("tls-cert-file", Some("007"), None),
            setting("tls-key-file", Some("a\nb"), None),
        ];
        assert_eq!(
            rewritten(Path::new("e.toml"), "", &odd).unwrap(),
            "tls-cert-file = \"007\"\ntls-key-file = \"a\\u000ab\"\n"
        );
        assert!(rewritten(Path::new("e.toml"), "port = ", &settings).is_err());
        assert!(rewritten(Path::new("e.toml"), "nonsense = 1", &settings).is_err());
    }

    /// Every option has a line in the installed file, commented out or not, with a value that is right.
    #[test]
    fn the_installed_file_shows_every_option() {
        merge(INSTALLED, &[]).unwrap();
        let mut shown = vec![CONFIG];
        for line in INSTALLED.lines() {
            let setting = line.strip_prefix("#").unwrap_or(line);
            let Some((key, _)) = setting.split_once(" = ") else { continue };
            if !key.starts_with(' ') {
                merge(setting, &[]).unwrap_or_else(|message| panic!("{line}: {message}"));
                shown.push(key);
            }
        }
        let serve = serve_command();
        let missing = serve.get_arguments().filter(|it| is_key(it)).filter_map(Arg::get_long);
        let missing: Vec<&str> = missing.filter(|long| !shown.contains(long)).collect();
        assert!(missing.is_empty() && shown.contains(&POOL), "{missing:?}");
    }

    /// The file said that a new pool may grow to 10G: an operator who kept that "default" got less than without the
    /// line.
    #[test]
    fn what_the_installed_file_shows_are_the_defaults() {
        let serve = serve_command();
        let mut compared = 0;
        for line in INSTALLED.lines().filter_map(|line| line.strip_prefix('#')) {
            let Ok(table) = DeTable::parse(line) else { continue };
            for (key, value) in table.get_ref() {
                let name = key.get_ref().as_ref();
                let option = serve.get_arguments().find(|arg| arg.get_long() == Some(name));
                let option = option.unwrap_or_else(|| panic!("{name} is no option"));
                let value = value.get_ref();
                if ["size", "max-size"].contains(&name) {
                    // It is said in words only: what is not given is left to the pool.
                    let shown = format!("[default: {}]", value.as_str().unwrap_or_default());
                    let help = option.get_help().expect("it has some").to_string();
                    assert!(help.ends_with(&shown), "{name}: {help}, not {shown}");
                } else if matches!(option.get_action(), ArgAction::SetTrue) {
                    assert_eq!(value.as_bool(), Some(false), "{name}");
                } else if let [default] = option.get_default_values() {
                    let default = default.to_string_lossy();
                    assert_eq!(word_of(name, value), Ok(format!("--{name}={default}")));
                } else {
                    continue;
                }
                compared += 1;
            }
        }
        assert!(compared > 15, "{compared} were compared");
    }

    /// A number of TOML that is octal there is none here: its digits are lost.
    #[test]
    fn permissions_of_a_socket_are_octal_digits() {
        let mode = |text: &str| merge(&format!("unixsocketperm = {text}"), &[]);
        for text in ["770", "\"770\"", "\"0770\""] {
            assert_eq!(mode(text).unwrap().unixsocketperm, Some(0o770), "{text}");
        }
        for text in ["0o770", "\"0o770\"", "\"+77\"", "\"780\"", "1777", "\"\"", "-1"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
