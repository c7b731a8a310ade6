//! Checks that the collections of a store are whole: headers, members, orders and notes agree.
//!
//! For each header: its note, of its database, has its key (C1), it counts its members, and at least one (C2), each
//! member lies where its hash or index says (C3), the elements of a list are those from its first index on, without a
//! gap, each of its runs can be read, and others are there only where a note says so (C4), each member of a sorted set
//! has its position, and each position its member with that score (C5), each level of the order has its start and its
//! separators, with the numbers of members up to the next (C6). For each number under which members lie: it has one
//! note (C7), so that the collector finds what no header has.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use everleaf::{Map, Result, Store};

use super::collector::first_key;
use super::header::{HEADER_SIZE, Header, Kind, MARK_SIZE};
use super::list::LACKING;
use super::notes::{
    MARK_KEY, MEMBERS, TRIMMED, live_key, live_number, mark_entry, mark_of, trimmed_key,
};
use super::order::{height_of, position};
use super::places::{LEVEL_MAX, ORDER, order_key};
use super::ready::Ready;
use super::runs::{self, EntryKey};
use super::state::Types;
use crate::command::walk::{Bounds, PageSize, page_of, walk};
use crate::databases::{Database, Databases, MapNumber};

/// Entries read at once. Of a value that is longer nobody wants more than to see that it is none of ours.
const PAGE: PageSize = PageSize { pairs: 512, bytes: usize::MAX, value_bytes: runs::SIZE_MAX + 1 };
/// Problems that are told.
const PROBLEM_COUNT_MAX: usize = 1_000;

/// What [`check_collections`] found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CollectionReport {
    /// Hashes, sets, sorted sets and lists.
    pub collections: u64,
    /// Members of them.
    pub members: u64,
    /// What is wrong, a sentence each, a thousand at most.
    pub problems: Vec<String>,
}

/// Checks the collections that a server has made in a store, which nobody should write meanwhile: what is
/// written is told as a problem. The collector of a server that runs does no harm. Takes the time to read all
/// members, and of a sorted set two lookups for each, and holds a sixtieth of a sorted set in memory.
///
/// # Errors
/// The store cannot be read.
pub fn check_collections(store: &Store) -> Result<CollectionReport> {
    let (types, mut report) = (Types::default(), CollectionReport::default());
    if let Some(members) = store.existing_map(MEMBERS)?
        && !members.is_empty()
        && mark_of(&members)?.is_none()
    {
        report.problems.push(format!("the map {MEMBERS} has members, but no mark"));
        return Ok(report);
    }
    types.open(store)?;
    let Some(ready) = types.ready() else { return Ok(report) };
    // Each of the two keeps away servers that know no runs.
    let admits_runs = store.has_note_of_runs()
        || ready.members.get(MARK_KEY)?.is_some_and(|there| there == mark_entry(&ready.mark));
    let databases = Databases::of_store(store)?;
    for place in databases.existing() {
        let database = databases.number_of(place);
        each_pair(databases.map(place), Bounds::of_prefix(b""), |key, value| {
            if value.len() != HEADER_SIZE || !ready.has_mark(value) {
                return Ok(());
            }
            report.collections += 1;
            if value[MARK_SIZE] == Kind::List as u8 && !admits_runs {
                let what = "it may have runs, and neither the pool nor its mark says so: an older server would free \
                            them; start one of this version";
                report.add(database, key, what);
            }
            match ready.header(value) {
                Some(header) => {
                    Check { ready, place, database, key, header, report: &mut report }.run()
                }
                None => {
                    report.add(database, key, "its header is of no kind that there is");
                    Ok(())
                }
            }
        })?;
    }
    check_numbers(ready, &databases, &mut report)?;
    check_trimmed(ready, &databases, &mut report)?;
    Ok(report)
}

/// Each list that is noted for what is outside of its bounds has a note of its key, too: both go together.
fn check_trimmed(
    ready: &Ready,
    databases: &Databases,
    report: &mut CollectionReport,
) -> Result<()> {
    each_pair(&ready.members, Bounds::of_prefix(&TRIMMED.to_be_bytes()), |note, _| {
        let id = note.get(8..).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
        let mut is_noted = false;
        for place in databases.existing() {
            if let Some(id) = id {
                is_noted |= ready.members.contains(live_key(place, id))?;
            }
        }
        // A collector that runs may have ended it meanwhile, and its note first.
        if !is_noted && ready.members.contains(note)? {
            report.tell(format!("what is noted as trimmed is no list: {}", note.escape_ascii()));
        }
        Ok(())
    })
}

