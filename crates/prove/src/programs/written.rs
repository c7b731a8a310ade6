//! Written programs of trees, by name: scenarios, and how much space they have.

use crate::machine::backing::SIZE_MIN;
use crate::machine::hoard::Hands;
use crate::machine::space::{SPACE_AT_HAND, Space};
use crate::programs::meetings::{meetings, of_wide_nodes};
use crate::programs::scenarios::{self, Scenario};
use crate::programs::{anomalies, safeguards};

/// Slots of the leaves of small programs on wide nodes, at most.
const WIDE_SLOTS_MAX: usize = 6;

/// The tree for small programs on wide nodes, if there is one.
pub(super) fn wide_of<T>(wide: &'static [(usize, T)]) -> Option<&'static T> {
    wide.first().filter(|(slots, _)| *slots <= WIDE_SLOTS_MAX).map(|(_, tree)| tree)
}

/// The program of a name on wide nodes, and its space.
pub(super) fn wide_scenario(name: &str) -> Option<(Scenario, Space)> {
    let wanted = name.strip_prefix("wide/")?;
    let scenario = of_wide_nodes().into_iter().find(|scenario| scenario.name == wanted)?;
    let pool_bytes = 8 * SIZE_MIN as usize;
    Some((scenario, Space { pool_bytes, chunk_shift: 14, grows_at_once: true, ..Space::default() }))
}

/// More small programs: some on wide nodes, if there is a tree of those.
pub(super) fn more_small<T>(wide: &'static [(usize, T)]) -> Vec<String> {
    let mut all = under("small", meetings());
    if wide_of(wide).is_some() {
        all.extend(under("wide", of_wide_nodes()));
    }
    all
}

/// Small scenarios, and those for searches that end by time.
pub(super) fn all_small() -> impl Iterator<Item = Scenario> {
    scenarios::small().into_iter().chain(meetings())
}

/// Small scenarios that replace leaves.
fn all_structure() -> impl Iterator<Item = Scenario> {
    scenarios::small_structure().into_iter().chain(meetings())
}

/// The space of a pool in which sessions have as many blocks at hand as digits say, and there is no more.
fn tight_space(digits: &str) -> Option<Space> {
    let mut hands: Hands = [0; 4];
    for (count, digit) in hands.iter_mut().zip(digits.chars()) {
        *count = digit.to_digit(10)? as usize;
    }
    let (hands, blocks_left) = (Some(hands), Some(0));
    Some(Space { hands, blocks_left, may_fill: true, ..Space::default() })
}

/// The scenario of a name, and its space.
pub(super) fn scenario_of(name: &str) -> Option<(Scenario, Space)> {
    let (kind, wanted) = name.split_once('/')?;
    if kind == "bare" {
        let scenario =
            safeguards::scenarios().into_iter().find(|scenario| scenario.name == wanted)?;
        return Some((scenario, Space { no_records: true, ..tight_space("00")? }));
    }
    if kind == "tight" {
        let (digits, wanted) = wanted.split_once('/')?;
        let scenario = all_structure().find(|scenario| scenario.name == wanted)?;
        return Some((scenario, tight_space(digits)?));
    }
    let (list, space) = match kind {
        "scenario" => (scenarios::named(), Space::default()),
        "roomy" => (scenarios::named(), SPACE_AT_HAND),
        "small" => (all_small().collect(), Space::default()),
        "refused" => (all_small().collect(), Space { may_fill: true, ..Space::default() }),
        "anomaly" => (anomalies::scenarios(), Space::default()),
        "directed" => (safeguards::scenarios(), Space::default()),
        _ => return None,
    };
    Some((list.into_iter().find(|scenario| scenario.name == wanted)?, space))
}

pub(super) fn name_at(number: u64) -> &'static str {
    let named = scenarios::named();
    named[(number as usize * 5 + number as usize / 16) % named.len()].name
}

/// The small programs, for exhaustive search.
pub fn small() -> Vec<String> {
    under("small", scenarios::small())
}

/// Names of scenarios.
pub(super) fn under(kind: &str, scenarios: impl IntoIterator<Item = Scenario>) -> Vec<String> {
    scenarios.into_iter().map(|scenario| format!("{kind}/{}", scenario.name)).collect()
}

/// Blocks that each of two sessions has at hand: a split takes two and leaves two, what helps takes one.
const AT_HAND: [[usize; 2]; 10] =
    [[4, 1], [1, 4], [2, 1], [1, 2], [4, 0], [0, 4], [1, 1], [2, 2], [3, 3], [0, 0]];

/// The small programs in pools without any space but what sessions have at hand.
pub(super) fn tight() -> Vec<String> {
    let of =
        |[first, second]: [usize; 2]| under(&format!("tight/{first}{second}"), all_structure());
    AT_HAND.into_iter().flat_map(of).collect()
}
