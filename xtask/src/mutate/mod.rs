//! `cargo xtask mutate`: bugs by rule. Each flush, ordering, check, bound and step of the real code becomes a
//! site with a switch, in a copy of the sources below `target`; the prover searches with one of them on at a
//! time, and a table is kept of what found it.

mod arguments;
mod build;
mod copy;
mod edits;
mod few;
mod hunt;
mod rules;
mod search;
mod site;
mod spread;
mod table;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::SystemTime;

use copy::Sources;
use hunt::Hunt;
use search::Program;
use site::{KINDS, Site};
use spread::spread;
use table::{Table, Verdict};

const USAGE: &str = "\
usage: cargo xtask mutate list|build|run [arguments]

  list   the sites, and how many there are in each folder and of each kind
  build  compiles the prover in a copy of the sources, where each site has a switch
  run    builds, then searches with one site switched on at a time; what comes of it is kept in
         docs/results/rule-mutants.csv

  --at TEXT        only sites whose name contains it: a file, a function, a kind (may be repeated)
  --structure S    searched in this structure and others that are named so; only they are compiled, which takes
                   minutes less; without --at, only sites that they meet
  --sample N       N of them, spread over all
  --seed K         another sample, and other searches [1]
  --cpu SECONDS    the most that one search may take [60]
  --from SECONDS   no shorter searches: for what was missed in those [0]
  --jobs N         so many searches at the same time [1]
  --again          those that were found before, too
  --left           only those that were missed or not reached before; --missed without the latter
  --argued         also those for which it is argued that nobody can find them
  --no-build       with what was compiled before, from the same sources";

/// Where the table is.
const PAGE: &str = "docs/results/rule-mutants.csv";

/// A long run of so many seconds for each search hunts one site more, between these bounds.
const SECONDS_A_SITE: u32 = 60;
const SITES_LEAST: u32 = 10;
const SITES_MOST: u32 = 40;

#[derive(Default)]
struct Arguments {
    at: Vec<String>,
    structures: Vec<String>,
    sample: Option<usize>,
    seed: u64,
    cpu: f64,
    from: f64,
    jobs: usize,
    again: bool,
    left: bool,
    missed: bool,
    argued: bool,
    no_build: bool,
}

/// Does what is asked for; true if nothing is missed that was found before.
pub fn run(root: &Path, arguments: &[String]) -> bool {
    let done = match arguments.split_first() {
        Some((what, rest)) => parse(rest).and_then(|arguments| match what.as_str() {
            "list" => list(root, &arguments),
            "build" => {
                Sources::read(root).and_then(|sources| make(&sources, &arguments)).map(|_| true)
            }
            "run" => hunt(root, &arguments),
            _ => Err(USAGE.into()),
        }),
        None => Err(USAGE.into()),
    };
    done.unwrap_or_else(|what| {
        eprintln!("xtask: {what}");
        false
    })
}

/// The share of a long run: so many sites by its length, others each day. Fails if one is missed that was found
/// before.
pub fn share(root: &Path, seconds: u32) -> bool {
    let days = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let day = days.map_or(0, |since| since.as_secs() / (24 * 60 * 60));
    let sites = (seconds / SECONDS_A_SITE).clamp(SITES_LEAST, SITES_MOST);
    let words = format!("run --again --sample {sites} --seed {day} --cpu 8");
    println!("$ cargo xtask mutate {words}");
    run(root, &words.split(' ').map(str::to_string).collect::<Vec<_>>())
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments { seed: 1, cpu: 60.0, jobs: 1, ..Arguments::default() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or(format!("{word} needs a value\n{USAGE}"));
        let wrong = |value: String| format!("{word} {value}: that is no number");
        match word.as_str() {
            "--at" => arguments.at.push(value()?),
            "--structure" => arguments.structures.push(value()?),
            "--sample" => {
                let value = value()?;
                arguments.sample = Some(value.parse().map_err(|_| wrong(value))?);
            }
            "--seed" => {
                let value = value()?;
                arguments.seed = value.parse().map_err(|_| wrong(value))?;
            }
            "--cpu" => {
                let value = value()?;
                let seconds: f64 = value.parse().map_err(|_| wrong(value.clone()))?;
                arguments.cpu = Some(seconds).filter(|one| *one > 0.0).ok_or(wrong(value))?;
            }
            "--from" => {
                let value = value()?;
                arguments.from = value.parse().map_err(|_| wrong(value))?;
            }
            "--jobs" => {
                let value = value()?;
                let jobs = value.parse().ok().filter(|jobs| *jobs > 0);
                arguments.jobs = jobs.ok_or_else(|| wrong(value))?;
            }
            "--again" => arguments.again = true,
            "--left" => arguments.left = true,
            "--missed" => arguments.missed = true,
            "--argued" => arguments.argued = true,
            "--no-build" => arguments.no_build = true,
            _ => return Err(format!("there is no argument {word}\n{USAGE}")),
        }
    }
    Ok(arguments)
}

