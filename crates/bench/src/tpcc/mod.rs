//! TPC-C, small: its five transactions on one ordered index that holds all tables.
//!
//! FAST & FAIR (Hwang et al., FAST 2018, section 6.6) measures indexes this way, in four mixes with
//! ever more reads. A row is a pair: its key names the table and the row, its value stands for the
//! columns. Tables that are searched in a second way have a second pair.
//!
//! ```text
//!   key (64 bits): table 4 | warehouse 12 | district 8 | row 40
//!
//!   table           row                                   standard size
//!   warehouse       -                                     1
//!   district        -                                     10 a warehouse
//!   customer        customer                              3,000 a district
//!   customer name   last name 20 | customer 20            as customers
//!   order           order                                 3,000 a district at first
//!   order, customer customer 16 | 2^24 - 1 - order 24     as orders: the latest comes first
//!   new order       order                                 the last 30 % of the orders
//!   order line      order 36 | line 4                     5 to 15 an order
//!   item            item                                  100,000, for all warehouses
//!   stock           item                                  100,000 a warehouse
//!   history         number                                as customers at first
//! ```
//!
//! What the transactions do depends on what earlier ones did (the next order of a district, the
//! oldest that is not delivered). So that all operations can be drawn before the clock starts, the
//! generator keeps the little it must know of each district; each warehouse is home to one thread,
//! and rows that threads share are never inserted or removed, so that every effect is known.
//!
//! *Differs from the standard*: smaller tables if fewer keys are asked for; no rollback of one
//! New-Order in a hundred; no thinking time; a customer who is searched for by name is the first of
//! that name.

mod database;
pub(crate) mod mix;
mod transactions;

use crate::error::BenchError;
use crate::keys::KeyList;
use crate::stream::{OwnStreams, Plan, Stream};
use database::Database;
pub use mix::TpccMix;
use mix::Transaction;
use transactions::Recorder;

/// Draws the transactions of all threads on a database of about `keys` rows.
///
/// # Errors
/// More threads than warehouses that a key can name.
pub(crate) fn draw<K: KeyList>(
    mix: TpccMix,
    plan: &Plan,
    keys: u64,
    new_keys: impl Fn(usize) -> K,
) -> Result<OwnStreams<K>, BenchError> {
    let mut database = Database::new(keys, plan.threads, plan.seed)?;
    let rows = database.rows();
    let mut fill = new_keys(rows.len());
    rows.iter().for_each(|row| fill.push_word(*row));
    let mut population = rows.len() as u64;
    let mut streams = Vec::with_capacity(plan.threads);
    for thread in 0..plan.threads {
        let mut choices = plan.random(thread, 1);
        let mut recorder = Recorder::new(plan.random(thread, 2));
        let mut ends = Vec::with_capacity(plan.warm_up + plan.timed);
        for _ in 0..plan.warm_up + plan.timed {
            let home = database.home(thread, plan.threads, choices.next_word());
            recorder.add(mix.choose(choices.below(100)), &mut database, home);
            ends.push(recorder.len() as u32);
        }
        population += recorder.inserted();
        population -= recorder.removed();
        let (words, steps) = recorder.into_operations();
        let mut keys = new_keys(words.len());
        words.iter().for_each(|word| keys.push_word(*word));
        let due = plan.due(thread);
        let plain = Stream::plain(keys, plan.timed);
        streams.push(Stream { steps, ends, due, warm_up: plan.warm_up, ..plain });
    }
    let count = rows.len();
    Ok(OwnStreams { fill: Stream::plain(fill, count), streams, population })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::keys::IntegerKeys;
    use crate::workload::{Action, Workload};
    use std::collections::BTreeSet;

    fn drawn(mix: TpccMix, keys: u64, threads: usize) -> OwnStreams<IntegerKeys> {
        let plan = Plan {
            workload: Workload::Tpcc(mix),
            distribution: Distribution::Uniform,
            threads,
            population: 0,
            warm_up: 100,
            timed: 1000,
            scan_length: 100,
            arrivals: None,
            seed: 3,
        };
        draw(mix, &plan, keys, |_| IntegerKeys::default()).unwrap()
    }

    #[test]
    fn the_shares_are_those_of_the_paper() {
        for mix in [TpccMix::W1, TpccMix::W2, TpccMix::W3, TpccMix::W4] {
            assert_eq!(mix.shares().iter().map(|(_, share)| share).sum::<u64>(), 100);
        }
        let reads = |mix: TpccMix| mix.shares()[2].1 + mix.shares()[4].1;
        let reads = [TpccMix::W1, TpccMix::W2, TpccMix::W3, TpccMix::W4].map(reads);
        assert_eq!(reads, [19, 26, 33, 40], "ever more");
        assert_eq!(TpccMix::W1.choose(33), Transaction::NewOrder);
        assert_eq!(TpccMix::W4.choose(13), Transaction::Payment);
        assert_eq!(TpccMix::W4.choose(99), Transaction::StockLevel);
    }

    #[test]
    fn operations_do_what_they_must_in_any_order_of_the_threads() {
        for (keys, threads) in [(1_000, 1), (20_000, 1), (20_000, 3)] {
            let drawn = drawn(TpccMix::W1, keys, threads);
            let mut rows: BTreeSet<u64> = drawn.fill.keys.0.iter().copied().collect();
            assert_eq!(rows.len(), drawn.fill.len(), "no row twice");
            for stream in drawn.streams.iter().rev() {
                assert_eq!(stream.ends.len(), 1100);
                assert_eq!(*stream.ends.last().unwrap() as usize, stream.steps.len());
                for (key, step) in stream.keys.0.iter().zip(&stream.steps) {
                    let is_done = match step.action {
                        Action::Get | Action::Update => rows.contains(key),
                        Action::Insert => rows.insert(*key),
                        Action::Remove => rows.remove(key),
                        Action::Scan => rows.range(key..).next().is_some() && step.length > 0,
                        other => panic!("{other:?}"),
                    };
                    assert!(is_done, "{step:?} of {key:#x}");
                }
            }
            assert_eq!(rows.len() as u64, drawn.population);
        }
    }

    #[test]
    fn the_database_has_about_the_rows_asked_for() {
        for (keys, threads) in [(10_000, 1), (100_000, 1), (100_000, 2)] {
            let size = drawn(TpccMix::W1, keys, threads).fill.len() as u64;
            assert!((keys / 10 * 8..keys / 10 * 12).contains(&size), "{size} for {keys}");
        }
    }
}
