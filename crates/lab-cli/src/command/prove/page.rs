//! The page `docs/results/faults.md`: what came of the accesses with a fault, by structure. A run
//! replaces the part of its structure and leaves the others as they are.

use everleaf_prove::Fault;
use everleaf_prove::hunt::arguments::{SourceLine, Sources};
use everleaf_prove_designs::structures::STRUCTURES;
use std::collections::BTreeMap;
use std::io;

const HEAD: &str = "\
# Faulty accesses

Made by `everleaf-lab prove STRUCTURE --faults --page docs/results/faults.md`, and not by hand. Each place in the
source where a structure stores, flushes, drains, fences, compares or loads is one access for each fault:
left out (skip), done without comparing (blind), done after the next store (late), answered with what was seen
before (stale). The plain search looks for a program that misses it, with a bound of CPU seconds for each. An access
is named by its function and the text of its line, which stay when other lines come and go; a test of
`everleaf-lab-cli` looks them up.

*Argued* are those that nobody can miss, with the reason in `crates/prove/equivalent.txt`. Those not found are what
the search has yet to learn, or what has yet to be argued. A `stale` load that is not found is very often a hint that
may be old, or is read again before it counts: the second look is a site of its own.

| structure | accesses | searched | found | argued | not found | bound | CPU s |
|---|---|---|---|---|---|---|---|
";

/// What came of one structure.
pub struct Part<'a> {
    /// The structure.
    pub structure: &'static str,
    /// Accesses that can have a fault.
    pub listed: usize,
    /// Those that were.
    pub searched: usize,
    /// Those that were found.
    pub found: usize,
    /// Those that are argued.
    pub argued: usize,
    /// Those that nobody missed.
    pub alive: &'a [Fault],
    /// What each could take, in words.
    pub bound: String,
    /// CPU seconds of all.
    pub seconds: f64,
    /// The seed of the searches.
    pub seed: u64,
}

impl Part<'_> {
    fn row(&self) -> String {
        let Part { structure, listed, searched, found, argued, bound, seconds, .. } = self;
        let alive = self.alive.len();
        format!(
            "| {structure} | {listed} | {searched} | {found} | {argued} | {alive} | {bound} | {seconds:.0} |"
        )
    }

    fn section(&self, sources: &mut Sources) -> io::Result<String> {
        let mut text = format!("\nSeed {}. Not found:\n", self.seed);
        if self.alive.is_empty() {
            return Ok(format!("\nSeed {}. All were found or are argued.\n", self.seed));
        }
        text.push_str("\n| fault | file | function | line |\n|---|---|---|---|\n");
        for fault in self.alive {
            let SourceLine { file, function, line } = sources.place(*fault)?;
            let line = line.replace('|', "\\|");
            text.push_str(&format!("| {} | {file} | `{function}` | `{line}` |\n", fault.kind));
        }
        Ok(text)
    }
}

/// The rows and the sections of a page, by structure.
fn parts_of(page: &str) -> (BTreeMap<&str, &str>, BTreeMap<&str, String>) {
    let (mut rows, mut sections) = (BTreeMap::new(), BTreeMap::<&str, String>::new());
    let mut current = None;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            current = Some(name);
            sections.insert(name, String::new());
        } else if let Some(name) = current {
            let section = sections.entry(name).or_default();
            section.push_str(line);
            section.push('\n');
        } else if let Some(name) = line.strip_prefix("| ").and_then(|rest| rest.split(' ').next()) {
            rows.insert(name, line);
        }
    }
    (rows, sections)
}

/// The page with one part replaced.
///
/// # Errors
/// The source cannot be read.
pub fn replaced(page: &str, part: &Part<'_>, sources: &mut Sources) -> io::Result<String> {
    let (mut rows, mut sections) = parts_of(page);
    let row = part.row();
    rows.insert(part.structure, &row);
    sections.insert(part.structure, part.section(sources)?);
    let mut text = HEAD.to_owned();
    let names = || STRUCTURES.iter().map(|structure| structure.name);
    for row in names().filter_map(|name| rows.get(name)) {
        text.push_str(row);
        text.push('\n');
    }
    for name in names() {
        if let Some(section) = sections.get(name) {
            text.push_str(&format!("\n## {name}\n\n{}\n", section.trim()));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_prove::{FaultKind, Site};
    use std::path::Path;

    const ROOT: &str = "../..";

    fn part<'f>(structure: &'static str, alive: &'f [Fault]) -> Part<'f> {
        let bound = "10 s".to_owned();
        let (listed, searched, found, argued) = (9, 8, 7 - alive.len(), 1);
        Part { structure, listed, searched, found, argued, alive, bound, seconds: 1.5, seed: 1 }
    }

    #[test]
    fn a_part_is_replaced_and_the_others_stay() {
        let sources = &mut Sources::below(Path::new(ROOT));
        let site = Site { file: "crates/prove/src/lib.rs", line: 1, column: 1 };
        let alive = [Fault { site, kind: FaultKind::Late }];
        let one = replaced("", &part("rntree", &alive), sources).expect("the source is there");
        let two = replaced(&one, &part("nbtree", &[]), sources).expect("the source is there");
        assert!(one.contains("| rntree | 9 | 8 | 6 | 1 | 1 | 10 s | 2 |\n"), "{one}");
        assert!(one.contains("| late | crates/prove/src/lib.rs |"), "{one}");
        assert!(two.find("| nbtree |") < two.find("| rntree |"), "{two}");
        assert!(two.contains("| late | crates/prove/src/lib.rs |"), "{two}");
        assert_eq!(replaced(&two, &part("nbtree", &[]), sources).expect("the same"), two);
        let three = replaced(&two, &part("rntree", &[]), sources).expect("the source is there");
        assert!(!three.contains("| late |"), "{three}");
    }

    /// What the kept page says of the source is in the source.
    #[test]
    fn the_kept_page_names_what_is_there() {
        let page = include_str!("../../../../../docs/results/faults.md");
        assert!(page.starts_with(HEAD), "the page was not made by this version");
        let mut sources = Sources::below(Path::new(ROOT));
        let (rows, sections) = parts_of(page);
        assert!(!sections.is_empty() && sections.keys().all(|name| rows.contains_key(name)));
        for line in sections.values().flat_map(|section| section.lines()) {
            let cells: Vec<&str> = line.splitn(5, " | ").collect();
            let [kind, file, function, text] = cells.as_slice() else { continue };
            if *kind == "| fault" {
                continue;
            }
            let text = text.trim_end_matches(" |").trim_matches('`').replace("\\|", "|");
            let place = SourceLine {
                file: (*file).to_owned(),
                function: function.trim_matches('`').to_owned(),
                line: text,
            };
            assert!(sources.has(&place), "not in the source any more: {line}");
        }
    }
}
