//! Tests of the store that start no process, in one program: the generic trees are compiled once.

mod at_once;
mod attacks;
mod batch_expiry;
mod closures;
mod copies;
mod events;
mod expiry;
mod formats;
mod full_pool;
mod library;
mod log_folder;
mod lost_map;
mod lost_maps;
mod pool_name;
mod refused;
mod salvaged_log;
mod stale;
mod store;
mod trees;
mod update_apart;
mod verify;
mod view_attacks;
mod view_damage;
mod view_many;
mod views;
