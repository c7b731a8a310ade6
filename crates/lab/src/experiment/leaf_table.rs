//! What the papers' tables say of single operations on leaves with room, against what is counted.

use everleaf_bench::BenchError;
use everleaf_machine::simulated::Domain;

use super::finding::{Figure, Grid, Series};
use super::{Context, Results};
use everleaf_lab_designs::count::CountedOperation;
use everleaf_lab_designs::count::leaf::{self, LeafCosts};

/// A row of a paper's table: insert, delete, update.
pub(super) struct Claim {
    /// The design of the catalogue.
    pub design: &'static str,
    /// Its flushes; `None` where the paper gives no number.
    pub flushes: Option<[f64; 3]>,
    /// Its lines written; `None` where the paper gives no number.
    pub writes: Option<[f64; 3]>,
    /// What is more here, and why.
    pub more: &'static [More],
}

/// Why one operation costs more here than in a row of a paper's table.
pub(super) struct More {
    /// `flushes` or `lines written`.
    pub what: &'static str,
    /// The operation.
    pub operation: CountedOperation,
    /// The reason.
    pub why: &'static str,
}

impl Claim {
    /// The reason for a difference: one that explains each operation that differs, in its direction.
    fn reason(&self, what: &str, said: &[f64; 3], ours: &[f64; 3]) -> Option<&'static str> {
        let differs = |at: &usize| (said[*at] - ours[*at]).abs() >= EXACT;
        let explained = |at: usize| {
            let fits = |more: &&More| more.what == what && more.operation == ROW[at];
            self.more.iter().find(fits).filter(|_| ours[at] > said[at]).map(|more| more.why)
        };
        let reasons: Option<Vec<_>> = (0..ROW.len()).filter(differs).map(explained).collect();
        reasons?.first().copied()
    }
}

/// Figures of single operations are equal if they are not this far apart.
const EXACT: f64 = 0.005;

/// The operations of a row, in the papers' order.
const ROW: [CountedOperation; 3] =
    [CountedOperation::Insert, CountedOperation::Remove, CountedOperation::Update];

/// Counts the designs on leaves with room; those that have no such leaf are named in a note.
pub(super) fn measure(
    context: &mut Context<'_>,
    outcome: &mut Results,
    designs: &[&'static str],
    domain: Domain,
) -> Result<Vec<(&'static str, LeafCosts)>, BenchError> {
    let trials = context.scale.pick(60, 2000);
    let (mut measured, mut without_leaves) = (Vec::new(), Vec::new());
    for name in designs {
        (context.tell)(&format!("counting {name}"));
        match leaf::costs_if_any(name, domain, trials, context.seed)? {
            Some(costs) => measured.push((*name, costs)),
            None => without_leaves.push(*name),
        }
    }
    if !without_leaves.is_empty() {
        outcome.notes.push(format!(
            "Without a leaf with room to be told from a full one, so in everleaf.counts only, with all splits: {}.",
            without_leaves.join(", ")
        ));
    }
    Ok(measured)
}

/// The mean of a figure, for the three writes.
pub(super) fn triple(
    costs: &LeafCosts,
    sum: fn(&everleaf_machine::simulated::counting::Tally) -> u64,
) -> [f64; 3] {
    ROW.map(|operation| costs.each(operation, sum))
}

/// `2/1/2`, as the papers write it.
pub(super) fn slashed(values: [f64; 3]) -> String {
    values.map(super::finding::number).join("/")
}

/// A table of what was counted, and a figure for each claim.
pub(super) fn judge(
    outcome: &mut Results,
    measured: &[(&'static str, LeafCosts)],
    claims: &[Claim],
) {
    let columns = [
        "tree",
        "flushes i/d/u",
        "lines written i/d/u",
        "lines read, insert",
        "lines read, get",
        "lines read, absent",
        "keys before it grows",
    ];
    let title = "an operation on a leaf with room: insert/delete/update, in lines of the pool";
    let mut grid = Grid::new(title, &columns);
    for (name, costs) in measured {
        let read = |operation| {
            super::finding::number(costs.each(operation, |tally| tally.pool_lines_read))
        };
        grid.rows.push(vec![
            (*name).to_owned(),
            slashed(triple(costs, |tally| tally.flushes)),
            slashed(triple(costs, |tally| tally.pool_lines_written)),
            read(CountedOperation::Insert),
            read(CountedOperation::Get),
            read(CountedOperation::GetAbsent),
            costs.capacity.to_string(),
        ]);
        for operation in ROW {
            let flushes = costs.each(operation, |tally| tally.flushes);
            let what = format!("{name} {}", operation.name());
            outcome.series.push(Series::count(what, "flushes", flushes));
        }
    }
    outcome.tables.push(grid);
    for claim in claims {
        let Some((_, costs)) = measured.iter().find(|(name, _)| *name == claim.design) else {
            continue;
        };
        let pairs = [
            ("flushes", claim.flushes, triple(costs, |tally| tally.flushes)),
            ("lines written", claim.writes, triple(costs, |tally| tally.pool_lines_written)),
        ];
        for (what, said, ours) in pairs {
            let Some(said) = said else { continue };
            let agrees = said.iter().zip(&ours).all(|(said, ours)| (said - ours).abs() < EXACT);
            let reason = claim.reason(what, &said, &ours);
            let what = format!("{}: {what}", claim.design);
            let figure = Figure::statement(what, &slashed(said), slashed(ours), agrees);
            outcome.figures.push(match reason {
                Some(why) => figure.because(why),
                None => figure,
            });
        }
    }
    outcome.notes.push(
        "Lines written include the line of a lock that lies in the pool; it is not flushed.".into(),
    );
}

#[cfg(test)]
mod tests {
    use super::super::tests::quick;
    use super::*;

    #[test]
    fn a_reason_is_given_only_for_what_it_explains() {
        let more = &[More { what: "flushes", operation: CountedOperation::Update, why: "appends" }];
        let claim = Claim { design: "a", flushes: None, writes: None, more };
        let said = [4.0, 3.0, 3.0];
        assert_eq!(claim.reason("flushes", &said, &[4.0, 3.0, 4.0]), Some("appends"));
        for (what, ours) in [
            ("lines written", [4.0, 3.0, 4.0]),
            ("flushes", [4.0, 3.0, 2.0]),
            ("flushes", [5.0, 3.0, 4.0]),
        ] {
            assert_eq!(claim.reason(what, &said, &ours), None, "{what} {ours:?}");
        }
    }

    #[test]
    fn a_design_without_a_leaf_with_room_is_named_in_a_note() {
        let (mut outcome, mut tell) = (Results::default(), |_: &str| ());
        let designs = ["fptree", "utree"];
        let measured = measure(&mut quick(&mut tell), &mut outcome, &designs, Domain::Adr).unwrap();
        assert_eq!(measured.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["fptree"]);
        assert!(outcome.notes[0].ends_with(": utree."), "{:?}", outcome.notes);
    }
}
