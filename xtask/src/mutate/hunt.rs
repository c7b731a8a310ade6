//! Hunts sites: short searches of all of them first, then longer ones of those that are left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::thread;

use super::build::age;
use super::search::{Program, Searched};
use super::site::{Key, Site};
use super::table::{Row, Table, Verdict};

/// The rounds, up to the bound: CPU seconds of a search, and how many structures are searched for a site.
const ROUNDS: [(f64, usize); 4] = [(0.5, 1), (3.0, 2), (15.0, 2), (60.0, 3)];
/// CPU seconds of a search that notes which sites it meets.
const MEETING: f64 = 6.0;
/// Structures whose programs have no simulated machine below them: no line is lost there, and no order is drawn.
const UNSIMULATED: [&str; 2] = ["log", "store"];
/// The table is written after so many searches.
const WRITTEN: usize = 8;

/// What is hunted, and how.
pub struct Hunt<'a> {
    pub program: Program,
    pub sites: &'a [Site],
    /// What has become of those that were hunted now.
    pub rows: BTreeMap<Key, Row>,
    /// The table as it is kept.
    pub table: Table,
    /// Where the table is.
    pub page: PathBuf,
    /// Where what was met is kept.
    pub folder: PathBuf,
    /// CPU seconds that one search may take.
    pub bound: f64,
    /// Rounds of fewer CPU seconds are left out.
    pub from: f64,
    pub seed: u64,
    /// So many searches at the same time.
    pub jobs: usize,
    /// What was found before, within the bound, and is not now.
    pub lost: BTreeSet<Key>,
}

/// The structures that meet each site, those of whose searches it is the greatest part first.
pub type Meetings = BTreeMap<usize, Vec<String>>;

impl Hunt<'_> {
    /// Which structures, of these or of all, meet which sites.
    ///
    /// # Errors
    /// A search fails although nothing is switched on.
    pub fn meetings(&self, only: &[String]) -> Result<Meetings, String> {
        let structures = self.program.structures()?.into_iter();
        let structures: Vec<String> =
            structures.filter(|name| only.is_empty() || only.contains(name)).collect();
        if structures.is_empty() {
            return Err(format!("there is no structure {}", only.join(", ")));
        }
        let mut met_by = vec![];
        at_once(
            self.jobs,
            &structures,
            |name| self.met(name),
            |name, met| {
                met_by.push((name.clone(), met?));
                Ok(())
            },
        )?;
        Ok(ranked(met_by))
    }

    /// The sites that a structure meets, searched or as they were kept since the program was compiled.
    fn met(&self, structure: &str) -> Result<Vec<(usize, u64)>, String> {
        let kept = self.folder.join(structure);
        if age(&kept) > age(&self.program.0)
            && let Ok(text) = fs::read_to_string(&kept)
        {
            let pair = |line: &str| {
                let (site, count) = line.split_once(' ')?;
                Some((site.parse().ok()?, count.parse().ok()?))
            };
            return Ok(text.lines().filter_map(pair).collect());
        }
        let searched = self.program.search(structure, MEETING, self.seed, None)?;
        if let Some(found) = searched.found {
            return Err(format!("{structure} fails with nothing switched on: {found}"));
        }
        println!("{structure} meets {} sites", searched.met.len());
        let line = |(site, count): &(usize, u64)| format!("{site} {count}\n");
        let lines: String = searched.met.iter().map(line).collect();
        let written = fs::create_dir_all(&self.folder).and_then(|()| fs::write(&kept, lines));
        written.map_err(|error| format!("cannot write {}: {error}", kept.display()))?;
        Ok(searched.met)
    }

    /// Hunts these sites, round by round.
    ///
    /// # Errors
    /// A search cannot be run, or the table not be written.
    pub fn run(&mut self, chosen: &[usize], meetings: &Meetings) -> Result<(), String> {
        let (reached, not): (Vec<usize>, Vec<usize>) =
            chosen.iter().partition(|site| meetings.contains_key(site));
        for site in not {
            let (structures, seconds) = (String::new(), MEETING);
            self.put(site, Verdict::NotReached { structures, seconds });
        }
        let mut left: BTreeSet<usize> = reached.into_iter().collect();
        for (seconds, wanted) in rounds(self.from, self.bound) {
            println!("{} sites, {seconds} CPU seconds each, {wanted} structures", left.len());
            let sites: Vec<usize> = left.iter().copied().collect();
            let mut done = 0;
            let program = Program(self.program.0.clone());
            let (jobs, seed) = (self.jobs, self.seed);
            let search = |site: &usize| {
                let structures = meetings[site].iter().take(wanted);
                program.hunt(*site, structures, seconds, seed)
            };
            at_once(jobs, &sites, search, |site, verdict| {
                let verdict = verdict?;
                if matches!(verdict, Verdict::Found { .. }) {
                    left.remove(site);
                }
                self.put(*site, verdict);
                done += 1;
                if done % WRITTEN == 0 { self.write() } else { Ok(()) }
            })?;
        }
        self.write()
    }

    fn put(&mut self, site: usize, verdict: Verdict) {
        let site = &self.sites[site];
        if matches!(verdict, Verdict::Found { .. }) {
            self.lost.remove(&site.key);
        } else {
            println!("{}: {} ({}:{})", shown(&verdict), site.key, site.text, site.line);
            if let Some(Row { text, verdict: Verdict::Found { seconds, .. } }) =
                self.table.0.get(&site.key)
                && *text == site.text
            {
                // A shorter search says nothing.
                if *seconds >= self.bound {
                    return;
                }
                self.lost.insert(site.key.clone());
            }
        }
        self.rows.insert(site.key.clone(), Row { text: site.text.clone(), verdict });
    }

    /// Writes what was hunted now into the table, which another hunt may have changed meanwhile; what is not in the
    /// sources any more is left out.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn write(&mut self) -> Result<(), String> {
        let known: BTreeSet<&Key> = self.sites.iter().map(|site| &site.key).collect();
        let mut table = Table::read(&self.page)?;
        table.0.retain(|key, _| known.contains(key));
        table.0.extend(self.rows.clone());
        table.write(&self.page)?;
        self.table = table;
        Ok(())
    }

    /// Puts the arguments into the table, also those for sites that were never hunted; those whose site was found
    /// after all are wrong.
    pub fn argue(&mut self, arguments: &BTreeMap<Key, String>) -> Vec<Key> {
        let mut wrong = vec![];
        for Site { key, text, .. } in self.sites {
            let Some(why) = arguments.get(key) else { continue };
            if let Some(Row { verdict: Verdict::Found { .. }, .. }) = self.table.0.get(key) {
                wrong.push(key.clone());
                continue;
            }
            let verdict = Verdict::Equivalent { why: why.clone() };
            self.rows.insert(key.clone(), Row { text: text.clone(), verdict });
        }
        wrong
    }
}

