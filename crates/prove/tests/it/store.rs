//! The search of the whole store: what is planted there is found soon, and a budget of time is that of all threads.

use std::time::Duration;

use everleaf_prove::hunt::mutants::hunt_plainly;
use everleaf_prove::planted::plain::named;
use everleaf_prove::search::campaign::{Budget, Settings, run};
use everleaf_prove::structures::find;

#[test]
fn what_is_planted_in_the_store_is_found_by_a_few_runs() {
    let soon = [
        "store.batch_expiry_unlogged",
        "store.batch_is_two_groups",
        "store.batch_saves_nothing",
        "store.takes_place_late",
    ];
    for name in soon {
        let mutant = named(name).expect("it is planted");
        assert_eq!(mutant.structure, "store");
        // Of this seed the runs that find them are repeated by their numbers: four real threads race in some, and what
        // they meet depends on what else runs.
        let store = find(mutant.structure).expect("it is there");
        let kill = hunt_plainly(store, mutant, Budget::Schedules(30), 2);
        assert!(kill.is_some(), "{name} is not found");
    }
}

/// A run starts threads, and the one that leads them hardly works: a search of half a minute by its time alone did not
/// end in many.
#[test]
fn a_search_of_the_store_ends_with_its_time() {
    let store = find("store").expect("it is there");
    let clock = || store.programs().cpu_time();
    let (budget, before) = (Budget::Cpu(Duration::from_millis(200)), clock());
    let verdict = run(store, &Settings { budget, ..Settings::default() }, &mut |_| {});
    let spent = clock() - before;
    assert!(verdict.is_clean() && verdict.programs > 0 && verdict.seconds >= 0.2);
    // One program more than there was time for; of the tests beside it, others count too.
    assert!(verdict.seconds <= spent.as_secs_f64(), "{} of {spent:?}", verdict.seconds);
}
