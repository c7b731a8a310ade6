//! `everleaf-lab prove STRUCTURE --faults`: a fault in every access in turn, and which program finds it.

use super::args::{ProveArgs, structures_of};
use super::page::{Part, replaced};
use super::show;
use everleaf_cli::exit_code::ExitCode;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use everleaf_prove::case::structure::Structure;
use everleaf_prove::hunt::arguments::{Argument, KEPT, Sources, argued, parse};
use everleaf_prove::hunt::mutation::{STEPS, faults_of, spread};
use everleaf_prove::search::campaign::Budget;
use everleaf_prove::{FAULT_KINDS, Fault, Site};
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the search for one access gets.
const USUAL: Budget = Budget::Cpu(Duration::from_secs(10));

/// What came of one access, for a program.
#[derive(Serialize)]
struct Searched<'a> {
    argued: Option<&'a str>,
    column: u32,
    cpu_seconds: f64,
    file: &'a str,
    found: Option<&'a String>,
    kind: String,
    line: u32,
    listed: usize,
    program: Option<&'a String>,
    schedules: u64,
    structure: &'a str,
}

/// What came of all of them.
#[derive(Default)]
struct Sum {
    found: usize,
    argued: usize,
    /// Those that nobody missed, without an argument.
    alive: Vec<Fault>,
    /// Those that were missed in spite of an argument.
    refuted: Vec<Fault>,
    /// CPU seconds of all searches.
    seconds: f64,
}

/// Gives `count` accesses of the structure that is asked for a fault, one after the other, and prints a table.
pub fn run(
    args: &ProveArgs,
    count: usize,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    let structures = structures_of(args, None)?;
    let arguments = parse(KEPT).map_err(wrong_list)?;
    let mut sums = vec![];
    for structure in structures {
        let listed = listed_of(structure)?;
        let mut sources = Sources::below(&args.sources);
        let argued =
            argued(structure.name, &arguments, &listed, &mut sources).map_err(wrong_list)?;
        let at = args.at.as_deref().unwrap_or_default();
        let place = |fault: &&Fault| fault.site.to_string().contains(at);
        let wanted: Vec<Fault> = listed.iter().filter(place).copied().collect();
        let chosen = spread(&wanted, count);
        let (arguments, count) = (&arguments[..], listed.len());
        let mut table = Table { structure, args, global, arguments, argued, listed: count };
        let sum = table.fill(&chosen, out)?;
        if let Some(path) = &args.page {
            let part = sum.part(structure.name, args, chosen.len(), listed.len());
            keep(path, &part, &mut sources)?;
        }
        if !global.json {
            let sentence = sum.sentence(structure.name, chosen.len(), listed.len());
            out.line(&format!("\n{sentence}"))?;
        }
        sums.push((structure.name, sum));
    }
    let wrong = sums.iter().filter(|(_, sum)| !sum.alive.is_empty() || !sum.refuted.is_empty());
    let names: Vec<_> = wrong.map(|(name, _)| *name).collect();
    if names.is_empty() {
        return Ok(());
    }
    let what = format!("some faulty accesses are neither found nor argued: {}", names.join(", "));
    Err(Failure::new(ExitCode::Violated, what))
}

/// Which faults there can be in a structure.
fn listed_of(structure: &Structure) -> Result<Vec<Fault>, Failure> {
    faults_of(structure, STEPS).map_err(|found| {
        let what = format!("{} is wrong as it is: {}", structure.name, found.1.message);
        Failure::new(ExitCode::Violated, what)
    })
}

