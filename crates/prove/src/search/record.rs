//! A failure as a file: what is needed to see it again, and nothing that depends on this process.
//!
//! The program is named, not stored: a record repeats exactly with the version of the code that
//! wrote it, and says so when it does not.

use std::fmt;

use everleaf_machine::simulated::{Abandon, Config, CrashConfig, Domain, Failure, MemoryModel};
use everleaf_machine::simulated::{Replay, SchedulerKind};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::case::structure::{Structure, find_in};
use crate::case::{Case, Kept};
use crate::machine::configure::{domain_name, memory_name};
use crate::planted::plain;

/// What the file says it is.
const FORMAT: &str = "everleaf failure 1";

/// A failed schedule of a named program.
#[derive(Clone, Debug)]
pub struct Record {
    /// The structure's name.
    pub structure: String,
    /// The program's name.
    pub program: String,
    /// The part of the plan that was run; all of it if none.
    pub kept: Option<Kept>,
    /// The machine it ran on.
    pub config: Config,
    /// What failed, with seed and choices.
    pub kind: String,
    /// What was seen.
    pub message: String,
    /// The seed of the schedule.
    pub seed: u64,
    /// The choices of the scheduler.
    pub choices: Vec<u8>,
}

/// Why a file is no record that can be replayed here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// It is not a record at all.
    Foreign(String),
    /// A part of it is missing or senseless.
    Damaged(String),
    /// It was written by a version that knew other programs.
    Unknown(String),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Foreign(what) => write!(f, "not a failure written by `prove`: {what}"),
            RecordError::Damaged(what) => write!(f, "the failure is damaged: {what}"),
            RecordError::Unknown(what) => {
                write!(f, "{what}: replay it with the version that wrote it")
            }
        }
    }
}

impl std::error::Error for RecordError {}

impl Record {
    /// The record of a failure.
    pub fn new(structure: &str, program: &str, config: &Config, failure: &Failure) -> Self {
        Record {
            structure: structure.to_owned(),
            program: program.to_owned(),
            kept: None,
            config: config.clone(),
            kind: failure.kind.to_string(),
            message: failure.message.clone(),
            seed: failure.seed,
            choices: failure.choices.clone(),
        }
    }

    /// The program and its plan, of one of these structures.
    ///
    /// # Errors
    /// [`RecordError::Unknown`].
    pub fn case(&self, structures: &'static [Structure]) -> Result<Box<dyn Case>, RecordError> {
        let structure = find_in(structures, &self.structure);
        let structure = structure.ok_or_else(|| {
            RecordError::Unknown(format!("there is no structure '{}'", self.structure))
        })?;
        let case = structure.case(&self.program).ok_or_else(|| {
            RecordError::Unknown(format!("{} has no program '{}'", structure.name, self.program))
        })?;
        Ok(match &self.kept {
            Some(kept) => case.keep(kept),
            None => case,
        })
    }

    /// Runs the schedule again, of one of these structures.
    ///
    /// # Errors
    /// [`RecordError::Unknown`].
    pub fn replay(&self, structures: &'static [Structure]) -> Result<Replay, RecordError> {
        let case = self.case(structures)?;
        let begun = case.replay(&self.config, self.seed, &self.choices);
        Ok(begun.unwrap_or_else(|failure| Replay { failure: Some(*failure), ..Replay::default() }))
    }

    /// Makes the failure of one of these structures small, with about `effort` schedules per attempt.
    ///
    /// # Errors
    /// [`RecordError::Unknown`].
    pub fn shrunk(
        &self,
        structures: &'static [Structure],
        failure: &Failure,
        effort: u64,
    ) -> Result<Record, RecordError> {
        let small = self.case(structures)?.shrink(&self.config, failure, effort);
        let record = Record::new(&self.structure, &self.program, &self.config, &small.failure);
        Ok(Record { kept: Some(small.kept), ..record })
    }

    /// The record as the text of a file.
    pub fn to_text(&self) -> String {
        let config = &self.config;
        let digit = |choice: &u8| char::from_digit(u32::from(*choice), 36);
        let digit = |choice| digit(choice).expect("there are far fewer than 36 actors");
        let choices: String = self.choices.iter().map(digit).collect();
        let written = Written {
            choices,
            config: WrittenConfig::of(config),
            format: FORMAT,
            kept: self.kept.as_ref(),
            kind: &self.kind,
            message: &self.message,
            program: &self.program,
            seed: format!("{:#x}", self.seed),
            structure: &self.structure,
            version: env!("CARGO_PKG_VERSION"),
        };
        let mut text = serde_json::to_string_pretty(&written).expect("strings and numbers only");
        text.push('\n');
        text
    }

