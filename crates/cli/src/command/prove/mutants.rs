//! `everleaf prove mutants`: every planted bug must be found; those of the other trees here or in the
//! tests of their tree, which are named then.

use super::{ProveArgs, mutant_of};
use crate::cli::Global;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use everleaf_prove::mutants::{all, hunt, tests_of};
use serde_json::json;
use std::time::Instant;

/// Rounds of the search for one bug, each twice as long as the one before.
const ROUNDS: u64 = 4;
/// The same where tests look longer.
const ROUNDS_BEFORE_TESTS: u64 = 1;

/// Plants one bug after the other and looks for it.
pub fn run(args: &ProveArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let wanted = mutant_of(args)?;
    let chosen: Vec<_> =
        all().filter(|mutant| wanted.is_none_or(|wanted| wanted == *mutant)).collect();
    let (mut alive, mut left) = (vec![], 0);
    for mutant in &chosen {
        let (started, tests) = (Instant::now(), tests_of(*mutant));
        let kill = hunt(*mutant, if tests.is_some() { ROUNDS_BEFORE_TESTS } else { ROUNDS });
        let seconds = started.elapsed().as_secs_f64();
        if global.json {
            out.json(&json!({
                "mutant": mutant.name,
                "structure": mutant.structure,
                "found": kill.is_some(),
                "tests": tests,
                "seconds": seconds,
                "schedules": kill.as_ref().map(|kill| kill.schedules),
                "program": kill.as_ref().map(|kill| &kill.program),
                "kind": kill.as_ref().map(|kill| kill.failure.kind.to_string()),
            }))?;
        } else {
            let found = match (&kill, tests) {
                (Some(kill), _) => format!("{} ({})", kill.failure.kind, kill.program),
                (None, Some(tests)) => format!("not found here: hunted by {tests}"),
                (None, None) => "ALIVE".to_owned(),
            };
            let schedules = kill.as_ref().map_or(0, |kill| kill.schedules);
            let name = mutant.name;
            out.line(&format!("{name:<32} {schedules:>8} schedules {seconds:>7.2} s  {found}"))?;
        }
        // Each line as it comes: the whole takes a while.
        out.flush()?;
        match (kill, tests) {
            (Some(_), _) => {}
            (None, Some(_)) => left += 1,
            (None, None) => alive.push(mutant.name),
        }
    }
    if !alive.is_empty() {
        let what = format!("not found: {}", alive.join(", "));
        return Err(Failure::new(ExitCode::Violated, what));
    }
    if !global.json {
        let found = chosen.len() - left;
        out.line(&format!("{found} of {} planted bugs found", chosen.len()))?;
        if left > 0 {
            out.line(&format!("{left} left to the tests of their trees, named above"))?;
        }
    }
    Ok(())
}
