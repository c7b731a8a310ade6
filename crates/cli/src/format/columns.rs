//! Which columns of a TSV or CSV file are the key and the value.

use super::{Pair, ReadError};

/// A column as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By position; the first is 1.
    Number(usize),
    /// By its name in the header line.
    Name(String),
}

impl std::str::FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(0) => Err("columns are counted from 1".to_string()),
            Ok(number) => Ok(Self::Number(number)),
            Err(_) => Ok(Self::Name(text.to_string())),
        }
    }
}

/// What the user said about the columns of a file.
#[derive(Clone, Debug, Default)]
pub struct ColumnChoice {
    /// The column of the keys; the first if not given.
    pub key: Option<Column>,
    /// The column of the values; the second if not given.
    pub value: Option<Column>,
    /// The first line holds names, not a pair.
    pub header: bool,
    /// There are no values.
    pub keys_only: bool,
}

impl ColumnChoice {
    /// True when the first line of the file has to be read as a header.
    pub fn needs_header(&self) -> bool {
        let named = |column: &Option<Column>| matches!(column, Some(Column::Name(_)));
        self.header || named(&self.key) || named(&self.value)
    }

    /// True when any column was chosen, so that a file may have more columns than are read.
    pub fn is_explicit(&self) -> bool {
        self.key.is_some() || self.value.is_some()
    }
}

/// The columns of one file, by position from 0.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    key: usize,
    value: Option<usize>,
    /// The number of columns every line must have, if the user did not choose columns.
    exact: Option<usize>,
}

impl Columns {
    /// The columns of a file without a header, or of one with the header `names` on line `line`.
    pub fn resolve(
        choice: &ColumnChoice,
        names: Option<&[&[u8]]>,
        line: u64,
    ) -> Result<Self, ReadError> {
        let find = |column: &Option<Column>, default: usize| match column {
            None => Ok(default),
            Some(Column::Number(number)) => Ok(number - 1),
            Some(Column::Name(name)) => position_of(name, names.unwrap_or_default(), line),
        };
        let value = if choice.keys_only { None } else { Some(find(&choice.value, 1)?) };
        let count = if choice.keys_only { 1 } else { 2 };
        Ok(Self {
            key: find(&choice.key, 0)?,
            value,
            exact: (!choice.is_explicit()).then_some(count),
        })
    }

    /// True when a line is exactly a key and a value, in this order.
    pub fn is_plain_pair(&self) -> bool {
        self.exact == Some(2)
    }

    /// Copies key and value out of the `count` fields of a line.
    pub fn pick<'f>(
        &self,
        count: usize,
        field: impl Fn(usize) -> Option<&'f [u8]>,
        pair: &mut Pair,
    ) -> Result<(), ReadError> {
        if let Some(exact) = self.exact
            && count != exact
        {
            let reason = format!(
                "the line has {count} columns where {exact} are expected: correct it, or choose \
                 columns with --key-column and --value-column (--keys-only for keys alone)"
            );
            return Err(ReadError::bad(pair.line, reason));
        }
        let get = |index: usize, what: &str| {
            field(index).ok_or_else(|| {
                let reason = format!(
                    "the line has {count} columns, so there is no column {} for the {what}",
                    index + 1
                );
                ReadError::bad(pair.line, reason)
            })
        };
        let key = get(self.key, "key")?;
        let value = self.value.map(|index| get(index, "value")).transpose()?;
        pair.key.clear();
        pair.key.extend_from_slice(key);
        pair.value.clear();
        pair.value.extend_from_slice(value.unwrap_or_default());
        Ok(())
    }
}

fn position_of(name: &str, names: &[&[u8]], line: u64) -> Result<usize, ReadError> {
    names.iter().position(|have| *have == name.as_bytes()).ok_or_else(|| {
        let have: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
        let reason = format!(
            "the header has no column named {name:?}; its columns are: {}",
            have.join(", ")
        );
        ReadError::bad(line, reason)
    })
}
