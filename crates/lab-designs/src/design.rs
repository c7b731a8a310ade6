//! The designs of the catalogue as the bench takes them.

use everleaf_bench::MeasuredDesign;
use everleaf_designs::catalogue::{self, DesignVisitor};
use everleaf_index::{Design, DesignInfo, Hardware, IndexError, Reads};

struct Measure;

impl DesignVisitor<Hardware> for Measure {
    type Output = &'static MeasuredDesign;
    fn visit<T: Design>(self) -> Self::Output {
        const { &MeasuredDesign::of::<T>() }
    }
}

/// All designs of the catalogue.
pub fn designs() -> Vec<&'static MeasuredDesign> {
    catalogue::names().into_iter().filter_map(design).collect()
}

/// Refuses a design of which nothing is in the pool where a file is to be kept: it could not be opened again.
///
/// # Errors
/// [`IndexError::Unsupported`].
pub(crate) fn refuse_in_file(name: &str) -> Result<(), IndexError> {
    let is_volatile = |info: &DesignInfo| info.name == name && info.reads == Reads::Volatile;
    if catalogue::designs().iter().any(is_volatile) {
        return Err(IndexError::Unsupported("contents that outlive the program"));
    }
    Ok(())
}

/// The design of this name, if it is in the catalogue.
pub fn design(name: &str) -> Option<&'static MeasuredDesign> {
    catalogue::visit(name, Measure)
}
