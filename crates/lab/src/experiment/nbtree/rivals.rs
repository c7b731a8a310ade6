//! The paper's tree and those that it is compared with.

use everleaf_designs::catalogue;

/// The paper's NBTree in the catalogue: its claims are judged on this one. `nbtree` is ours, made
/// after it, and stands beside it.
pub(super) const PAPERS_TREE: &str = "nbtree-published";

/// Whether a tree is one that a paper describes, not ours nor a variant for one experiment.
pub(super) fn is_published(name: &str) -> bool {
    !["nbtree", "nbtree-coupled", "rntree-dual"].contains(&name)
}

/// The trees of the paper that are in the catalogue, those of ours that come close included.
pub(super) fn rivals() -> Vec<&'static str> {
    let wanted = [
        "nbtree",
        "fast-fair",
        "rntree",
        "rntree-dual",
        "fptree",
        "wbtree",
        "wbtree-so",
        "nvtree",
        "cdds",
        "blink",
        "utree",
        "bztree",
        "nbtree-published",
        "nbtree-coupled",
    ];
    let known = catalogue::names();
    wanted.into_iter().filter(|name| known.contains(name)).collect()
}