impl Program {
    /// Searches these structures for a site, each for so many CPU seconds.
    fn hunt<'n>(
        &self,
        site: usize,
        structures: impl Iterator<Item = &'n String>,
        seconds: f64,
        seed: u64,
    ) -> Result<Verdict, String> {
        let (mut names, mut is_met) = (vec![], false);
        for structure in structures {
            let Searched { found, schedules, seconds, met } =
                self.search(structure, seconds, seed, Some(site))?;
            if let Some(how) = found {
                let structure = structure.clone();
                return Ok(Verdict::Found { structure, schedules, seconds, how });
            }
            is_met |= !met.is_empty();
            names.push(structure.as_str());
        }
        let structures = names.join(" ");
        Ok(match is_met {
            true => Verdict::Missed { structures, seconds },
            false => Verdict::NotReached { structures, seconds },
        })
    }
}

/// Which structures meet each site, in the order in which they are asked for it. Not those that meet it most often
/// come first: what all trees stand on, its own programs look at most closely, and they are not the fastest.
fn ranked(met_by: Vec<(String, Vec<(usize, u64)>)>) -> Meetings {
    let mut shares = BTreeMap::<usize, Vec<(bool, f64, String)>>::new();
    for (name, met) in met_by {
        let all: u64 = met.iter().map(|(_, count)| count).sum();
        let is_late = UNSIMULATED.contains(&name.as_str());
        for (site, count) in met {
            let share = count as f64 / all as f64;
            shares.entry(site).or_default().push((is_late, -share, name.clone()));
        }
    }
    let names = |mut of_site: Vec<(bool, f64, String)>| {
        of_site.sort_by(|one, other| {
            let by_share = one.0.cmp(&other.0).then(one.1.total_cmp(&other.1));
            by_share.then_with(|| one.2.cmp(&other.2))
        });
        of_site.into_iter().map(|(_, _, name)| name).collect()
    };
    shares.into_iter().map(|(site, of_site)| (site, names(of_site))).collect()
}

