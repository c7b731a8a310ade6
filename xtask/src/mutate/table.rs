//! The table that is kept: for each site that was hunted, what found it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::site::{KINDS, Key};

/// What became of a site.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// A search of this structure found it.
    Found { structure: String, schedules: u64, seconds: f64, how: String },
    /// No search found it: those structures, the most CPU seconds of each.
    Missed { structures: String, seconds: f64 },
    /// No search came to where it makes a difference: to the site, or, at a bound, to what is equal. Those
    /// structures, the most CPU seconds of each; none if the site itself was met by no structure.
    NotReached { structures: String, seconds: f64 },
    /// It is argued that nobody can find it.
    Equivalent { why: String },
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The text of the line when it was hunted.
    pub text: String,
    pub verdict: Verdict,
}

/// All rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(pub BTreeMap<Key, Row>);

const HEAD: &str = "file,function,kind,ordinal,line,verdict,structure,schedules,cpu seconds,how";

impl Table {
    /// Reads a table; an empty one if there is none.
    ///
    /// # Errors
    /// A sentence with the line that is no row.
    pub fn read(path: &Path) -> Result<Table, String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut table = Table::default();
        for (number, line) in (1..).zip(text.lines()).skip(1) {
            let (key, row) = row_of(&fields_of(line))
                .ok_or_else(|| format!("{}:{number} is no row of sites", path.display()))?;
            table.0.insert(key, row);
        }
        Ok(table)
    }

    /// Writes the table, all at once: a program that reads it meanwhile finds it whole.
    ///
    /// # Errors
    /// A sentence with the file.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let rows = self.0.iter().map(|(key, row)| line_of(key, row));
        let text: String =
            std::iter::once(HEAD.to_string()).chain(rows).map(|line| line + "\n").collect();
        let new = path.with_extension("new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, path))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// How many sites were hunted, found, missed, not reached, and argued for.
    pub fn counts(&self) -> [usize; 5] {
        let mut counts = [self.0.len(), 0, 0, 0, 0];
        for row in self.0.values() {
            counts[match row.verdict {
                Verdict::Found { .. } => 1,
                Verdict::Missed { .. } => 2,
                Verdict::NotReached { .. } => 3,
                Verdict::Equivalent { .. } => 4,
            }] += 1;
        }
        counts
    }
}

fn line_of(key: &Key, row: &Row) -> String {
    let (verdict, structure, schedules, seconds, how) = match &row.verdict {
        Verdict::Found { structure, schedules, seconds, how } => {
            ("found", structure.as_str(), schedules.to_string(), format!("{seconds:.1}"), how)
        }
        Verdict::Missed { structures, seconds } => {
            ("missed", structures.as_str(), String::new(), format!("{seconds:.1}"), &String::new())
        }
        Verdict::NotReached { structures, seconds } => {
            let seconds = format!("{seconds:.1}");
            ("not reached", structures.as_str(), String::new(), seconds, &String::new())
        }
        Verdict::Equivalent { why } => ("equivalent", "", String::new(), String::new(), why),
    };
    let Key { file, function, kind, ordinal } = key;
    let (kind, ordinal) = (kind.to_string(), ordinal.to_string());
    let fields =
        [file, function, &kind, &ordinal, &row.text, verdict, structure, &schedules, &seconds, how];
    fields.map(quoted).join(",")
}

fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('\n', " ").replace('"', "\"\"")),
        false => field.to_string(),
    }
}

/// The fields of a line of a table with commas.
fn fields_of(line: &str) -> Vec<String> {
    let (mut fields, mut inside) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let field = fields.last_mut().expect("there is one");
        match letter {
            '"' if inside && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => inside = !inside,
            ',' if !inside => fields.push(String::new()),
            _ => field.push(letter),
        }
    }
    fields
}

fn row_of(fields: &[String]) -> Option<(Key, Row)> {
    let [file, function, kind, ordinal, text, verdict, structure, schedules, seconds, how] = fields
    else {
        return None;
    };
    let kind = KINDS.into_iter().find(|known| known.to_string() == *kind)?;
    let ordinal = ordinal.parse().ok()?;
    let key = Key { file: file.clone(), function: function.clone(), kind, ordinal };
    let verdict = match verdict.as_str() {
        "found" => Verdict::Found {
            structure: structure.clone(),
            schedules: schedules.parse().ok()?,
            seconds: seconds.parse().ok()?,
            how: how.clone(),
        },
        "missed" => {
            Verdict::Missed { structures: structure.clone(), seconds: seconds.parse().ok()? }
        }
        "not reached" => {
            let seconds = seconds.parse().unwrap_or_default();
            Verdict::NotReached { structures: structure.clone(), seconds }
        }
        "equivalent" => Verdict::Equivalent { why: how.clone() },
        _ => return None,
    };
    Some((key, Row { text: text.clone(), verdict }))
}

#[cfg(test)]
mod tests {
    use super::super::site::Kind;
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let key = |ordinal| Key {
            file: "a.rs".into(),
            function: "f".into(),
            kind: Kind::Boundary,
            ordinal,
        };
        let row = |verdict| Row { text: "if a < b, \"c\" {".into(), verdict };
        let found = Verdict::Found {
            structure: "nbtree".into(),
            schedules: 7,
            seconds: 0.5,
            how: "lost, and found".into(),
        };
        let missed = Verdict::Missed { structures: "alloc nbtree".into(), seconds: 60.0 };
        let argued = Verdict::Equivalent { why: "a hint".into() };
        let not_reached = Verdict::NotReached { structures: "alloc".into(), seconds: 3.0 };
        let verdicts = [found, missed, not_reached, argued];
        let table = Table((1..).zip(verdicts).map(|(n, one)| (key(n), row(one))).collect());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.csv");
        assert_eq!(Table::read(&path), Ok(Table::default()));
        table.write(&path).expect("it is written");
        assert_eq!(Table::read(&path), Ok(table.clone()));
        assert_eq!(table.counts(), [4, 1, 1, 1, 1]);
        fs::write(&path, "head\na,b,c\n").expect("it is written");
        assert!(Table::read(&path).is_err_and(|what| what.contains(":2 ")));
    }
}
