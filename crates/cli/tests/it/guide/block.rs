//! The code blocks of a page, and the commands in them.

/// A code block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its opening fence.
    pub line: usize,
    /// What is done with it.
    pub kind: Kind,
    /// The programs without which it is not run.
    pub needs: Vec<String>,
    /// What is in it.
    pub text: String,
}

/// What is done with a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// `console`: its commands are run.
    Commands(Vec<Command>),
    /// `file=NAME`: it becomes a file in the folder in which the commands run.
    File(String),
    /// `same=PATH`: it is part of a file of the repository.
    SameAs(String),
    /// `sh`, with the reason why its commands are not run here: `not-run=reason_in_words`.
    NotRun(String),
    /// `rust`: it is an example of the crate's documentation, and run with that.
    Rust,
    /// What is neither a command nor a program.
    Other,
}

/// A command and what it prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// The lines that are typed.
    pub text: String,
    /// The lines that are printed; none if the page does not show any.
    pub prints: Vec<String>,
}

/// The blocks of a page.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            let is_fence = ["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence));
            if is_fence {
                let what = "a block begins with ``` at the start of its line";
                return Err(format!("line {}: {what}", index + 1));
            }
            continue;
        };
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
        let text: String = inside.flat_map(|line| [line, "\n"]).collect();
        let block = block(index + 1, info, text);
        blocks.push(block.map_err(|what| format!("line {}: {what}", index + 1))?);
    }
    Ok(blocks)
}

fn block(line: usize, info: &str, text: String) -> Result<Block, String> {
    let mut words = info.split_whitespace();
    let language = words.next().unwrap_or_default();
    let (mut kind, mut needs) = (None, Vec::new());
    for word in words {
        match word.split_once('=') {
            Some(("file", name)) => kind = Some(Kind::File(name.to_string())),
            Some(("same", path)) => kind = Some(Kind::SameAs(path.to_string())),
            Some(("not-run", why)) => kind = Some(Kind::NotRun(why.replace('_', " "))),
            Some(("needs", programs)) => needs.extend(programs.split(',').map(String::from)),
            _ => return Err(format!("`{word}` says nothing here")),
        }
    }
    let kind = match (kind, language) {
        (None, "console") => Kind::Commands(commands(&text)?),
        (None, "sh" | "bash" | "shell") => {
            return Err("commands are in `console` blocks, or say why they are not run".to_string());
        }
        (None, "c" | "cpp" | "python") => {
            return Err(format!("this {language} is in no file that a test runs"));
        }
        (None, "rust") => Kind::Rust,
        (None, "text" | "toml" | "ini") => Kind::Other,
        (None, _) => return Err(format!("blocks of the language `{language}` are not known")),
        (Some(_), "console") => return Err("the commands of `console` are run".to_string()),
        (Some(kind), _) => kind,
    };
    Ok(Block { line, kind, needs, text })
}

/// The commands: lines with `$ `, which go on in lines with `> `; the others are what they print.
fn commands(text: &str) -> Result<Vec<Command>, String> {
    let mut commands: Vec<Command> = Vec::new();
    for line in text.lines() {
        if let Some(first) = line.strip_prefix("$ ") {
            commands.push(Command { text: first.to_string(), prints: Vec::new() });
            continue;
        }
        let last = commands.last_mut().ok_or("the first line is no command")?;
        match line.strip_prefix("> ").or((line == ">").then_some("")) {
            Some(more) if last.prints.is_empty() => last.text = format!("{}\n{more}", last.text),
            _ => last.prints.push(line.to_string()),
        }
    }
    Ok(commands)
}

/// Whether the lines that were printed are those of the page: `...` stands for anything in a line, and
/// alone for any lines.
pub fn is_printed(page: &[String], printed: &[&str]) -> bool {
    let Some((first, rest)) = page.split_first() else { return printed.is_empty() };
    if first == "..." {
        return (0..=printed.len()).any(|skipped| is_printed(rest, &printed[skipped..]));
    }
    let Some((line, others)) = printed.split_first() else { return false };
    is_line(first, line) && is_printed(rest, others)
}

fn is_line(page: &str, line: &str) -> bool {
    match page.split_once("...") {
        None => page == line,
        Some((start, end)) => line.strip_prefix(start).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| is_line(end, &rest[at..]))
        }),
    }
}

#[test]
fn blocks_are_told_apart() {
    let page = "text\n```console needs=a,b\n$ one\n> more\n>\nout\n> not typed\n$ two\n```\n\
                ```python file=x.py\nprint()\n```\n```sh not-run=needs_a_disk\nrm\n```\n";
    let found = blocks(page).unwrap();
    let command = |text: &str, prints: &[&str]| Command {
        text: text.to_string(),
        prints: prints.iter().map(ToString::to_string).collect(),
    };
    let commands = vec![command("one\nmore\n", &["out", "> not typed"]), command("two", &[])];
    assert_eq!(found[0].kind, Kind::Commands(commands));
    assert_eq!((found[0].line, &found[0].needs[..]), (2, &["a".into(), "b".into()][..]));
    assert_eq!(found[1].kind, Kind::File("x.py".to_string()));
    assert_eq!(found[1].text, "print()\n");
    assert_eq!(found[2].kind, Kind::NotRun("needs a disk".to_string()));
}

#[test]
fn a_command_that_nothing_runs_is_refused() {
    for page in [
        "```sh\nls\n```",
        "```python\nx\n```",
        "```console\nout\n```",
        "```console x\n```",
        "```console file=x\n$ ls\n```",
        "```console same=x\n$ ls\n```",
        "```console not-run=why\n$ ls\n```",
        "- a list\n  ```console\n  $ ls\n  ```",
        "~~~console\n$ ls\n~~~",
        "```\n```",
    ] {
        assert!(blocks(page).is_err(), "{page}");
    }
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    let is = |page: &str, printed: &str| {
        let page: Vec<String> = page.lines().map(String::from).collect();
        is_printed(&page, &printed.lines().collect::<Vec<_>>())
    };
    assert!(is("a\n...\nb", "a\nb") && is("a\n...\nb", "a\nx\nb\nb"));
    assert!(is("in ... ms, ...", "in 0.7 ms, now") && is("...", ""));
    assert!(!is("a", "a\nb") && !is("a\nb", "a") && !is("a", "ab") && !is("in ... ms", "in 7 s"));
}