/// Does something with each of them, so many at the same time, and then something with what has come of it, in this
/// thread and in the order in which they are done; the first error ends it.
fn at_once<T: Sync, R: Send>(
    jobs: usize,
    all: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut with: impl FnMut(&T, R) -> Result<(), String>,
) -> Result<(), String> {
    let next = Mutex::new(0..all.len());
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (next, work, sender) = (&next, &work, sender.clone());
            scope.spawn(move || {
                loop {
                    let index = next.lock().expect("nobody panics with it").next();
                    let Some(index) = index else { break };
                    if sender.send((index, work(&all[index]))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let all_done = receiver.iter().try_for_each(|(index, done)| with(&all[index], done));
        // A thread that is still at work finds nobody to tell.
        drop(receiver);
        all_done
    })
}

fn shown(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Found { .. } => "found".into(),
        Verdict::Missed { structures, seconds } => format!("missed in {seconds} s of {structures}"),
        Verdict::NotReached { structures, .. } if structures.is_empty() => "not reached".into(),
        Verdict::NotReached { structures, seconds } => {
            format!("not reached in {seconds} s of {structures}")
        }
        Verdict::Equivalent { .. } => "equivalent".into(),
    }
}

/// The rounds that are not shorter than that, up to a bound.
fn rounds(from: f64, bound: f64) -> Vec<(f64, usize)> {
    let shorter = ROUNDS.into_iter().filter(|(seconds, _)| (from..bound).contains(seconds));
    let behind = ROUNDS.into_iter().find(|(seconds, _)| *seconds >= bound);
    shorter.chain([(bound, behind.unwrap_or(ROUNDS[ROUNDS.len() - 1]).1)]).collect()
}
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_left_is_searched_longer_and_in_more_structures() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("rule");
        // Site 0 is found at once, 1 in the second structure only, 2 never, 3 is not met, and 4 makes no difference.
        let script = r#"#!/bin/sh
case "$1 $4" in
" ") echo a; echo b ;;
"a met") echo '{"met":[[0,5],[1,2],[2,2]]}' ;;
"b met") echo '{"met":[[0,1],[1,1],[2,1],[4,1],[9,1]]}' ;;
"a 0" | "b 1") echo '{"kind":"lost","message":"m","program":"p","schedules":5,"seconds":0.5}' ;;
"b 4") echo '{"seconds":1,"met":[]}' ;;
*) echo '{"seconds":1,"met":[[2,1]]}' ;;
esac
"#;
        fs::write(&program, script).expect("it is written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let text = "fn f(a: u64) -> bool { a < 1 && a < 2 && a < 3 && a < 4 && a < 5 && a < 6 }";
        let sites = super::super::rules::sites_of("a.rs", text).expect("it is Rust");
        let mut hunt = Hunt {
            program: Program(program),
            sites: &sites,
            rows: BTreeMap::new(),
            table: Table::default(),
            page: folder.path().join("a.csv"),
            folder: folder.path().join("met"),
            bound: 4.0,
            from: 0.0,
            seed: 1,
            jobs: 2,
            lost: BTreeSet::new(),
        };
        let meetings = hunt.meetings(&[]).expect("they are told");
        assert_eq!(meetings[&0], ["a", "b"]);
        assert_eq!(meetings[&9], ["b"]);
        hunt.run(&[0, 1, 2, 3, 4], &meetings).expect("it can be run");
        let found_by = |site: usize| match &hunt.table.0[&sites[site].key].verdict {
            Verdict::Found { structure, .. } => structure.clone(),
            other => shown(other),
        };
        assert_eq!(found_by(0), "a");
        assert_eq!(found_by(1), "b");
        assert_eq!(found_by(2), "missed in 4 s of a b");
        assert_eq!(found_by(3), "not reached");
        assert_eq!(found_by(4), "not reached in 4 s of b");
        assert_eq!(Table::read(&hunt.page), Ok(hunt.table.clone()));
        // What was found before and is not any more is told.
        hunt.run(&[2], &Meetings::from([(2, vec!["a".into()])])).expect("it can be run");
        assert!(hunt.lost.is_empty());
        let found = hunt.table.0[&sites[0].key].clone();
        let row = Row { text: sites[2].text.clone(), ..found };
        hunt.rows.insert(sites[2].key.clone(), row);
        hunt.write().expect("it is written");
        hunt.run(&[2], &Meetings::from([(2, vec!["a".into()])])).expect("it can be run");
        assert_eq!(hunt.lost, BTreeSet::from([sites[2].key.clone()]));
        let why = |site: usize| (sites[site].key.clone(), "so".to_string());
        let wrong = hunt.argue(&BTreeMap::from([why(0), why(2), why(5)]));
        assert_eq!(wrong, [sites[0].key.clone()]);
        hunt.write().expect("it is written");
        assert_eq!(hunt.table.counts(), [6, 2, 0, 2, 2]);
    }

    #[test]
    fn whose_search_it_is_most_of_is_asked_first() {
        let met = |name: &str, sites: &[(usize, u64)]| (name.to_string(), sites.to_vec());
        // The tree is faster, and the store has no flush to lose.
        let all = [
            met("alloc", &[(1, 30), (2, 10)]),
            met("nbtree", &[(1, 90), (2, 810), (3, 900)]),
            met("store", &[(1, 500)]),
        ];
        let meetings = ranked(all.to_vec());
        assert_eq!(meetings[&1], ["alloc", "nbtree", "store"]);
        assert_eq!(meetings[&2], ["nbtree", "alloc"]);
        assert_eq!(meetings[&3], ["nbtree"]);
    }

    #[test]
    fn rounds_end_with_the_bound() {
        assert_eq!(rounds(0.0, 60.0), ROUNDS);
        assert_eq!(rounds(0.0, 0.2), [(0.2, 1)]);
        assert_eq!(rounds(0.0, 20.0), [(0.5, 1), (3.0, 2), (15.0, 2), (20.0, 3)]);
        assert_eq!(rounds(15.0, 60.0), [(15.0, 2), (60.0, 3)]);
        assert_eq!(rounds(30.0, 20.0), [(20.0, 3)]);
    }
}
