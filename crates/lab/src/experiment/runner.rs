//! Runs experiments and keeps what they found in a folder, a file each, so that a run that was cut
//! short goes on where it stopped.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use everleaf_bench::BenchError;
use everleaf_bench::calibrate::{Chase, REGION_SIZE_BYTES};
use everleaf_bench::report::Machine;

use super::finding::{Finding, Scale};
use super::{Context, Entry, Prover};

/// The version that findings are marked with.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How experiments are run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How much is measured.
    pub scale: Scale,
    /// The seed of keys and operations.
    pub seed: u64,
    /// Whether what is finished is run again.
    pub again: bool,
    /// What searches for failures where an experiment is a proof.
    pub prove: Prover,
}

/// Findings in files.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder, made if absent.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> Result<Self, BenchError> {
        fs::create_dir_all(path).map_err(|error| cannot("make the folder", path, error))?;
        Ok(Folder { path: path.to_owned() })
    }

    /// The folder, which is there.
    ///
    /// # Errors
    /// It is not.
    pub fn open(path: &Path) -> Result<Self, BenchError> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(Folder { path: path.to_owned() }),
            Ok(_) => Err(cannot("read the folder", path, io::ErrorKind::NotADirectory.into())),
            Err(error) => Err(cannot("read the folder", path, error)),
        }
    }

    fn file(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}.json"))
    }

    /// What an experiment found, if it was run.
    ///
    /// # Errors
    /// The file cannot be read, or is no finding.
    pub fn finding(&self, id: &str) -> Result<Option<Finding>, BenchError> {
        let path = self.file(id);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("read", &path, error)),
        };
        let finding = serde_json::from_str(&text).map_err(|error| {
            let path = path.display();
            BenchError::Settings(format!(
                "{path} is no finding of an experiment: {error}; remove it"
            ))
        })?;
        Ok(Some(finding))
    }

    /// Keeps a finding: whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written; a figure is no number.
    pub fn keep(&self, finding: &Finding) -> Result<(), BenchError> {
        let path = self.file(&finding.id);
        let partial = path.with_extension("partial");
        let text = serde_json::to_string_pretty(finding).expect("plain data becomes text");
        // What is no number becomes null, and could not be read again.
        if serde_json::from_str::<Finding>(&text).is_err() {
            let id = &finding.id;
            let text = format!("{id} has a figure that is no number; please report this");
            return Err(BenchError::Wrong(text));
        }
        let write = || {
            let mut file = fs::File::create(&partial)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&partial, &path)
        };
        write().map_err(|error| cannot("write", &path, error))
    }

    /// All JSON files, in order of name.
    ///
    /// # Errors
    /// The folder or a file cannot be read.
    pub(crate) fn files(&self) -> Result<Vec<(PathBuf, serde_json::Value)>, BenchError> {
        let refused = |error| cannot("read the folder", &self.path, error);
        let mut found = Vec::new();
        for file in fs::read_dir(&self.path).map_err(refused)? {
            let path = file.map_err(refused)?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                found.push((path.clone(), read_json(&path)?));
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }

    /// The JSON files that are no findings, such as those of the rivals and of the bench.
    ///
    /// # Errors
    /// The folder or a file cannot be read.
    pub(crate) fn others(&self) -> Result<Vec<(PathBuf, serde_json::Value)>, BenchError> {
        let mut files = self.files()?;
        files.retain(|(path, _)| {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            super::entries().all(|entry| entry.id != name)
        });
        Ok(files)
    }
}

/// A JSON file.
///
/// # Errors
/// It cannot be read, or is no JSON.
pub(crate) fn read_json(path: &Path) -> Result<serde_json::Value, BenchError> {
    let text = fs::read_to_string(path).map_err(|error| cannot("read", path, error))?;
    serde_json::from_str(&text)
        .map_err(|error| BenchError::Settings(format!("{} is not JSON: {error}", path.display())))
}

pub(crate) fn cannot(what: &str, path: &Path, error: io::Error) -> BenchError {
    BenchError::Io(format!("cannot {what} {}", path.display()), error)
}

