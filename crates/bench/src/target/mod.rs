//! What is measured, behind one trait: our indexes, and whatever else implements it.
//!
//! A [`Target`] is shared by the threads of a measurement; each makes itself a [`Worker`]. Every
//! operation says whether it found what it must, and none returns a value that was never written
//! for the key: values carry a mark of their key.

mod integers;
mod strings;
mod values;
mod worker;

pub use crate::keys::{BytesKeys, IntegerKeys, KeyList};

pub(crate) use integers::Integers;
pub(crate) use strings::Strings;
pub use values::Values;
pub use worker::{Footprint, KeyOf, Target, Worker};
