//! What the threads of a program do to a tree.
//!
//! | file | what it has |
//! |---|---|
//! | `scenarios`, `meetings` | programs that were written, by name; the latter for searches that end by time |
//! | `plans`, `exhaustion` | programs by chance; with too little space or memory |
//! | `made` | programs that are made: a walk to a far state, then a few operations of a few threads |
//! | `tiny` | programs that are made so small that every order is run |
//! | `keys` | the keys of these, of several kinds |
//! | `long` | long walks of one thread through trees with many keys, and wide nodes |
//! | `anomalies` | what the published protocols of the other trees lose, each in a program |
//! | `safeguards`, `directed_case` | programs made for planted bugs that few others miss |
//! | `written` | those that were written, by name, with their space |
//! | `trees` | all of these by name, for trees of numbers and of byte strings |
//! | `published`, `unjudged` | the same for NBTree as published, which keeps its promises with one thread only |

pub mod anomalies;
pub mod directed_case;
pub mod exhaustion;
pub(crate) mod keys;
pub mod long;
pub mod made;
pub(crate) mod meetings;
pub mod plans;
pub mod published;
pub mod safeguards;
pub mod scenarios;
pub mod tiny;
pub mod trees;
mod unjudged;
mod written;
