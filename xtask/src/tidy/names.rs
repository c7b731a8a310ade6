//! The paths that a Rust source names, groups of `use` expanded, and the names that it brings in.
//!
//! Read from the tokens, so that paths inside of macros are seen like all others.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// A path as written: `a::b::{c, d}` is two of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The module that it stands in.
    pub module: String,
    /// Its segments; a glob is not one of them.
    pub segments: Vec<String>,
}

/// What a source names.
#[derive(Default)]
pub struct Names {
    /// Every path outside of tests.
    pub paths: Vec<Path>,
    /// What `use` brings into a module, by module and name.
    pub imports: BTreeMap<(String, String), Vec<String>>,
    /// What `use` brings in by globs, by module.
    pub globs: Vec<Path>,
    /// What is defined, by module and name.
    pub definitions: BTreeSet<(String, String)>,
}

/// The words before the name of a definition.
const DEFINE: [&str; 8] = ["fn", "struct", "enum", "trait", "const", "static", "type", "union"];

impl Names {
    /// Reads a source that is the module of this path; `is_test` tells lines of tests.
    pub fn read(module: &str, text: &str, is_test: &dyn Fn(usize) -> bool) -> Self {
        let mut names = Names::default();
        let mut reader = Reader {
            module: module.to_string(),
            is_test,
            names: &mut names,
            words: BTreeSet::new(),
            passed_on: vec![],
        };
        if let Ok(tokens) = text.parse::<TokenStream>() {
            reader.all(tokens);
        }
        let Reader { words, passed_on, .. } = reader;
        let is_used = |name: &String| words.contains(name);
        names
            .paths
            .extend(passed_on.into_iter().filter(|(name, _)| is_used(name)).map(|(_, path)| path));
        names
    }
}

struct Reader<'a> {
    module: String,
    is_test: &'a dyn Fn(usize) -> bool,
    names: &'a mut Names,
    /// The words outside of `use`.
    words: BTreeSet<String>,
    /// What `pub use` names, each with the name it has here: used here only if it is one of the words.
    passed_on: Vec<(String, Path)>,
}