/// Each number under which members lie has a note (C7).
fn check_numbers(
    ready: &Ready,
    databases: &Databases,
    report: &mut CollectionReport,
) -> Result<()> {
    let all: Vec<MapNumber> = databases.existing().collect();
    let mut bounds = Bounds::of_prefix(b"");
    bounds.start = std::ops::Bound::Included((TRIMMED + 1).to_be_bytes().to_vec());
    loop {
        let mut found = None;
        walk(&ready.members, &bounds, false, |key, _| {
            found = Some(key.get(..8).map_or(key.to_vec(), <[u8]>::to_vec));
            ControlFlow::Break(())
        })?;
        let Some(prefix) = found else { return Ok(()) };
        let id = <[u8; 8]>::try_from(&prefix[..]).ok().map(u64::from_be_bytes);
        // The notes of the other databases lie between.
        let are_notes = all.iter().any(|place| Some(live_number(*place)) == id);
        let mut notes = 0;
        for place in all.iter().filter(|_| !are_notes) {
            if let Some(id) = id {
                notes += usize::from(ready.members.contains(live_key(*place, id))?);
            }
        }
        if notes > 1 {
            report.tell(format!("a collection is noted twice: {}", prefix.escape_ascii()));
        }
        if !are_notes && notes == 0 {
            report.tell(format!(
                "members under {} belong to no collection, and no note says so",
                prefix.escape_ascii()
            ));
        }
        match Bounds::of_prefix(&prefix).end {
            std::ops::Bound::Excluded(next) => bounds.start = std::ops::Bound::Included(next),
            _ => return Ok(()),
        }
    }
}

/// Shows each pair inside bounds to a function that may use the store.
fn each_pair(
    map: &Map,
    mut bounds: Bounds,
    mut see: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    loop {
        let (pairs, walked) = page_of(map, &mut bounds, PAGE);
        walked?;
        if pairs.is_empty() {
            return Ok(());
        }
        pairs.iter().try_for_each(|(key, value)| see(key, value))?;
    }
}

impl CollectionReport {
    fn add(&mut self, database: Database, key: &[u8], what: &str) {
        let place = match database {
            0 => String::new(),
            database => format!(" of database {database}"),
        };
        self.tell(format!("collection {}{place}: {what}", key.escape_ascii()));
    }

    fn tell(&mut self, problem: String) {
        if self.problems.len() < PROBLEM_COUNT_MAX {
            self.problems.push(problem);
        }
    }
}

/// The check of one collection.
struct Check<'a> {
    ready: &'a Ready,
    place: MapNumber,
    database: Database,
    key: &'a [u8],
    header: Header,
    report: &'a mut CollectionReport,
}

