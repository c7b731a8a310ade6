//! A scan that passes a removed entry says that the key is absent. In the `Adr` domain the removal
//! may not be durable yet: then the scan must make it so, as a search does, or a crash gives back a
//! key whose absence was already reported. Scans did not.
//!
//! Found by the scenario "a scan while leaves merge" in its 9th schedule (`Adr`, sequentially
//! consistent, seed 0x820033d5b597a6a1): one thread removes a key and is stopped before its flush,
//! another scans and answers, the power fails. The
//! planted bug `nbtree.no_scan_tomb_observe` brings the old behaviour back and is hunted with all
//! others in `prove.rs`; here the small programs of its shape must be clean in every order.

use everleaf_machine::simulated::{Config, Domain};

use everleaf_index::Tiny;
use everleaf_prove::Nb;
use everleaf_prove::machine::configure::exhaustive;
use everleaf_prove::machine::space::Space;
use everleaf_prove::programs::scenarios;
use everleaf_prove::programs::trees::{run_numbers, run_words};

type Nb2 = Nb<Tiny<2, 3>>;
type Nb3 = Nb<Tiny<3, 3>>;

#[test]
fn a_key_that_a_scan_reported_absent_stays_absent() {
    let found: Vec<_> = scenarios::small_leaves()
        .into_iter()
        .filter(|scenario| scenario.name.starts_with("remove, scan"))
        .collect();
    assert_eq!(found.len(), 2);
    for scenario in found {
        let config = exhaustive(&Config { domain: Domain::Adr, ..Config::default() }, 2);
        for (report, failure) in [
            run_numbers::<Nb2, Nb3>(&scenario, &config, 100_000, Space::default()),
            run_words(&scenario, &config, 100_000, Space::default()),
        ] {
            assert!(failure.is_none(), "{}: {failure:?}", scenario.name);
            assert!(report.exhausted);
        }
    }
}
