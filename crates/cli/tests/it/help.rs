//! What a person who asks for help sees.

use crate::common::PoolFolder;

const COMMANDS: [&str; 22] = [
    "import",
    "create",
    "load",
    "get",
    "put",
    "del",
    "scan",
    "export",
    "stat",
    "check",
    "maps",
    "backup",
    "restore",
    "snapshot",
    "compact",
    "repair",
    "upgrade",
    "serve",
    "bench",
    "ping",
    "completions",
    "man",
];

#[test]
fn the_help_lists_the_commands_and_the_exit_codes() {
    let help = PoolFolder::empty().run(["--help"]).succeeded();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.map_while(|line| line.split_whitespace().next());
    let mut listed: Vec<_> = listed.filter(|command| *command != "help").collect();
    let mut expected = COMMANDS.to_vec();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    assert!(help.contains("Exit codes:") && help.contains("Examples:"));
}

#[test]
fn every_command_teaches_by_example() {
    for command in COMMANDS {
        let help = PoolFolder::empty().run([command, "--help"]).succeeded();
        assert!(help.contains(&format!("\n  everleaf {command}")), "{help}");
    }
}

#[test]
fn the_version_is_the_one_of_the_package() {
    let version = PoolFolder::empty().run(["--version"]).succeeded();
    assert_eq!(version, format!("everleaf {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = PoolFolder::empty().run(["completions", shell]).succeeded();
        assert!(script.contains("export") && script.contains("key-column"), "{shell}");
    }
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let place = PoolFolder::empty();
    assert!(place.run(["man"]).succeeded().contains("everleaf\\-serve(1)"));
    assert_eq!(place.run(["man", "share/man1"]).succeeded(), "");
    for command in COMMANDS {
        let page = place.read(&format!("share/man1/everleaf-{command}.1"));
        assert!(String::from_utf8_lossy(&page).contains("Example"), "{command}");
    }
    // Errors about unknown commands name it.
    let page = place.read("share/man1/everleaf-serve.1");
    let page = String::from_utf8_lossy(&page).replace('\\', "");
    assert!(page.contains("/usr/share/doc/everleaf/redis-differences.md"), "{page}");
    place.write("file", "");
    assert!(place.run(["man", "file/man1"]).failed(7).contains("file/man1"));
}

#[test]
fn a_wrong_command_line_is_refused_with_advice_and_code_2() {
    let place = PoolFolder::with_pool();
    for (arguments, part) in [
        (&[][..], "everleaf --help"),
        (&["frobnicate"], "unrecognized subcommand"),
        (&["get", "pool", "--frob"], "--frob"),
        (&["get", "pool"], "give POOL and KEY"),
        (&["put", "pool", "key"], "give POOL and KEY and VALUE"),
        (&["put", "pool", "key", "value", "--value-file", "x"], "not both"),
        (&["scan"], "EVERLEAF_POOL"),
        (&["get", "pool", "xyz", "--hex"], "not hexadecimal"),
        (&["get", "pool", "?", "--base64"], "not base64"),
        (&["create", "p2", "--size", "64X"], "such as 64M"),
        (&["create", "p2", "--size", "2G", "--max-size", "1G"], "--max-size"),
        (&["load", "pool", "words"], "--format"),
        (&["load", "pool", "x.jsonl", "--header"], "no columns"),
        (&["load", "pool", "x.csv", "--key-column", "0"], "counted from 1"),
        (&["load", "pool", "-", "--threads", "0"], "--threads"),
        (&["bench", "gets"], "get-absent"),
        (&["bench", "get", "--preset", "targets"], "--preset"),
        (&["bench", "get", "--keys", "1.5M"], "such as 10M"),
        (&["bench", "get", "--key-size", "16"], "index bytes"),
    ] {
        let sentence = place.run(arguments).failed(2);
        assert!(sentence.contains(part), "{arguments:?}: {sentence}");
    }
}

#[test]
fn the_environment_can_name_the_pool() {
    let place = PoolFolder::with_pool();
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        crate::common::Ended::from(command.env("EVERLEAF_POOL", "pool").output().expect("it runs"))
    };
    assert_eq!(run(&["put", "k", "v"]).succeeded(), "inserted\n");
    assert_eq!(run(&["get", "k"]).succeeded(), "v");
    assert_eq!(run(&["get", "pool", "k"]).succeeded(), "v");
    assert_eq!(run(&["scan"]).succeeded(), "k\tv\n");
    assert!(run(&["get"]).failed(2).contains("give KEY"));
    assert_eq!(run(&["del", "k"]).succeeded(), "removed 1\n");
}