impl Check<'_> {
    fn run(mut self) -> Result<()> {
        let note = self.ready.members.get(live_key(self.place, self.header.id))?;
        match note {
            None => self.problem("it has no note, so its members would never be freed"),
            Some(note) if note != self.key => {
                self.problem(&format!("its note has another key: {}", note.escape_ascii()));
            }
            Some(_) => {}
        }
        let count = match self.header.kind {
            Kind::Hash | Kind::Set => self.members()?,
            Kind::SortedSet => self.sorted()?,
            Kind::List => self.elements()?,
        };
        self.report.members += count;
        if count != self.header.count || count == 0 {
            let told = self.header.count;
            self.problem(&format!("its header counts {told} members, and it has {count}"));
        }
        Ok(())
    }

    fn problem(&mut self, what: &str) {
        self.report.add(self.database, self.key, what);
    }

    fn prefix(&self) -> [u8; 8] {
        self.header.id.to_be_bytes()
    }

    /// Members by their hash (C3). Returns how many there are.
    fn members(&mut self) -> Result<u64> {
        let (ready, mut count) = (self.ready, 0);
        each_pair(&ready.members, Bounds::of_prefix(&self.prefix()), |key, value| {
            count += 1;
            if !self.is_in_place(key, 0) {
                self.problem(&format!("an entry is not where it belongs: {}", key.escape_ascii()));
            } else if self.header.kind == Kind::Set && !value.is_empty() {
                self.problem(&format!("a member of a set has a value: {}", key.escape_ascii()));
            }
            Ok(())
        })?;
        Ok(count)
    }

    /// Whether an entry lies at the hash of its member, without its lowest bits.
    fn is_in_place(&self, key: &[u8], shift: u32) -> bool {
        let place = key.get(8..16).and_then(|place| place.try_into().ok()).map(u64::from_be_bytes);
        let member = key.get(16..).unwrap_or(b"");
        place.is_some_and(|place| place == self.ready.hash_of(member) >> shift)
    }

    /// Elements by their index (C4). Returns how many there are.
    fn elements(&mut self) -> Result<u64> {
        let (ready, mut count, mut next) = (self.ready, 0, self.header.extra);
        let note = ready.members.get(trimmed_key(self.header.id))?;
        if note.is_some() && !self.header.has_outside {
            self.problem("a note says that it has elements outside of its bounds, and its header that it has none");
        }
        let is_trimmed = note.is_some_and(|what| what != LACKING);
        // What begins before that is gone, even if it ends inside: there is something else.
        let first = first_key(&ready.members, &self.header)?;
        let first = first.unwrap_or(EntryKey::before(self.header.id, self.header.extra).to_vec());
        each_pair(&ready.members, Bounds::of_prefix(&self.prefix()), |key, value| {
            let Some(place) = runs::ListEntry::of_key(key) else {
                self.problem(&format!("an entry is not where it belongs: {}", key.escape_ascii()));
                return Ok(());
            };
            let len = runs::len_of(value, place.is_run);
            let inside = runs::inside(&self.header, place, len.unwrap_or(0));
            let begins_inside = place.index.wrapping_sub(self.header.extra) < self.header.count;
            if key < first.as_slice() || inside.is_empty() && !begins_inside {
                if !is_trimmed {
                    let shown = key.escape_ascii();
                    self.problem(&format!("an entry is outside of its bounds: {shown}"));
                }
                return Ok(());
            }
            match len {
                None => {
                    let shown = key.escape_ascii();
                    self.problem(&format!("a run of elements cannot be read: {shown}"));
                }
                Some(len) if place.is_run && len < runs::LEN_MIN => {
                    let shown = key.escape_ascii();
                    self.problem(&format!("a run has {len} elements only: {shown}"));
                }
                Some(len) => {
                    let reaches = [inside.start > 0, inside.end < len];
                    let [left, right] = self.header.reaches;
                    if reaches[0] && !left || reaches[1] && !right {
                        let shown = key.escape_ascii();
                        self.problem(&format!("a run reaches out of its bounds: {shown}"));
                    }
                }
            }
            count += inside.len() as u64;
            let index = place.index.wrapping_add(inside.start as u64);
            if index != next {
                self.problem(&format!(
                    "the element behind number {} is missing",
                    next.wrapping_sub(1)
                ));
            }
            next = place.index.wrapping_add(inside.end as u64);
            Ok(())
        })?;
        Ok(count)
    }

    /// Members of a sorted set and their order (C3, C5, C6). Returns how many there are.
    fn sorted(&mut self) -> Result<u64> {
        let levels = self.header.extra;
        if levels > u64::from(LEVEL_MAX) {
            self.problem(&format!("its order has {levels} levels"));
            return Ok(self.header.count);
        }
        let mut levels = Levels::new(levels as u8);
        let (ready, mut count, mut position_count) = (self.ready, 0, 0);
        each_pair(&ready.members, Bounds::of_prefix(&self.prefix()), |key, value| {
            let Some(level) = key.get(8).and_then(|byte| byte.checked_sub(ORDER)) else {
                count += 1;
                return self.scored(key, value);
            };
            let place = key.get(9..).unwrap_or(b"");
            if level > 0 {
                levels.note(level, place, value);
                return Ok(());
            }
            position_count += 1;
            let Some(member) = place.get(8..) else {
                self.problem(&format!("a position is too short: {}", key.escape_ascii()));
                return Ok(());
            };
            let height = height_of(ready.hash_of(member));
            levels.pass(place, height);
            self.placed(place, member)
        })?;
        if count != position_count {
            self.problem(&format!("it has {count} members, and {position_count} positions"));
        }
        for problem in levels.problems() {
            self.problem(&problem);
        }
        Ok(count)
    }

    /// A member of a sorted set: it has a score, and that position.
    fn scored(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let member = key.get(16..).unwrap_or(b"");
        let shown = member.escape_ascii();
        if !self.is_in_place(key, 1) {
            self.problem(&format!("an entry is not where it belongs: {}", key.escape_ascii()));
            return Ok(());
        }
        let bits = value.try_into().map(u64::from_le_bytes);
        let Some(score) = bits.ok().map(f64::from_bits).filter(|score| !score.is_nan()) else {
            self.problem(&format!("the member {shown} has no score"));
            return Ok(());
        };
        let place = order_key(self.header.id, 0, &position(member, score));
        if !self.ready.members.contains(&place)? {
            self.problem(&format!("the member {shown} has no position of its score {score}"));
        }
        Ok(())
    }

    /// A position of a sorted set: its member is there, with that score.
    fn placed(&mut self, place: &[u8], member: &[u8]) -> Result<()> {
        let hash = self.ready.hash_of(member) >> 1;
        let key = [&self.prefix()[..], &hash.to_be_bytes(), member].concat();
        let value = self.ready.members.get(&key)?;
        let score = value.and_then(|value| value.try_into().ok()).map(u64::from_le_bytes);
        if score.map(f64::from_bits).is_none_or(|score| *position(member, score) != *place) {
            let shown = member.escape_ascii();
            self.problem(&format!("a position is not that of its member: {shown}"));
        }
        Ok(())
    }
}

