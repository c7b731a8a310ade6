//! `everleaf completions`: what a shell needs to complete our command lines.

use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, Command};
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  everleaf completions bash > ~/.local/share/bash-completion/completions/everleaf
  everleaf completions zsh > ~/.zfunc/_everleaf
  everleaf completions fish > ~/.config/fish/completions/everleaf.fish";

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Prints the script for this command line.
pub fn run(args: CompletionsArgs, mut line: Command, out: &mut Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut line, "everleaf", &mut script);
    out.bytes(&script)
}
