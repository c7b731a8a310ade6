//! What every tree offers: the trait, one change of one key, what a check says, errors.

pub mod change;
pub mod check_report;
pub mod error;
pub mod operations;
pub mod ordered;
