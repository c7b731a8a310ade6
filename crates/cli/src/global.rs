//! What every command takes.

use clap::Args;
use std::io::{self, IsTerminal};

/// What every command takes.
#[derive(Args, Clone, Copy, Debug)]
pub struct Global {
    /// Machine-readable output, and errors as {"error":..,"code":..}
    #[arg(long, global = true)]
    pub json: bool,
    /// Say nothing but results and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// No progress bar (there is none anyway unless stderr is a terminal)
    #[arg(long, global = true)]
    pub no_progress: bool,
}

impl Global {
    /// True when a progress bar is wanted and can be seen.
    pub fn wants_progress(&self) -> bool {
        !self.quiet && !self.no_progress && !self.json && io::stderr().is_terminal()
    }
}

/// A command line with what every command takes.
pub trait HasGlobal {
    /// What every command takes.
    fn global(&self) -> Global;
}
