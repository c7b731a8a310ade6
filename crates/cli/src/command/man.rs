//! `everleaf man`: the manual pages, made from the same definitions as the help.

use crate::failure::Failure;
use crate::output::Output;
use clap::{Args, Command};
use clap_mangen::Man;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  everleaf man | man -l -
  everleaf man ~/.local/share/man/man1              a page for each command too";

/// Print the manual page, or write those of all commands
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// Write everleaf.1 and a page for each command to this folder, which is made if it is not there
    pub dir: Option<PathBuf>,
}

/// Prints the page of this command line, or writes the pages of all its commands.
pub fn run(args: ManArgs, line: Command, out: &mut Output) -> Result<(), Failure> {
    let Some(dir) = args.dir else {
        return Man::new(line).render(out.writer()).map_err(|error| Failure::output(&error));
    };
    std::fs::create_dir_all(&dir)
        .and_then(|()| clap_mangen::generate_to(line, &dir))
        .map_err(|error| Failure::io(&format!("cannot write pages to {}", dir.display()), &error))
}
