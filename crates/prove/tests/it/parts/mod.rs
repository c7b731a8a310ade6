//! The parts of the searches, each alone.

mod arguments;
mod campaign;
mod case;
mod corpus;
mod coverage;
mod expected;
mod long;
mod made;
mod many_keys;
mod mutation;
mod names;
mod record;
mod tiny;
mod weak_orders;
