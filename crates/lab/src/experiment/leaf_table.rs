//! What the papers' tables say of single operations on leaves with room, against what is counted.

use everleaf_machine::simulated::Domain;

use super::finding::{Figure, Grid, Series};
use super::{Context, Outcome};
use crate::count::Operation;
use crate::count::leaf::{self, LeafCosts};
use crate::error::LabError;

/// A row of a paper's table: insert, delete, update.
pub(super) struct Claim {
    /// The design of the catalogue.
    pub design: &'static str,
    /// Its flushes; `None` where the paper gives no number.
    pub flushes: Option<[f64; 3]>,
    /// Its lines written; `None` where the paper gives no number.
    pub writes: Option<[f64; 3]>,
    /// Why it differs, if it does.
    pub why: &'static str,
}

/// The operations of a row, in the papers' order.
const ROW: [Operation; 3] = [Operation::Insert, Operation::Remove, Operation::Update];

/// Counts the designs on leaves with room.
pub(super) fn measure(
    context: &mut Context<'_>,
    designs: &[&'static str],
    domain: Domain,
) -> Result<Vec<(&'static str, LeafCosts)>, LabError> {
    let trials = context.scale.pick(60, 2000);
    let one = |name: &&'static str| {
        (context.tell)(&format!("counting {name}"));
        Ok((*name, leaf::costs(name, domain, trials, context.seed)?))
    };
    designs.iter().map(one).collect()
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
    outcome: &mut Outcome,
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
            read(Operation::Insert),
            read(Operation::Get),
            read(Operation::GetAbsent),
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
            let agrees = said.iter().zip(&ours).all(|(said, ours)| (said - ours).abs() < 0.005);
            let what = format!("{}: {what}", claim.design);
            let figure = Figure::statement(what, &slashed(said), slashed(ours), agrees);
            outcome.figures.push(figure.because(claim.why));
        }
    }
    outcome.notes.push(
        "Lines written include the line of a lock that lies in the pool; it is not flushed.".into(),
    );
}
