//! What a person who asks for help sees.

use crate::common::PoolFolder;

const COMMANDS: [&str; 10] = [
    "bench",
    "pibench",
    "prove",
    "list",
    "run",
    "compare",
    "report",
    "create",
    "check",
    "completions",
];

#[test]
fn the_help_lists_the_commands_and_the_exit_codes() {
    let help = PoolFolder::empty().run(["--help"]).succeeded();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.map_while(|line| line.split_whitespace().next());
    let listed: Vec<_> = listed.filter(|command| *command != "help").collect();
    assert_eq!(listed, COMMANDS);
    assert!(help.contains("  8  `prove` found a violation") && help.contains("Examples:"));
}

#[test]
fn every_command_teaches_by_example() {
    for command in COMMANDS {
        let help = PoolFolder::empty().run([command, "--help"]).succeeded();
        assert!(help.contains(&format!("\n  everleaf-lab {command}")), "{help}");
        assert!(!help.contains("everleaf bench"), "{help}");
    }
}

#[test]
fn completions_and_errors_name_this_program() {
    for shell in ["bash", "zsh", "fish"] {
        let script = PoolFolder::empty().run(["completions", shell]).succeeded();
        assert!(script.contains("everleaf-lab") && script.contains("tolerance"), "{shell}");
    }
    let refused = PoolFolder::empty().run::<&str>([]).failed(2);
    assert!(refused.contains("`everleaf-lab --help`"), "{refused}");
    let version = PoolFolder::empty().run(["--version"]).succeeded();
    assert_eq!(version, format!("everleaf-lab {}\n", env!("CARGO_PKG_VERSION")));
}