/// Puts what was printed with `--json`, of the sources that are given, into the page.
pub fn keep_printed(args: &ProveArgs, printed: &Path, page: &Path) -> Result<(), Failure> {
    let shown = printed.display();
    let text = fs::read_to_string(printed)
        .map_err(|error| Failure::io(&format!("cannot read {shown}"), &error))?;
    let wrong = |number: usize| {
        let what = format!("{shown}, line {}: not what --faults --json prints", number + 1);
        Failure::new(ExitCode::BadInput, what)
    };
    let structure = structures_of(args, None)?.remove(0);
    let (mut sum, mut searched, mut listed) = (Sum::default(), 0, 0);
    for (number, line) in text.lines().enumerate() {
        let value: Value = serde_json::from_str(line).map_err(|_| wrong(number))?;
        let of = |name: &str| value[name].as_u64().ok_or_else(|| wrong(number));
        let word = |name: &str| value[name].as_str().ok_or_else(|| wrong(number));
        if word("structure")? != structure.name {
            return Err(wrong(number));
        }
        let place = format!("{}:{}:{}", word("file")?, of("line")?, of("column")?);
        let fault = fault_of(&format!("{} {place}", word("kind")?))?;
        listed = of("listed")? as usize;
        searched += 1;
        sum.seconds += value["cpu_seconds"].as_f64().ok_or_else(|| wrong(number))?;
        match (&value["found"], &value["argued"]) {
            (Value::Null, Value::Null) => sum.alive.push(fault),
            (Value::Null, _) => sum.argued += 1,
            _ => sum.found += 1,
        }
    }
    let part = sum.part(structure.name, args, searched, listed);
    keep(page, &part, &mut Sources::below(&args.sources))
}

/// Puts the part of a structure into the page.
fn keep(path: &Path, part: &Part<'_>, sources: &mut Sources) -> Result<(), Failure> {
    let shown = path.display();
    let page = match fs::read_to_string(path) {
        Ok(page) => page,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Failure::io(&format!("cannot read {shown}"), &error)),
    };
    let text = replaced(&page, part, sources)
        .map_err(|error| Failure::io("cannot read the sources", &error))?;
    fs::write(path, text).map_err(|error| Failure::io(&format!("cannot write {shown}"), &error))
}

fn wrong_list(what: String) -> Failure {
    Failure::new(ExitCode::BadInput, format!("crates/prove/equivalent.txt: {what}"))
}

/// What came of the search for one.
struct Hunted {
    /// What was found, and by which program.
    found: Option<(String, String)>,
    schedules: u64,
    seconds: f64,
}

impl Hunted {
    /// By what `prove --json` has printed.
    fn of(value: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let failure = &value["failure"];
        let searched = &value["structures"][0];
        Hunted {
            found: (!failure.is_null())
                .then(|| (text(&failure["kind"]), text(&failure["program"]))),
            schedules: searched["schedules"].as_u64().unwrap_or_default(),
            seconds: searched["cpu_seconds"].as_f64().unwrap_or_default(),
        }
    }
}

/// The access of a name such as `skip crates/pool/src/grow.rs:41:9`.
pub fn fault_of(name: &str) -> Result<Fault, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "'{name}' names no access: write HOW FILE:LINE:COLUMN, as the table"
        ))
    };
    let (kind, site) = name.split_once(' ').ok_or_else(wrong)?;
    let kind = FAULT_KINDS.into_iter().find(|known| known.to_string() == kind);
    let mut parts = site.rsplitn(3, ':');
    let column = parts.next().and_then(|column| column.parse().ok());
    let line = parts.next().and_then(|line| line.parse().ok());
    let (Some(kind), Some(column), Some(line), Some(file)) = (kind, column, line, parts.next())
    else {
        return Err(wrong());
    };
    // Places are named for as long as the program runs.
    let file = Box::leak(file.to_owned().into_boxed_str());
    Ok(Fault { site: Site { file, line, column }, kind })
}

impl Sum {
    fn part(
        &self,
        structure: &'static str,
        args: &ProveArgs,
        searched: usize,
        listed: usize,
    ) -> Part<'_> {
        let bound = match args.budget.unwrap_or(USUAL) {
            Budget::Cpu(time) => format!("{} s", time.as_secs()),
            Budget::Schedules(schedules) => format!("{schedules} schedules"),
        };
        let (found, argued) = (self.found + self.refuted.len(), self.argued);
        let (alive, seconds, seed) = (&self.alive[..], self.seconds, args.seed);
        Part { structure, listed, searched, found, argued, alive, bound, seconds, seed }
    }

    fn sentence(&self, structure: &str, chosen: usize, listed: usize) -> String {
        let mut text = format!(
            "{structure}: {chosen} of {listed} faulty accesses searched: {} found, {} argued, \
             {} not found",
            self.found,
            self.argued,
            self.alive.len(),
        );
        for fault in &self.refuted {
            text.push_str(&format!("\n  argued, and found: {} {}", fault.kind, fault.site));
        }
        text
    }
}