    /// The record that a text holds.
    ///
    /// # Errors
    /// Any [`RecordError`].
    pub fn from_text(text: &str) -> Result<Record, RecordError> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| RecordError::Foreign(format!("not JSON ({error})")))?;
        let object = value.as_object();
        let object = object.ok_or_else(|| RecordError::Foreign("not a JSON object".to_owned()))?;
        match object.get("format").and_then(Value::as_str) {
            Some(FORMAT) => {}
            Some(other) => {
                return Err(RecordError::Foreign(format!(
                    "its format is '{other}', not '{FORMAT}'"
                )));
            }
            None => return Err(RecordError::Foreign("it has no format".to_owned())),
        }
        let record = Fields(object);
        let config = record.get("config")?.as_object().ok_or_else(|| damaged("config"))?;
        let choices = record.text("choices")?.chars();
        let choices = choices.map(|digit| digit.to_digit(36).map(|choice| choice as u8));
        let kept = match record.get("kept")? {
            Value::Null => None,
            kept => Some(kept_of(kept).ok_or_else(|| damaged("kept"))?),
        };
        Ok(Record {
            structure: record.text("structure")?.to_owned(),
            program: record.text("program")?.to_owned(),
            kept,
            config: config_of(&Fields(config))?,
            kind: record.text("kind")?.to_owned(),
            message: record.text("message")?.to_owned(),
            seed: record.hexadecimal("seed")?,
            choices: choices.collect::<Option<_>>().ok_or_else(|| damaged("choices"))?,
        })
    }
}

/// A record as its file has it. It is read field by field, so that what is wrong is named.
#[derive(Serialize)]
struct Written<'a> {
    choices: String,
    config: WrittenConfig<'a>,
    format: &'static str,
    kept: Option<&'a Kept>,
    kind: &'a str,
    message: &'a str,
    program: &'a str,
    seed: String,
    structure: &'a str,
    version: &'static str,
}

/// What a file has of the machine.
#[derive(Serialize)]
struct WrittenConfig<'a> {
    /// The thread, and behind how many points it stops.
    abandon: Option<(usize, u64)>,
    arena_bytes: usize,
    births: bool,
    crash_at_returns: bool,
    crash_budget: usize,
    crash_enabled: bool,
    domain: &'static str,
    fail_allocation: Option<u64>,
    fail_space: Option<u64>,
    memory: &'static str,
    mutants: &'a [&'static str],
    nested_depth: usize,
    nested_one_in: u64,
    races: bool,
    recovery_limit: u64,
    rmw_drains: bool,
    seed: String,
    simulate_open: bool,
    step_limit: u64,
    torn_matches: bool,
    wide_compares: bool,
}

impl<'a> WrittenConfig<'a> {
    fn of(config: &'a Config) -> Self {
        WrittenConfig {
            abandon: config.abandon.map(|abandon| (abandon.thread, abandon.after_points)),
            arena_bytes: config.arena_bytes,
            births: config.births,
            crash_at_returns: config.crash.at_returns,
            crash_budget: config.crash.budget,
            crash_enabled: config.crash.enabled,
            domain: domain_name(config.domain),
            fail_allocation: config.fail_allocation,
            fail_space: config.fail_space,
            memory: memory_name(config.memory),
            mutants: &config.mutants,
            nested_depth: config.crash.nested_depth,
            nested_one_in: config.crash.nested_one_in,
            races: config.races,
            recovery_limit: config.recovery_limit,
            rmw_drains: config.rmw_drains,
            seed: format!("{:#x}", config.seed),
            simulate_open: config.simulate_open,
            step_limit: config.step_limit,
            torn_matches: config.torn_matches,
            wide_compares: config.wide_compares,
        }
    }
}

fn damaged(name: &str) -> RecordError {
    RecordError::Damaged(format!("'{name}' is missing or makes no sense"))
}

fn kept_of(value: &Value) -> Option<Kept> {
    let number = |number: &Value| number.as_u64().map(|number| number as usize);
    let thread = |thread: &Value| thread.as_array()?.iter().map(number).collect();
    value.as_array()?.iter().map(thread).collect()
}

