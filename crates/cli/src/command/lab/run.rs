//! `everleaf lab run`.

use super::RunArgs;
use crate::cli::Global;
use crate::command::bench::failure_of;
use crate::failure::Failure;
use crate::output::{Output, remark};
use everleaf_lab::experiment::{self, Entry, Finding, Folder, Plan, Scale, text};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::time::Duration;

/// Makes the experiments one after the other, printing each when it is done.
pub fn run(args: &RunArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let entries = chosen(&args.names)?;
    let scale = if args.full { Scale::Full } else { Scale::Quick };
    let plan = Plan { scale, seed: args.seed, again: args.again };
    let folder = Folder::create(&args.out).map_err(failure_of)?;
    let bar = progress_bar(global.wants_progress(), entries.len() as u64);
    let mut findings = Vec::new();
    for (done, entry) in entries.iter().enumerate() {
        bar.set_position(done as u64);
        let mut tell = |what: &str| bar.set_message(format!("{}: {what}", entry.id));
        let made = experiment::run(entry, plan, Some(&folder), &mut tell);
        let (finding, is_new) = made.map_err(failure_of)?;
        bar.suspend(|| show(entry, &finding, is_new, global, out))?;
        findings.push(finding);
    }
    bar.finish_and_clear();
    if global.json {
        return out.json(&json!(findings));
    }
    let differing = findings.iter().filter(|finding| finding.differences().0 > 0).count();
    let summary = format!(
        "{} experiments, {differing} of them with a figure that differs; kept in {}",
        findings.len(),
        args.out.display()
    );
    out.line(&summary)
}

/// The experiments of the names; a name that was given by itself must be possible.
fn chosen(names: &[String]) -> Result<Vec<&'static Entry>, Failure> {
    let mut entries: Vec<&'static Entry> = Vec::new();
    for name in names {
        let named = experiment::named(name);
        if named.is_empty() {
            let text = format!("there is no experiment '{name}': `everleaf lab list` has them");
            return Err(Failure::usage(text));
        }
        let is_one = named.len() == 1 && named[0].id == *name;
        for entry in named {
            let is_known = entries.iter().any(|known| known.id == entry.id);
            if (is_one || entry.method().is_ok()) && !is_known {
                entries.push(entry);
            }
        }
    }
    Ok(entries)
}

fn show(
    entry: &Entry,
    finding: &Finding,
    is_new: bool,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    if !is_new && !global.quiet {
        remark(&format!("{} was there already", entry.id));
    }
    if global.json {
        return Ok(());
    }
    out.line(&text::finding(entry, finding))?;
    // Somebody waits for it.
    out.flush()
}

/// A bar over the experiments; hidden unless `enabled`.
fn progress_bar(enabled: bool, count: u64) -> ProgressBar {
    if !enabled {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{pos}/{len} {elapsed} {wide_msg}")
        .expect("the template is constant and tested");
    let bar = ProgressBar::new(count).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_made_is_left_out_of_a_family_but_not_refused_silently() {
        let names =
            |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).into()).collect() };
        let family = chosen(&names(&["fast-fair", "fast-fair.flushes"])).unwrap();
        assert!(family.iter().all(|entry| entry.method().is_ok()));
        let flushes = family.iter().filter(|entry| entry.id == "fast-fair.flushes").count();
        assert_eq!(flushes, 1);
        // Asked for by name it stays, and the run says why not.
        assert_eq!(chosen(&names(&["fast-fair.fig8"])).unwrap().len(), 1);
        assert!(chosen(&names(&["nothing"])).is_err());
    }

    #[test]
    fn the_bar_is_valid() {
        assert_eq!(progress_bar(true, 3).length(), Some(3));
    }
}
