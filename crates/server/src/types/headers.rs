//! Which values are headers of collections, for programs that read a pool without the server.

use everleaf::Store;

use super::state::Types;

/// Tells the headers of a store's collections from its strings: they lie among them, and mean nothing
/// without the members, which lie elsewhere.
///
/// # Example
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
/// let headers = everleaf_server::CollectionHeaders::of(&store)?;
/// assert_eq!(headers.kind(b"a string"), None);
/// # Ok(())
/// # }
/// ```
pub struct CollectionHeaders(Types);

impl CollectionHeaders {
    /// Those of a store. Collections of a store that had none yet are not known.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn of(store: &Store) -> everleaf::Result<Self> {
        let types = Types::default();
        types.open(store)?;
        Ok(CollectionHeaders(types))
    }

    /// What the collection is whose header this value is, as `TYPE` names it; `None` if it is a string. O(1).
    #[inline]
    pub fn kind(&self, value: &[u8]) -> Option<&'static str> {
        self.0.header(value).map(|header| header.kind.name())
    }
}