impl Reader<'_> {
    fn all(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let is_within_path = is_separator(&tokens[..at]);
            at += 1;
            match token {
                TokenTree::Group(group) => match module_name(&tokens[..at - 1]) {
                    Some(name) if group.delimiter() == Delimiter::Brace => {
                        let outer = self.module.clone();
                        self.module = join(&outer, &name);
                        self.all(group.stream());
                        self.module = outer;
                    }
                    // Where `pub(in ..)` may be seen is no use.
                    _ if starts_with(&group.stream(), "in") => {}
                    _ => self.all(group.stream()),
                },
                TokenTree::Ident(word) if (self.is_test)(word.span().start().line) => {}
                // `+ use<'a>` says what a type holds.
                TokenTree::Ident(word)
                    if word == "use" && !tokens.get(at).is_some_and(|token| is(token, '<')) =>
                {
                    let is_passed_on = is_public(&tokens[..at - 1]);
                    at += self.import(&tokens[at..], is_passed_on);
                }
                // The name of a module may be that of something in it which is only passed on.
                TokenTree::Ident(word) if word == "mod" => {
                    at += usize::from(matches!(tokens.get(at), Some(TokenTree::Ident(_))));
                }
                TokenTree::Ident(word) if DEFINE.iter().any(|define| word == define) => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(at) {
                        self.names.definitions.insert((self.module.clone(), name.to_string()));
                    }
                }
                TokenTree::Ident(_) if !is_within_path => {
                    let (segments, size) = path(&tokens[at - 1..]);
                    at += size - 1;
                    self.words.extend(segments.first().cloned());
                    if segments.len() > 1 {
                        self.names.paths.push(Path { module: self.module.clone(), segments });
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes the tree of a `use` in; returns its length.
    fn import(&mut self, tokens: &[TokenTree], is_passed_on: bool) -> usize {
        let size = tokens.iter().position(|token| is(token, ';')).unwrap_or(tokens.len());
        self.tree(&[], &tokens[..size], is_passed_on);
        size
    }

    /// One or more trees, parted by commas, below a path.
    fn tree(&mut self, above: &[String], tokens: &[TokenTree], is_passed_on: bool) {
        let trees = tokens.split(|token| is(token, ',')).filter(|tree| !tree.is_empty());
        for tokens in trees {
            let start = tokens.iter().take_while(|token| is(token, ':')).count();
            let (below, size) = path(&tokens[start..]);
            let mut segments = [above, &below].concat();
            let rest = &tokens[start + size..];
            let rest = &rest[rest.iter().take_while(|token| is(token, ':')).count()..];
            let module = self.module.clone();
            match rest {
                [TokenTree::Group(group), ..] => {
                    let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                    self.tree(&segments, &inside, is_passed_on);
                }
                [star, ..] if is(star, '*') => {
                    let path = Path { module, segments };
                    self.names.globs.push(path.clone());
                    if !is_passed_on {
                        self.names.paths.push(path);
                    }
                }
                _ => {
                    if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
                        segments.pop();
                    }
                    let name = match rest {
                        [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "as" => {
                            Some(name.to_string())
                        }
                        _ => segments.last().cloned(),
                    };
                    let Some(name) = name else { continue };
                    self.names.imports.insert((module.clone(), name.clone()), segments.clone());
                    let path = Path { module, segments };
                    match is_passed_on {
                        true => self.passed_on.push((name, path)),
                        false => self.names.paths.push(path),
                    }
                }
            }
        }
    }
}

/// Whether what follows is for others, too.
fn is_public(before: &[TokenTree]) -> bool {
    let word = match before {
        [.., word, TokenTree::Group(group)] if group.delimiter() == Delimiter::Parenthesis => word,
        [.., word] => word,
        [] => return false,
    };
    matches!(word, TokenTree::Ident(word) if word == "pub")
}

/// The path that tokens begin with, and how many of them it takes.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let (mut segments, mut size) = (vec![], 0);
    while let [TokenTree::Ident(name), rest @ ..] = &tokens[size..] {
        segments.push(name.to_string());
        size += 1;
        match rest {
            [a, b, TokenTree::Ident(_), ..] if is(a, ':') && is(b, ':') => size += 2,
            _ => break,
        }
    }
    (segments, size)
}

/// The name of the module whose body follows.
fn module_name(before: &[TokenTree]) -> Option<String> {
    match before {
        [.., TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mod" => {
            Some(name.to_string())
        }
        _ => None,
    }
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// Whether they end in `::`, behind which a path goes on: `a: b::C` has a path behind one colon.
fn is_separator(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [.., TokenTree::Punct(first), second]
        if first.as_char() == ':' && first.spacing() == Spacing::Joint && is(second, ':'))
}

fn starts_with(tokens: &TokenStream, word: &str) -> bool {
    matches!(tokens.clone().into_iter().next(), Some(TokenTree::Ident(first)) if first == word)
}

/// The path of what lies in a module.
pub fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_string() } else { format!("{module}::{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let names = Names::read("a", text, &|_| false);
        names.paths.iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn groups_are_expanded_over_lines_and_inside_each_other() {
        let text = "use crate::{\n    b::{self, C},\n    d,\n};\nuse super::e::*;\n";
        assert_eq!(paths(text), ["crate::b", "crate::b::C", "crate::d", "super::e"]);
    }

    #[test]
    fn paths_in_code_and_in_macros_are_seen() {
        let text = "fn f() -> b::C { vec![crate::d::e(1)]; g() }\npub(in crate::h) fn i() {}\n";
        assert_eq!(paths(text), ["b::C", "crate::d::e"]);
        let text = "fn f<T: super::Tr>(a: crate::b::B) {}\nstruct S { c: d::C }\n";
        assert_eq!(paths(text), ["super::Tr", "crate::b::B", "d::C"]);
    }

    #[test]
    fn imports_have_the_name_they_are_used_by() {
        let names = Names::read("a", "use b::C as D;\nmod e { use super::F; }\n", &|_| false);
        let import = |module: &str, name: &str| {
            names.imports.get(&(module.to_string(), name.to_string())).map(|path| path.join("::"))
        };
        assert_eq!(import("a", "D").as_deref(), Some("b::C"));
        assert_eq!(import("a::e", "F").as_deref(), Some("super::F"));
        assert_eq!(import("a", "F"), None);
    }

    #[test]
    fn what_is_only_passed_on_is_not_used() {
        assert_eq!(
            paths("pub use b::C;\npub(crate) use d::{E, F as G};\nfn f() -> G {}\n"),
            ["d::F"]
        );
        assert_eq!(paths("pub use b::C;\nfn f(c: C) {}\n"), ["b::C"]);
    }

    #[test]
    fn lines_of_tests_are_left_out() {
        let names = Names::read("a", "use b::C;\nuse d::E;\n", &|line| line == 2);
        assert_eq!(names.paths.len(), 1);
    }
}
