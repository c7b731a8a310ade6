//! Why no program can miss an access with a fault: the arguments that are kept, and what they are about.
//!
//! ```text
//!   # a remark
//!   nbtree | crates/index/src/nbtree/write.rs | insert | skip | self.flush(entry);
//!       The drain of the block that follows makes the same line durable.
//! ```
//!
//! An argument names its access by the function and the text of its line, which stay when other lines
//! come and go. Its reason is on the lines below, which begin with a space. All accesses of a function
//! whose lines read the same share it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use everleaf_machine::simulated::{FAULT_KINDS, Fault, FaultKind};

/// The arguments that are kept with the source.
pub const KEPT: &str = include_str!("../../equivalent.txt");

/// Why a fault in an access harms nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The line of the list that it is on, from 1.
    pub number: usize,
    /// The structure it is about.
    pub structure: String,
    /// Where the access is.
    pub place: SourceLine,
    /// Its fault.
    pub kind: FaultKind,
    /// The reason.
    pub why: String,
}

/// A place in the source, as an argument names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, as the compiler names it.
    pub file: String,
    /// The function the line is in.
    pub function: String,
    /// The text of the line.
    pub line: String,
}

/// The arguments of a list.
///
/// # Errors
/// A sentence if the list is not written as it should be.
pub fn parse(text: &str) -> Result<Vec<Argument>, String> {
    let mut all: Vec<Argument> = vec![];
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with(' ') {
            let reason = format!("line {number}: a reason without an access above it");
            let why = &mut all.last_mut().ok_or(reason)?.why;
            if !why.is_empty() {
                why.push(' ');
            }
            why.push_str(line.trim());
            continue;
        }
        let parts: Vec<&str> = line.splitn(5, " | ").map(str::trim).collect();
        let [structure, file, function, kind, text] = parts.as_slice() else {
            return Err(format!("line {number}: write STRUCTURE | FILE | FUNCTION | KIND | LINE"));
        };
        let known = FAULT_KINDS.into_iter().find(|known| known.to_string() == *kind);
        let kind = known.ok_or_else(|| format!("line {number}: there is no kind '{kind}'"))?;
        let [file, function, line] = [file, function, text].map(|part| (*part).to_owned());
        let place = SourceLine { file, function, line };
        let structure = (*structure).to_owned();
        all.push(Argument { number, structure, place, kind, why: String::new() });
    }
    match all.iter().find(|argument| argument.why.is_empty()) {
        Some(argument) => Err(format!("line {}: an access without a reason", argument.number)),
        None => Ok(all),
    }
}

/// The source that the accesses are in.
pub struct Sources {
    root: PathBuf,
    files: HashMap<&'static str, Vec<String>>,
}

impl Sources {
    /// The source below this folder, that of the workspace.
    pub fn below(root: &Path) -> Self {
        Sources { root: root.to_owned(), files: HashMap::new() }
    }

    /// Where a fault is, as an argument would name it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn place(&mut self, fault: Fault) -> io::Result<SourceLine> {
        let file = fault.site.file;
        if !self.files.contains_key(file) {
            let text = fs::read_to_string(self.root.join(file))?;
            self.files.insert(file, text.lines().map(str::to_owned).collect());
        }
        let lines = &self.files[file];
        let above = &lines[..lines.len().min(fault.site.line as usize)];
        let function = above.iter().rev().find_map(|line| function_of(line)).unwrap_or_default();
        let line = above.last().map(|line| line.trim()).unwrap_or_default();
        Ok(SourceLine {
            file: file.to_owned(),
            function: function.to_owned(),
            line: line.to_owned(),
        })
    }
}

impl Sources {
    /// Whether a place is in the source.
    pub fn has(&mut self, place: &SourceLine) -> bool {
        let Ok(text) = fs::read_to_string(self.root.join(&place.file)) else { return false };
        let mut function = "";
        text.lines().any(|line| {
            function = function_of(line).unwrap_or(function);
            function == place.function && line.trim() == place.line
        })
    }
}

/// The name of the function whose declaration begins on this line.
pub fn function_of(line: &str) -> Option<&str> {
    let (before, after) = line.trim().split_once("fn ")?;
    let is_declaration = before.split_whitespace().all(|word| {
        matches!(word, "pub" | "const" | "unsafe" | "extern" | "async") || word.starts_with("pub(")
    });
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (is_declaration && end > 0).then(|| &after[..end])
}

/// The arguments about a structure, each fault with its own: the number of the argument in the list.
///
/// # Errors
/// A sentence if an argument is about an access that is not there, or the source cannot be read.
pub fn argued(
    structure: &str,
    arguments: &[Argument],
    faults: &[Fault],
    sources: &mut Sources,
) -> Result<HashMap<Fault, usize>, String> {
    let mut all = HashMap::new();
    let mine = arguments.iter().enumerate();
    let mine: Vec<_> = mine.filter(|(_, argument)| argument.structure == structure).collect();
    if mine.is_empty() {
        return Ok(all);
    }
    let mut used = vec![false; arguments.len()];
    for fault in faults {
        let place = sources.place(*fault).map_err(|error| {
            format!("cannot read {} ({error}): give the folder of the sources", fault.site.file)
        })?;
        let about = |(_, one): &&(usize, &Argument)| one.kind == fault.kind && one.place == place;
        if let Some((index, _)) = mine.iter().find(about) {
            used[*index] = true;
            all.insert(*fault, *index);
        }
    }
    match mine.iter().find(|(index, _)| !used[*index]) {
        Some((_, argument)) => Err(format!(
            "line {} argues for what is not there: {} of '{}' in {}, {}",
            argument.number,
            argument.kind,
            argument.place.line,
            argument.place.function,
            argument.place.file,
        )),
        None => Ok(all),
    }
}
