//! `everleaf-lab report`.

use clap::Args;
use everleaf_cli::command::bench::failure_of;
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use everleaf_cli::target_file::TargetFile;
use everleaf_lab::experiment::Folder;
use everleaf_lab::report::{Page, render_html, render_markdown};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  everleaf-lab report results -o report.html        one file to look at
  everleaf-lab report results -o report.md          the same as Markdown";

/// Make one file to look at of what a folder holds
///
/// Besides the findings of `everleaf-lab run`, the report shows every JSON file in the folder that holds
/// reports of `bench --json` or of the rivals: indexes of the same keys in one file are shown side by side.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// The folder
    #[arg(value_name = "FOLDER", default_value = "everleaf-lab")]
    pub folder: PathBuf,
    /// The file to make: HTML that needs nothing else, or Markdown if it ends in .md; may be repeated
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: Vec<PathBuf>,
}

/// A file that was made, as JSON.
#[derive(Serialize)]
struct Rendered<'a> {
    file: &'a Path,
    bytes: usize,
}

/// Reads the folder and writes the files.
pub fn run(args: &ReportArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let folder = Folder::open(&args.folder).map_err(failure_of)?;
    let page = Page::read(&folder).map_err(failure_of)?;
    for path in &args.output {
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        let text = if is_markdown { render_markdown(&page) } else { render_html(&page) };
        let mut file = TargetFile::create(path)?;
        let written = file.writer().write_all(text.as_bytes());
        written.map_err(|error| file.failure(&error))?;
        file.finish()?;
        if global.json {
            out.json(&Rendered { file: path, bytes: text.len() })?;
        } else if !global.quiet {
            out.line(&format!("{} ({} KB)", path.display(), text.len().div_ceil(1000)))?;
        }
    }
    Ok(())
}
