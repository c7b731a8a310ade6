//! Readers: what a crash has left is copied, and opened to be read. Everything is found as by a writer that opens it,
//! writes are refused, and not a byte changes.

use everleaf_index::build::{self, Intent, Outcome};
use everleaf_index::{Change, Trees};
use everleaf_machine::simulated::{Domain, Program};

use super::damage::{Truth, bytes_of, copy_of};
use super::names::{KEYS, MAPS, is_integers, name_of, word_of};
use super::{G, M, Maps, Opened, text};
use crate::machine::backing::{read_pool, read_sparse_pool};
use crate::tree::nbtree::SHARES;

/// Demands that of a pool of these bytes, which holds that.
pub(super) fn demand_right(
    maps: &Maps,
    whole: &[u8],
    domain: Domain,
    truth: &Truth,
) -> Result<(), String> {
    for is_sparse in [false, true] {
        let copy = copy_of(whole, domain);
        let read = if is_sparse { read_sparse_pool } else { read_pool };
        let pool = read(copy.memory()).map_err(text)?;
        let trees: Trees<G, M> = Trees::open(pool, SHARES).map_err(text)?;
        let opened = Opened { trees, was_sealed: false, sessions: vec![] };
        let found = maps.contents(&opened)?;
        if found != *truth {
            return Err(format!("a reader finds {found:?} where there is {truth:?}"));
        }
        for map in 0..MAPS {
            demand_refusal(&opened.trees, map)?;
        }
        drop(opened);
        if bytes_of(&copy.memory()) != whole {
            return Err("a reader changes the pool".to_owned());
        }
    }
    Ok(())
}

/// Demands that writes to a map are refused, if it is there.
fn demand_refusal(trees: &Trees<G, M>, map: u64) -> Result<(), String> {
    let name = name_of(map);
    let mut session = trees.heap().session().map_err(text)?;
    let is_done = if is_integers(map) {
        let Some(tree) = trees.find_u64_tree(&name).map_err(text)? else { return Ok(()) };
        let change = build::Change { key: KEYS, intent: Intent::Upsert, value: 1 };
        let mut outcome = [Outcome { changed: false, old: None }];
        tree.upsert(&mut session, KEYS, 1).is_ok()
            || tree.remove(&mut session, 0).is_ok()
            || tree.write_many(&mut session, &[change], &mut outcome).is_ok()
    } else {
        let Some(tree) = trees.find_bytes_tree(&name).map_err(text)? else { return Ok(()) };
        let word = word_of(KEYS);
        tree.change(&mut session, &Change::upsert(&word, b"12345678")).is_ok()
            || tree.change(&mut session, &Change::remove(&word_of(0))).is_ok()
    };
    if is_done { Err(format!("a reader writes to map {map}")) } else { Ok(()) }
}
