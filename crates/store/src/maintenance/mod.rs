//! What keeps a store in shape: copies, repair, the sweep, space, and the files that they write.

pub mod behind_damage;
pub mod copy;
pub mod expiring;
pub mod kept_file;
pub mod lost_map;
pub mod new_file;
pub mod origin;
pub mod pause;
pub mod regular_file;
pub mod repair;
pub mod saved;
pub mod unreadable;
pub mod upkeep;
