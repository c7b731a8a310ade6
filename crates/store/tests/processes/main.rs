//! The tests of the store that start processes: those that kill them, fork, limit them, and what belongs with these.
//! One program: each process that a test starts, limits or kills is this program again, asked for one test, and no test
//! asks what the whole process has.

mod batches;
mod changed_folder;
mod damage;
mod folios;
mod fork;
mod full_disk;
mod hostile_files;
mod kill;
mod power;
mod power_cut;
mod space;
