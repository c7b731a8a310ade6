//! Hunts sites: short searches of all of them first, then longer ones of those that are left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::thread;

use super::build::age;
use super::search::Program;
use super::site::{Key, Site};
use super::table::{Row, Table, Verdict};

/// CPU seconds of the searches, round by round, up to the bound.
const ROUNDS: [f64; 5] = [0.25, 2.0, 8.0, 30.0, 60.0];
/// So many structures are searched for a site, in the first round and in the others.
const STRUCTURES: [usize; 2] = [1, 3];
/// CPU seconds of a search that notes which sites it meets, if others may take as much.
const MEETING: f64 = 6.0;
/// The table is written after so many searches.
const WRITTEN: usize = 16;

/// What is hunted, and how.
pub struct Hunt<'a> {
    pub program: Program,
    pub sites: &'a [Site],
    pub table: Table,
    /// Where the table is.
    pub page: PathBuf,
    /// Where what was met is kept.
    pub folder: PathBuf,
    /// CPU seconds that one search may take.
    pub bound: f64,
    pub seed: u64,
    /// So many searches at the same time.
    pub jobs: usize,
    /// What was found before, within the bound, and is not now.
    pub lost: BTreeSet<Key>,
}

/// The structures that meet each site, those that meet few sites first.
pub type Meetings = BTreeMap<usize, Vec<String>>;

impl Hunt<'_> {
    /// Which structures, of these or of all, meet which sites.
    ///
    /// # Errors
    /// A search fails although nothing is switched on.
    pub fn meetings(&self, only: &[String]) -> Result<Meetings, String> {
        let mut of_structures = vec![];
        for structure in self.program.structures()? {
            if only.is_empty() || only.contains(&structure) {
                of_structures.push((self.met(&structure)?, structure));
            }
        }
        if of_structures.is_empty() {
            return Err(format!("there is no structure {}", only.join(", ")));
        }
        of_structures.sort_by_key(|(met, _)| met.len());
        let mut meetings = Meetings::new();
        for (met, structure) in of_structures {
            for site in met {
                meetings.entry(site).or_default().push(structure.clone());
            }
        }
        Ok(meetings)
    }

    /// The sites that a structure meets, searched or as they were kept since the program was compiled.
    fn met(&self, structure: &str) -> Result<Vec<usize>, String> {
        let kept = self.folder.join(structure);
        if age(&kept) > age(&self.program.0)
            && let Ok(text) = fs::read_to_string(&kept)
        {
            return Ok(text.lines().filter_map(|line| line.parse().ok()).collect());
        }
        let searched = self.program.search(structure, MEETING.min(self.bound), self.seed, None)?;
        if let Some(found) = searched.found {
            return Err(format!("{structure} fails with nothing switched on: {found}"));
        }
        println!("{structure} meets {} sites", searched.met.len());
        let lines: String = searched.met.iter().map(|site| format!("{site}\n")).collect();
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
            self.put(site, Verdict::NotReached);
        }
        let mut left: BTreeSet<usize> = reached.into_iter().collect();
        for (round, seconds) in rounds(self.bound).into_iter().enumerate() {
            println!("{} sites, {seconds} CPU seconds each", left.len());
            let wanted = STRUCTURES[round.min(1)];
            let sites: Vec<usize> = left.iter().copied().collect();
            for (done, some) in sites.chunks(self.jobs).enumerate() {
                for (site, verdict) in self.search_at_once(some, meetings, wanted, seconds)? {
                    if matches!(verdict, Verdict::Found { .. }) {
                        left.remove(&site);
                    }
                    self.put(site, verdict);
                }
                if done % WRITTEN == 0 {
                    self.table.write(&self.page)?;
                }
            }
        }
        self.table.write(&self.page)
    }

    /// Searches for some sites, each in a process of its own, all at the same time.
    fn search_at_once(
        &self,
        sites: &[usize],
        meetings: &Meetings,
        wanted: usize,
        seconds: f64,
    ) -> Result<Vec<(usize, Verdict)>, String> {
        let search = |site: usize| {
            let structures: Vec<&String> = meetings[&site].iter().take(wanted).collect();
            self.search(site, &structures, seconds).map(|verdict| (site, verdict))
        };
        thread::scope(|scope| {
            let search = &search;
            let spawn = |site: &usize| {
                let site = *site;
                scope.spawn(move || search(site))
            };
            let begun: Vec<_> = sites.iter().map(spawn).collect();
            let wait =
                |one: thread::ScopedJoinHandle<'_, _>| one.join().expect("it has not panicked");
            begun.into_iter().map(wait).collect()
        })
    }

    fn search(&self, site: usize, structures: &[&String], seconds: f64) -> Result<Verdict, String> {
        for structure in structures {
            let searched = self.program.search(structure, seconds, self.seed, Some(site))?;
            if let Some(how) = searched.found {
                let (schedules, seconds) = (searched.schedules, searched.seconds);
                let structure = (*structure).clone();
                return Ok(Verdict::Found { structure, schedules, seconds, how });
            }
        }
        let names: Vec<_> = structures.iter().map(|name| name.as_str()).collect();
        Ok(Verdict::Missed { structures: names.join(" "), seconds })
    }

    fn put(&mut self, site: usize, verdict: Verdict) {
        let site = &self.sites[site];
        if !matches!(verdict, Verdict::Found { .. }) {
            println!("{}: {} ({}:{})", shown(&verdict), site.key, site.text, site.line);
        }
        let row = Row { text: site.text.clone(), verdict };
        if let Some(Row { text, verdict: Verdict::Found { seconds, .. } }) =
            self.table.0.get(&site.key)
            && *text == site.text
            && !matches!(row.verdict, Verdict::Found { .. })
        {
            // A shorter search says nothing.
            if *seconds >= self.bound {
                return;
            }
            self.lost.insert(site.key.clone());
        }
        if matches!(row.verdict, Verdict::Found { .. }) {
            self.lost.remove(&site.key);
        }
        self.table.0.insert(site.key.clone(), row);
    }

    /// Puts the arguments into the table; those whose site was found after all are wrong.
    pub fn argue(&mut self, arguments: &BTreeMap<Key, String>) -> Vec<Key> {
        let mut wrong = vec![];
        for (key, why) in arguments {
            match self.table.0.get_mut(key) {
                Some(Row { verdict: Verdict::Found { .. }, .. }) => wrong.push(key.clone()),
                Some(row) => row.verdict = Verdict::Equivalent { why: why.clone() },
                None => {}
            }
        }
        wrong
    }
}

