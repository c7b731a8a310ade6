//! What is known of all commands, and finding one by its name.

mod lookup;
mod places;
mod subcommands;
mod table;

pub use self::lookup::{
    GET, HRANDFIELD, INCR, MSET, RESTORE, SET, SRANDMEMBER, ZRANDMEMBER, find, is_short,
};
pub use self::subcommands::SUBCOMMANDS;
pub use self::table::{
    COMMANDS, COUNT, Command, DIFFERENCES, NUMBER_COUNT, full_name, is_fast, is_serial, number,
    same,
};
