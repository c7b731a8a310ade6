//! The designs of the catalogue as the bench takes them.

use everleaf_bench::MeasuredDesign;
use everleaf_designs::catalogue::{self, DesignVisitor};
use everleaf_index::{Design, Hardware};

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

/// The design of this name, if it is in the catalogue.
pub fn design(name: &str) -> Option<&'static MeasuredDesign> {
    catalogue::visit(name, Measure)
}
