//! What an import into a pool says when it is refused.

use crate::exit_code::ExitCode;
use crate::failure::{Failure, code_of_store};
use everleaf_server::transfer::TransferError;

/// A key, cut and shown as text, with its database.
pub fn shown(database: u64, key: &[u8]) -> String {
    const SIZE_MAX: usize = 100;
    let text = key[..key.len().min(SIZE_MAX)].escape_ascii();
    format!("\"{text}\" of database {database}")
}

/// Why no pool was made: something of a key, if it has a name here, could not be put or looked at.
pub fn refused_by(name: Option<&str>, error: &TransferError) -> Failure {
    let code = match error {
        TransferError::Store(error) => code_of_store(error),
        TransferError::Text(_) => ExitCode::Pool,
    };
    let failure =
        refused(name.map_or_else(|| error.to_string(), |name| format!("{name}: {error}")));
    Failure { code, ..failure }
}

/// Why no pool was made.
pub fn refused(why: String) -> Failure {
    Failure::new(ExitCode::Pool, format!("{why}; no pool was made"))
}
