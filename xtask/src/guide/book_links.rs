//! Follows every link of a book: each leads to a file of the book, and to a place that is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// What was found in a book.
pub struct Found {
    pub pages: usize,
    pub links: usize,
    /// A sentence for each link that leads nowhere.
    pub problems: Vec<String>,
}

/// Follows the links of all pages in a folder.
///
/// # Errors
/// It cannot be read, or has no links: then it is no book.
pub fn check(book: &Path) -> io::Result<Found> {
    let mut files = BTreeMap::new();
    read(book, "", &mut files)?;
    let mut found = Found { pages: 0, links: 0, problems: vec![] };
    for (path, page) in &files {
        let Some(page) = page else { continue };
        found.pages += 1;
        for link in page.links.iter().filter(|link| !is_outside(link)) {
            found.links += 1;
            if let Some(problem) = problem(&files, path, page, link) {
                found.problems.push(format!("{path}: {link}: {problem}"));
            }
        }
    }
    if found.links == 0 {
        return Err(io::Error::other(format!("{} has no links", book.display())));
    }
    Ok(found)
}

/// What a page has.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    /// What a link may name behind `#`.
    places: BTreeSet<String>,
}

/// All files of a folder by their paths in the book; those that are no pages have no contents.
fn read(folder: &Path, above: &str, to: &mut BTreeMap<String, Option<Page>>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let inner = format!("{above}{name}");
        if path.is_dir() {
            read(&path, &format!("{inner}/"), to)?;
        } else {
            let is_page = name.ends_with(".html");
            let page = is_page.then(|| fs::read_to_string(&path)).transpose()?;
            to.insert(inner, page.map(|text| page_of(&text)));
        }
    }
    Ok(())
}

/// Whether a link leads to another place than the book.
fn is_outside(link: &str) -> bool {
    let scheme = link.split([':', '/', '#', '?']).next().unwrap_or_default();
    link[scheme.len()..].starts_with(':') || link.starts_with("//")
}

/// What is wrong with a link of a page, if anything.
fn problem(
    files: &BTreeMap<String, Option<Page>>,
    path: &str,
    page: &Page,
    link: &str,
) -> Option<String> {
    let (file, place) = link.split_once('#').unwrap_or((link, ""));
    let file = decoded(file.split('?').next().unwrap_or_default());
    let to = match file.as_str() {
        "" => Some(page),
        file => {
            let Some(target) = resolved(path, file) else {
                return Some("is not in the book".into());
            };
            let Some(found) = files.get(&target) else { return Some(format!("no {target}")) };
            found.as_ref()
        }
    };
    // A file that is no page has no places.
    let is_there = |page: &Page| place.is_empty() || page.places.contains(&decoded(place));
    to.is_some_and(|page| !is_there(page)).then(|| "no such place in the page".to_string())
}

/// Where a link leads, seen from a page; nothing: out of the book.
fn resolved(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Text without `%20` and the like.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let digits = others.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The links and places of a page, from the attributes of its tags.
fn page_of(html: &str) -> Page {
    let (mut page, mut rest) = (Page::default(), html);
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
            continue;
        }
        let name = rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        rest = &rest[name.len()..];
        if name.is_empty() {
            continue;
        }
        while let Some((key, value, behind)) = attribute(rest) {
            rest = behind;
            match key {
                "href" | "src" => page.links.push(value.replace("&amp;", "&")),
                "id" | "name" => drop(page.places.insert(value.replace("&amp;", "&"))),
                _ => {}
            }
        }
        if ["script", "style"].contains(&name) {
            // What is in there is no tag.
            rest = rest.split_once(&format!("</{name}")).map_or("", |(_, behind)| behind);
        }
    }
    page
}

/// The next attribute of a tag with its value, and what is behind it; nothing where the tag ends.
fn attribute(text: &str) -> Option<(&str, &str, &str)> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
    let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/');
    let (key, rest) = text.split_at(text.find(is_end)?);
    let Some(value) = rest.trim_start().strip_prefix('=') else {
        return (!key.is_empty()).then_some((key, "", rest));
    };
    let value = value.trim_start();
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
    let (value, rest) = match quote {
        Some(quote) => value[1..].split_once(quote)?,
        None => value.split_at(value.find(|c: char| c.is_ascii_whitespace() || c == '>')?),
    };
    Some((key, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a book with these files.
    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        check(folder.path()).unwrap().problems
    }

    /// The book was once made of the guide alone, and what lay beside it was linked and not there.
    #[test]
    fn links_out_of_the_book_and_to_no_place_are_told() {
        let page = "<!-- <a href='no.html'> --><h1 id=\"top\"><a class=header href=\"#top\">x</a></h1>\
                    <script src='../a.js'>document.write('<a href=\"no.html\">')</script>\
                    <a href='../b%20c.html#here&amp;there'>b</a> <a href=\"https://x.y/z\">z</a>\
                    <a href=../store.html>store</a> <a href='#bottom'>bottom</a>\
                    <a href=\"../b%20c.html#nowhere\">c</a> <img alt='>' src='../../out.svg'/>\
                    <a href='../x.toml'>x</a>";
        let found = problems(&[
            ("guide/a.html", page),
            ("b c.html", "<p id='here&amp;there'>"),
            ("a.js", ""),
            ("x.toml", ""),
        ]);
        let expected = [
            "guide/a.html: ../store.html: no store.html",
            "guide/a.html: #bottom: no such place in the page",
            "guide/a.html: ../b%20c.html#nowhere: no such place in the page",
            "guide/a.html: ../../out.svg: is not in the book",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_folder_without_links_is_no_book() {
        let folder = tempfile::tempdir().unwrap();
        assert!(check(folder.path()).is_err());
        fs::write(folder.path().join("a.html"), "<p>no links</p>").unwrap();
        assert!(check(folder.path()).is_err());
    }
}