/// The separators of a sorted set: those that there are, and those that there should be.
struct Levels {
    found: Vec<BTreeMap<Vec<u8>, u64>>,
    expected: Vec<BTreeMap<Vec<u8>, u64>>,
    /// The last separator of each level.
    last: Vec<Vec<u8>>,
    problems: Vec<String>,
}

impl Levels {
    fn new(count: u8) -> Self {
        let count = usize::from(count);
        let start = BTreeMap::from([(Vec::new(), 0)]);
        Levels {
            found: vec![BTreeMap::new(); count],
            expected: vec![start; count],
            last: vec![Vec::new(); count],
            problems: Vec::new(),
        }
    }

    /// A separator as it is.
    fn note(&mut self, level: u8, place: &[u8], value: &[u8]) {
        match (self.found.get_mut(usize::from(level) - 1), value.try_into()) {
            (Some(found), Ok(count)) => {
                found.insert(place.to_vec(), u64::from_le_bytes(count));
            }
            (Some(_), Err(_)) => {
                self.problems.push(format!("level {level} has no number at a place"))
            }
            (None, _) => {
                self.problems.push(format!("it has entries of level {level}, which it has not"))
            }
        }
    }

    /// A member, in order.
    fn pass(&mut self, place: &[u8], height: u8) {
        if usize::from(height) > self.expected.len() {
            self.problems.push(format!("a member belongs to level {height}, which it has not"));
        }
        for (level, expected) in self.expected.iter_mut().enumerate() {
            if level < usize::from(height) {
                self.last[level] = place.to_vec();
            }
            *expected.entry(self.last[level].clone()).or_default() += 1;
        }
    }

    fn problems(self) -> Vec<String> {
        let mut problems = self.problems;
        for (index, (found, expected)) in self.found.iter().zip(&self.expected).enumerate() {
            let level = index + 1;
            let shown = |place: &[u8]| match place.get(8..) {
                Some(member) => format!("the separator {}", member.escape_ascii()),
                None => "the start".to_string(),
            };
            for (place, count) in expected {
                match found.get(place) {
                    None => problems.push(format!("level {level} has not {}", shown(place))),
                    Some(found) if found != count => problems.push(format!(
                        "on level {level}, {} counts {found} members, and there are {count}",
                        shown(place)
                    )),
                    Some(_) => {}
                }
            }
            for place in found.keys().filter(|place| !expected.contains_key(*place)) {
                problems.push(format!("level {level} has {}, which is none", shown(place)));
            }
        }
        problems
    }
}
