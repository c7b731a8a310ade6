//! `everleaf lab report`.

use super::ReportArgs;
use crate::cli::Global;
use crate::command::bench::failure_of;
use crate::failure::Failure;
use crate::output::Output;
use crate::target_file::TargetFile;
use everleaf_lab::experiment::Folder;
use everleaf_lab::report::{Page, render_html, render_markdown};
use serde_json::json;
use std::io::Write;

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
            out.json(&json!({ "file": path, "bytes": text.len() }))?;
        } else if !global.quiet {
            out.line(&format!("{} ({} KB)", path.display(), text.len().div_ceil(1000)))?;
        }
    }
    Ok(())
}