/// The fields of an object.
struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn get(&self, name: &str) -> Result<&Value, RecordError> {
        self.0.get(name).ok_or_else(|| damaged(name))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn text(&self, name: &str) -> Result<&str, RecordError> {
        self.get(name)?.as_str().ok_or_else(|| damaged(name))
    }

    fn flag(&self, name: &str) -> Result<bool, RecordError> {
        self.get(name)?.as_bool().ok_or_else(|| damaged(name))
    }

    fn number(&self, name: &str) -> Result<u64, RecordError> {
        self.get(name)?.as_u64().ok_or_else(|| damaged(name))
    }

    fn hexadecimal(&self, name: &str) -> Result<u64, RecordError> {
        let digits = self.text(name)?.strip_prefix("0x").ok_or_else(|| damaged(name))?;
        u64::from_str_radix(digits, 16).map_err(|_| damaged(name))
    }
}

fn config_of(fields: &Fields<'_>) -> Result<Config, RecordError> {
    let domains = [Domain::Adr, Domain::Eadr, Domain::Process];
    let (domain, memory) = (fields.text("domain")?, fields.text("memory")?);
    // Records of older versions have the older names.
    let domain = match domain {
        "line" => "adr",
        "visible" => "eadr",
        name => name,
    };
    let domain = domains.into_iter().find(|known| domain_name(*known) == domain);
    let models = [MemoryModel::Sc, MemoryModel::Tso, MemoryModel::Weak];
    let memory = models.into_iter().find(|known| memory_name(*known) == memory);
    let planted = fields.get("mutants")?.as_array().ok_or_else(|| damaged("mutants"))?;
    let mut switched_on = vec![];
    for name in planted {
        let name = name.as_str().ok_or_else(|| damaged("mutants"))?;
        let unknown = || RecordError::Unknown(format!("there is no planted bug '{name}'"));
        switched_on.push(plain::named(name).ok_or_else(unknown)?.name);
    }
    let abandon = match fields.get("abandon")? {
        Value::Null => None,
        pair => Some(abandon_of(pair).ok_or_else(|| damaged("abandon"))?),
    };
    let fail_allocation = match fields.get("fail_allocation")? {
        Value::Null => None,
        _ => Some(fields.number("fail_allocation")?),
    };
    // The first records were made before it existed.
    let has_space = fields.has("fail_space") && *fields.get("fail_space")? != Value::Null;
    let fail_space = has_space.then(|| fields.number("fail_space")).transpose()?;
    // What would take memory or time without end is refused, not tried.
    let arena_bytes = fields.number("arena_bytes")? as usize;
    if arena_bytes == 0 || !arena_bytes.is_multiple_of(64) || arena_bytes > 1 << 30 {
        return Err(damaged("arena_bytes"));
    }
    let nested_depth = fields.number("nested_depth")? as usize;
    if nested_depth > 4 {
        return Err(damaged("nested_depth"));
    }
    Ok(Config {
        domain: domain.ok_or_else(|| damaged("domain"))?,
        memory: memory.ok_or_else(|| damaged("memory"))?,
        rmw_drains: fields.flag("rmw_drains")?,
        scheduler: SchedulerKind::Mixed,
        seed: fields.hexadecimal("seed")?,
        step_limit: fields.number("step_limit")?,
        crash: CrashConfig {
            enabled: fields.flag("crash_enabled")?,
            budget: fields.number("crash_budget")? as usize,
            nested_one_in: fields.number("nested_one_in")?,
            nested_depth,
            // The first records were made before it existed.
            at_returns: fields.has("crash_at_returns") && fields.flag("crash_at_returns")?,
        },
        mutants: switched_on,
        fault: None,
        lists_faults: false,
        ablate: None,
        work_limit: u64::MAX,
        torn_matches: fields.flag("torn_matches")?,
        // The first records were made before it existed.
        wide_compares: fields.has("wide_compares") && fields.flag("wide_compares")?,
        races: fields.flag("races")?,
        // Nor had they this one.
        births: fields.has("births") && fields.flag("births")?,
        simulate_open: fields.flag("simulate_open")?,
        recovery_limit: fields.number("recovery_limit")?,
        abandon,
        fail_allocation,
        fail_space,
        arena_bytes,
    })
}

fn abandon_of(value: &Value) -> Option<Abandon> {
    match value.as_array()?.as_slice() {
        [thread, points] => {
            Some(Abandon { thread: thread.as_u64()? as usize, after_points: points.as_u64()? })
        }
        _ => None,
    }
}
