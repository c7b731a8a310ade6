//! Faults that the search has to find: planted bugs (`mutants`), a fault in every access in turn (`mutation`), each
//! flush and drain switched off (`ablation`); and why nobody can miss some of them (`arguments`).

pub mod ablation;
pub mod arguments;
pub mod mutants;
pub mod mutation;
