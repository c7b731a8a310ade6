//! What the process ends with, so that a script can tell the cases apart.

/// The exit codes of `everleaf`, as the end of its help shows them.
pub const HELP: &str = "\
Exit codes:
  0  done (also when the reader of a pipe stops early, but for export and backup)
  1  the key or map is not there, a condition did not hold, or `check` found damage; also if a
     copy was made in part (`repair`, `scan`, `export` of collections), if what was imported differs
     from its source, or if `bench` got a wrong answer
  2  the command line is wrong
  3  the input data is wrong: a malformed line, a key or value that is too long
  4  the pool, or an RDB file, cannot be used: missing, there already, foreign, damaged, or newer
  5  another process holds the pool
  6  the disk or the pool is full; what was acknowledged survives, as far as --durability says
  7  the system refused something else: a file that cannot be read, a port in use, a closed output";

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// Everything asked for was done.
    Success = 0,
    /// A key or map is absent, a condition did not hold, or `check` found damage.
    NotFound = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The input data is wrong.
    BadInput = 3,
    /// The pool is missing, there already, foreign, truncated, damaged, or newer.
    Pool = 4,
    /// Another process holds the pool.
    Locked = 5,
    /// The disk of the pool or of its log, or the pool, is full, or a file as long as the system lets it be.
    Full = 6,
    /// The operating system refused something else.
    Io = 7,
    /// `everleaf-lab prove` found a violation, or missed a planted bug.
    Violated = 8,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_code_once_and_in_order() {
        let listed: Vec<u8> = HELP
            .lines()
            .skip(1)
            .filter_map(|line| line.trim().split_once("  "))
            .filter_map(|(code, _)| code.parse().ok())
            .collect();
        use ExitCode::*;
        let codes = [Success, NotFound, Usage, BadInput, Pool, Locked, Full, Io];
        assert_eq!(listed, codes.map(|code| code as u8));
    }
}