/// The folder of a crate that a site is in, or the file if it is in none.
fn folder_of(site: &Site) -> &str {
    let file = site.key.file.strip_prefix("crates/").unwrap_or(&site.key.file);
    let parts: Vec<usize> = file.match_indices('/').map(|(at, _)| at).collect();
    &file[..parts.get(2).or(parts.get(1)).copied().unwrap_or(file.len())]
}

fn list(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let sources = Sources::read(root)?;
    let (mut folders, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    let chosen = sources.sites.iter().filter(|site| is_asked_for(site, arguments));
    let mut count = 0;
    for site in chosen {
        println!("{}  line {}: {}", site.key, site.line, site.text);
        *folders.entry(folder_of(site)).or_insert(0) += 1;
        *kinds.entry(site.key.kind).or_insert(0) += 1;
        count += 1;
    }
    println!();
    for (folder, count) in folders {
        println!("{count:6} {folder}");
    }
    println!();
    for kind in KINDS {
        println!("{:6} {kind}", kinds.get(&kind).copied().unwrap_or(0));
    }
    println!("{count:6} sites");
    Ok(true)
}

fn is_asked_for(site: &Site, arguments: &Arguments) -> bool {
    let name = site.key.to_string();
    arguments.at.is_empty() || arguments.at.iter().any(|part| name.contains(part))
}

/// The program, and which sites are in it.
fn make(
    sources: &Sources,
    arguments: &Arguments,
) -> Result<(Program, BTreeSet<site::Key>), String> {
    if arguments.no_build {
        let built = build::built_before(sources, &arguments.structures);
        return Ok((Program(built.program), built.left_out));
    }
    let built = build::build(sources, &arguments.structures)?;
    let compiled = sources.sites.len() - built.left_out.len();
    println!("{compiled} sites; {} more do not compile", built.left_out.len());
    for key in &built.left_out {
        println!("  {key}");
    }
    Ok((Program(built.program), built.left_out))
}

fn hunt(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let sources = Sources::read(root)?;
    let reasons = arguments::parse(arguments::KEPT, sources.sites.iter().map(|site| &site.key))?;
    let (program, left_out) = make(&sources, arguments)?;
    let page = root.join(PAGE);
    let table = Table::read(&page)?;
    let mut hunt = Hunt {
        program,
        sites: &sources.sites,
        rows: BTreeMap::new(),
        table,
        page,
        folder: root.join("target/mutate/met"),
        bound: arguments.cpu,
        from: arguments.from,
        seed: arguments.seed,
        jobs: arguments.jobs,
        lost: BTreeSet::new(),
    };
    let meetings = hunt.meetings(&arguments.structures)?;
    let is_wanted = |number: &usize| {
        let site = &sources.sites[*number];
        let row = hunt.table.0.get(&site.key);
        let is_found = row.is_some_and(|row| {
            matches!(row.verdict, Verdict::Found { .. }) && row.text == site.text
        });
        is_asked_for(site, arguments)
            && !left_out.contains(&site.key)
            && (arguments.structures.is_empty()
                || !arguments.at.is_empty()
                || meetings.contains_key(number))
            && (arguments.again || !is_found)
            && (!arguments.left || row.is_some())
            && (!arguments.missed
                || row.is_some_and(|row| matches!(row.verdict, Verdict::Missed { .. })))
            && (arguments.argued || !reasons.contains_key(&site.key))
    };
    let mut chosen: Vec<usize> = (0..sources.sites.len()).filter(is_wanted).collect();
    if let Some(count) = arguments.sample {
        chosen
            .sort_by_key(|number| spread(arguments.seed, &sources.sites[*number].key.to_string()));
        chosen.truncate(count);
    }
    hunt.run(&chosen, &meetings)?;
    let wrong = hunt.argue(&reasons);
    hunt.write()?;
    for key in &wrong {
        println!("argued to be no bug, and found: {key}");
    }
    let missed = |number: &&usize| {
        let row = hunt.rows.get(&sources.sites[**number].key);
        row.is_some_and(|row| matches!(row.verdict, Verdict::Missed { .. }))
    };
    let missed = chosen.iter().filter(missed).count();
    let [all, found, unfound, unmet, argued] = hunt.table.counts();
    println!("{} sites hunted now, {missed} missed", chosen.len());
    println!(
        "of {all} in the table {found} found, {unfound} missed, {unmet} not reached, {argued} argued"
    );
    for key in &hunt.lost {
        println!("found before, and not now: {key}");
    }
    Ok(hunt.lost.is_empty() && wrong.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_wrong_ones_named() {
        let read = |text: &str| parse(&text.split(' ').map(str::to_string).collect::<Vec<_>>());
        let all = read("--at a --at b --sample 5 --seed 3 --cpu 2.5 --from 1 --again")
            .expect("they are right");
        assert_eq!(all.at, ["a", "b"]);
        assert_eq!((all.sample, all.seed, all.cpu, all.again), (Some(5), 3, 2.5, true));
        assert_eq!((all.from, all.left, all.missed), (1.0, false, false));
        for wrong in ["--cpu", "--cpu 0", "--jobs 0", "--sample x", "--never"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
