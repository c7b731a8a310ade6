//! What views have saved, laid over a page of the tree.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_index::BytesTree;

use super::{BeforeImage, Old, Value, Versions, address, at_version};
use crate::map::pages::PAGE_BYTES;
use crate::{Error, Result};

/// Keys of a part that are looked at for one page of a range; its bytes are limited as those of each page.
const PAGE_KEYS: usize = 512;

/// How far a part of a range could be laid over; `None`: to its end.
pub(crate) type Cut = Option<Vec<u8>>;

impl Versions {
    /// Puts what was saved between two bounds over what was found in the tree before. If that is a lot,
    /// only the pairs up to some key are put there, from the end that `reverse` says; those beyond are
    /// taken out, and the key is returned.
    ///
    /// # Errors
    /// What is said of the first key that was damaged, if it is not beyond; there is no memory for a value.
    pub fn lay_over(
        &self,
        tree: &Arc<BytesTree>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        version: u64,
        pairs: &mut BTreeMap<Vec<u8>, Value>,
    ) -> Result<Cut> {
        let corrupt = |text: &Arc<str>| Error::Corrupt(text.to_string());
        if let Some(unsaved) = self.unsaved_of(tree, version) {
            return Err(corrupt(&unsaved.text));
        }
        let mut cut: Cut = None;
        let mut damaged = BTreeMap::new();
        for part in &self.parts {
            let part = part.lock();
            let Some(saved) = part.maps.get(&address(tree)) else { continue };
            let chains = saved.chains.range::<[u8], _>(bounds);
            let end = match reverse {
                true => lay_part(chains.rev(), version, pairs, &mut damaged)?,
                false => lay_part(chains, version, pairs, &mut damaged)?,
            };
            cut = match (cut, end) {
                (Some(one), Some(other)) if reverse => Some(one.max(other)),
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        if let Some(cut) = &cut {
            let is_near = |key: &Vec<u8>| if reverse { key >= cut } else { key <= cut };
            pairs.retain(|key, _| is_near(key));
            damaged.retain(|key, _| is_near(key));
        }
        let first = if reverse { damaged.pop_last() } else { damaged.pop_first() };
        first.map_or(Ok(cut), |(_, text)| Err(corrupt(&text)))
    }
}

/// Lays what one part has over `pairs`, in the order of an end. Returns the last key if it is not all.
fn lay_part<'a>(
    chains: impl Iterator<Item = (&'a Arc<[u8]>, &'a Vec<Old>)>,
    version: u64,
    pairs: &mut BTreeMap<Vec<u8>, Value>,
    damaged: &mut BTreeMap<Vec<u8>, Arc<str>>,
) -> Result<Cut> {
    let mut bytes = 0;
    for (count, (key, chain)) in chains.enumerate() {
        if let Some(old) = at_version(chain, version) {
            match old.live(version)? {
                BeforeImage::Value(value) => {
                    bytes += key.len() + value.0.len();
                    pairs.insert(key.to_vec(), value);
                }
                BeforeImage::Absent => drop(pairs.remove(&**key)),
                BeforeImage::Damaged(text) => {
                    pairs.remove(&**key);
                    damaged.insert(key.to_vec(), text);
                }
            }
        }
        if count + 1 >= PAGE_KEYS || bytes >= PAGE_BYTES {
            return Ok(Some(key.to_vec()));
        }
    }
    Ok(None)
}
