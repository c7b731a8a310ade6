//! Splits a Rust source into lines of code and lines of comment.
//!
//! `syn` drops ordinary comments, and our rules are about comments; so this small scanner keeps, for
//! each line, what is comment and what is code. It knows strings (plain and raw), characters,
//! lifetimes and nested block comments; nothing more is needed.

/// One line of a source, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code, with string contents kept and comments removed.
    pub code: String,
    /// The text of the comments, without their `//` or `/*`.
    pub comment: String,
    /// Whether the comment documents an item (`///`, `//!`, `/**`, `/*!`).
    pub is_doc: bool,
}

impl Line {
    /// Whether the line holds a comment and no code.
    pub fn is_comment_only(&self) -> bool {
        !self.comment.is_empty() && self.code.trim().is_empty()
    }
}

/// Takes a source apart; index 0 is line 1.
pub fn split(text: &str) -> Vec<Line> {
    let mut scanner =
        Scanner { characters: text.chars().collect(), at: 0, lines: vec![Line::default()] };
    scanner.run();
    scanner.lines
}

struct Scanner {
    characters: Vec<char>,
    at: usize,
    lines: Vec<Line>,
}

impl Scanner {
    fn run(&mut self) {
        while let Some(character) = self.peek(0) {
            match character {
                '/' if self.peek(1) == Some('/') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                'r' | 'b' | 'c' if self.starts_raw_string() => self.raw_string(),
                '\'' => self.character_or_lifetime(),
                _ => self.code(),
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn line(&mut self) -> &mut Line {
        self.lines.last_mut().expect("there is always a current line")
    }

    /// Moves on, putting the character into the code of the line.
    fn code(&mut self) {
        let Some(character) = self.peek(0) else { return };
        self.at += 1;
        if character == '\n' {
            self.lines.push(Line::default());
        } else {
            self.line().code.push(character);
        }
    }

    fn line_comment(&mut self) {
        let is_doc = match self.peek(2) {
            Some('!') => true,
            Some('/') => self.peek(3) != Some('/'),
            _ => false,
        };
        self.at += 2;
        self.line().is_doc |= is_doc;
        while let Some(character) = self.peek(0).filter(|&c| c != '\n') {
            self.line().comment.push(character);
            self.at += 1;
        }
        if self.line().comment.is_empty() {
            // An empty comment line still belongs to its block.
            self.line().comment.push(' ');
        }
    }

    fn block_comment(&mut self) {
        let is_doc = matches!(self.peek(2), Some('!')) || {
            self.peek(2) == Some('*') && !matches!(self.peek(3), Some('*' | '/'))
        };
        let mut depth = 0;
        while let Some(character) = self.peek(0) {
            self.line().is_doc |= is_doc;
            match (character, self.peek(1)) {
                ('/', Some('*')) => {
                    depth += 1;
                    self.at += 2;
                }
                ('*', Some('/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return;
                    }
                }
                ('\n', _) => {
                    self.at += 1;
                    self.lines.push(Line::default());
                }
                _ => {
                    self.at += 1;
                    self.line().comment.push(character);
                }
            }
        }
    }

    fn string(&mut self) {
        self.code();
        while let Some(character) = self.peek(0) {
            self.code();
            match character {
                '\\' => self.code(),
                '"' => return,
                _ => {}
            }
        }
    }

    /// Whether a raw string begins here: `r"`, `r#"`, `br#"`, `cr"`, and not in a name.
    fn starts_raw_string(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|i| self.characters.get(i));
        if before.is_some_and(|c| c.is_alphanumeric() || *c == '_') {
            return false;
        }
        let mut ahead = usize::from(self.peek(0) != Some('r'));
        if self.peek(ahead) != Some('r') {
            return false;
        }
        ahead += 1;
        while self.peek(ahead) == Some('#') {
            ahead += 1;
        }
        self.peek(ahead) == Some('"')
    }

    fn raw_string(&mut self) {
        while self.peek(0).is_some_and(|c| c.is_alphabetic()) {
            self.code();
        }
        let mut hashes = 0;
        while self.peek(0) == Some('#') {
            hashes += 1;
            self.code();
        }
        self.code();
        while let Some(character) = self.peek(0) {
            self.code();
            if character == '"' && (0..hashes).all(|i| self.peek(i) == Some('#')) {
                return;
            }
        }
    }

    fn character_or_lifetime(&mut self) {
        self.code();
        if self.peek(0) == Some('\\') {
            self.code();
            self.code();
            while self.peek(0).is_some_and(|c| c != '\'' && c != '\n') {
                self.code();
            }
            self.code();
        } else if self.peek(1) == Some('\'') {
            self.code();
            self.code();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comments(text: &str) -> Vec<String> {
        split(text).into_iter().map(|line| line.comment).collect()
    }

    #[test]
    fn comments_are_found_and_told_from_code() {
        let lines = split("let a = 1; // one\n/// two\n//! three\n//// four\n");
        assert_eq!(lines[0].code, "let a = 1; ");
        assert_eq!(lines[0].comment, " one");
        assert!(!lines[0].is_doc && !lines[0].is_comment_only());
        assert!(lines[1].is_doc && lines[1].is_comment_only());
        assert!(lines[2].is_doc);
        assert!(!lines[3].is_doc);
    }

    #[test]
    fn strings_characters_and_lifetimes_hide_slashes() {
        let text =
            "let a = \"// no \\\" // no\"; let q = '\"'; let s = '\\''; fn f<'a>() {} // yes";
        assert_eq!(comments(text), [" yes"]);
        assert_eq!(comments("let r = r#\"// \"no\" // no\"#; // yes"), [" yes"]);
        assert_eq!(comments("let b = br\"// no\"; // yes"), [" yes"]);
        assert_eq!(comments("let number = \"//\" /* yes */;"), [" yes "]);
    }

    #[test]
    fn block_comments_nest_and_span_lines() {
        let lines = split("a /* b /* c */\n d */ e\nf");
        assert_eq!(lines[0].comment, " b  c ");
        assert_eq!(lines[1].comment, " d ");
        assert_eq!(lines[1].code, " e");
        assert_eq!(lines[2].code, "f");
    }
}
