//! Comments and pages say which thread, call or program does a thing: "whoever", and "who" without a noun in front of
//! it, leave the reader to guess.

use super::words::has;
use super::{Finding, Rule, Workspace, finding};

pub const RULE: Rule = Rule { name: "whoever", may_be_debt: false, check };

const WORDS: [&str; 3] = ["whoever", "thread who", "threads who"];

/// Behind one of these "who" is neither a question nor says more of a person.
const IN_FRONT: [&str; 5] = ["also", "but", "by", "for", "to"];

/// Words behind "who" that are no verbs, so that it is not what does something: "who it is", "for who in list".
const NO_VERBS: [&str; 12] =
    ["a", "an", "else", "he", "i", "in", "it", "she", "the", "they", "we", "you"];

/// Files that quote what is not written any more, and those that name the rule.
const EXEMPT: [&str; 6] = [
    "CHANGELOG.md",
    "docs/reading.md",
    "docs/style.md",
    "xtask/ratchet.txt",
    "xtask/src/tidy/rules/mod.rs",
    "xtask/src/tidy/rules/whoever.rs",
];

fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = workspace.files.iter().filter(|file| !EXEMPT.contains(&file.path.as_str()));
    for file in files {
        let subjects = subjects(&file.text);
        for (index, line) in file.text.lines().enumerate() {
            let lower = line.to_ascii_lowercase();
            if WORDS.iter().any(|word| has(&lower, word)) || subjects.contains(&index) {
                let message = "say which thread, call, client or program it is";
                findings.push(finding(&RULE, &file.path, index + 1, message));
            }
        }
    }
    findings
}

/// The lines, from 0, in which "who" does something and is nobody: at the start of a sentence, behind a colon, a
/// semicolon or the edge of a table's cell, or behind a word of `IN_FRONT`. A sentence may go on in the next line.
fn subjects(text: &str) -> Vec<usize> {
    let words: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .flat_map(|(index, line)| line.split_whitespace().map(move |word| (index, word)))
        .filter(|(_, word)| !matches!(*word, "//" | "///" | "//!" | "#" | "*"))
        .collect();
    let is_subject = |at: usize| {
        let before = at.checked_sub(1).map_or("", |before| words[before].1);
        let is_placed = match words[at].1.trim_start_matches(OPENING) {
            "Who" => !is_question(&words[at..]),
            "who" => {
                before.ends_with([':', ';', '|'])
                    || IN_FRONT.contains(&before.trim_start_matches(OPENING))
            }
            _ => false,
        };
        is_placed && words.get(at + 1).is_some_and(|(_, word)| is_verb(word))
    };
    (0..words.len()).filter(|at| is_subject(*at)).map(|at| words[at].0).collect()
}

/// Signs that stand in front of a word.
const OPENING: [char; 5] = ['"', '\'', '(', '[', '*'];

/// Whether a word can be a verb behind "who".
fn is_verb(word: &str) -> bool {
    let word = word.trim_end_matches(|sign: char| sign.is_ascii_punctuation());
    let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    is_plain && !NO_VERBS.contains(&word)
}

/// Whether the sentence that begins here ends with a question mark.
fn is_question(words: &[(usize, &str)]) -> bool {
    let end = words.iter().find(|(_, word)| word.ends_with(['.', '?', ':', ';']));
    end.is_some_and(|(_, word)| word.ends_with('?'))
}

#[cfg(test)]
mod tests {
    use super::super::{findings_in, lines_in};
    use super::*;

    #[test]
    fn threads_are_named_in_comments_and_pages() {
        let text = "//! A lock: whoever has it writes.\n//! The thread who\n//! The thread that has it.\n\
                    // Whoever.\nfn whoever_waits() {}\n";
        let found = findings_in(&RULE, &[("crates/store/src/a.rs", text)]);
        let file = "crates/store/src/a.rs".to_string();
        assert_eq!(found, [1, 2, 4].map(|line| (file.clone(), line)));
        let page = "Whoever waits.\nA user who waits, and `a_test_of_whoever_waits`.\n";
        let found = findings_in(&RULE, &[("docs/a.md", page)]);
        assert_eq!(found, [("docs/a.md".to_string(), 1)]);
    }

    #[test]
    fn who_without_a_noun_is_refused() {
        for text in [
            "Who comes there waits.",
            "It is full. Who finds\nnone, looks.",
            "So (\"Who has it\") it is.",
            "It is locked: who finds it waits.",
            "It is locked; who wants it waits.",
            "| a bit | who locks | waits |",
            "Retired by who replaced it.",
            "The node, for who comes.",
            "Nobody waits but who asks.",
            "It is there to who looks, also who looks late.",
        ] {
            assert_eq!(lines_in(&RULE, "docs/a.md", &format!("fine\n{text}\n")), [2], "{text}");
        }
        let wrapped = "/// It is locked:\n/// who\n/// comes waits.\nfn f() {}\n";
        assert_eq!(lines_in(&RULE, "crates/store/src/a.rs", wrapped), [2]);
    }

    #[test]
    fn persons_and_questions_may_stand() {
        for text in [
            "For those who use it, a user who asks, and nobody who builds it.",
            "It says who we are; who it is, nobody knows.",
            "Who writes here, and why? Who?",
            "It is asked who writes.",
            "For who, by who: nobody.",
        ] {
            assert!(lines_in(&RULE, "docs/a.md", &format!("{text}\n")).is_empty(), "{text}");
        }
        let code = "fn f(who: u8) {\n    for who in 0..who {\n        drop(who);\n    }\n}\n";
        assert!(lines_in(&RULE, "crates/store/src/a.rs", code).is_empty());
    }
}
