//! What an import into a pool says when it is refused.

use crate::exit_code::ExitCode;
use crate::failure::Failure;

/// A key, cut and shown as text, with its database.
pub fn shown(database: u64, key: &[u8]) -> String {
    const SIZE_MAX: usize = 100;
    let text = key[..key.len().min(SIZE_MAX)].escape_ascii();
    format!("\"{text}\" of database {database}")
}

/// Why no pool was made.
pub fn refused(why: String) -> Failure {
    Failure::new(ExitCode::Pool, format!("{why}; no pool was made"))
}