struct Table<'a> {
    structure: &'static Structure,
    args: &'a ProveArgs,
    global: Global,
    arguments: &'a [Argument],
    argued: HashMap<Fault, usize>,
    /// Accesses that can have a fault, searched or not.
    listed: usize,
}

impl Table<'_> {
    fn fill(&mut self, faults: &[Fault], out: &mut Output) -> Result<Sum, Failure> {
        if !self.global.json {
            out.line("| access | fault | found by | program | schedules | CPU s |")?;
            out.line("|---|---|---|---|---|---|")?;
        }
        let mut sum = Sum::default();
        for (number, fault) in (1..).zip(faults) {
            let bar = show::Bar::new(self.global.wants_progress());
            bar.say(&format!("{number}/{} {} {}", faults.len(), fault.kind, fault.site));
            let verdict = self.hunt(*fault)?;
            bar.clear();
            sum.seconds += verdict.seconds;
            let why = self.argued.get(fault).map(|index| self.arguments[*index].why.as_str());
            match (verdict.found.is_none(), why) {
                (false, None) => sum.found += 1,
                (false, Some(_)) => sum.refuted.push(*fault),
                (true, Some(_)) => sum.argued += 1,
                (true, None) => sum.alive.push(*fault),
            }
            self.line(*fault, &verdict, why, out)?;
            // Each line as it comes: the whole takes a while.
            out.flush()?;
        }
        Ok(sum)
    }

    /// Searches in a process of its own, since a fault may end it.
    fn hunt(&self, fault: Fault) -> Result<Hunted, Failure> {
        let budget = match self.args.budget.unwrap_or(USUAL) {
            Budget::Cpu(time) => format!("{}s", time.as_secs()),
            Budget::Schedules(schedules) => schedules.to_string(),
        };
        let (seed, access) = (self.args.seed.to_string(), format!("{} {}", fault.kind, fault.site));
        let start = |error| Failure::io("cannot start the search", &error);
        let output = Command::new(env::current_exe().map_err(start)?)
            .args(["prove", self.structure.name, "--fault", &access, "--budget", &budget])
            .args(["--seed", &seed, "--json", "--no-shrink"])
            .stderr(Stdio::null())
            .output()
            .map_err(start)?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let unread = || Failure::new(ExitCode::Io, format!("the search for {access} failed"));
        let line = printed.lines().next().ok_or_else(unread)?;
        let value: Value = serde_json::from_str(line).map_err(|_| unread())?;
        Ok(Hunted::of(&value))
    }

    fn line(
        &self,
        fault: Fault,
        verdict: &Hunted,
        why: Option<&str>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let Hunted { found, schedules, seconds } = verdict;
        if self.global.json {
            return out.json(&Searched {
                argued: why,
                column: fault.site.column,
                cpu_seconds: *seconds,
                file: fault.site.file,
                found: found.as_ref().map(|(kind, _)| kind),
                kind: fault.kind.to_string(),
                line: fault.site.line,
                listed: self.listed,
                program: found.as_ref().map(|(_, program)| program),
                schedules: *schedules,
                structure: self.structure.name,
            });
        }
        let (how, program) = match (found, why) {
            (Some((kind, program)), _) => (kind.as_str(), format!("`{program}`")),
            (None, Some(why)) => ("argued", why.replace('|', "\\|")),
            (None, None) => ("**not found**", String::new()),
        };
        let (site, kind) = (fault.site, fault.kind);
        out.line(&format!("| {site} | {kind} | {how} | {program} | {schedules} | {seconds:.1} |"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_named_as_the_table_names_it() {
        let site = Site { file: "crates/pool/src/grow.rs", line: 41, column: 9 };
        for kind in FAULT_KINDS {
            let fault = Fault { site, kind };
            assert_eq!(fault_of(&format!("{kind} {site}")).expect("a name"), fault);
        }
        for wrong in ["skip", "away a.rs:1:2", "skip a.rs:1", "skip a.rs:x:2"] {
            assert!(fault_of(wrong).is_err(), "{wrong}");
        }
    }
}
