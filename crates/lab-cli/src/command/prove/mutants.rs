//! `everleaf-lab prove mutants`: every planted bug must be found, by what is known of it or, with a
//! budget, by the plain search.

use super::{ProveArgs, mutant_of};
use everleaf_cli::cli::Global;
use everleaf_cli::exit_code::ExitCode;
use everleaf_cli::failure::Failure;
use everleaf_cli::output::Output;
use everleaf_prove::cpu_time;
use everleaf_prove::mutants::{all, hunt, hunt_plainly};
use serde_json::json;

/// Rounds of the search for one bug, each twice as long as the one before.
const ROUNDS: u64 = 4;

/// Plants one bug after the other and looks for it.
pub fn run(args: &ProveArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let wanted = mutant_of(args)?;
    let chosen: Vec<_> =
        all().filter(|mutant| wanted.is_none_or(|wanted| wanted == *mutant)).collect();
    let mut alive = vec![];
    for mutant in &chosen {
        let started = cpu_time();
        let kill = match args.budget {
            Some(budget) => hunt_plainly(*mutant, budget, args.seed),
            None => hunt(*mutant, ROUNDS),
        };
        let seconds = (cpu_time() - started).as_secs_f64();
        if global.json {
            out.json(&json!({
                "mutant": mutant.name,
                "structure": mutant.structure,
                "found": kill.is_some(),
                "cpu_seconds": seconds,
                "schedules": kill.as_ref().map(|kill| kill.schedules),
                "program": kill.as_ref().map(|kill| &kill.program),
                "kind": kill.as_ref().map(|kill| kill.failure.kind.to_string()),
            }))?;
        } else {
            let found = match &kill {
                Some(kill) => format!("{} ({})", kill.failure.kind, kill.program),
                None => "ALIVE".to_owned(),
            };
            let schedules = kill.as_ref().map_or(0, |kill| kill.schedules);
            let name = mutant.name;
            out.line(&format!("{name:<32} {schedules:>8} schedules {seconds:>7.2} s  {found}"))?;
        }
        // Each line as it comes: the whole takes a while.
        out.flush()?;
        if kill.is_none() {
            alive.push(mutant.name);
        }
    }
    if !alive.is_empty() {
        let what = format!("not found: {}", alive.join(", "));
        return Err(Failure::new(ExitCode::Violated, what));
    }
    if !global.json {
        let count = chosen.len();
        out.line(&format!("{count} of {count} planted bugs found"))?;
    }
    Ok(())
}
