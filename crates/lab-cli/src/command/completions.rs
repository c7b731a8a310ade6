//! `everleaf-lab completions`: what a shell needs to complete our command lines.

use crate::cli::command;
use clap::Args;
use clap_complete::Shell;
use everleaf_cli::failure::Failure;
use everleaf_cli::output::Output;

const EXAMPLES: &str = "\
Examples:
  everleaf-lab completions bash > ~/.local/share/bash-completion/completions/everleaf-lab
  everleaf-lab completions zsh > ~/.zfunc/_everleaf-lab
  everleaf-lab completions fish > ~/.config/fish/completions/everleaf-lab.fish";

/// Print a completion script for a shell
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Prints the script.
pub fn run(args: CompletionsArgs, out: &mut Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "everleaf-lab", &mut script);
    out.bytes(&script)
}