/// Runs an experiment, unless the folder has it at this scale and seed, made by this very program on
/// this machine. Returns what it found, and whether it was run now. `tell` hears what is being done.
///
/// # Errors
/// The experiment's; the folder's.
pub fn run(
    entry: &Entry,
    plan: Plan,
    folder: Option<&Folder>,
    tell: &mut dyn FnMut(&str),
) -> Result<(Finding, bool), BenchError> {
    if let Some(folder) = folder
        && !plan.again
        && let Some(finding) = folder.finding(entry.id)?
        && (finding.scale, finding.seed) == (plan.scale, plan.seed)
        && finding.machine.is_same(&Machine::here())
    {
        return Ok((finding, false));
    }
    let mut chase = Chase::new(REGION_SIZE_BYTES);
    let miss_before_ns = chase.measure();
    let started = Instant::now();
    let mut context = Context { scale: plan.scale, seed: plan.seed, prove: plan.prove, tell };
    let outcome = (entry.make)(&mut context)?;
    let finding = Finding {
        id: entry.id.to_owned(),
        version: VERSION.to_owned(),
        scale: plan.scale,
        seed: plan.seed,
        seconds: started.elapsed().as_secs_f64(),
        miss_before_ns,
        miss_after_ns: chase.measure(),
        machine: Machine::here(),
        outcome,
    };
    if let Some(folder) = folder {
        folder.keep(&finding)?;
    }
    Ok((finding, true))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Results;
    use super::super::{Figure, Kind, Make, no_prover};
    use super::*;

    fn entry(id: &'static str, make: Make) -> Entry {
        let kinds = &[Kind::Counts];
        Entry { id, what: "a", claim: "b", kinds, seconds: (1, 1), needs: &[], make }
    }

    #[test]
    fn what_is_finished_is_not_run_again_unless_something_changed() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::create(&directory.path().join("new")).unwrap();
        let made: Make = |context| {
            (context.tell)("working");
            let figure = Figure::near("one", 1.0, 1.0, "", 0.0);
            Ok(Results { figures: vec![figure], ..Results::default() })
        };
        let entry = entry("test.one", made);
        let mut heard = 0;
        let mut go = |plan| run(&entry, plan, Some(&folder), &mut |_| heard += 1).unwrap();
        let plan = Plan { scale: Scale::Quick, seed: 1, again: false, prove: no_prover };
        let (first, is_new) = go(plan);
        assert!(is_new && first.verdict() == "agrees");
        assert_eq!(go(plan), (first.clone(), false));
        assert!(go(Plan { scale: Scale::Full, ..plan }).1);
        assert!(go(Plan { seed: 2, ..plan }).1);
        assert!(go(Plan { again: true, seed: 2, ..plan }).1);
        assert_eq!(heard, 4);
        assert_eq!(folder.finding("test.one").unwrap().unwrap().seed, 2);
        assert_eq!(folder.finding("test.two").unwrap(), None);
        fs::write(folder.file("test.one"), "{").unwrap();
        assert!(run(&entry, plan, Some(&folder), &mut |_| ()).is_err());
    }

    #[test]
    fn a_finding_of_another_program_or_machine_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::create(directory.path()).unwrap();
        let made: Make = |_| Ok(Results::default());
        let entry = entry("test.program", made);
        let plan = Plan { scale: Scale::Quick, seed: 1, again: false, prove: no_prover };
        let go = || run(&entry, plan, Some(&folder), &mut |_| ()).unwrap();
        let (first, _) = go();
        assert!(!first.machine.program.is_empty() && !go().1);
        let but = |change: fn(&mut Machine)| {
            let mut other = first.clone();
            change(&mut other.machine);
            other
        };
        for other in [
            but(|machine| machine.program = "0".to_owned()),
            but(|machine| machine.program.clear()),
            but(|machine| machine.cpu = "another".to_owned()),
        ] {
            folder.keep(&other).unwrap();
            let (again, is_new) = go();
            assert!(is_new && again.machine.is_same(&first.machine));
        }
    }

    #[test]
    fn a_figure_that_is_no_number_is_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::create(directory.path()).unwrap();
        let made: Make = |_| {
            let series = vec![super::super::Series::count("a", "b", f64::NAN)];
            Ok(Results { series, ..Results::default() })
        };
        let entry = entry("test.nan", made);
        let plan = Plan { scale: Scale::Quick, seed: 1, again: false, prove: no_prover };
        let error = run(&entry, plan, Some(&folder), &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("no number"), "{error}");
        assert_eq!(folder.finding("test.nan").unwrap(), None);
    }
}