fn shown(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Found { .. } => "found".into(),
        Verdict::Missed { structures, seconds } => format!("missed in {seconds} s of {structures}"),
        Verdict::NotReached => "not reached".into(),
        Verdict::Equivalent { .. } => "equivalent".into(),
    }
}

/// The CPU seconds of each round, up to a bound.
fn rounds(bound: f64) -> Vec<f64> {
    let shorter = ROUNDS.into_iter().filter(|seconds| *seconds < bound);
    shorter.chain([bound]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_left_is_searched_longer_and_in_more_structures() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("rule");
        // Site 0 is found at once, 1 in the second structure only, 2 never, 3 is not met.
        let script = r#"#!/bin/sh
case "$1 $4" in
" ") echo a; echo b ;;
"a met") echo '{"met":[0,1,2]}' ;;
"b met") echo '{"met":[0,1,2,9]}' ;;
"a 0" | "b 1") echo '{"kind":"lost","message":"m","program":"p","schedules":5,"seconds":0.5}' ;;
*) echo '{"seconds":1}' ;;
esac
"#;
        fs::write(&program, script).expect("it is written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let text = "fn f(a: u64) -> bool { a < 1 && a < 2 && a < 3 && a < 4 }";
        let sites = super::super::rules::sites_of("a.rs", text).expect("it is Rust");
        let mut hunt = Hunt {
            program: Program(program),
            sites: &sites,
            table: Table::default(),
            page: folder.path().join("a.csv"),
            folder: folder.path().join("met"),
            bound: 4.0,
            seed: 1,
            jobs: 2,
            lost: BTreeSet::new(),
        };
        let meetings = hunt.meetings(&[]).expect("they are told");
        assert_eq!(meetings[&0], ["a", "b"]);
        assert_eq!(meetings[&9], ["b"]);
        hunt.run(&[0, 1, 2, 3], &meetings).expect("it can be run");
        let found_by = |site: usize| match &hunt.table.0[&sites[site].key].verdict {
            Verdict::Found { structure, .. } => structure.clone(),
            other => shown(other),
        };
        assert_eq!(found_by(0), "a");
        assert_eq!(found_by(1), "b");
        assert_eq!(found_by(2), "missed in 4 s of a b");
        assert_eq!(found_by(3), "not reached");
        assert_eq!(Table::read(&hunt.page), Ok(hunt.table.clone()));
        // What was found before and is not any more is told.
        hunt.run(&[2], &Meetings::from([(2, vec!["a".into()])])).expect("it can be run");
        assert!(hunt.lost.is_empty());
        let found = hunt.table.0[&sites[0].key].clone();
        let row = Row { text: sites[2].text.clone(), ..found };
        hunt.table.0.insert(sites[2].key.clone(), row);
        hunt.run(&[2], &Meetings::from([(2, vec!["a".into()])])).expect("it can be run");
        assert_eq!(hunt.lost, BTreeSet::from([sites[2].key.clone()]));
        let why = |site: usize| (sites[site].key.clone(), "so".to_string());
        let wrong = hunt.argue(&BTreeMap::from([why(0), why(2)]));
        assert_eq!(wrong, [sites[0].key.clone()]);
        assert_eq!(hunt.table.counts(), [4, 2, 0, 1, 1]);
    }

    #[test]
    fn rounds_end_with_the_bound() {
        assert_eq!(rounds(60.0), [0.25, 2.0, 8.0, 30.0, 60.0]);
        assert_eq!(rounds(0.2), [0.2]);
        assert_eq!(rounds(20.0), [0.25, 2.0, 8.0, 20.0]);
    }
}
